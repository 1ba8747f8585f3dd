package automation

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/jibe-vnfm/jibe/automation/rollout"
	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/lcm"
	"github.com/jibe-vnfm/jibe/lcm/oplog"
)

// RolloutRepo is what rollouts need of the desired repository.
type RolloutRepo interface {
	Heads(after string) iter.Seq[desired.Head]
	Read(ctx context.Context, rev desired.Revision) (*desired.Instance, error)
	Files(ctx context.Context, rev desired.Revision) (desired.Files, error)
	// RolloutFiles are the files below rollouts/ with the hashes of their contents.
	RolloutFiles(ctx context.Context) (map[string]string, error)
	Content(ctx context.Context, hash string) ([]byte, error)
	WriteMany(ctx context.Context, w desired.WriteMany) (desired.Written, error)
	// ProposeMany makes the commit of a WriteMany on a branch of its own, which it makes anew on top of
	// head. It changes no files beside the instances'.
	ProposeMany(ctx context.Context, branch string, w desired.WriteMany) (desired.Written, error)
	Head() string
	// Versions are the hashes of the contents that a file had, the newest first, since then and no more than most.
	Versions(ctx context.Context, file string, since time.Time, most int) ([]string, error)
	// Reaches says whether the history that ends at tip has the commit.
	Reaches(ctx context.Context, tip, commit string) (bool, error)
	// RefusesPushes returns why the remote takes no commits now, nil if it does.
	RefusesPushes() error
	// Moved is closed when head moves.
	Moved() <-chan struct{}
}

// RolloutOperations is what rollouts need of the operation log.
type RolloutOperations interface {
	InstanceEntry(id string) (*oplog.InstanceEntry, bool)
	Operation(ctx context.Context, id string) (*lcm.Operation, error)
	OperationEntries(q oplog.OperationQuery) iter.Seq[oplog.OperationEntry]
}

// RolloutQueries ask Prometheus what gates want to know.
type RolloutQueries interface {
	// Unasked says why there is nobody to ask the query, "" where there is.
	Unasked(q desired.RolloutQuery) string
	// Ask returns why the query isn't met, "" where it is; its error is that nobody can tell.
	Ask(ctx context.Context, q desired.RolloutQuery, now time.Time) (why string, err error)
}

// RolloutConfig is what [Rollouts] work with. Everything in it but Pulls and Away is required.
type RolloutConfig struct {
	Repo  RolloutRepo
	Oplog RolloutOperations
	// Package is the tree and the product's name of the package with the vnfdId: the one that is
	// pinned where that has it, else the newest.
	Package func(ctx context.Context, vnfdID, pinned string) (tree, product string, err error)
	// Best is the newest package of the product that a constraint of semantic versions takes.
	Best func(product, versions string) (vnfdID, tree, version string, err error)
	// Prepare returns the edits by which Jibe completes a change, or why it would be refused.
	Prepare func(ctx context.Context, before, after *desired.Instance) ([]desired.KeyValue, error)
	// Refused says whether an error of Prepare stays as long as the instance is what it is.
	Refused func(err error) bool
	Queries RolloutQueries
	// Pulls keeps the pull requests of rollouts; nil is without a forge.
	Pulls RolloutPulls
	// Away is why the VIM with the name of a file under vims/ is away, "" where it is there or nobody has looked. Nothing
	// is begun there then. nil knows of none.
	Away func(vim string) string
	Now  func() time.Time
	Log  *slog.Logger
}

// Rollouts carry out what the files of rollouts ask for. What to do is decided by the package
// rollout alone, by git and the operation log: nothing is remembered here that a restart would
// miss, and two that run at once can't begin anything twice, as each commit is made only where
// file and ledger are what was decided on.
type Rollouts struct {
	RolloutConfig
	wake chan struct{}
	// files and ledgers are what was parsed, by hash.
	files   *lru.Cache[string, parsedRollout]
	ledgers *lru.Cache[string, *desired.Ledger]
	// whole is the digest of the last text of a ledger, by its file, of which it is known that it lacks no attempts. An
	// older text isn't whole: git revert brings back exactly such a one.
	whole  *lru.Cache[string, string]
	checks *checks
	pulls  pulls
	mu     sync.Mutex // one pass at a time

	problems rolloutProblems
}

