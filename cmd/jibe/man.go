package main

import (
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
)

// newMan is the command that releases make their manual pages with. It is hidden, as nobody
// else needs it.
func newMan() *cobra.Command {
	return &cobra.Command{
		Use:    "man DIR",
		Short:  "Write the manual pages",
		Long:   "Write a manual page for each command into the directory DIR, which is made where it is missing.",
		Args:   cobra.ExactArgs(1),
		Hidden: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := os.MkdirAll(args[0], 0o755); err != nil {
				return err
			}
			b := built()
			// A page is the same for the same sources: its date is the commit's.
			at, err := time.Parse(time.RFC3339, b.Date)
			if err != nil {
				at = time.Unix(0, 0).UTC()
			}
			root := cmd.Root()
			root.DisableAutoGenTag = true
			header := &doc.GenManHeader{Section: "1", Source: "Jibe " + b.Version, Manual: "Jibe", Date: &at}
			if err := doc.GenManTree(root, header, args[0]); err != nil {
				return fmt.Errorf("write manual pages into %s: %w", args[0], err)
			}
			return nil
		},
	}
}
