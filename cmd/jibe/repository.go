package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/jibe-vnfm/jibe/app"
	"github.com/jibe-vnfm/jibe/app/replicas"
	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/desired/gitrepo"
	"github.com/jibe-vnfm/jibe/desired/packages"
	"github.com/jibe-vnfm/jibe/desired/secret"
	"github.com/jibe-vnfm/jibe/internal/datadir"
	"github.com/jibe-vnfm/jibe/lcm"
	"github.com/jibe-vnfm/jibe/lcm/oplog"
	"github.com/jibe-vnfm/jibe/store/bolt"
)

func newRepository() *cobra.Command {
	cmd := &cobra.Command{
		Use: "repository", Short: "The desired repository of a data directory",
		Example: "  jibe repository archive --data /var/lib/jibe --output /backup/desired.git",
	}
	cmd.AddCommand(newRepositoryArchive(), newRepositoryWho())
	return cmd
}

// archiving is what `jibe repository archive` was asked to do.
type archiving struct {
	data, output, branch string
	keep                 days
	keepCommits          int
	lock                 secret.LockOptions
}

func newRepositoryArchive() *cobra.Command {
	var a archiving
	cmd := &cobra.Command{
		Use:   "archive --data DIR --output ARCHIVE.git [--keep 90d | --keep-commits N]",
		Short: "Copy the history to an archive, and let it begin later",
		Long: "Bring ARCHIVE.git up to date: a bare repository with every commit, note and pin of the desired\n" +
			"repository. It is made where it doesn't exist. Without more this only reads: the server may run.\n\n" +
			"With --keep or --keep-commits, the history before that is then removed from the desired repository,\n" +
			"for which the server must be stopped. No commit changes: clones pull and push as before. What operations\n" +
			"that haven't ended go by is kept, however old. The command may be interrupted and repeated at any point.",
		Example: "  jibe repository archive --data /var/lib/jibe --output /backup/desired.git --keep 90d",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			switch {
			case a.data == "":
				return errors.New("no data directory: give one with --data")
			case a.output == "":
				return errors.New("no archive: give the path of one with --output")
			case a.keep > 0 && a.keepCommits > 0:
				return errors.New("give --keep or --keep-commits, not both")
			case a.keepCommits < 0:
				return fmt.Errorf("--keep-commits %d: want a number above zero", a.keepCommits)
			}
			return a.run(cmd.Context(), cmd.OutOrStdout())
		},
	}
	f := cmd.Flags()
	keyFlags(f, "key", &a.lock)
	f.StringVar(&a.data, "data", os.Getenv("JIBE_DATA"), "data directory (or $JIBE_DATA)")
	f.StringVar(&a.output, "output", "", "path of the archive, a bare repository outside of the data directory")
	f.StringVar(&a.branch, "branch", "main", "branch of the desired repository")
	f.Var(&a.keep, "keep", "how long a history stays, as 90d or 2160h")
	f.IntVar(&a.keepCommits, "keep-commits", 0, "how many commits stay")
	return cmd
}

// days is the flag --keep: a duration that may be given in days.
type days time.Duration

// Set implements pflag.Value.
func (d *days) Set(text string) error {
	var got time.Duration
	var err error
	if n, ok := strings.CutSuffix(text, "d"); ok {
		var whole int
		whole, err = strconv.Atoi(n)
		got = time.Duration(whole) * 24 * time.Hour
	} else {
		got, err = time.ParseDuration(text)
	}
	if err != nil || got <= 0 {
		return fmt.Errorf("%q: want a time above zero, as 90d or 2160h", text)
	}
	*d = days(got)
	return nil
}

// String implements pflag.Value.
func (d *days) String() string {
	if *d == 0 {
		return ""
	}
	return time.Duration(*d).String()
}

// Type implements pflag.Value: it is what the help calls the value.
func (d *days) Type() string { return "TIME" }

func (a *archiving) run(ctx context.Context, out io.Writer) error {
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	cut := a.keep > 0 || a.keepCommits > 0
	if !datadir.Exists(datadir.Desired(a.data)) {
		return fmt.Errorf("data directory %s has no desired repository", a.data)
	}
	if !cut {
		if err := gitrepo.Archive(ctx, datadir.Desired(a.data), a.output); err != nil {
			return err
		}
		_, err := fmt.Fprintf(out, "%s is up to date; nothing was removed (see --keep)\n", a.output)
		return err
	}
	d, err := datadir.Open(a.data, log)
	if err != nil {
		return err
	}
	err = a.cut(ctx, d, out, log)
	return errors.Join(err, d.Close())
}

