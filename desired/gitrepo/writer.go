package gitrepo

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/desired/gitrepo/message"
	"github.com/jibe-vnfm/jibe/desired/gitrepo/objects"
	"github.com/jibe-vnfm/jibe/internal/git"
)

// The states of a waiting write.
const (
	waiting int32 = iota
	taken         // its batch has begun: its outcome is awaited whatever the caller's context says
	abandoned
)

type pending struct {
	write  desired.Write
	alone  func()             // instead of a write: what is done while nothing is written
	many   *desired.WriteMany // instead of write
	wrote  desired.Written    // of many
	since  time.Time
	state  atomic.Int32
	rev    desired.Revision
	err    error
	done   chan struct{}
	commit string // "" where the write made none
}

// writer is the queue before the one goroutine that writes.
type writer struct {
	mu     sync.Mutex
	queue  []*pending
	closed bool
	wake   chan struct{} // something is queued, or the queue closed
}

func (q *writer) init() { q.wake = make(chan struct{}, 1) }

func (q *writer) signal() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

func (q *writer) put(p *pending) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return objects.ErrClosed
	}
	q.queue = append(q.queue, p)
	q.signal()
	return nil
}

// take returns the writes that wait, in order, but those whose callers have gone.
func (q *writer) take(most int) []*pending {
	q.mu.Lock()
	defer q.mu.Unlock()
	var out []*pending
	n := 0
	for ; n < len(q.queue) && len(out) < most && q.queue[n].alone == nil; n++ {
		if p := q.queue[n]; p.state.CompareAndSwap(waiting, taken) {
			out = append(out, p)
		}
	}
	q.queue = slices.Delete(q.queue, 0, n)
	return out
}

// takeAlone returns what is to be done alone, where that is the next in order.
func (q *writer) takeAlone() *pending {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.queue) == 0 || q.queue[0].alone == nil {
		return nil
	}
	p := q.queue[0]
	q.queue = slices.Delete(q.queue, 0, 1)
	if !p.state.CompareAndSwap(waiting, taken) {
		return nil
	}
	return p
}

// waits says whether a write waits whose caller hasn't gone.
func (q *writer) waits() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.queue = slices.DeleteFunc(q.queue, func(p *pending) bool { return p.state.Load() == abandoned })
	return len(q.queue) > 0
}

func (q *writer) close() {
	q.mu.Lock()
	q.closed = true
	q.mu.Unlock()
	q.signal()
}

func (q *writer) isClosed() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.closed
}

// Write makes one commit on one instance's directory and returns when it is
// durable: synced and on the branch, and with a remote, on the remote's. Writes
// that wait at the same time share one pack and one ref update. A context that
// ends before the write's turn withdraws it; later it has no effect, so that the
// caller learns what happened. Change runs on the writer's goroutine and mustn't
// call Write.
func (r *Repo) Write(ctx context.Context, w desired.Write) (desired.Revision, error) {
	if w.Instance == "" || w.Change == nil || message.Line(w.Subject) == "" {
		return desired.Revision{}, fmt.Errorf("write instance %q: the instance, a change and a subject are needed", w.Instance)
	}
	if err := ctx.Err(); err != nil {
		return desired.Revision{}, err
	}
	p := &pending{write: w, since: time.Now(), done: make(chan struct{})}
	if err := r.await(ctx, p); err != nil {
		return desired.Revision{}, err
	}
	return p.rev, p.err
}

// await queues what the writer's goroutine is to do, and returns when it is done. An error says
// that it wasn't.
func (r *Repo) await(ctx context.Context, p *pending) error {
	if err := r.writer.put(p); err != nil {
		return err
	}
	select {
	case <-p.done:
	case <-ctx.Done():
		if p.state.CompareAndSwap(waiting, abandoned) {
			return ctx.Err()
		}
		<-p.done
	}
	return nil
}

// writeAlone runs do on the writer's goroutine: meanwhile no write moves the branch, and those that
// come wait. do mustn't write.
func (r *Repo) writeAlone(ctx context.Context, do func() error) error {
	var err error
	p := &pending{since: time.Now(), done: make(chan struct{}), alone: func() { err = do() }}
	return errors.Join(r.await(ctx, p), err)
}

// noteDelay is how long a note waits for a batch to travel with.
const noteDelay = 200 * time.Millisecond

