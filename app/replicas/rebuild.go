package replicas

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jibe-vnfm/jibe/app/answer"
	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/desired/gitrepo"
	"github.com/jibe-vnfm/jibe/lcm"
	"github.com/jibe-vnfm/jibe/lcm/oplog"
	"github.com/jibe-vnfm/jibe/members"
	"github.com/jibe-vnfm/jibe/reconciler"
	"github.com/jibe-vnfm/jibe/store"
	"github.com/jibe-vnfm/jibe/store/bolt"
	"github.com/jibe-vnfm/jibe/vnfd"
)

const (
	// rebuiltKey is the record that says in which epoch the store was last held against git. Where it is
	// gone, or the epoch is another one, records may have been lost since.
	rebuiltKey = "rebuilt"
	// rebuildPause is how often it is looked whether the store is whole, and the pause after an error.
	rebuildPause = 250 * time.Millisecond
	// rebuildPatience is how long a start waits for it before requests are served.
	rebuildPatience = 30 * time.Second
)

// Rebuilder puts back what the store has lost and git says. Until that is done, no instance is looked
// at: whatever runs would look new. One member does it, the others wait.
type Rebuilder struct {
	store  store.Store
	repo   Evident
	shared bool
	oplog  *oplog.Log
	member *members.Member
	log    *slog.Logger
	open   func(ctx context.Context, tree string) (*vnfd.Package, error)
	// agree has the store say again what replicas have in common.
	agree func(ctx context.Context) error

	// whole is when the store was found to be whole last.
	whole atomic.Pointer[moment]
	wake  chan struct{}
}

// moment is for how long what was found of the store holds: an emptied store ends the session, one that went
// back may have it still, and then has another epoch.
type moment struct {
	session *members.Session
	epoch   uint64
}

// now is the present moment, without asking the store. Whoever has a connection to a store that went back
// has been told its epoch.
func (r *Rebuilder) now() moment {
	m := moment{session: r.member.Session()}
	if k, ok := r.store.(interface{ Known() store.Mark }); ok {
		m.epoch = k.Known().Epoch
	}
	return m
}

// Evident is the desired repository, as evidence of what the store had.
type Evident interface {
	Evidence(ctx context.Context, proposals string) (*gitrepo.Evidence, error)
	Lookup(instance string) (desired.Revision, bool)
	Read(ctx context.Context, rev desired.Revision) (*desired.Instance, error)
	Attest(commit, line string, facts []byte)
	ShareNotes(ctx context.Context)
}

// Rebuilder makes it, and waits a while until the store is whole. open reads packages.
func (s *Replica) Rebuilder(ctx context.Context, repo Evident, log *oplog.Log, open func(ctx context.Context, tree string) (*vnfd.Package, error)) *Rebuilder {
	r := &Rebuilder{store: s.Records, repo: repo, shared: s.Shared(), oplog: log, member: s.member, log: s.Log, open: open, agree: s.Agree, wake: make(chan struct{}, 1)}
	r.oplog.OnLost(r.look)
	within, cancel := context.WithTimeout(ctx, rebuildPatience)
	defer cancel()
	r.ensure(within)
	return r
}

// Whole says whether the store is known to be whole now.
func (r *Rebuilder) Whole() bool {
	now := r.now()
	if was := r.whole.Load(); was != nil && *was == now && now.session != nil {
		return true
	}
	r.look()
	return false
}

// requestPatience is how long a request that changes something waits until the store is whole.
const requestPatience = 2 * time.Second

// Guard has requests wait that would change something while the store may lack records: to it an
// instance on which an operation is under way seems to be idle, and one that exists to be new.
func (r *Rebuilder) Guard(next http.Handler) http.Handler {
	if !r.shared {
		return next // it was made whole before it serves
	}
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if req.Method != http.MethodGet && req.Method != http.MethodHead {
			ctx, cancel := context.WithTimeout(req.Context(), requestPatience)
			defer cancel()
			for !r.Whole() {
				if wait(ctx, rebuildPause/10); ctx.Err() != nil {
					answer.Problem(w, http.StatusServiceUnavailable, "nothing was begun: the store can't be reached, or has lost records that are being put back from git; try again in a moment")
					return
				}
			}
		}
		next.ServeHTTP(w, req)
	})
}

func (r *Rebuilder) look() {
	select {
	case r.wake <- struct{}{}:
	default: // somebody is about to look
	}
}

// Run keeps the store whole until ctx ends. again has all instances looked at.
func (r *Rebuilder) Run(ctx context.Context, again func()) error {
	for {
		if !r.Whole() {
			// Whoever rebuilds may be another replica. That goes on beside: the push may have to wait for its interval.
			var g sync.WaitGroup
			g.Go(func() { r.repo.ShareNotes(ctx) })
			if r.ensure(ctx) {
				again()
			}
			g.Wait()
		}
		select {
		case <-ctx.Done():
			return nil
		case <-r.wake:
		}
	}
}

