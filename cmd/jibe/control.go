package main

import (
	"fmt"
	"net/http"
	"net/url"

	"github.com/spf13/cobra"

	"github.com/jibe-vnfm/jibe/app"
)

// newControl is a command that requests a task of an operation (SOL003 clauses 5.4.14 to
// 5.4.17). mode is the default of --mode, "" where the task has none.
func newControl(verb, short, mode string) *cobra.Command {
	var c client
	cmd := &cobra.Command{
		Use:   verb + " OPERATION",
		Short: short,
		Long: short + ", by its id or the beginning of it: " +
			"`jibe get operations --state failed_temp` lists those that wait for a person.",
		Example: "  jibe " + verb + " 3f2a9c1e",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			var body any
			if mode != "" {
				body = map[string]string{"cancelMode": mode}
			}
			id, err := c.operation(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			path := fmt.Sprintf("/vnflcm/v2/vnf_lcm_op_occs/%s/%s", url.PathEscape(id), verb)
			if _, err := c.do(cmd.Context(), http.MethodPost, path, body, nil); err != nil {
				return err
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s asked for; follow it with: jibe get operation %s --watch\n", verb, id)
			return err
		},
	}
	c.flags(cmd.Flags())
	if mode != "" {
		cmd.Flags().StringVar(&mode, "mode", mode, "GRACEFUL lets what was started come to its end; FORCEFUL doesn't")
	}
	return cmd
}

// newAccept is the command by which a person accepts what Jibe held back of the desired
// repository.
func newAccept() *cobra.Command {
	var c client
	cmd := &cobra.Command{
		Use:   "accept",
		Short: "Accept what is held back of the desired repository",
		Long: "Accept the desired repository's branch as it is now. A remote's is held back where its history was rewritten or\n" +
			"where it would end many instances at once; `curl …/readyz` and the log say so. A single instance is held back\n" +
			"where its id was changed, or lost with a move, while it runs: to accept that terminates the VNF and begins\n" +
			"another. `jibe get problems` lists what would be taken.",
		Example: "  jibe get problems   # what is held back\n  jibe accept",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var done app.Accepted
			if _, err := c.do(cmd.Context(), http.MethodPost, "/jibe/v1/accept", nil, &done); err != nil {
				return err
			}
			for _, p := range done.Taken {
				fmt.Fprintf(cmd.OutOrStdout(), "accepted: %s: %s\n", p.File, p.Message)
			}
			if len(done.Taken) == 0 {
				fmt.Fprintln(cmd.OutOrStdout(), "accepted: the branch as it is")
			}
			return nil
		},
	}
	c.flags(cmd.Flags())
	return cmd
}
