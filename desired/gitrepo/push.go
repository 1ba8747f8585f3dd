package gitrepo

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/desired/gitrepo/objects"
	"github.com/jibe-vnfm/jibe/internal/git"
)

// pushOutcome is what is known of a push when git has ended.
type pushOutcome int

const (
	pushTaken     pushOutcome = iota
	pushLost                  // git saw that the branch has moved, and sent nothing
	pushUnsent                // the remote got nothing that could move the branch
	pushRefused               // the remote has answered that it didn't take it
	pushOvertaken             // so it has, as somebody else was moving the branch at that moment
	pushUnknown               // the remote may have taken it, or may still take it
)

// push moves the remote's branch from one commit to another, or not at all. git.ErrRefMoved
// means that the mirror has followed the remote and the batch must be built anew, and a
// [*doubtError] that nobody knows yet: the caller settles it.
func (r *Repo) push(ctx context.Context, to, from string, with rest, k permit) error {
	outcome, perr := r.send(ctx, to, from, with)
	k.end(outcome != pushLost) // to the remote that was a fetch
	if outcome != pushOvertaken {
		r.overtaken = time.Time{}
	}
	if outcome == pushUnknown {
		return r.sent.open(to, from, perr)
	}
	var err error
	if outcome != pushTaken {
		err = r.refused(ctx, to, from, with, outcome, perr)
	}
	if _, ok := errors.AsType[*doubtError](err); !ok {
		r.sent.forget()
	}
	if err != nil {
		return err
	}
	r.setHealth(healthRemote, nil)
	r.setHealth(healthPush, nil)
	r.acceptOwn(ctx, to, from)
	return nil
}

// refused says what a push that was refused comes to. nil means that the remote has the commit
// nevertheless: where a connection breaks, HTTP clients repeat a request by themselves, and of two
// that arrive the second is refused. As others may push again at any moment, the remote is asked
// once, and what it has is obeyed at once.
func (r *Repo) refused(ctx context.Context, to, from string, with rest, outcome pushOutcome, perr error) error {
	sent := outcome != pushUnsent && outcome != pushLost
	now, err := r.fetchBranch(ctx, fetchedRef, r.opt.remoteTimeout)
	switch {
	case err != nil && sent:
		// Where what came is more than fits into the time, it is settled without a lock.
		return r.sent.open(to, from, perr)
	case err != nil:
		r.setHealth(healthRemote, err)
		return fmt.Errorf("%w: push: %w", desired.ErrUnavailable, perr)
	case now == to:
		return nil
	case now == from && outcome == pushRefused && !with.none():
		r.restApart(perr)
		return fmt.Errorf("%w: the commits are pushed again, alone", git.ErrRefMoved)
	case now == from && outcome == pushOvertaken && r.stillMoving():
		return fmt.Errorf("%w: the remote's, by somebody else who pushes: %w", git.ErrRefLocked, perr)
	case now == from && outcome == pushOvertaken:
		return fmt.Errorf("%w: push: the remote has let nobody move %s for %v: look there whether a crash has left a lock (%s.lock), and remove it: %w",
			desired.ErrUnavailable, r.read.Ref(), git.StaleLock, r.read.Ref(), perr)
	case now == from:
		if e, limited := errors.AsType[*limitedError](perr); limited && e.after <= MaxPushInterval {
			r.log.Warn("the remote limits pushes, the commits are pushed when it takes more", "after", e.after)
			return fmt.Errorf("%w: the remote takes no more pushes for %s", git.ErrRefMoved, e.after)
		}
		if outcome == pushRefused {
			r.setHealth(healthPush, fmt.Errorf("the remote refuses Jibe's commits: %w", perr))
		}
		return fmt.Errorf("%w: push: %w", desired.ErrUnavailable, perr)
	}
	if now != "" && sent {
		if ours, err := r.read.IsAncestor(ctx, to, now); err != nil || ours {
			return err // someone has pushed on top of it already
		}
	}
	err = r.takeFetched(ctx, now)
	if ctx.Err() == nil {
		r.setHealth(healthRemote, err)
	}
	if err != nil {
		return err
	}
	return fmt.Errorf("%w: the remote's is at %s", git.ErrRefMoved, now)
}

