package main

import (
	"fmt"
	"net/http"

	"github.com/spf13/cobra"
)

// newControl is a command that asks something of an operation (SOL003 clauses
// 5.4.14 to 5.4.17). mode is the default of --mode where there is one.
func newControl(verb, short, mode string) *cobra.Command {
	var c client
	cmd := &cobra.Command{
		Use:   verb + " OPERATION",
		Short: short,
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			var body any
			if mode != "" {
				body = map[string]string{"cancelMode": mode}
			}
			path := fmt.Sprintf("/vnflcm/v2/vnf_lcm_op_occs/%s/%s", args[0], verb)
			if _, err := c.do(cmd.Context(), http.MethodPost, path, body, nil); err != nil {
				return err
			}
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "%s asked for; follow it with: jibe get operation %s --watch\n", verb, args[0])
			return err
		},
	}
	c.flags(cmd.Flags())
	if mode != "" {
		cmd.Flags().StringVar(&mode, "mode", mode, "GRACEFUL lets what was started come to its end; FORCEFUL doesn't")
	}
	return cmd
}

// newAccept takes what the desired repository's remote was held back for.
func newAccept() *cobra.Command {
	var c client
	cmd := &cobra.Command{
		Use:   "accept",
		Short: "Accept a remote desired repository that is held back",
		Long: "Accept the remote's branch as it is now, where it is held back because its history was rewritten or because\n" +
			"it would end many instances at once. `curl …/readyz` and the log say what it is held back for.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := c.do(cmd.Context(), http.MethodPost, "/jibe/v1/accept", nil, nil)
			return err
		},
	}
	c.flags(cmd.Flags())
	return cmd
}
