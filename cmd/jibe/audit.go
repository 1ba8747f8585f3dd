package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/jibe-vnfm/jibe/app"
	"github.com/jibe-vnfm/jibe/audit"
	"github.com/jibe-vnfm/jibe/desired/secret"
)

// given names the flags that were given, for the audit log: which ones say what the server may
// do. Other values than yes and no aren't shown, as a URL may hold a password.
func given(f *pflag.FlagSet) string {
	var names []string
	f.Visit(func(f *pflag.Flag) {
		name := "--" + f.Name
		if f.Value.Type() == "bool" && f.Value.String() != "true" {
			name += "=" + f.Value.String()
		}
		names = append(names, name)
	})
	return strings.Join(names, " ")
}

func newAudit() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "audit",
		Short:   "Check the log of who changed what",
		Example: "  jibe audit verify --data /var/lib/jibe",
	}
	cmd.AddCommand(newAuditVerify())
	return cmd
}

func newAuditVerify() *cobra.Command {
	var data string
	var lock secret.LockOptions
	var partial, withoutKey bool
	var ends []string
	cmd := &cobra.Command{
		Use:   "verify [FILE...]",
		Short: "Check that no record was altered, removed, added or moved",
		Long: "Check that no record of the audit log was altered, removed, added or moved. Without files\n" +
			"those in the data directory are checked, with the ones that were renamed (audit.jsonl*). The\n" +
			"first line that is wrong is named, and the exit status is 1.\n\n" +
			"Whoever has the installation's key can write another log. What Jibe logged or showed elsewhere\n" +
			"of where the log stood is held against it with --end.",
		Example: "  jibe audit verify --data /var/lib/jibe\n" +
			"  jibe audit verify --without-key --partial audit.jsonl.2026-05",
		RunE: func(cmd *cobra.Command, files []string) error {
			check := audit.Check{Partial: partial}
			if !withoutKey {
				if data == "" {
					return errors.New("give the data directory, which has the key, with --data; or check only what needs none with --without-key")
				}
				key, err := app.AuditKey(data, lock)
				if err != nil {
					return err
				}
				check.Key = key
				end, err := audit.ReadHead(app.AuditHead(data), key)
				switch {
				case err != nil && !errors.Is(err, fs.ErrNotExist):
					return err
				case err != nil && !partial:
					return fmt.Errorf("%s isn't there, so that records could be missing at the end: %w", app.AuditHead(data), err)
				case !partial:
					check.Ends = append(check.Ends, end)
				}
			}
			for _, text := range ends {
				end, err := audit.ParseHead(text)
				if err != nil {
					return fmt.Errorf("--end: %w", err)
				}
				check.Ends = append(check.Ends, end)
			}
			if len(files) == 0 && data != "" {
				var err error
				if files, err = filepath.Glob(app.AuditFile(data) + "*"); err != nil {
					return err
				}
			}
			if len(files) == 0 {
				return errors.New("there is no file to check: name the files of the log")
			}
			got, err := audit.Verify(check, files...)
			if err != nil {
				return err
			}
			fmt.Fprintf(cmd.OutOrStdout(), "records %d to %d are whole; the end is %s\n", got.First, got.End.Seq, got.End)
			if withoutKey {
				fmt.Fprintln(cmd.OutOrStdout(), "Without the key that only finds damage: whoever can write the files can make them look so.")
			}
			return nil
		},
	}
	f := cmd.Flags()
	f.StringVar(&data, "data", os.Getenv("JIBE_DATA"), "data directory (or $JIBE_DATA)")
	keyFlags(f, "key", &lock)
	f.BoolVar(&partial, "partial", false, "the files are a part of the log: neither its first records nor its last need be there")
	f.BoolVar(&withoutKey, "without-key", false, "check only what needs no key")
	f.StringArrayVar(&ends, "end", nil, "end of the log at some time, as Jibe logged it (NUMBER:DIGEST); may be repeated")
	return cmd
}