// ensure returns true when the store is whole, or false when ctx has ended.
func (r *Rebuilder) ensure(ctx context.Context) bool {
	told := false
	for ; ; wait(ctx, rebuildPause) {
		now := r.now()
		whole, err := r.isWhole(ctx)
		if whole && now.session != nil {
			r.whole.Store(&now)
			return true
		}
		if err == nil && now.session != nil {
			err = r.once(ctx)
		}
		if ctx.Err() != nil {
			return false
		}
		if err != nil && !told {
			told = true
			r.log.WarnContext(ctx, "the store's records can't be held against git now, and no instance is looked at before they are; it is tried again", "error", err)
		}
	}
}

func wait(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// once does the work, or returns after a moment where another member is at it or no lease is given yet: a
// store that lost records gives none for some seconds.
func (r *Rebuilder) once(ctx context.Context) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	free := time.AfterFunc(rebuildPause, stop)
	return r.member.Only(ctx, "rebuild", func(ctx context.Context) error {
		if !free.Stop() {
			return nil // it was given up a moment ago
		}
		return r.work(ctx)
	})
}

// epoch is that of the store. A file doesn't go back by itself, and counts its openings.
func (r *Rebuilder) epoch(ctx context.Context) (string, error) {
	if _, file := r.store.(*bolt.Store); file {
		return "file", nil
	}
	now, err := r.store.Mark(ctx)
	return strconv.FormatUint(now.Epoch, 10), err
}

func (r *Rebuilder) isWhole(ctx context.Context) (bool, error) {
	epoch, _, said, err := r.marked(ctx)
	return err == nil && epoch == said, err
}

// marked returns the store's epoch, and the record of the one in which it was last whole.
func (r *Rebuilder) marked(ctx context.Context) (epoch string, version uint64, said string, err error) {
	rec, err := r.store.Get(ctx, rebuiltKey)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return "", 0, "", err
	}
	epoch, err = r.epoch(ctx)
	return epoch, rec.Version, string(rec.Value), err
}

// sums are what was put back.
type sums struct{ instances, operations, open int }

// work puts back what the store lacks. ctx is under the lease of the job.
func (r *Rebuilder) work(ctx context.Context) error {
	epoch, version, said, err := r.marked(ctx)
	if err != nil || epoch == said {
		return err
	}
	if err := r.agree(ctx); err != nil {
		return err
	}
	evidence, err := r.repo.Evidence(ctx, lcm.ProposalBranches)
	if err != nil {
		return err
	}
	told := tell(evidence)
	var n sums
	for _, c := range evidence.Commits {
		if _, operated := told[c.After.Instance]; c.Trailers[desired.TrailerType] == desired.TypeCreate && !operated {
			if err := r.created(ctx, c.After, &n); err != nil {
				return err
			}
		}
	}
	for _, id := range slices.Sorted(maps.Keys(told)) {
		if err := r.instance(ctx, id, told[id], said == "", &n); err != nil {
			return err
		}
	}
	if said == "" {
		r.vouch(ctx, told)
	}
	switch {
	case n == (sums{}) && said != "":
		r.log.InfoContext(ctx, "the store can't tell whether it lost records; held against git, it lacks no operation")
	case n != (sums{}):
		r.log.WarnContext(ctx, "the store has lost records: what git says was put back; subscriptions, events that weren't delivered and the stories of operations are gone",
			"instances", n.instances, "operations", n.operations, "open", n.open)
	}
	_, err = r.store.Put(ctx, store.Record{Key: rebuiltKey, Version: version, Value: []byte(epoch)})
	return err
}

