package main

import (
	"fmt"
	"net/http"
	"net/url"

	"github.com/spf13/cobra"
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
