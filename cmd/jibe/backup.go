package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/jibe-vnfm/jibe/app/maintenance"
	"github.com/jibe-vnfm/jibe/app/replicas"
	"github.com/jibe-vnfm/jibe/backup"
	"github.com/jibe-vnfm/jibe/internal/datadir"
)

func newBackup() *cobra.Command {
	var c client
	var recipients []string
	var store replicas.StoreOptions
	cmd := &cobra.Command{
		Use:   "backup FILE|DIRECTORY|-",
		Short: "Copy the data directory into one file, while the server works",
		Long: "Copy the data directory into one file: store, repositories, keys, audit log, as they are at one moment.\n\n" +
			"With --data the server on that directory is asked by its socket, and the directory is read where no server\n" +
			"runs on it. Without, the server at --server is asked, which needs the role admin. Records that are in Redis are\n" +
			"in the backup as well; --store-password is for where no server runs. The file appears under its\n" +
			"name when it is whole; in a DIRECTORY it is named after the installation and the time. - is the standard output.\n\n" +
			"The keys are in it: with --recipient it is encrypted; without, keep it as you would keep the keys.",
		Example: "  jibe backup --data /var/lib/jibe /backup/\n" +
			"  jibe backup --data /var/lib/jibe --recipient age1… - | ssh store 'cat > jibe.tar.gz.age'\n" +
			"  jibe backup --server https://jibe.example:9890 --token-file admin.token jibe.tar.gz",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			b := &backingUp{client: &c, remote: cmd.Flags().Changed("server") || c.data == "", store: store}
			var err error
			if b.recipients, err = backup.ParseRecipients(recipients); err != nil {
				return fmt.Errorf("--recipient: %w", err)
			}
			return b.run(cmd.Context(), args[0], cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	c.flags(cmd.Flags())
	cmd.Flags().StringArrayVar(&recipients, "recipient", nil, "age recipient (age1…) for whom the backup is encrypted; may be repeated")
	storeFlags(cmd.Flags(), &store)
	return cmd
}

// backingUp is one `jibe backup`.
type backingUp struct {
	*client
	remote     bool // the server is asked by its address
	recipients backup.Recipients
	store      replicas.StoreOptions // where no server runs
	check      backup.Checker
	taken      time.Time
}

func (b *backingUp) run(ctx context.Context, to string, stdout, stderr io.Writer) error {
	if to == "-" {
		if err := b.write(ctx, stdout); err != nil {
			return err
		}
		return b.confirm(ctx)
	}
	name, err := b.file(ctx, to)
	if err != nil {
		return err
	}
	if err := b.confirm(ctx); err != nil {
		// The backup is whole, whoever knows of it.
		fmt.Fprintln(stderr, "jibe: the backup is there, and the server couldn't be told so:", err)
	}
	fmt.Fprintf(stdout, "%s: the data directory as of %s\n", name, b.taken.Format(time.RFC3339))
	if len(b.recipients) == 0 {
		fmt.Fprintln(stderr, "jibe: the backup holds the installation's keys in clear: keep it as safe as them, or encrypt it with --recipient")
	}
	return nil
}

// file writes the backup under another name first, and returns its name. It replaces no file.
func (b *backingUp) file(ctx context.Context, to string) (name string, err error) {
	dir := filepath.Dir(to)
	if info, err := os.Stat(to); err == nil && info.IsDir() {
		dir, to = to, ""
	} else if err == nil {
		return "", fmt.Errorf("%s is there already: name another file, or a directory", to)
	}
	f, err := os.CreateTemp(dir, ".jibe-backup-*") // mode 0600
	if err != nil {
		return "", err
	}
	defer os.Remove(f.Name()) // it has another name where all went well
	err = b.write(ctx, f)
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return "", err
	}
	if to == "" {
		to = filepath.Join(dir, "jibe-"+b.taken.UTC().Format("20060102T150405Z")+".tar.gz")
		if len(b.recipients) > 0 {
			to += ".age"
		}
	}
	// Not by a rename, which would replace what somebody put there meanwhile.
	if err := os.Link(f.Name(), to); err != nil {
		return "", err
	}
	folder, err := os.Open(dir)
	if err != nil {
		return "", err
	}
	return to, errors.Join(folder.Sync(), folder.Close())
}

// write writes a whole backup to w, or returns an error.
func (b *backingUp) write(ctx context.Context, w io.Writer) error {
	out := w
	var sealed io.WriteCloser
	if len(b.recipients) > 0 {
		var err error
		if sealed, err = b.recipients.Encrypt(w); err != nil {
			return err
		}
		out = sealed
	}
	if err := b.take(ctx, io.MultiWriter(out, &b.check)); err != nil {
		return err
	}
	if err := b.check.Complete(); err != nil {
		return fmt.Errorf("%w: take it again", err)
	}
	if sealed != nil {
		return sealed.Close()
	}
	return nil
}

// take has the backup written to w, by the server or in its absence.
func (b *backingUp) take(ctx context.Context, w io.Writer) error {
	if !b.remote {
		d, err := datadir.OpenExisting(b.data, slog.New(slog.DiscardHandler))
		if err == nil {
			m, err := maintenance.BackupStopped(ctx, d, b.store, version, w)
			if err == nil {
				b.taken = m.Taken
				err = backup.SetLast(d.Path, m.Taken)
			}
			return errors.Join(err, d.Close())
		}
		if !errors.Is(err, datadir.ErrInUse) {
			return err
		}
	}
	resp, err := b.request(ctx, maintenance.BackupPath, nil)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if _, err := io.Copy(w, resp.Body); err != nil {
		return fmt.Errorf("the backup was cut short, and nothing of it is kept: %w (the server's log says why)", err)
	}
	if b.taken, err = time.Parse(time.RFC3339Nano, resp.Trailer.Get(maintenance.TakenHeader)); err != nil {
		return errors.New("the backup was cut short, and nothing of it is kept: its answer has no end (the server's log says why)")
	}
	return nil
}

// confirm tells the server that the backup is kept.
func (b *backingUp) confirm(ctx context.Context) error {
	if !b.remote {
		if last, err := backup.Last(b.data); err == nil && !last.Before(b.taken.Truncate(time.Second)) {
			return nil
		}
	}
	body, err := json.Marshal(maintenance.Kept{Taken: b.taken})
	if err != nil {
		return err
	}
	resp, err := b.request(ctx, maintenance.BackupKeptPath, body)
	if err != nil {
		return err
	}
	return resp.Body.Close()
}

// request posts to the server, and returns an answer that says yes.
func (b *backingUp) request(ctx context.Context, path string, body []byte) (*http.Response, error) {
	if b.remote {
		return b.overAPI(ctx, http.MethodPost, path, body)
	}
	return overSocket(ctx, b.data, http.MethodPost, path, body)
}

// overAPI makes a request of the server at --server whose answer is read by the caller.
func (c *client) overAPI(ctx context.Context, method, path string, body []byte) (*http.Response, error) {
	token, from, err := c.token()
	if err != nil {
		return nil, fmt.Errorf("token of %s: %w", from, err)
	}
	req, err := http.NewRequestWithContext(ctx, method, strings.TrimRight(c.server, "/")+path, bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("--server %q: %w", c.server, err)
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, fmt.Errorf("%w at %s: %w (is `jibe serve` running? see --server)", errUnreachable, c.server, err)
	}
	if resp, err = accepted(resp); err != nil {
		return nil, explainToken(err, token, from)
	}
	return resp, nil
}

// overSocket makes a request of the server on a data directory of this machine.
func overSocket(ctx context.Context, data, method, path string, body []byte) (*http.Response, error) {
	socket := filepath.Join(data, datadir.SocketFile)
	via := &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "unix", socket)
	}}
	req, err := http.NewRequestWithContext(ctx, method, "http://jibe"+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	resp, err := (&http.Client{Transport: via}).Do(req)
	if err != nil {
		return nil, fmt.Errorf("the server on %s doesn't answer at %s: %w (it may be starting or ending; with --server it is asked at its address)", data, socket, err)
	}
	return accepted(resp)
}

// accepted returns the answer where it says yes.
func accepted(resp *http.Response) (*http.Response, error) {
	if resp.StatusCode < 300 {
		return resp, nil
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
	if err != nil {
		return nil, err
	}
	return nil, refusalOf(resp, text)
}