// cut archives and removes what is too old, while nobody else has the data directory.
func (a *archiving) cut(ctx context.Context, d *datadir.Dir, out io.Writer, log *slog.Logger) error {
	key, err := app.GitKey(a.data, a.lock)
	if err != nil {
		return err
	}
	opt := gitrepo.CutOptions{
		Options: gitrepo.Options{
			Dir: d.Desired(), Branch: a.branch, Log: log, Key: key,
			NeededRepositories: packages.New(d.Desired(), d.Packages(), log).Needed,
		},
		Archive: a.output, Commits: a.keepCommits,
	}
	if a.keep > 0 {
		opt.Since = time.Now().Add(-time.Duration(a.keep))
	}
	place, err := replicas.StoreOf(d.Path)
	if err != nil {
		return err
	}
	if place != "" {
		return fmt.Errorf("the records of data directory %s are in Redis (%s), and without them it isn't known which revisions are needed: its history can't be cut", d.Path, place)
	}
	if datadir.Exists(d.Store()) {
		if err := addNamed(ctx, d, &opt); err != nil {
			return err
		}
	}
	err = gitrepo.Settle(ctx, opt.Options)
	if err == nil || errors.Is(err, gitrepo.ErrMirror) { // a mirror has no notes of its own
		err = gitrepo.Archive(ctx, d.Desired(), a.output)
	}
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintf(out, "%s is up to date\n", a.output); err != nil {
		return err
	}
	report, err := gitrepo.Cut(ctx, opt)
	if errors.Is(err, gitrepo.ErrMirror) {
		return fmt.Errorf("%w: its history is shortened there, see the guide on long histories", err)
	}
	if err != nil {
		return err
	}
	return tell(out, report)
}

// tell says what a cut has left.
func tell(out io.Writer, report gitrepo.CutReport) error {
	if report.First == "" {
		_, err := fmt.Fprintln(out, "the history isn't longer than that; nothing was removed")
		return err
	}
	if report.Held != "" {
		if _, err := fmt.Fprintf(out, "an operation that hasn't ended, or that failed, goes by commit %s: more is kept than was asked for (see jibe get operations)\n", report.Held); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintf(out, "history begins at %s of %s: %d commits are kept, %d were removed, %d MB are free\n",
		report.First, report.FirstDate.UTC().Format(time.DateOnly), report.Kept, report.Removed, max(report.Freed, 0)/1e6)
	return err
}

// addNamed adds the revisions that the store names.
func addNamed(ctx context.Context, d *datadir.Dir, opt *gitrepo.CutOptions) (err error) {
	s, err := bolt.Open(d.Store(), bolt.WithLockTimeout(datadir.EndPatience))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	log, err := oplog.Open(ctx, s, time.Now)
	if err != nil {
		return err
	}
	instances, err := log.Instances(ctx, "", 0)
	if err != nil {
		return fmt.Errorf("what the store names: %w", err)
	}
	var operated []desired.Revision
	for _, inst := range instances {
		opt.Named = append(opt.Named, inst.Operated, inst.Settled)
		if inst.Operated.Tree != "" {
			operated = append(operated, inst.Operated)
		}
		if inst.Settled.Tree != inst.Operated.Tree && inst.Settled.Commit != "" {
			opt.Moving = append(opt.Moving, inst.Settled)
		}
		for id, read := range map[string]func(context.Context, string) (*lcm.Operation, error){
			inst.Open: log.Operation, inst.OutstandingCommit: log.Operation, inst.Prepared: log.Prepared,
		} {
			if id == "" {
				continue
			}
			op, err := read(ctx, id)
			if err != nil {
				return fmt.Errorf("operation %s of instance %s: %w", id, inst.ID, err)
			}
			for _, rev := range []desired.Revision{op.Before, op.After} {
				if rev.Commit != "" {
					opt.Moving = append(opt.Moving, rev)
				}
			}
		}
	}
	opt.Operated = func(context.Context) ([]desired.Revision, error) { return operated, nil }
	return nil
}