// tell sorts what git says by instance and operation.
func tell(e *gitrepo.Evidence) map[string][]lcm.Told {
	of := map[[2]string]*lcm.Told{}
	told := func(instance, id string) *lcm.Told {
		key := [2]string{instance, id}
		if of[key] == nil {
			of[key] = &lcm.Told{ID: id, Instance: instance}
		}
		return of[key]
	}
	for _, c := range e.Commits {
		if c.Trailers[desired.TrailerOperation] == "" {
			continue // it created the instance
		}
		t := told(c.After.Instance, c.Trailers[desired.TrailerOperation])
		outcome, settles := c.Trailers[desired.TrailerOutcome]
		_, granted := c.Trailers[desired.TrailerGrant]
		t.Proposed = t.Proposed || c.Proposed
		switch {
		case settles:
			t.Outcome, t.Settled, t.SettledFrom = lcm.State(outcome), c.After, c.Before.Tree
		case granted:
			t.Granted = c.After
		case t.Begun == nil:
			t.Place = c.Place
			t.Begun = &lcm.Begun{At: c.At, Type: lcm.Type(c.Trailers[desired.TrailerType]), By: c.Trailers[desired.TrailerRequestedBy],
				Params: json.RawMessage(c.Trailers[desired.TrailerParams]), PinnedVIM: c.Trailers[desired.TrailerPinned], Before: c.Before, After: c.After,
				Beside: desired.ParseBeside(c.After, c.Trailers[desired.TrailerBeside])}
			if len(t.Begun.Params) == 0 {
				t.Begun.Params = nil
			}
		}
	}
	for _, n := range e.Notes {
		var f lcm.Facts
		if json.Unmarshal(n.Facts, &f) == nil && f.ID != "" && f.Instance != "" {
			t := told(f.Instance, f.ID)
			t.Facts = append(t.Facts, f)
			if t.Begun == nil && n.Place > 0 && (t.Place == 0 || n.Place < t.Place) {
				t.Place = n.Place
			}
		}
	}
	out := map[string][]lcm.Told{}
	for key, t := range of {
		if t.Begun != nil || len(t.Facts) > 0 { // an outcome alone is of a history that was cut
			out[key[0]] = append(out[key[0]], *t)
		}
	}
	return out
}

// instance puts back what the store lacks of one instance.
func (r *Rebuilder) instance(ctx context.Context, id string, told []lcm.Told, emptied bool, n *sums) error {
	inst, ops := lcm.Rebuild(id, told)
	for _, op := range ops {
		r.name(ctx, op)
	}
	inst.VNF = ops[len(ops)-1].VNF
	_, exists := r.repo.Lookup(id)
	forgotten := !exists && inst.Open == "" && inst.OutstandingCommit == "" && !r.ran(ctx, inst.Operated)
	done, err := r.oplog.Rebuild(ctx, inst, ops, forgotten, emptied)
	if err != nil {
		return err
	}
	if done.Instance {
		n.instances++
	}
	n.operations, n.open = n.operations+done.Operations, n.open+done.Open
	return nil
}

// created puts back the record of an instance that a request has created, and that wasn't operated on
// since: that it exists has been told.
func (r *Rebuilder) created(ctx context.Context, at desired.Revision, n *sums) error {
	if _, exists := r.repo.Lookup(at.Instance); !exists {
		return nil
	}
	inst := &lcm.Instance{ID: at.Instance, Operated: at, Settled: at}
	if in, err := r.repo.Read(ctx, at); err == nil {
		inst.VNF = r.vnf(ctx, in)
	}
	done, err := r.oplog.Rebuild(ctx, inst, nil, false, false)
	if err == nil && done.Instance {
		n.instances++
	}
	return err
}

// vnf is what notifications say of the VNF, as far as its package can be read.
func (r *Rebuilder) vnf(ctx context.Context, in *desired.Instance) lcm.VNF {
	pkg, err := r.open(ctx, in.Package)
	if err != nil {
		pkg = nil
	}
	return reconciler.VNFOf(in, pkg)
}

// ran says whether the VNF was to run at the revision.
func (r *Rebuilder) ran(ctx context.Context, at desired.Revision) bool {
	if at.Tree == "" {
		return false
	}
	in, err := r.repo.Read(ctx, at)
	if err != nil {
		r.log.WarnContext(ctx, "whether a VNF ran that git hasn't any more isn't known; it isn't ended", "instance", at.Instance, "revision", at.Commit, "error", err)
		return false
	}
	return desired.IsInstantiated(in.State)
}

// name fills in what notifications say of the VNF, best effort.
func (r *Rebuilder) name(ctx context.Context, op *lcm.Operation) {
	at := op.After
	if at.Tree == "" {
		at = op.Before
	}
	if op.VNF != (lcm.VNF{}) || at.Tree == "" {
		return
	}
	in, err := r.repo.Read(ctx, at)
	if err != nil {
		return
	}
	op.VNF = r.vnf(ctx, in)
}

// vouch has git keep how the last operations ended that a former version of Jibe has carried out: it
// wrote nothing that could be believed.
func (r *Rebuilder) vouch(ctx context.Context, told map[string][]lcm.Told) {
	for e := range r.oplog.InstanceEntries("") {
		if e.Last == "" || slices.ContainsFunc(told[e.ID], func(t lcm.Told) bool { return t.ID == e.Last && len(t.Facts) > 0 }) {
			continue
		}
		op, err := r.oplog.Operation(ctx, e.Last)
		if err != nil {
			continue // it was pruned
		}
		if line, facts, ok := op.Attest(true); ok {
			r.repo.Attest(op.After.Commit, line, facts)
		}
	}
}
