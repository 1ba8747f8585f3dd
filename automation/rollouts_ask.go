package automation

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/jibe-vnfm/jibe/automation/rollout"
	"github.com/jibe-vnfm/jibe/desired"
)

// What a person may ask of a rollout.
const (
	RolloutPause   = "pause"
	RolloutResume  = "resume"
	RolloutApprove = "approve"
	RolloutRetry   = "retry"
	RolloutAbort   = "abort"
)

// RolloutActions are all that a person may ask of a rollout.
func RolloutActions() []string {
	return []string{RolloutPause, RolloutResume, RolloutApprove, RolloutRetry, RolloutAbort}
}

var (
	// ErrNoRollout is returned for a name that no file of a rollout has.
	ErrNoRollout = errors.New("there is no such rollout")
	// ErrRolloutState is returned for what a rollout can't be asked as it stands.
	ErrRolloutState = errors.New("the rollout can't be asked for that now")
	// ErrRolloutMoved is returned where a commit wouldn't be the one that was agreed to.
	ErrRolloutMoved = errors.New("the rollout has moved on since: look at it again")
)

// RolloutAsk is what a person asks of a rollout.
type RolloutAsk struct {
	// Name is the rollout's, Action one of [RolloutActions].
	Name, Action string
	// Gate is what an approval is given to, as the person saw it.
	Gate string
	// Instance is the one to retry, by its id or directory; "" is all that have failed.
	Instance string
	// By is the person, Author the same as git writes people.
	By, Author string
	// Digest is that of the draft to which the person agreed; "" agrees to whatever it is now.
	Digest string
}

// RolloutDraft is the commit that a request makes.
type RolloutDraft struct {
	Subject, Author string
	Trailers        []desired.Trailer
	// Old and New are the rollout's file and its ledger, by path.
	Old, New map[string][]byte
	// Digest tells of two drafts whether a person who has agreed to one has agreed to the other.
	// What the ledger says of instances meanwhile isn't in it, but for what an approval names.
	Digest string
}

// Changes says whether the commit would change anything.
func (d *RolloutDraft) Changes() bool {
	for path, text := range d.New {
		if !bytes.Equal(d.Old[path], text) {
			return true
		}
	}
	return false
}

func noRollout(name string) error {
	return fmt.Errorf("%w: %s (see: jibe get rollouts)", ErrNoRollout, name)
}

// mostAsks is how often something is asked of a rollout that goes on meanwhile.
const mostAsks = 20

// Draft is the commit that [Rollouts.Ask] would make now. Nothing changes.
func (r *Rollouts) Draft(ctx context.Context, a RolloutAsk) (*RolloutDraft, error) {
	_, d, err := r.draft(ctx, a)
	return d, err
}

// Ask does with a rollout what a person asks for, with a commit of theirs. commit is "" where nothing
// had to be changed.
func (r *Rollouts) Ask(ctx context.Context, a RolloutAsk) (commit string, err error) {
	for range mostAsks {
		// The rollout's own commits come in between: what is asked is asked of what they leave.
		if commit, err = r.ask(ctx, a); !errors.Is(err, errMoved) {
			return commit, err
		}
	}
	return "", fmt.Errorf("%w: it goes on too fast: ask again", ErrRolloutState)
}

func (r *Rollouts) ask(ctx context.Context, a RolloutAsk) (commit string, err error) {
	files, d, err := r.draft(ctx, a)
	if err != nil {
		return "", err
	}
	if a.Digest != "" && a.Digest != d.Digest {
		return "", ErrRolloutMoved
	}
	out, err := r.Repo.WriteMany(ctx, desired.WriteMany{
		Files: files, Subject: d.Subject, By: d.Author, Trailers: d.Trailers,
		Change: func(now map[string][]byte, _ []desired.Revised) (map[string][]byte, error) {
			for _, file := range files {
				if !bytes.Equal(now[file], d.Old[file]) {
					return nil, errMoved
				}
			}
			return d.New, nil
		},
	})
	return out.Commit, err
}

// draft makes the commit, without writing it. files are the paths that it depends on.
func (r *Rollouts) draft(ctx context.Context, a RolloutAsk) (files []string, d *RolloutDraft, err error) {
	list, err := r.load(ctx)
	if err != nil {
		return nil, nil, err
	}
	at := slices.IndexFunc(list, func(x *loaded) bool { return nameOf(x.file) == a.Name })
	if at < 0 {
		return nil, nil, noRollout(a.Name)
	}
	x := list[at]
	switch {
	case x.r == nil:
		return nil, nil, fmt.Errorf("%w: its file can't be obeyed: %w", ErrRolloutState, x.problem)
	case !x.open():
		return nil, nil, fmt.Errorf("%w: rollout %s has ended (%s): begin another with a file of its own", ErrRolloutState, a.Name, x.l.Ended.As)
	}
	d = &RolloutDraft{Author: a.Author, Old: map[string][]byte{x.file: x.text}, New: map[string][]byte{},
		Trailers: []desired.Trailer{{Key: desired.TrailerRollout, Value: a.Name + " " + x.r.ID}, {Key: desired.TrailerRequestedBy, Value: a.By}}}
	files = []string{x.file}
	var l *desired.Ledger
	if x.l != nil {
		l = x.l.Clone()
		files = append(files, x.ledgerFile)
		d.Old[x.ledgerFile] = x.ledgerText
	}
	done, err := r.asked(ctx, x, l, a)
	if err != nil {
		return nil, nil, err
	}
	d.Subject, d.New[x.file] = done.verb+" rollout "+a.Name, done.text
	if l != nil {
		d.New[x.ledgerFile] = x.ledgerText
		if done.ledger != "" {
			d.New[x.ledgerFile] = l.Encode()
		}
	}
	d.Digest = digestOf(a.Action, a.By, a.Author, d.Subject, string(x.text), string(done.text), done.ledger)
	return files, d, nil
}

