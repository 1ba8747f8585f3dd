package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"

	"github.com/spf13/cobra"

	"github.com/jibe-vnfm/jibe/admission"
	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/desired/gitrepo"
)

// newHook is the command that the git hooks of the desired repository run; it isn't for
// people.
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

// preReceive refuses a push that isn't admitted. Only this process can read the pushed
// objects, as git keeps them in quarantine: it reads what matters and has the server
// review it.
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
		for n, warning := range v.Warnings {
			if n == mostShown {
				fmt.Fprintf(stderr, "jibe warns: and %d times more\n", len(v.Warnings)-n)
				break
			}
			fmt.Fprintln(stderr, "jibe warns: "+warning.Error())
		}
		if len(v.Problems) == 0 {
			return v, nil
		}
		// The server reviews it against the newest commit, which the pusher may not know:
		// Jibe's own pin of a package, say. Then that alone is the problem.
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
	for n, p := range problems {
		if n == mostShown {
			fmt.Fprintf(stderr, "  and %d more\n", len(problems)-n)
			break
		}
		fmt.Fprintln(stderr, "  "+p.Error())
	}
	return exitError(1)
}

// mostShown is how many warnings, or problems, of one push are shown: one push may bring very
// many instances, and nobody reads a line for each.
const mostShown = 50

// fetchFirst is the remedy where a push isn't based on the newest commit.
const fetchFirst = "fetch first, then push again"

// desiredBranch is the branch that the repository's HEAD names.
func desiredBranch(ctx context.Context) (string, error) {
	out, err := exec.CommandContext(ctx, "git", "symbolic-ref", "--short", "HEAD").Output()
	if err != nil {
		return "", fmt.Errorf("branch of the desired repository: %w", err)
	}
	return strings.TrimSpace(string(out)), nil
}

// ask has the server review the proposal, over its socket.
func ask(ctx context.Context, socket string, p *admission.Proposal) (*admission.Verdict, error) {
	if socket == "" {
		return nil, os.ErrNotExist
	}
	via := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", socket)
	}}
	defer via.CloseIdleConnections()
	var v admission.Verdict
	_, err := exchange(ctx, via, http.Header{}, http.MethodPost, "http://jibe/jibe/v1/check", p, &v)
	return &v, err
}
