package main

import (
	"cmp"
	"fmt"
	"net/http"
	"net/url"

	"github.com/spf13/cobra"

	"github.com/jibe-vnfm/jibe/reconciler"
)

// newVIM is the command for VIMs, which are files of the desired repository otherwise.
func newVIM() *cobra.Command {
	cmd := &cobra.Command{Use: "vim", Short: "Forget a VIM that is gone for good", Example: "  jibe vim forget kube-a"}
	cmd.AddCommand(newForgetVIM())
	return cmd
}

// newForgetVIM is the command by which an administrator says that a former VIM is gone for good.
func newForgetVIM() *cobra.Command {
	var c client
	var yes bool
	cmd := &cobra.Command{
		Use:   "forget NAME",
		Short: "Forget a cluster that is gone for good",
		Long: "Forget the cluster at which VNFs were instantiated, where another one answers as the VIM NAME now, or none does: the\n" +
			"former one is gone for good, and nothing runs there any more. Terminations end then, also while no cluster answers.\n" +
			"VNFs that git wants are built, as drift is repaired, at the present one, or at the one to which the file leads next.\n" +
			"Without it nothing is built there: the file may only lead to a wrong cluster. The command shows which VNFs that are,\n" +
			"says what can't be verified, and asks; without a terminal it needs --yes. It needs the role admin.",
		Example: "  jibe vim forget kube-a",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			path, out := "/jibe/v1/vims/"+url.PathEscape(args[0]), cmd.OutOrStdout()
			var found reconciler.FormerVIM
			if _, err := c.do(cmd.Context(), http.MethodGet, path+"/former", nil, &found); err != nil {
				return err
			}
			if len(found.Instances) == 0 {
				fmt.Fprintf(out, "nothing to forget: no VNF was instantiated at a former VIM %s\n", found.VIM)
				return nil
			}

			shown := url.Values{"is": {found.Is}}
			if found.Unreachable != "" {
				shown = url.Values{"unreachable": {"true"}}
				fmt.Fprintf(out, "VIM %s can't be reached, so that it can't be verified that it is gone: %s\n"+
					"What runs there still isn't ended by Jibe. VNFs that were instantiated there: %d\n", found.VIM, found.Unreachable, len(found.Instances))
			} else {
				fmt.Fprintf(out, "VIM %s is %s now. VNFs that were instantiated at a former one: %d\n", found.VIM, found.Is, len(found.Instances))
			}
			for n, x := range found.Instances {
				if n == mostShown {
					fmt.Fprintf(out, "  and %d more\n", len(found.Instances)-n)
					break
				}
				fmt.Fprintf(out, "  %s (%s), at %s\n", x.Dir, x.Instance, cmp.Or(x.Was, "one whose identity isn't known"))
			}
			if err := confirm(cmd, yes, "Forget the former VIM?", "nothing was forgotten"); err != nil {
				return err
			}

			if _, err := c.do(cmd.Context(), http.MethodPost, path+"/forget?"+shown.Encode(), nil, &found); err != nil {
				return err
			}
			fmt.Fprintf(out, "forgotten: the former VIM %s, of %d VNFs\n", found.VIM, len(found.Instances))
			return nil
		},
	}
	c.flags(cmd.Flags())
	cmd.Flags().BoolVar(&yes, "yes", false, "forget without asking")
	return cmd
}
