package main

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"

	"github.com/spf13/cobra"

	"github.com/jibe-vnfm/jibe/admission/plantext"
	"github.com/jibe-vnfm/jibe/app"
	"github.com/jibe-vnfm/jibe/app/maintenance"
	"github.com/jibe-vnfm/jibe/doctor"
	"github.com/jibe-vnfm/jibe/internal/datadir"
)

// exitUsage is the exit status of a command that was called in a wrong way.
const exitUsage = 2

func newDoctor() *cobra.Command {
	var c client
	o := app.Options{}
	var output string
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Examine an installation: what is wrong, what it means, what to do",
		Long: "Examine an installation: data directory, disk, store, repositories, git, VIMs with the rights of the credentials,\n" +
			"clocks, certificates, tokens, key, audit log, confinement of hooks, memory.\n\n" +
			"With --data the server on that directory is asked by its socket; where none runs, the directory is examined by\n" +
			"this process, for which the flags are those of jibe serve. Without, the server at --server is asked, which\n" +
			"needs the role admin. Nothing is changed. The exit status is 0 where nothing failed, 1 where something did, and 2\n" +
			"for a wrong call.",
		Example: "  jibe doctor --data /var/lib/jibe\n" +
			"  jibe doctor --server https://jibe.example:9890 --token-file admin.token -o json",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return nil
			}
			fmt.Fprintf(cmd.ErrOrStderr(), "jibe: %q isn't understood: jibe doctor takes flags only\n", args[0])
			return exitError(exitUsage)
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			if output != "" && output != "json" && output != "text" {
				fmt.Fprintf(cmd.ErrOrStderr(), "jibe: -o %q: want text or json\n", output)
				return exitError(exitUsage)
			}
			results, err := examination(cmd, &c, o)
			if err != nil {
				return err
			}
			if output == "json" {
				e := json.NewEncoder(cmd.OutOrStdout())
				e.SetIndent("", "  ")
				err = e.Encode(results)
			} else {
				err = printExamination(cmd.OutOrStdout(), results)
			}
			if err == nil && doctor.Sick(results) {
				return exitError(1)
			}
			return err
		},
	}
	cmd.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		fmt.Fprintln(cmd.ErrOrStderr(), "jibe:", err)
		return exitError(exitUsage)
	})
	f := cmd.Flags()
	c.flags(f)
	f.StringVarP(&output, "output", "o", "", "text or json")
	f.StringVar(&o.Remote, "remote", "", "URL of the desired repository on a forge, as of jibe serve")
	f.StringVar(&o.Branch, "branch", "main", "branch of the desired repository")
	forgeFlags(f, &o.Forge)
	f.StringVar(&o.TLSCert, "tls-cert", "", "PEM file of the API's certificate, as of jibe serve")
	f.StringVar(&o.ClientCA, "client-ca", "", "PEM file of the authorities of callers' certificates, as of jibe serve")
	f.StringVar(&o.Notify.Cert, "notify-client-cert", "", "PEM file of the certificate that subscribers are shown, as of jibe serve")
	f.StringVar(&o.Notify.CA, "notify-ca", "", "PEM file of the authorities of subscribers' certificates, as of jibe serve")
	f.StringArrayVar(&o.Reach.Dirs, "secret-dir", nil, "directory whose files \"file:\" references may name, as of jibe serve; may be repeated")
	f.StringArrayVar(&o.Reach.Env, "secret-env", nil, "environment variable that \"env:\" references may name, as of jibe serve; may be repeated")
	f.BoolVar(&o.Reach.KubeconfigExec, "allow-kubeconfig-exec", false, "use kubeconfigs that name commands, as of jibe serve")
	storeFlags(f, &o.Store)
	hookFlags(f, &o)
	egressFlags(f, &o.Egress)
	keyFlags(f, "key", &o.Key)
	return cmd
}

// examination has the server examine itself, or does it in its absence.
func examination(cmd *cobra.Command, c *client, o app.Options) ([]doctor.Result, error) {
	ctx := cmd.Context()
	var resp *http.Response
	var err error
	switch {
	case cmd.Flags().Changed("server") || c.data == "":
		resp, err = c.overAPI(ctx, http.MethodGet, maintenance.DoctorPath, nil)
	case datadir.InUse(c.data):
		resp, err = overSocket(ctx, c.data, http.MethodGet, maintenance.DoctorPath, nil)
	default:
		o.Data, o.Log = c.data, slog.New(slog.DiscardHandler)
		return app.Examine(ctx, o), nil
	}
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	var results []doctor.Result
	if err := json.NewDecoder(resp.Body).Decode(&results); err != nil {
		return nil, fmt.Errorf("answer of the server: %w", err)
	}
	return results, nil
}

// printExamination prints what was found for people.
func printExamination(w io.Writer, results []doctor.Result) error {
	width, count := 0, map[doctor.State]int{}
	for _, r := range results {
		width = max(width, len(r.Name))
		count[r.State]++
	}
	var b strings.Builder
	for _, r := range results {
		fmt.Fprintf(&b, "%-7s  %-*s  %s\n", r.State, width, r.Name, plantext.OneLine(r.Means))
		if r.Do != "" && r.State != doctor.OK {
			fmt.Fprintf(&b, "%-7s  %-*s  → %s\n", "", width, "", plantext.OneLine(r.Do))
		}
	}
	fmt.Fprintf(&b, "\nok: %d, warnings: %d, failed: %d, skipped: %d\n", count[doctor.OK], count[doctor.Warning], count[doctor.Failed], count[doctor.Skipped])
	_, err := io.WriteString(w, b.String())
	return err
}