type parsedRollout struct {
	text []byte
	r    *desired.Rollout
	err  error
}

// The pauses of the loop.
const (
	rolloutPause = 100 * time.Millisecond // between passes, so that what ends together is one commit
	rolloutRetry = 2 * time.Second        // after an error
	rolloutIdle  = time.Minute            // without any news
	// unknownAfter is how long after an attempt its operation must be known: records of other
	// replicas come a moment later than their commits.
	unknownAfter = time.Minute
)

// NewRollouts makes the runner, which does nothing until [Rollouts.Run].
func NewRollouts(c RolloutConfig) *Rollouts {
	r := &Rollouts{RolloutConfig: c, wake: make(chan struct{}, 1), checks: newChecks(c.Queries), pulls: pulls{said: map[string]rollout.Said{}}}
	var err, lerr, werr error
	r.files, err = lru.New[string, parsedRollout](256)
	r.ledgers, lerr = lru.New[string, *desired.Ledger](64)
	r.whole, werr = lru.New[string, string](256)
	if err != nil || lerr != nil || werr != nil {
		panic(errors.Join(err, lerr, werr)) // only for a size that isn't positive
	}
	return r
}

// OperationChanged notifies of an operation's new state. It returns at once.
func (r *Rollouts) OperationChanged(*lcm.Operation) { r.poke() }

func (r *Rollouts) poke() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// Run carries rollouts out until ctx ends.
func (r *Rollouts) Run(ctx context.Context) error {
	defer r.handOver()
	for ctx.Err() == nil {
		moved := r.Repo.Moved()
		next, err := r.pass(ctx)
		pause := rolloutIdle
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			r.Log.WarnContext(ctx, "rollouts couldn't be carried on, will be tried again", "error", err)
			pause = rolloutRetry
		case !next.IsZero():
			pause = min(pause, max(next.Sub(r.Now()), rolloutPause))
		}
		timer := time.NewTimer(pause)
		select {
		case <-ctx.Done():
		case <-moved:
		case <-r.wake:
		case <-timer.C:
		}
		timer.Stop()
		select {
		case <-ctx.Done():
		case <-time.After(rolloutPause):
		}
	}
	return nil
}

// loaded is a rollout as it stands at head.
type loaded struct {
	file, ledgerFile string
	text, ledgerText []byte
	r                *desired.Rollout // nil where the file can't be obeyed
	l                *desired.Ledger  // nil before the start
	problem          error
	// asks says that the forge may be asked: pages and metrics go by what it said last.
	asks bool
}

// load reads all rollouts: those that have begun first, the oldest first.
func (r *Rollouts) load(ctx context.Context) ([]*loaded, error) {
	files, err := r.Repo.RolloutFiles(ctx)
	if err != nil {
		return nil, err
	}
	var out []*loaded
	ids := map[string]string{} // id -> file
	for _, file := range slices.Sorted(maps.Keys(files)) {
		if !desired.IsRolloutFile(file) {
			continue
		}
		p, err := r.parse(ctx, file, files[file])
		if err != nil {
			return nil, err
		}
		x := &loaded{file: file, text: p.text, r: p.r, problem: p.err}
		out = append(out, x)
		if x.r == nil || x.r.ID == "" {
			continue
		}
		if other, twice := ids[x.r.ID]; twice {
			x.problem, x.r = &desired.Problem{File: file, Message: "it has the id of " + other, Remedy: "remove the id and to.package: Jibe fills them in"}, nil
			continue
		}
		ids[x.r.ID], x.ledgerFile = file, desired.LedgerFile(x.r.ID)
		if hash := files[x.ledgerFile]; hash != "" {
			if x.ledgerText, err = r.Repo.Content(ctx, hash); err != nil {
				return nil, err
			}
			if x.l, err = r.ledger(x.ledgerFile, hash, x.ledgerText); err != nil {
				x.problem, x.r = err, nil
			} else if problem := x.l.NewTarget(file, x.r); problem != nil {
				x.problem, x.r = problem, nil
			}
		}
	}
	slices.SortStableFunc(out, func(a, b *loaded) int { return cmp.Compare(a.began(), b.began()) })
	return out, nil
}

