package check

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/desired/gitrepo/message"
	"github.com/jibe-vnfm/jibe/internal/git"
)

// LandingRefs begin the names of what is no ref: a push to one lands on the branch that it names, by
// the hook proc-receive.
const LandingRefs = "refs/for/"

// LandingRef is what is pushed to so that it lands on a branch.
func LandingRef(branch string) string { return LandingRefs + branch }

// LandingCommand is what brings a commit there. It names the commit, or the branch in full where that isn't known: a tag or a
// branch that is called HEAD would have git push another commit than the one at HEAD.
func LandingCommand(commit, branch string) string {
	if commit == "" {
		commit = "refs/heads/" + branch
	}
	return "git push origin " + commit + ":" + LandingRef(branch)
}

// Lands says whether a push is to land.
func Lands(updates []RefUpdate) bool {
	return slices.ContainsFunc(updates, func(u RefUpdate) bool { return strings.HasPrefix(u.Ref, LandingRefs) })
}

// checkLanding returns why a push that is to land can't: nothing else may come with it, as git
// would take the one and refuse the other.
func (r *Checker) checkLanding(ctx context.Context, updates []RefUpdate) ([]*desired.Problem, error) {
	to := LandingRef(r.Branch)
	i := slices.IndexFunc(updates, func(u RefUpdate) bool { return strings.HasPrefix(u.Ref, LandingRefs) })
	u := updates[i]
	why, remedy := "", LandingCommand(u.New, r.Branch)
	switch {
	case u.Ref != to:
		why = "nothing lands there: " + r.Branch + " is the branch that is obeyed"
	case len(updates) > 1:
		why = "what is to land is pushed alone, and this push has other refs too"
	case u.New == "":
		why, remedy = "there is nothing to delete", "to terminate instances, remove their directories in a commit"
	default:
		kind, err := r.Git.Run(ctx, "cat-file", "-t", u.New)
		if err != nil {
			return nil, err
		}
		refs, err := r.Git.Run(ctx, "config", "--get-all", "receive.procReceiveRefs")
		if err != nil && git.ExitCode(err) != 1 {
			return nil, err
		}
		if kind = strings.TrimSpace(kind); kind != "commit" {
			why = "only a commit can land, and this is a " + kind
		} else if set := strings.Fields(refs); !slices.Contains(set, strings.TrimSuffix(LandingRefs, "/")) && !slices.Contains(set, MirrorRefs) {
			why, remedy = "this repository isn't set up for it (receive.procReceiveRefs)", "start the server again, which does that, or push to "+r.Branch
		}
	}
	if why == "" {
		return nil, nil
	}
	return []*desired.Problem{{File: message.Clip(u.Ref), Message: why, Remedy: remedy}}, nil
}

// ProcReceive speaks the protocol of git's proc-receive hook (githooks(5)) for one push that the
// pre-receive hook has taken: land brings it to the branch, or says why not in one line for git's own report.
// Where the pusher has the commit that the branch is at then, git tells them of the branch.
func ProcReceive(in io.Reader, out io.Writer, land func(u RefUpdate, options []string) (now RefUpdate, refused string)) error {
	r := bufio.NewReader(in)
	version, err := packets(r)
	if err != nil {
		return err
	}
	var features string
	if len(version) > 0 {
		_, features, _ = strings.Cut(version[0], "\x00")
	}
	if len(version) == 0 || !strings.HasPrefix(version[0], "version=1") {
		return fmt.Errorf("git speaks another version of the protocol of proc-receive: %.60q", version)
	}
	hasOptions := slices.Contains(strings.Fields(features), "push-options")
	answer := "version=1\x00"
	if hasOptions {
		answer += "push-options"
	}
	if err := answerPackets(out, answer); err != nil {
		return err
	}
	lines, err := packets(r)
	if err != nil {
		return err
	}
	var options []string
	if hasOptions {
		if options, err = packets(r); err != nil {
			return err
		}
	}
	updates, err := ReadPush(strings.NewReader(strings.Join(lines, "\n")))
	if err != nil {
		return err
	}
	if len(updates) != 1 {
		return fmt.Errorf("proc-receive is asked about %d refs at once", len(updates))
	}
	u := updates[0]
	now, refused := land(u, options)
	switch {
	case refused != "":
		return answerPackets(out, "ng "+u.Ref+" "+message.Line(refused))
	case now.New != u.New || now.Old == "":
		// git would set the pusher's own record of the branch to a commit that they haven't.
		return answerPackets(out, "ok "+u.Ref)
	}
	return answerPackets(out, "ok "+u.Ref, "option refname "+now.Ref, "option old-oid "+now.Old, "option new-oid "+now.New)
}

// packets reads pkt-lines up to a flush.
func packets(r *bufio.Reader) ([]string, error) {
	var lines []string
	for {
		line, flush, err := ReadPacket(r)
		if err != nil || flush {
			return lines, err
		}
		if lines = append(lines, strings.TrimSuffix(line, "\n")); len(lines) > MaxUpdates {
			return nil, ErrNoPush
		}
	}
}

// answerPackets writes pkt-lines and a flush.
func answerPackets(w io.Writer, lines ...string) error {
	var b bytes.Buffer
	for _, line := range lines {
		Packet(&b, line)
	}
	b.WriteString("0000")
	_, err := w.Write(b.Bytes())
	return err
}

// MirrorRefs have git hand every push to a mirror to the hook proc-receive: nothing moves there that the
// remote hasn't taken.
const MirrorRefs = "refs"