// stillMoving says whether somebody else may be moving the remote's branch still. What has lasted longer is a
// lock that a crash has left there. The caller has move.
func (r *Repo) stillMoving() bool {
	if r.overtaken.IsZero() {
		r.overtaken = time.Now()
	}
	return time.Since(r.overtaken) < git.StaleLock
}

// send pushes once, after a record of it that outlives the process, and takes other refs along.
// What becomes of those is of no account for the outcome.
func (r *Repo) send(ctx context.Context, to, from string, with rest) (pushOutcome, error) {
	if err := r.sent.keep(to, from); err != nil {
		return pushUnsent, err
	}
	args := []string{"push", "--quiet", "--porcelain", "--no-verify", "--force-with-lease=" + r.read.Ref() + ":" + from}
	for _, o := range r.opt.PushOptions {
		args = append(args, "--push-option="+o)
	}
	trace := filepath.Join(objects.OwnDir(r.opt.Dir), git.TmpPrefix+"push")
	defer os.Remove(trace)
	_ = os.Remove(trace)
	runner := r.read.Git
	runner.Env = append(runner.Env[:len(runner.Env):len(runner.Env)], "GIT_TRACE2_EVENT="+trace)
	answers := filepath.Join(objects.OwnDir(r.opt.Dir), git.TmpPrefix+"answers")
	if byHTTP(r.opt.Remote) {
		defer os.Remove(answers)
		_ = os.Remove(answers)
		runner.Env = append(runner.Env, traced(answers)...)
	}
	within, cancel := context.WithTimeout(ctx, r.opt.remoteTimeout)
	defer cancel()
	began := time.Now()
	out, err := runner.Run(within, append(append(args, "--", r.opt.Remote, to+":"+r.read.Ref()), with.specs...)...)
	outcome := pushTaken
	if err != nil {
		outcome = failedPush(out, r.read.Ref(), trace)
		if after := told(answers); after > 0 && outcome != pushTaken {
			r.pace.rest(after)
			err = &limitedError{after, err}
		}
	}
	if outcome == pushTaken {
		r.restPushed(with, out, err)
		err = nil
	}
	r.observed("push", began, err)
	return outcome, err
}

// failedPush says what is known of a push that failed, for one ref at least. git says why for
// people alone, but two things are sure: what is reported of the ref, and that nothing can move
// before git has begun the pack.
func failedPush(out, ref, trace string) pushOutcome {
	for name, r := range refReports(out) {
		switch {
		case name != ref:
		case r.taken():
			return pushTaken
		case r.byGit():
			return pushLost
		case r.overtaken():
			return pushOvertaken
		case r.byRemote():
			return pushRefused
		}
	}
	if text, err := os.ReadFile(trace); err == nil && len(text) > 0 && !bytes.Contains(text, []byte(`"pack-objects"`)) {
		return pushUnsent
	}
	return pushUnknown
}

// refReport is what git push --porcelain says of one ref.
type refReport struct{ flag, said string }

func (r refReport) taken() bool {
	switch r.flag {
	case " ", "+", "*", "=":
		return true
	}
	return false
}

// byGit says that git itself has rejected the ref, byRemote that the remote has.
func (r refReport) byGit() bool { return r.flag == "!" && strings.HasPrefix(r.said, "[rejected]") }
func (r refReport) byRemote() bool {
	return r.flag == "!" && strings.HasPrefix(r.said, "[remote rejected]")
}

// overtaken says that the remote has rejected the ref as somebody else was moving it at that moment: a
// replica that pushes the same pin, mostly.
func (r refReport) overtaken() bool {
	return r.byRemote() && slices.ContainsFunc([]string{"already exists", "failed to update ref", "cannot lock ref", "incorrect old value"}, func(why string) bool { return strings.Contains(r.said, why) })
}

// reportOf is the report of one ref; its zero value is that of one that isn't reported.
func reportOf(out, ref string) refReport {
	for name, is := range refReports(out) {
		if name == ref {
			return is
		}
	}
	return refReport{}
}

// refReports are the reports by the refs of the remote.
func refReports(out string) iter.Seq2[string, refReport] {
	return func(yield func(string, refReport) bool) {
		for line := range strings.Lines(out) {
			flag, rest, _ := strings.Cut(strings.TrimRight(line, "\r\n"), "\t")
			refs, said, ok := strings.Cut(rest, "\t")
			if _, to, names := strings.Cut(refs, ":"); ok && names && !yield(to, refReport{flag, said}) {
				return
			}
		}
	}
}
