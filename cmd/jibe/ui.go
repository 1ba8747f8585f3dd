package main

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/spf13/cobra"

	"github.com/jibe-vnfm/jibe/ui"
)

// newUI is the command that opens the web page.
func newUI() *cobra.Command {
	var c client
	cmd := &cobra.Command{
		Use:   "ui",
		Short: "Print a link that opens the web page and logs you in",
		Long: "Print a link that opens the web page and logs you in, with the token that other commands use.\n" +
			"The link is good for one login within two minutes: give it to nobody else.",
		Example: "  jibe ui --data DIR\n  xdg-open \"$(jibe ui)\"",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var link ui.Link
			if _, err := c.do(cmd.Context(), http.MethodPost, "/jibe/v1/ui-links", nil, &link); err != nil {
				return err
			}
			_, err := fmt.Fprintln(cmd.OutOrStdout(), strings.TrimRight(c.server, "/")+link.Path)
			return err
		},
	}
	c.flags(cmd.Flags())
	return cmd
}