// began orders rollouts: what hasn't begun comes last.
func (x *loaded) began() int64 {
	if x.l == nil {
		return 1<<63 - 1
	}
	return x.l.Started.UnixNano()
}

func (r *Rollouts) parse(ctx context.Context, file, hash string) (parsedRollout, error) {
	key := file + " " + hash
	if p, known := r.files.Get(key); known {
		return p, nil
	}
	text, err := r.Repo.Content(ctx, hash)
	if err != nil {
		return parsedRollout{}, err
	}
	p := parsedRollout{text: text}
	p.r, p.err = desired.ParseRollout(file, text)
	r.files.Add(key, p)
	return p, nil
}

func (r *Rollouts) ledger(file, hash string, text []byte) (*desired.Ledger, error) {
	if l, known := r.ledgers.Get(hash); known {
		return l, nil
	}
	l, err := desired.ParseLedger(file, text)
	if err == nil {
		r.ledgers.Add(hash, l)
	}
	return l, err
}

// pass looks at all rollouts and does what comes next with each, once. next is when to look again
// although nothing has changed.
func (r *Rollouts) pass(ctx context.Context) (next time.Time, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	list, err := r.load(ctx)
	if err != nil {
		return next, err
	}
	r.leave(list)
	claims := map[string]string{}
	var errs []error
	for _, x := range list {
		if x.r == nil || !x.open() {
			continue
		}
		x.asks = true
		s, err := r.look(ctx, x, claims)
		if err != nil {
			errs = append(errs, fmt.Errorf("rollout %s: %w", x.r.Name, err))
			continue
		}
		if err := r.carryOut(ctx, s); err != nil && !errors.Is(err, errMoved) {
			errs = append(errs, fmt.Errorf("rollout %s: %w", x.r.Name, err))
		}
		if w := s.decision.Wake; !w.IsZero() && (next.IsZero() || w.Before(next)) {
			next = w
		}
	}
	return next, errors.Join(errs...)
}

// errMoved is returned by a change where something isn't any more what was decided on. The next pass
// sees it as it is.
var errMoved = errors.New("it was changed meanwhile")

// carryOut commits what was decided.
func (r *Rollouts) carryOut(ctx context.Context, s *seen) error {
	if s.l == nil || len(s.pins) > 0 {
		if s.r.State != desired.RolloutRunning || s.overlaps != "" {
			return nil
		}
		return r.start(ctx, s)
	}
	d := s.decision
	if len(d.Start)+len(d.Propose) > 0 {
		if restored, err := r.restore(ctx, s); restored || err != nil {
			return err
		}
	}
	switch {
	case len(d.Propose) > 0:
		return r.propose(ctx, s)
	case !d.Changed && len(d.Start)+len(d.Back) == 0:
		return nil
	}
	began, back, change := r.Now(), len(d.Back) > 0, r.changeOf
	if back {
		change = r.backOf
	}
	changes, refused, err := r.changes(ctx, s, append(slices.Clone(d.Start), d.Back...), change)
	if err != nil {
		return err
	}
	var trailers []desired.Trailer
	if back && s.r.Failures.RollbackAnytime && s.r.State == desired.RolloutRunning {
		trailers = []desired.Trailer{{Key: desired.TrailerOverride, Value: "rollout " + s.r.Name + " takes back what it did (rollbackAnytime)"}}
	}
	out, err := r.commit(ctx, s.loaded, subject(s.r, d, len(changes)), d.Ledger.Wave, trailers, changes, func(done []desired.Revised) ([]byte, *desired.Ledger, error) {
		started := map[string][2]string{}
		for _, c := range done {
			started[c.After.Instance] = [2]string{c.Before.Tree, c.After.Tree}
		}
		return s.text, rollout.Begin(d.Ledger, back, started, refused, began), nil
	})
	if err != nil {
		return err
	}
	r.dropped(ctx, s, out)
	r.Log.InfoContext(ctx, "rollout goes on", "rollout", s.r.Name, "phase", string(d.Phase), "wave", d.Ledger.Wave+1, "begun", len(out.Done), "revision", out.Commit)
	return nil
}