func (r *Repo) writeLoop() {
	reuse := git.Folders{}
	timer := time.NewTimer(noteDelay)
	defer timer.Stop()
	for {
		// A batch that has begun ends even when the repository closes.
		ctx := context.WithoutCancel(r.ctx)
		if p := r.writer.takeAlone(); p != nil {
			p.alone()
			close(p.done)
			continue
		}
		if r.writer.waits() {
			t, err := r.takeTurn()
			if ps := r.writer.take(r.opt.MaxBatch); len(ps) > 0 {
				if err == nil {
					ps, reuse = r.commitAll(ctx, ps, reuse, t)
				}
				for _, p := range ps {
					if err != nil {
						p.err = err
					} else {
						r.held(later(t.asked, p.since), t.began)
					}
					close(p.done)
				}
				if slices.ContainsFunc(ps, func(p *pending) bool { return errors.Is(p.err, desired.ErrUnavailable) }) {
					// Writes may wait for as long as the remote is away, and no notes travel with them: those are
					// to outlive this process.
					r.flushNotes(ctx, false)
				}
				r.maintain()
			}
			t.end()
			continue
		}
		if r.writer.isClosed() {
			r.flushNotes(ctx, true)
			return
		}
		timer.Reset(noteDelay)
		select {
		case <-r.writer.wake:
		case <-timer.C:
			if r.notes.waiting() {
				r.flushNotes(ctx, false)
			} else {
				select { // nothing to do: sleep without a timer
				case <-r.writer.wake:
				case <-r.notes.added():
				}
			}
		}
	}
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// pushAgain waits until a batch that has begun anew may be pushed.
func (r *Repo) pushAgain(ctx context.Context, ps []*pending) (permit, error) {
	r.settleLeft(ctx)
	k, err := r.nextPush(r.ctx, ps...)
	if err != nil {
		return permit{}, objects.ErrClosed
	}
	return k, nil
}

// maxTurns bounds how often one batch starts anew because the branch moved.
const maxTurns = 200

// commitAll answers every write of a batch in its rev and err. It returns them, with those that
// have come while it began anew, and the folders that the next batch may start from.
func (r *Repo) commitAll(ctx context.Context, ps []*pending, reuse git.Folders, t turn) ([]*pending, git.Folders) {
	fail := func(err error) ([]*pending, git.Folders) {
		for _, p := range ps {
			if p.err == nil {
				p.rev, p.wrote, p.err = desired.Revision{}, desired.Written{}, err
			}
		}
		return ps, git.Folders{}
	}
	for n := range maxTurns {
		if n > 0 {
			var err error
			if t.permit, err = r.pushAgain(ctx, ps); err != nil {
				return fail(err)
			}
			ps = append(ps, r.writer.take(r.opt.MaxBatch-len(ps))...)
		}
		began := time.Now()
		b, err := r.tryBatch(ctx, ps, reuse, r.restOfRound(ctx, n), t.permit)
		t.permit.end(false) // it was made use of, unless nothing was pushed
		if d, ok := errors.AsType[*doubtError](err); ok {
			if err = r.settle(ctx, d, t); err == nil {
				return ps, git.Folders{}
			}
		}
		r.observed("commit", began, err)
		switch {
		case err == nil:
			return ps, b.Folders()
		case errors.Is(err, git.ErrRefMoved):
			// Somebody else was faster. Whatever is waited for now, they may be again.
			reuse = git.Folders{}
		case errors.Is(err, git.ErrRefLocked):
			reuse = git.Folders{}
			if err := r.breakLocks(); err != nil {
				return fail(fmt.Errorf("%w: %w", desired.ErrUnavailable, err))
			}
			// Someone else writes: give way, a little longer each time.
			_ = wait(ctx, turnDelay(n))
		case errors.Is(err, desired.ErrUnavailable):
			return fail(err)
		default:
			return fail(fmt.Errorf("%w: %w", desired.ErrUnavailable, err))
		}
	}
	return fail(fmt.Errorf("%w: branch %s moved %d times while the write was tried", desired.ErrUnavailable, r.opt.Branch, maxTurns))
}

func turnDelay(n int) time.Duration { return time.Duration(min(n, 50)) * time.Millisecond }

func wait(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// tryBatch builds the batch on the branch as it stands, makes its objects
// durable, and moves the ref. Each Change runs on every turn.
func (r *Repo) tryBatch(ctx context.Context, ps []*pending, reuse git.Folders, with rest, k permit) (b *batch, err error) {
	r.move.Lock()
	defer r.move.Unlock()
	if err := r.refreshLocked(ctx); err != nil {
		return nil, err
	}
	if err := r.writable(); err != nil {
		return nil, err
	}
	b = r.newBatch(ctx, reuse)
	base := b.parent
	b.prefetch(ps)
	for _, p := range ps {
		before := b.commits
		if p.many != nil {
			p.wrote, p.err = b.applyMany(p.many)
		} else {
			p.rev, p.err = b.apply(p.write)
		}
		if errors.Is(p.err, desired.ErrUnavailable) {
			return nil, p.err
		}
		if p.commit = ""; b.commits > before {
			p.commit = b.parent
		}
	}
	if b.commits == 0 {
		return b, nil
	}
	var noted *notesMove
	if r.notes.ripe() {
		noted = r.buildNotes(ctx, b.Pack, false)
	}
	defer func() {
		if err != nil && noted != nil {
			r.notes.again(noted.notes)
		}
	}()
	if err := r.land(ctx, b.Pack, b.parent, base, with, k); err != nil {
		return nil, err
	}
	b.keep()
	r.adopt(b)
	if err := r.reviewLocked(ctx); err != nil {
		r.log.Warn("settings that are held were not looked at, the next commit does", "error", err)
	}
	r.moveNotes(ctx, noted)
	return b, nil
}

// land makes a pack durable and moves the branch, the remote's first, from one
// commit to another. Nothing is visible before the ref moves.
func (r *Repo) land(ctx context.Context, pack *git.Pack, to, from string, with rest, k permit) error {
	if err := pack.Write(r.opt.Dir, objects.OwnDir(r.opt.Dir)); err != nil {
		return fmt.Errorf("%w: write the objects of %s: %w", desired.ErrUnavailable, to, err)
	}
	r.maint.packs.Add(1)
	if r.opt.Remote != "" {
		if err := r.push(ctx, to, from, with, k); err != nil {
			return err
		}
	}
	if from == "" {
		if err := markBorn(r.opt.Dir); err != nil {
			return fmt.Errorf("%w: %w", desired.ErrUnavailable, err)
		}
	}
	err := r.refs.Move(ctx, r.read.Ref(), to, from)
	if err != nil && r.opt.Remote != "" {
		return r.sent.open(to, from, err) // it is there, and the mirror has to follow
	}
	return err
}

// prefetch reads the directories of a batch's writes in two exchanges with git
// instead of two for each.
func (b *batch) prefetch(ps []*pending) {
	var trees []string
	add := func(instance string) {
		if s, ok := b.lookup(instance); ok {
			trees = append(trees, s.Rev.Tree)
		}
	}
	for _, p := range ps {
		if p.many == nil {
			add(p.write.Instance)
			continue
		}
		for _, c := range p.many.Instances {
			add(c.Instance)
		}
	}
	if len(trees) < 2 {
		return
	}
	var blobs []string
	ignore := func(int, []byte, error) error { return nil }
	err := b.r.read.Objects.Each(b.ctx, git.KindTree, trees, func(_ int, data []byte, err error) error {
		if t, perr := git.ParseTree(data); err == nil && perr == nil {
			for _, e := range t.Entries() {
				if e.IsFile() {
					blobs = append(blobs, e.Hash)
				}
			}
		}
		return nil
	})
	if err == nil {
		_ = b.r.read.Objects.Each(b.ctx, git.KindBlob, blobs, ignore) // the write itself reports what can't be read
	}
}

// adopt makes the index follow a batch without reading anything.
func (r *Repo) adopt(b *batch) {
	r.mu.Lock()
	touched := map[string]struct{}{}
	for _, dir := range b.order {
		if old := r.index.ByDir.Get(dir); old != nil && old.Rev.Instance != "" {
			touched[old.Rev.Instance] = struct{}{}
		}
		if s := b.slots[dir]; s != nil {
			touched[s.Rev.Instance] = struct{}{}
			r.index.Put(s)
		} else {
			r.index.Remove(dir)
		}
	}
	r.setHeadLocked(b.parent, b.Root(), r.settings)
	r.mu.Unlock()
	ids := make([]string, 0, len(touched))
	for id := range touched {
		ids = append(ids, id)
	}
	r.notify(ids, false)
}
