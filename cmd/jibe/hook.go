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
	"syscall"

	"github.com/spf13/cobra"

	"github.com/jibe-vnfm/jibe/admission"
	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/desired/gitrepo/check"
)

// newHook is the command that the git hooks of the desired repository run; it isn't for
// people.
func newHook() *cobra.Command {
	cmd := &cobra.Command{Use: "hook", Short: "What the repository's hooks run", Hidden: true}
	var h pushHook
	receive := &cobra.Command{
		Use:  "pre-receive --socket PATH",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			unlimited()
			h.push = os.Getenv(check.EnvPush)
			return h.preReceive(cmd.Context(), cmd.InOrStdin(), cmd.ErrOrStderr())
		},
	}
	receive.Flags().StringVar(&h.keys, "verify-desired", "", "file of the keys of which one must have signed each commit")
	land := &cobra.Command{
		Use:  "proc-receive --socket PATH",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			unlimited()
			h.push = os.Getenv(check.EnvPush)
			return h.procReceive(cmd.Context(), cmd.InOrStdin(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	for _, c := range []*cobra.Command{receive, land} {
		c.Flags().StringVar(&h.socket, "socket", "", "socket of the server")
		c.Flags().StringVar(&h.repository, "repository", admission.DesiredRepository, "what the server calls the repository")
		c.Flags().StringVar(&h.branch, "branch", "", "branch of the desired state (default: the one that HEAD names)")
	}
	cmd.AddCommand(receive, land)
	return cmd
}

// unlimited takes back the limits that hold for git while it receives a push over HTTP: what
// the hook reads, it bounds itself.
func unlimited() {
	for _, resource := range []int{syscall.RLIMIT_DATA, syscall.RLIMIT_CPU} {
		var l syscall.Rlimit
		if syscall.Getrlimit(resource, &l) == nil {
			l.Cur = l.Max
			_ = syscall.Setrlimit(resource, &l) // with less, a very large push may be refused
		}
	}
}

// pushHook is one run of the push hook.
type pushHook struct {
	socket, repository, branch string
	keys                       string // file of the keys of which one must have signed each commit, "" demands none
	push                       string // the server's id of a push over HTTP, "" for one by path
}

// preReceive refuses a push that isn't admitted. Only this process can read the pushed
// objects, as git keeps them in quarantine: it reads what matters and has the server say
// who pushes, whether they may, and what it thinks of it.
func (h pushHook) preReceive(ctx context.Context, stdin io.Reader, stderr io.Writer) error {
	updates, err := check.ReadPush(stdin)
	if err != nil {
		return err
	}
	if h.branch == "" {
		if h.branch, err = desiredBranch(ctx); err != nil {
			return err
		}
	}
	pushed, err := check.OpenQuarantine(ctx, h.branch)
	if err != nil {
		return err
	}
	defer pushed.Close()
	p := &admission.Push{ID: h.push, Repository: h.repository, Updates: updates}
	if h.repository == admission.DesiredRepository {
		err = p.Describe(ctx, pushed, "refs/heads/"+h.branch, check.PushOptions())
	} else {
		p.Problems, err = pushed.CheckRefs(ctx, updates...)
	}
	if err != nil {
		return err
	}
	if h.keys != "" {
		unsigned, by, err := pushed.CheckSigned(ctx, updates, h.keys)
		if err != nil {
			return err
		}
		p.Problems, p.Signers = append(unsigned, p.Problems...), by
	}
	if len(p.Problems) > 0 {
		p.Proposal = nil
	}
	v, err := h.ask(ctx, p)
	switch {
	case errors.Is(err, errNoServer) && check.Lands(updates):
		return fmt.Errorf("nothing lands while no server runs, so nothing was changed (start it, or push to %s): %w", h.branch, err)
	case h.push == "" && errors.Is(err, errNoServer):
		fmt.Fprintf(stderr, "jibe: no server answers, so only the files were checked: packages, levels and VIMs are when it runs (%v)\n", err)
		v = &admission.Verdict{Problems: p.Problems}
	case err != nil:
		return fmt.Errorf("the server couldn't check this push, so nothing was changed (push fewer instances at once if it is a large one): %w", err)
	}
	warn(stderr, v.Warnings)
	problems := v.Problems
	if len(problems) == 0 {
		problems = p.Problems // whatever a server makes of them
	}
	if len(problems) == 0 {
		if p.Proposal != nil && p.Proposal.Effect != "" {
			fmt.Fprintln(stderr, "jibe: "+p.Proposal.Effect)
		}
		return nil
	}
	if len(p.Problems) == 0 && !v.Forbidden {
		// The server reviews it against the newest commit, which the pusher may not know:
		// Jibe's own pin of a package, say. Then that alone is the problem.
		for _, u := range updates {
			overtaken, err := pushed.Overtaken(u)
			if err != nil {
				return err
			}
			if overtaken {
				problems = []*desired.Problem{{File: u.Ref, Message: "another commit was faster than this push", Remedy: fetchFirst(u.New, h.branch)}}
			}
		}
	}
	refuse(stderr, problems)
	return exitError(1)
}

// warn shows what refuses nothing.
func warn(stderr io.Writer, warnings []*desired.Problem) {
	for n, warning := range warnings {
		if n == mostShown {
			fmt.Fprintf(stderr, "jibe warns: and %d times more\n", len(warnings)-n)
			break
		}
		fmt.Fprintln(stderr, "jibe warns: "+warning.Error())
	}
}

// refuse shows why a push is refused.
func refuse(stderr io.Writer, problems []*desired.Problem) {
	fmt.Fprintln(stderr, "jibe refuses this push; nothing was changed:")
	for n, p := range problems {
		if n == mostShown {
			fmt.Fprintf(stderr, "  and %d more\n", len(problems)-n)
			break
		}
		fmt.Fprintln(stderr, "  "+p.Error())
	}
}

// mostShown is how many warnings, or problems, of one push are shown: one push may bring very
// many instances, and nobody reads a line for each.
const mostShown = 50

// fetchFirst is the remedy where a push isn't based on the newest commit.
func fetchFirst(commit, branch string) string {
	return "fetch first, then push again; or have it merged: " + check.LandingCommand(commit, branch)
}

// desiredBranch is the branch that the repository's HEAD names.
func desiredBranch(ctx context.Context) (string, error) {
	out, err := exec.CommandContext(ctx, "git", "symbolic-ref", "HEAD").Output() // --short has another form beside a tag of the same name
	if err != nil {
		return "", fmt.Errorf("branch of the desired repository: %w", err)
	}
	return strings.TrimPrefix(strings.TrimSpace(string(out)), "refs/heads/"), nil
}

// errNoServer is returned where no server runs. A socket that can't be opened for another
// reason is none that doesn't answer: then it isn't known what the server would say.
var errNoServer = errors.New("no server runs")

// ask has the server judge the push.
func (h pushHook) ask(ctx context.Context, p *admission.Push) (*admission.Verdict, error) {
	var v admission.Verdict
	return &v, h.post(ctx, admission.PushPath, p, &v)
}

// post asks the server, over its socket.
func (h pushHook) post(ctx context.Context, path string, body, answer any) error {
	if h.socket == "" {
		return errNoServer
	}
	via := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", h.socket)
	}}
	defer via.CloseIdleConnections()
	_, err := exchange(ctx, via, http.Header{}, http.MethodPost, "http://jibe"+path, body, answer)
	var none *net.OpError
	if errors.As(err, &none) && none.Op == "dial" && (errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, os.ErrNotExist)) {
		err = fmt.Errorf("%w: %w", errNoServer, err)
	}
	return err
}
