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

	"github.com/jibe-vnfm/jibe/admission"
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
	v, err := admission.CheckPush(ctx, pushed, "refs/heads/"+branch, updates, gitrepo.PushOptions(), func(u gitrepo.RefUpdate) (*admission.Verdict, error) {
		p, err := admission.FromUpdate(ctx, pushed, u)
		if err != nil {
			return nil, err
		}
		v, err := ask(ctx, socket, p)
		var none *net.OpError
		switch {
		case errors.As(err, &none) && none.Op == "dial", errors.Is(err, os.ErrNotExist):
			fmt.Fprintf(stderr, "jibe: no server answers, so only the files were checked: packages, levels and VIMs are when it runs (%v)\n", err)
			return &admission.Verdict{}, nil
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

// desiredBranch is the branch that the repository's HEAD names.
func desiredBranch(ctx context.Context) (string, error) {
	out, err := exec.CommandContext(ctx, "git", "symbolic-ref", "--short", "HEAD").Output()
	if err != nil {
		return "", fmt.Errorf("branch of the desired repository: %w", err)
	}
	return strings.TrimSpace(string(out)), nil
}

// checkTimeout bounds how long a push waits for the server's word.
const checkTimeout = 2 * time.Minute

func ask(ctx context.Context, socket string, p *admission.Proposal) (*admission.Verdict, error) {
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
	var v admission.Verdict
	return &v, json.Unmarshal(data, &v)
}
