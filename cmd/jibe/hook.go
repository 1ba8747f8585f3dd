package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/jibe-vnfm/jibe/app"
	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/desired/gitrepo"
)

// newHook is what the desired repository's own hooks run; it isn't for people.
func newHook() *cobra.Command {
	cmd := &cobra.Command{Use: "hook", Short: "What the repository's hooks run", Hidden: true}
	var socket string
	receive := &cobra.Command{
		Use:  "pre-receive --socket PATH",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return preReceive(cmd.Context(), cmd.InOrStdin(), cmd.ErrOrStderr(), socket)
		},
	}
	receive.Flags().StringVar(&socket, "socket", "", "socket of the server")
	cmd.AddCommand(receive)
	return cmd
}

// preReceive refuses a push that would be no good. The pushed objects are in
// git's quarantine, which only this process can read: it reads what matters and
// asks the server about it.
func preReceive(ctx context.Context, stdin io.Reader, stderr io.Writer, socket string) error {
	updates, err := gitrepo.ReadPush(stdin)
	if err != nil {
		return err
	}
	branch, err := desiredBranch(ctx)
	if err != nil {
		return err
	}
	pushed, err := gitrepo.OpenQuarantine(ctx, branch)
	if err != nil {
		return err
	}
	defer pushed.Close()
	v, err := heldAgainst(ctx, pushed, "refs/heads/"+branch, updates, gitrepo.PushOptions(), func(u gitrepo.RefUpdate) (*app.Verdict, error) {
		p, err := proposalOf(ctx, pushed, u)
		if err != nil {
			return nil, err
		}
		v, err := ask(ctx, socket, p)
		var none *net.OpError
		switch {
		case errors.As(err, &none) && none.Op == "dial", errors.Is(err, os.ErrNotExist):
			fmt.Fprintf(stderr, "jibe: no server answers, so only the files were checked: packages, levels and VIMs are when it runs (%v)\n", err)
			return &app.Verdict{}, nil
		case err != nil:
			return nil, fmt.Errorf("the server couldn't check this push, so nothing was changed (push fewer instances at once if it is a large one): %w", err)
		}
		for _, warning := range v.Warnings {
			fmt.Fprintln(stderr, "jibe warns: "+warning.Error())
		}
		if len(v.Problems) == 0 {
			return v, nil
		}
		// The server holds it against the newest commit, which may be one that the pusher
		// doesn't know: its pin of a package, say. What stands in the way is that alone.
		overtaken, err := pushed.Overtaken(u)
		if overtaken {
			v.Problems = []*desired.Problem{{File: u.Ref, Message: "another commit was faster than this push", Remedy: fetchFirst}}
		}
		return v, err
	})
	if err != nil {
		return err
	}
	problems := v.Problems
	if len(problems) == 0 {
		return nil
	}
	fmt.Fprintln(stderr, "jibe refuses this push; nothing was changed:")
	for _, p := range problems {
		fmt.Fprintln(stderr, "  "+p.Error())
	}
	return exitError(1)
}

// fetchFirst is what to do where a push is not based on the newest commit.
const fetchFirst = "fetch first, then push again"

// heldAgainst is what a push is held against, here and for `jibe validate` and `jibe plan`,
// which ask about a push that nobody has made: the rules that git alone can tell, and where
// they find nothing, what the server says of the update of ref, the desired branch.
func heldAgainst(ctx context.Context, r *gitrepo.Reader, ref string, updates []gitrepo.RefUpdate, options []string, answer func(gitrepo.RefUpdate) (*app.Verdict, error)) (*app.Verdict, error) {
	problems, err := r.CheckPush(ctx, updates, gitrepo.PushPolicy{Options: options})
	if err != nil || len(problems) > 0 {
		return &app.Verdict{Problems: problems}, err
	}
	for _, u := range updates {
		if u.Ref == ref && u.New != "" {
			return answer(u)
		}
	}
	return &app.Verdict{}, nil
}

// desiredBranch is the branch that the repository's HEAD names.
func desiredBranch(ctx context.Context) (string, error) {
	out, err := exec.CommandContext(ctx, "git", "symbolic-ref", "--short", "HEAD").Output()
	if err != nil {
		return "", fmt.Errorf("branch of the desired repository: %w", err)
	}
	return strings.TrimSpace(string(out)), nil
}

// proposalOf collects what one ref's update would change.
func proposalOf(ctx context.Context, pushed *gitrepo.Reader, u gitrepo.RefUpdate) (*app.Proposal, error) {
	changes, settings, err := pushed.Diff(ctx, u.Old, u.New)
	if err != nil {
		return nil, err
	}
	p := &app.Proposal{Instances: []app.Candidate{}}
	for _, c := range changes {
		candidate := app.Candidate{Dir: c.After.Dir, Instance: c.After.Instance}
		if c.After.Tree != "" {
			files, err := pushed.Files(ctx, c.After)
			if err != nil {
				return nil, err
			}
			candidate.File = string(files[desired.InstanceFile])
		}
		p.Instances = append(p.Instances, candidate)
	}
	if settings {
		if p.Settings, err = pushed.SettingsAt(ctx, u.New); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// checkTimeout bounds how long a push waits for the server's word.
const checkTimeout = 2 * time.Minute

func ask(ctx context.Context, socket string, p *app.Proposal) (*app.Verdict, error) {
	if socket == "" {
		return nil, os.ErrNotExist
	}
	body, err := json.Marshal(p)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	c := &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", socket)
	}}}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://jibe/jibe/v1/check", bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	resp, err := c.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		return nil, answered(resp, data)
	}
	var v app.Verdict
	return &v, json.Unmarshal(data, &v)
}
