package main

import (
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/jibe-vnfm/jibe/app"
	"github.com/jibe-vnfm/jibe/desired/gitrepo"
	"github.com/jibe-vnfm/jibe/desired/secret"
	"github.com/jibe-vnfm/jibe/internal/datadir"
)

func newRepositoryWho() *cobra.Command {
	var data, branch string
	var lock secret.LockOptions
	cmd := &cobra.Command{
		Use:   "who COMMIT --data DIR",
		Short: "Say who brought a commit into the desired repository, as its server knows it",
		Long: "Say whether Jibe made a commit, or else who pushed it, when and from where. Only what the key of the data\n" +
			"directory authenticates is believed: the author of a commit, its message and notes can be written by anybody.\n" +
			"This only reads: the server may run. Exit code 1: nobody is known.",
		Example: "  jibe repository who 4f1c2d3 --data /var/lib/jibe",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if data == "" {
				return errors.New("no data directory: give one with --data")
			}
			key, err := app.GitKey(data, lock)
			if err != nil {
				return err
			}
			p, err := gitrepo.WhoMade(cmd.Context(), datadir.Desired(data), branch, args[0], key)
			if err != nil {
				return err
			}
			w := cmd.OutOrStdout()
			fmt.Fprintf(w, "commit %s\nauthor %s (not authenticated)\n", p.Commit, p.Author)
			if p.Own {
				fmt.Fprintln(w, "made by this Jibe (authenticated), with all that its message says")
			}
			switch {
			case p.Push != nil:
				from := p.Push.From
				if from == "" {
					from = "the host"
				}
				fmt.Fprintf(w, "pushed by %s from %s at %s (authenticated)\n", p.Push.Pusher, from, p.Push.At.Format(time.RFC3339))
			case !p.Own:
				return errors.New("nobody is known who pushed it: it came from a forge, before pushes were noted, or while no server ran")
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&data, "data", os.Getenv("JIBE_DATA"), "data directory (or $JIBE_DATA)")
	cmd.Flags().StringVar(&branch, "branch", "main", "branch of the desired repository")
	keyFlags(cmd.Flags(), "key", &lock)
	return cmd
}
