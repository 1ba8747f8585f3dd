package main

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/jibe-vnfm/jibe/app"
	"github.com/jibe-vnfm/jibe/backup"
)

func newRestore() *cobra.Command {
	var data, identity string
	var verify bool
	cmd := &cobra.Command{
		Use:   "restore FILE|- --data DIR",
		Short: "Make a data directory of a backup",
		Long: "Make an empty directory the data directory that a backup is of. All of the backup is checked before anything\n" +
			"is put in place. With --verify it is only checked.\n\n" +
			"See to it that the server that the backup is of doesn't run any more: two on copies of one data directory\n" +
			"would both work on the same VNFs. The audit log of the directory says who restored which backup, and when.",
		Example: "  jibe restore jibe.tar.gz --data /var/lib/jibe\n" +
			"  jibe restore jibe.tar.gz.age --identity operator.key --verify",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if data == "" && !verify {
				return errors.New("name the directory that becomes the data directory with --data, or only check the backup with --verify")
			}
			identities, err := backup.ReadIdentities(identity)
			if err != nil {
				return fmt.Errorf("--identity: %w", err)
			}
			in, from := cmd.InOrStdin(), "standard input"
			if args[0] != "-" {
				f, err := os.Open(args[0])
				if err != nil {
					return err
				}
				defer f.Close()
				in = f
				if from, err = filepath.Abs(args[0]); err != nil {
					return err
				}
			}
			var m *backup.Manifest
			if verify {
				m, err = backup.Verify(cmd.Context(), in, "", identities...)
			} else {
				m, err = app.Restore(cmd.Context(), in, from, data, slog.New(slog.NewTextHandler(cmd.ErrOrStderr(), nil)), identities...)
			}
			if err != nil {
				return err
			}
			tellBackup(cmd.OutOrStdout(), m)
			if !verify {
				fmt.Fprintf(cmd.OutOrStdout(), "%s has it. Start the server as before: jibe serve --data %s …\n", data, data)
			}
			return nil
		},
	}
	f := cmd.Flags()
	f.StringVar(&data, "data", os.Getenv("JIBE_DATA"), "directory, empty or not there yet, that becomes the data directory (or $JIBE_DATA)")
	f.StringVar(&identity, "identity", "", "file with the age identity that opens an encrypted backup")
	f.BoolVar(&verify, "verify", false, "only check the backup: nothing is put in place")
	return cmd
}

func tellBackup(w io.Writer, m *backup.Manifest) {
	fmt.Fprintf(w, "The backup is whole: as of %s, by jibe %s, %d files, %d bytes\n", m.Taken.Format(time.RFC3339), m.Jibe, len(m.Files), m.Size())
	fmt.Fprintf(w, "  installation        %s\n  desired repository  %s\n", m.Installation, m.Head)
}
