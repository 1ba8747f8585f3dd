package main

import (
	"fmt"
	"net/http"
	"net/url"
	"path"

	"github.com/spf13/cobra"
)

// newUpgrade is the command that requests a change of package (SOL003 clause 5.4.11a).
func newUpgrade() *cobra.Command {
	var c client
	var strategy, coordinateNew, coordinateOld, drain string
	var files []string
	var wait bool
	cmd := &cobra.Command{
		Use:   "upgrade INSTANCE VNFD-ID",
		Short: "Change the package that a VNF runs",
		Long: "Change the package that a running VNF runs to the one with the VNFD-ID (see: jibe get packages), also back to\n" +
			"an earlier one. INSTANCE is folder/name, an id or its beginning, or a name that only one has.\n" +
			"  rolling     the workloads are brought to the new package and replace their pods themselves\n" +
			"  blue-green  a second generation is made beside the first, and traffic moves to it at once\n" +
			"Without --strategy, and for what else isn't said, vnf.yaml decides.",
		Example: "  jibe upgrade amf-tokyo-1 b1bb0ce7-ebca-4fa7-95ed-4840d70a1178 --strategy blue-green --drain 30s --wait",
		Args:    cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			params := object{}
			switch strategy {
			case "":
			case "rolling":
				params["upgrade_type"] = "RollingUpdate"
			case "blue-green":
				params["upgrade_type"] = "Blue-Green"
			default:
				return fmt.Errorf("--strategy %q: want rolling or blue-green", strategy)
			}
			if len(files) > 0 {
				params["lcm-kubernetes-def-files"] = files
			}
			for key, value := range map[string]string{
				"lcm-operation-coordinate-new-vnf": coordinateNew, "lcm-operation-coordinate-old-vnf": coordinateOld, "drain": drain,
			} {
				if value != "" {
					params[key] = value
				}
			}
			body := object{"vnfdId": args[1]}
			if len(params) > 0 {
				body["additionalParams"] = params
			}
			return c.begin(cmd, wait, args[0], http.MethodPost, "/change_vnfpkg", "upgrade", body)
		},
	}
	c.flags(cmd.Flags())
	f := cmd.Flags()
	f.StringVar(&strategy, "strategy", "", "rolling or blue-green; default: update.strategy in vnf.yaml")
	f.StringSliceVar(&files, "files", nil, "manifests of the new package (lcm-kubernetes-def-files); others of the old one are carried over")
	f.StringVar(&coordinateNew, "coordinate-new", "", "coordination script of the new package, by its path in it")
	f.StringVar(&coordinateOld, "coordinate-old", "", "coordination script of the old package, by its path in it")
	f.StringVar(&drain, "drain", "", "blue-green: time for connections to end before the old generation goes (30s)")
	f.BoolVar(&wait, "wait", false, "wait for the end; fail if that isn't COMPLETED")
	return cmd
}

// newUpdate is the command that requests a container update (SOL003 clause 5.4.3.3.4).
func newUpdate() *cobra.Command {
	var c client
	var config []string
	var wait bool
	cmd := &cobra.Command{
		Use:   "update INSTANCE VNFD-ID",
		Short: "Update only the images and the named config of a VNF",
		Long: "Take over images, ConfigMaps and Secrets from the package with the VNFD-ID (see: jibe get packages) into a running\n" +
			"VNF, and nothing else of it: the rest takes effect at the next heal of the whole VNF. Only pods that use what\n" +
			"changes restart. INSTANCE is folder/name, an id or its beginning, or a name that only one has.",
		Example: "  jibe update web 7a0c… --config Files/kubernetes/configmap_1.yaml --config Files/kubernetes/secret_1.yaml --wait",
		Args:    cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			body := object{"vnfdId": args[1]}
			if len(config) > 0 {
				body["metadata"] = object{"configmap_secret_paths": config}
			}
			return c.begin(cmd, wait, args[0], http.MethodPatch, "", "update", body)
		},
	}
	c.flags(cmd.Flags())
	cmd.Flags().StringSliceVar(&config, "config", nil, "manifest of ConfigMaps or Secrets in the new package, by its path in it; may be given several times")
	cmd.Flags().BoolVar(&wait, "wait", false, "wait for the end; fail if that isn't COMPLETED")
	return cmd
}

// begin requests an operation on an instance and, with wait, follows it to its end.
func (c *client) begin(cmd *cobra.Command, wait bool, instance, method, task, noun string, body object) error {
	ctx, out := cmd.Context(), cmd.OutOrStdout()
	id, err := c.instance(ctx, instance)
	if err != nil {
		return err
	}
	h, err := c.do(ctx, method, "/vnflcm/v2/vnf_instances/"+url.PathEscape(id)+task, body, nil)
	if err != nil {
		return err
	}
	op := path.Base(h.Get("Location"))
	if wait {
		return c.follow(ctx, out, op)
	}
	_, err = fmt.Fprintf(out, "%s asked for: operation %s; follow it with: jibe get operation %s --watch\n", noun, op, op)
	return err
}
