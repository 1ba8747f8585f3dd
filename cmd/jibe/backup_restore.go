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

	"github.com/jibe-vnfm/jibe/app/maintenance"
	"github.com/jibe-vnfm/jibe/backup"
)

func newRestore() *cobra.Command {
	var o maintenance.Restoring
	var identity string
	var verify bool
	cmd := &cobra.Command{
		Use:   "restore FILE|- [--data DIR] [--store URL]",
		Short: "Make a data directory of a backup, or put its records into Redis",
		Long: "Make an empty directory the data directory that a backup is of. All of the backup is checked before anything\n" +
			"is put in place. With --verify it is only checked.\n\n" +
			"With --store the records of the backup go into a Redis, whose replicas have all been stopped: alone, for data\n" +
			"directories that are there still, or together with --data. A Redis that has records which differ is refused\n" +
			"unless --force says that they are to be replaced. Run it again where it was interrupted: no server starts\n" +
			"on a part of the records.\n\n" +
			"See to it that the server that the backup is of doesn't run any more: two on copies of one data directory\n" +
			"would both work on the same VNFs. The audit log of the directory says who restored which backup, and when.",
		Example: "  jibe restore jibe.tar.gz --data /var/lib/jibe\n" +
			"  jibe restore jibe.tar.gz --store redis://redis.example:6379/0 --store-password file:/etc/jibe/redis-password\n" +
			"  jibe restore jibe.tar.gz.age --identity operator.key --verify",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if o.Store.URL != "" && !cmd.Flags().Changed("data") {
				o.Data = "" // $JIBE_DATA is the directory of the server that has lost its records
			}
			switch {
			case o.Data == "" && o.Store.URL == "" && !verify:
				return errors.New("name the directory that becomes the data directory with --data, or the Redis that gets the records with --store, or only check the backup with --verify")
			case o.Force && o.Store.URL == "":
				return errors.New("--force replaces the records of a Redis: name it with --store; a data directory is restored into an empty one only")
			}
			identities, err := backup.ReadIdentities(identity)
			if err != nil {
				return fmt.Errorf("--identity: %w", err)
			}
			in := cmd.InOrStdin()
			o.From, o.Log = "standard input", slog.New(slog.NewTextHandler(cmd.ErrOrStderr(), nil))
			if args[0] != "-" {
				f, err := os.Open(args[0])
				if err != nil {
					return err
				}
				defer f.Close()
				in = f
				if o.From, err = filepath.Abs(args[0]); err != nil {
					return err
				}
			}
			var m *backup.Manifest
			if verify {
				m, err = backup.Verify(cmd.Context(), in, "", nil, identities...)
			} else {
				m, err = maintenance.Restore(cmd.Context(), in, o, identities...)
			}
			if err != nil {
				return err
			}
			tellBackup(cmd.OutOrStdout(), m)
			if !verify {
				tellRestored(cmd.OutOrStdout(), o, m)
			}
			return nil
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.Data, "data", os.Getenv("JIBE_DATA"), "directory, empty or not there yet, that becomes the data directory (or $JIBE_DATA)")
	f.StringVar(&identity, "identity", "", "file with the age identity that opens an encrypted backup")
	storeFlags(f, &o.Store)
	f.Lookup("store").Usage = "URL of the Redis that gets the records, as jibe serve --store has it (default: they stay in the data directory)"
	f.BoolVar(&o.Force, "force", false, "replace the records that the Redis has")
	f.BoolVar(&verify, "verify", false, "only check the backup: nothing is put in place")
	return cmd
}

func tellRestored(w io.Writer, o maintenance.Restoring, m *backup.Manifest) {
	if o.Store.URL != "" {
		fmt.Fprintln(w, "The Redis has the records. Start all replicas as before.")
	}
	if o.Data == "" {
		return
	}
	fmt.Fprintf(w, "%s has it. Start the server as before: jibe serve --data %s …\n", o.Data, o.Data)
	if o.Store.URL == "" && m.Records != "" {
		fmt.Fprintf(w, "The records were in Redis (%s), and are in the data directory now: a start with --store brings them there.\n", m.Records)
	}
}

func tellBackup(w io.Writer, m *backup.Manifest) {
	fmt.Fprintf(w, "The backup is whole: as of %s, by jibe %s, %d files, %d bytes\n", m.Taken.Format(time.RFC3339), m.Jibe, len(m.Files), m.Size())
	fmt.Fprintf(w, "  installation        %s\n  desired repository  %s\n", m.Installation, m.Head)
}