func subject(r *desired.Rollout, d rollout.Decision, begun int) string {
	switch {
	case begun > 0 && len(d.Back) > 0:
		return fmt.Sprintf("Take %d back from rollout %s", begun, r.Name)
	case begun > 0:
		return fmt.Sprintf("Roll %s out, wave %d: begin with %d", r.Name, d.Ledger.Wave+1, begun)
	case d.Phase == rollout.Halted:
		return fmt.Sprintf("Halt rollout %s: %s", r.Name, d.Ledger.Halted.Reason)
	case d.Ledger.Ended != nil:
		return fmt.Sprintf("End rollout %s: %s", r.Name, d.Ledger.Ended.As)
	}
	return fmt.Sprintf("Note how rollout %s goes: %s", r.Name, d.Phase)
}

// start pins the rollout's id and its package in the file, and begins its ledger.
func (r *Rollouts) start(ctx context.Context, s *seen) error {
	x := *s.loaded
	edits := []desired.KeyValue{}
	id := x.r.ID
	if id == "" {
		id = uuid.NewString()
		edits = append(edits, desired.KeyValue{Path: []string{"id"}, Value: id})
	}
	edits = append(edits, s.pins...)
	x.ledgerFile = desired.LedgerFile(id)
	_, err := r.commit(ctx, &x, "Start rollout "+x.r.Name+s.starts, 0, nil, nil, func([]desired.Revised) ([]byte, *desired.Ledger, error) {
		text, pinned, err := desired.EditRollout(x.file, x.text, edits...)
		if err != nil {
			return nil, nil, err
		}
		l := x.l
		if l == nil {
			l = &desired.Ledger{Rollout: x.r.Name, Started: r.Now(), Target: pinned.To.Digest()}
		}
		return text, l, nil
	})
	return err
}

// commit writes the rollout's file and its ledger, which must be what was read, with the changes of
// instances.
func (r *Rollouts) commit(ctx context.Context, x *loaded, subject string, wave int, more []desired.Trailer, changes []desired.InstanceChange,
	make func(done []desired.Revised) (file []byte, l *desired.Ledger, err error),
) (desired.Written, error) {
	var text []byte
	out, err := r.Repo.WriteMany(ctx, desired.WriteMany{
		Instances: changes, Files: []string{x.file, x.ledgerFile}, Subject: subject, Trailers: append(trailersOf(x, wave), more...),
		Change: func(now map[string][]byte, done []desired.Revised) (map[string][]byte, error) {
			if !bytes.Equal(now[x.file], x.text) || !bytes.Equal(now[x.ledgerFile], x.ledgerText) {
				return nil, errMoved
			}
			file, l, err := make(done)
			if err != nil {
				return nil, err
			}
			text = l.Encode()
			return map[string][]byte{x.file: file, x.ledgerFile: text}, nil
		},
	})
	if err != nil {
		return out, fmt.Errorf("commit: %w", err)
	}
	if x.ledgerText != nil { // else there may have been one that was reverted
		r.whole.Add(x.ledgerFile, digestOf(x.ledgerFile, string(text)))
	}
	return out, nil
}

// trailersOf are the trailers of what a rollout commits.
func trailersOf(x *loaded, wave int) []desired.Trailer {
	id := strings.TrimSuffix(strings.TrimPrefix(x.ledgerFile, desired.RolloutStateDir+"/"), ".yaml")
	return []desired.Trailer{{Key: desired.TrailerRollout, Value: x.r.Name + " " + id}, {Key: desired.TrailerWave, Value: strconv.Itoa(wave + 1)},
		{Key: desired.TrailerRequestedBy, Value: "rollout/" + x.r.Name}}
}
