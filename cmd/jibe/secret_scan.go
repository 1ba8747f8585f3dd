package main

import (
	"fmt"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/jibe-vnfm/jibe/desired/secret"
	"github.com/jibe-vnfm/jibe/internal/git"
)

func newScan() *cobra.Command {
	var history bool
	cmd := &cobra.Command{
		Use:   "scan [DIR]",
		Short: "Find secrets that stand in a git repository in clear",
		Long: "Look for secrets in clear in the commit that HEAD names, or with --history in all commits of all branches and\n" +
			"tags. DIR is a clone or a bare repository; it is the current directory by default. What is found is printed as\n" +
			"commit, file and field, never with its value. The exit code is 1 where something was found.",
		Args:    cobra.MaximumNArgs(1),
		Example: "  jibe secret scan --history /var/lib/jibe/desired.git",
		RunE: func(cmd *cobra.Command, args []string) error {
			dir := "."
			if len(args) > 0 {
				dir = args[0]
			}
			dir, err := filepath.Abs(dir)
			if err != nil {
				return err
			}
			found, skipped, err := secret.Scan(cmd.Context(), git.Runner{Clone: dir}, history)
			if err != nil {
				return err
			}
			for _, e := range found {
				state := ""
				if history && e.Now {
					state = " (still there)"
				}
				fmt.Fprintf(cmd.OutOrStdout(), "%s %q %q%s\n", e.Commit[:12], e.File, e.Field, state)
			}
			for _, name := range skipped {
				fmt.Fprintf(cmd.ErrOrStderr(), "jibe: %q is too large to be looked into\n", name)
			}
			if len(found) > 0 {
				fmt.Fprintf(cmd.ErrOrStderr(), "jibe: secrets stand in git in clear (%d): replace each of them, as git keeps what was committed (docs/guide/secrets.md)\n", len(found))
				return exitError(1)
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&history, "history", false, "look into all commits of all branches and tags")
	return cmd
}