func digestOf(parts ...string) string {
	h := sha256.New()
	for _, p := range parts {
		h.Write([]byte(strconv.Itoa(len(p)) + ":" + p)) // so that no two lists are alike
	}
	return hex.EncodeToString(h.Sum(nil))
}

// answered is what becomes of a request.
type answered struct {
	verb string // the beginning of the commit's subject
	text []byte // of the rollout's file
	// ledger says what the request changes in the ledger, "" for nothing.
	ledger string
}

// asked changes the ledger, which is nil before the start.
func (r *Rollouts) asked(ctx context.Context, x *loaded, l *desired.Ledger, a RolloutAsk) (out answered, err error) {
	state := func(verb, to string) (answered, error) {
		text, _, err := desired.EditRollout(x.file, x.text, desired.KeyValue{Path: []string{"state"}, Value: to})
		return answered{verb: verb, text: text}, err
	}
	if x.r.State == desired.RolloutAborted && a.Action != RolloutAbort {
		return out, fmt.Errorf("%w: it was aborted: begin another with a file of its own", ErrRolloutState)
	}
	switch a.Action {
	case RolloutPause:
		return state("Pause", desired.RolloutPaused)
	case RolloutResume:
		out, err = state("Resume", desired.RolloutRunning)
		if l != nil && l.Halted == nil {
			// Whoever asks was shown what is decided, which is written down a moment later: that is resumed, and
			// not halted by it again. What can't be looked at isn't shown as halted either.
			if s, err := r.look(ctx, x, map[string]string{}); err == nil && s.decision.Ledger != nil && s.decision.Ledger.Halted != nil {
				*l = *s.decision.Ledger.Clone()
			}
		}
		if l != nil && l.Halted != nil {
			l.Halted, l.Forgiven = nil, l.Failures()
			out.ledger = fmt.Sprintf("forgive %d", l.Forgiven)
		}
		return out, err
	case RolloutAbort:
		return state("Abort", desired.RolloutAborted)
	case RolloutApprove:
		return r.approved(ctx, x, l, a)
	case RolloutRetry:
		return r.retried(ctx, x, l, a)
	}
	return out, fmt.Errorf("%w: %q", ErrRolloutState, a.Action)
}

// approved has the gate passed that the person has seen.
func (r *Rollouts) approved(ctx context.Context, x *loaded, l *desired.Ledger, a RolloutAsk) (answered, error) {
	if l == nil {
		return answered{}, fmt.Errorf("%w: it hasn't begun", ErrRolloutState)
	}
	s, err := r.look(ctx, x, map[string]string{})
	if err != nil {
		return answered{}, err
	}
	if d := s.decision; d.Phase != rollout.Approving {
		return answered{}, fmt.Errorf("%w: it is %s and waits for no approval", ErrRolloutState, d.Phase)
	} else if a.Gate != d.Gate {
		return answered{}, fmt.Errorf("%w: what was approved isn't how it stands now: look at it, and approve %s", ErrRolloutState, d.Gate)
	}
	l.Approved = &desired.Approval{Gate: a.Gate, By: a.By, At: r.Now()}
	return answered{verb: "Approve the next wave of", text: x.text, ledger: "approve " + a.Gate}, nil
}

// retried has attempts made anew that have failed.
func (r *Rollouts) retried(ctx context.Context, x *loaded, l *desired.Ledger, a RolloutAsk) (answered, error) {
	if l == nil {
		return answered{}, fmt.Errorf("%w: it hasn't begun", ErrRolloutState)
	}
	s, err := r.look(ctx, x, map[string]string{})
	if err != nil {
		return answered{}, err
	}
	var retry []string
	why := "nothing of it has failed"
	for _, f := range s.facts {
		if a.Instance != "" && f.Instance != a.Instance && f.Dir != a.Instance && f.Dir != "instances/"+a.Instance {
			continue
		}
		tried := s.decision.Ledger.Of(f.Instance, l.Target)
		switch {
		case tried == nil || !tried.Failed() && !(a.Instance != "" && tried.Outcome == desired.OutcomeSuperseded):
			if a.Instance != "" {
				why = f.Dir + " hasn't failed"
			}
		case f.Found.Occupies():
			why = f.Dir + ": its operation waits for a person: retry that (jibe retry, see jibe get operations), roll it back, or fail it"
		case f.Passed != "":
			why = f.Dir + ": " + f.Passed
		case f.Reached:
			why = f.Dir + " is at the target"
		case l.Of(f.Instance, l.Target) == nil || l.Of(f.Instance, l.Target).Outcome == "":
			why = f.Dir + ": its outcome isn't written down yet"
		default:
			l.Retry(f.Instance)
			retry = append(retry, f.Instance)
		}
	}
	if len(retry) == 0 {
		return answered{}, fmt.Errorf("%w: there is nothing to retry: %s", ErrRolloutState, why)
	}
	slices.Sort(retry)
	return answered{verb: fmt.Sprintf("Retry %s of", plural(len(retry))), text: x.text, ledger: "retry " + strings.Join(retry, " ")}, nil
}

func plural(n int) string {
	if n == 1 {
		return "1 instance"
	}
	return fmt.Sprintf("%d instances", n)
}
