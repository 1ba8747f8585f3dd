package gitrepo

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/desired/gitrepo/check"
	"github.com/jibe-vnfm/jibe/desired/gitrepo/objects"
	"github.com/jibe-vnfm/jibe/desired/gitrepo/read"
	"github.com/jibe-vnfm/jibe/internal/changed"
	"github.com/jibe-vnfm/jibe/internal/git"
	"github.com/jibe-vnfm/jibe/internal/lru"
)

// Options say where the desired repository is and how Jibe writes to it.
type Options struct {
	// Dir is the bare repository. It is made where it doesn't exist.
	Dir string
	// Branch is the desired state; "" is main.
	Branch string
	// Remote is the URL that is followed and pushed to; Dir is then its mirror.
	// "" means that Dir itself is the desired repository.
	Remote string
	// Turn orders those who push to the remote's branch; nil: each tries by itself.
	Turn Turn
	// Accepted is the commit of the remote's branch that all who write to it have accepted; nil:
	// no other process does. Without a remote it is the commit in effect, which a later start compares with the branch.
	Accepted Accepted
	// AcceptHead is a commit of a local branch that takes effect at the start even if it lacks what
	// was in effect.
	AcceptHead string
	// Pushers keeps who pushed through the mirror of any process; nil: there are no others.
	Pushers Pushers
	// PushInterval is how far apart pushes to the remote are at least, for one that limits how
	// many it takes; 0 to [MaxPushInterval]. Writes that wait for it share a push, those of up to
	// MaxBatch commits. Where there are turns, it holds for all who take them together.
	PushInterval time.Duration
	// PushOptions are given to every push to the remote.
	PushOptions []string
	// PollInterval is how often the remote is asked for commits. A local ref is looked at as
	// often, in case the file system didn't report a change. 0 is 30 s.
	PollInterval time.Duration
	// Author is the committer, "name <mail>", and the author of writes that name
	// none; "" is "Jibe <jibe@localhost>".
	Author string
	// Now gives commits their dates; nil is time.Now.
	Now func() time.Time
	// Log is never nil after Open; nil discards.
	Log *slog.Logger
	// MaxBatch is the most commits that one ref update carries; 0 is 256, with a push interval 4096.
	MaxBatch int
	// CacheBytes bounds what is kept of objects and parsed instances; 0 is 128 MiB, which holds
	// 100,000 instances.
	CacheBytes int
	// RepackAbove is the number of packs from which they are repacked; 0 is 50.
	RepackAbove int
	// Operated returns, at Open, the last operated revision of each instance that has one. It
	// decides who has an id where head is ambiguous. nil knows none.
	Operated func(ctx context.Context) ([]desired.Revision, error)
	// NeededRepositories says who needs a package repository that is gone from
	// repositories.yaml; nil: nobody does.
	NeededRepositories read.NeededRepositories
	// Verify says whose commits are obeyed; nil: everybody's.
	Verify *check.Verification

	// Key authenticates what Jibe writes of pushers, and its own commits; nil authenticates
	// nothing.
	Key []byte

	// Observe is told of each fetch, commit (a batch of writes, until it is durable) and push, and
	// must not block; nil where nobody listens. A commit that has to be built anew, as the branch
	// moved meanwhile, ends with an error that is [git.ErrRefMoved] or [git.ErrRefLocked].
	Observe func(command string, took time.Duration, err error)
	// Held is told of each write, as often as it had to wait for its push because of PushInterval,
	// how long that was, 0 for one that went at once. It must not block; nil where nobody listens.
	Held func(waited time.Duration)

	remoteTimeout time.Duration // 0 is defaultRemoteTimeout

	// maxNote is the most that is read of a note, in bytes; 0 is [maxNote].
	maxNote int64
}

// observed tells the observer of a command that began at a time.
func (r *Repo) observed(command string, began time.Time, err error) {
	if r.opt.Observe != nil {
		r.opt.Observe(command, time.Since(began), err)
	}
}

// held tells the observer that a write had to wait for its push from one moment to another.
func (r *Repo) held(from, to time.Time) {
	if r.opt.Held != nil && r.opt.PushInterval > 0 {
		r.opt.Held(max(0, to.Sub(from)))
	}
}

func (o Options) withDefaults() Options {
	set := func(s *string, v string) {
		if *s == "" {
			*s = v
		}
	}
	set(&o.Branch, "main")
	set(&o.Author, "Jibe <jibe@localhost>")
	if o.PollInterval <= 0 {
		o.PollInterval = 30 * time.Second
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	o.maxNote = cmp.Or(o.maxNote, maxNote)
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.MaxBatch <= 0 {
		if o.MaxBatch = 256; o.PushInterval > 0 {
			o.MaxBatch = 4096
		}
	}
	if o.CacheBytes <= 0 {
		o.CacheBytes = 128 << 20
	}
	if o.RepackAbove <= 0 {
		o.RepackAbove = 50
	}
	if o.remoteTimeout <= 0 {
		o.remoteTimeout = defaultRemoteTimeout
	}
	return o
}

// Repo is the desired repository: it implements desired.Repo.
type Repo struct {
	read   *read.Reader
	check  *check.Checker
	opt    Options
	log    *slog.Logger
	ctx    context.Context // ends at Close: of the goroutines that serve all callers
	cancel context.CancelFunc
	drafts draftOwners
	work   sync.WaitGroup

	// move is held while the branch is read, moved, and the index follows, so that
	// the index is never behind a commit of Jibe's own.
	move sync.Mutex
	refs *git.RefUpdater // under move

	mu       sync.RWMutex
	head     string
	root     string
	index    *read.Index
	listed   []desired.Revision // list of index, nil when it must be made again
	settings read.SettingsState
	ills     []*healthError
	watchers map[*watcher]struct{}
	changes  changed.Feed  // of heads
	moved    chan struct{} // closed when head moves

	writer writer
	notes  noteQueue
	pushes pushLog
	noted  pushCache
	maint  maintenance
	poke   chan struct{}
	asking chan struct{} // has an item while the remote is asked for commits: two would meet at one ref
	behind chan struct{} // the branch couldn't be followed: follow tries again
	rest   restState
	pace   *pacer
	sent   pushRecord
	// reviewing is held while a branch is fetched that isn't followed: one ref takes them all.
	reviewing sync.Mutex
	recovered bool   // since recoverIDs has done at a start what a move does later; under move
	told      string // the newest commit that Accepted has of this mirror; under move
	// overtaken is since when the remote has refused the branch as somebody else was moving it; under move.
	overtaken time.Time

	pushedLast atomic.Pointer[string] // the commit that this process has pushed last

	// known are commits that head has in its history, with the number of the history: it
	// changes where a person has accepted another.
	known     *lru.Cache[uint64]
	histories atomic.Uint64
	// proven are the contents that instances had on the branch, by provenKey.
	proven *lru.Cache[struct{}]
}

// knownCommits is of how many commits it is remembered that head has them.
const knownCommits = 10_000

// Open opens the desired repository, makes it on the first start, reads every
// instance at head, and follows the branch until Close. A repository that can't
// be read in full is an error, never an empty one.
func Open(ctx context.Context, opt Options) (*Repo, error) {
	opt = opt.withDefaults()
	dir, err := filepath.Abs(opt.Dir)
	if err != nil || opt.Dir == "" {
		return nil, fmt.Errorf("open the desired repository: no directory given")
	}
	opt.Dir = dir
	if opt.PushInterval < 0 || opt.PushInterval > MaxPushInterval || opt.PushInterval > 0 && opt.Remote == "" {
		return nil, fmt.Errorf("open the desired repository: a push interval of %s: want one of 0 to %s, and none without a remote", opt.PushInterval, MaxPushInterval)
	}
	if err := prepare(ctx, dir, opt); err != nil {
		return nil, err
	}
	runner := git.Runner{Dir: dir}
	r := &Repo{
		read:     read.New(runner, opt.Branch, opt.CacheBytes),
		opt:      opt,
		log:      opt.Log,
		refs:     git.NewRefUpdater(runner),
		index:    read.NewIndex(),
		watchers: map[*watcher]struct{}{},
		moved:    make(chan struct{}),
		known:    lru.New[uint64](knownCommits, 1),
		proven:   lru.New[struct{}](provenBytes, provenSize),
		poke:     make(chan struct{}, 1),
		asking:   make(chan struct{}, 1),
		behind:   make(chan struct{}, 1),
	}
	r.check = check.New(r.read)
	r.writer.init()
	r.sent.name = filepath.Join(objects.OwnDir(dir), "push")
	r.pace = newPacer(opt, r.sent.name)
	r.notes.init(filepath.Join(objects.OwnDir(dir), "notes"))
	r.read.Pushed = r.pushedBy
	r.ctx, r.cancel = context.WithCancel(context.WithoutCancel(ctx))
	if err := r.open(ctx); err != nil {
		_ = r.Close()
		return nil, err
	}
	return r, nil
}

func (r *Repo) open(ctx context.Context) error {
	if err := r.breakLocks(); err != nil {
		return err
	}
	if err := r.recallPushes(); err != nil {
		return fmt.Errorf("open the desired repository %s: %w", r.opt.Dir, err)
	}
	if r.opt.Remote != "" {
		if err := r.sent.recall(); err != nil {
			return fmt.Errorf("open the desired repository %s: %w", r.opt.Dir, err)
		}
		if err := r.firstFetch(ctx); err != nil {
			return err
		}
		r.settleLeft(ctx)
	}
	r.move.Lock()
	err := r.keepFormerOfStart(ctx)
	if err == nil {
		err = r.refreshAccepting(ctx, r.opt.AcceptHead)
	}
	r.move.Unlock()
	if err != nil {
		return fmt.Errorf("open the desired repository %s: %w", r.opt.Dir, err)
	}
	if err := r.recoverInstances(ctx); err != nil {
		return fmt.Errorf("open the desired repository %s: %w", r.opt.Dir, err)
	}
	if err := r.recoverIDs(ctx); err != nil {
		return fmt.Errorf("open the desired repository %s: %w", r.opt.Dir, err)
	}
	if err := r.recoverSettings(ctx, r.Head()); err != nil {
		return fmt.Errorf("open the desired repository %s: %w", r.opt.Dir, err)
	}
	if err := clearAbandoned(r.opt.Dir); err != nil {
		return fmt.Errorf("open the desired repository %s: %w", r.opt.Dir, err)
	}
	late, err := r.notes.journal.read()
	if err != nil {
		return fmt.Errorf("open the desired repository %s: %w", r.opt.Dir, err)
	}
	r.notes.put(late...)
	if err := r.recoverPushes(ctx); err != nil {
		return fmt.Errorf("open the desired repository %s: %w", r.opt.Dir, err)
	}
	r.maint.count(r.opt.Dir)
	fw, err := newFollower(r.opt.Dir, r.read.Ref())
	if err != nil {
		return fmt.Errorf("watch the desired repository: %w", err)
	}
	r.work.Go(func() { r.follow(fw) })
	r.work.Go(r.writeLoop)
	r.work.Go(r.keepUnlocked)
	r.work.Go(r.keepGraph)
	switch {
	case r.opt.Remote != "":
		r.work.Go(r.fetchLoop)
		if r.opt.Accepted != nil {
			r.work.Go(r.watchAccepted)
		}
	case r.opt.Accepted != nil:
		r.work.Go(r.remember)
	}
	if err := r.Refresh(ctx); err == nil && r.opt.Remote == "" { // else Health reports why the branch is held
		r.move.Lock()
		defer r.move.Unlock()
		r.unpinInEffect(ctx) // a former process may have been held
	}
	return nil
}

// Close ends what Open started, after the writes and notes that wait. A write that comes later
// is refused, as are those that a push interval holds up.
func (r *Repo) Close() error {
	r.writer.close()
	r.cancel()
	r.work.Wait()
	r.move.Lock()
	defer r.move.Unlock()
	r.refs.Close()
	return r.read.Close()
}

// Refresh makes the index follow the branch now. Where it does already, that costs
// no more than to read a small file.
func (r *Repo) Refresh(ctx context.Context) error {
	if head, err := git.ReadRef(r.opt.Dir, r.read.Ref()); err == nil && r.follows(head) {
		return nil
	}
	r.move.Lock()
	defer r.move.Unlock()
	return r.refreshLocked(ctx)
}

// refreshLocked brings the index to the branch's commit. On an error the index
// stays at the last commit that could be read, Health says why, and follow tries again.
func (r *Repo) refreshLocked(ctx context.Context) error { return r.refreshAccepting(ctx, "") }

// refreshAccepting is refreshLocked that follows a local branch to the accepted commit without judging it: a person has
// accepted it, it has landed, or Jibe made it.
func (r *Repo) refreshAccepting(ctx context.Context, accepted string) error {
	err := r.tryRefresh(ctx, accepted)
	if ctx.Err() == nil {
		r.setHealth(healthRef, err)
	}
	if err != nil {
		select {
		case r.behind <- struct{}{}:
		default:
		}
	}
	return err
}

func (r *Repo) tryRefresh(ctx context.Context, accepted string) error {
	head, err := git.ReadRef(r.opt.Dir, r.read.Ref())
	if err != nil {
		return err
	}
	r.mu.RLock()
	oldHead, oldRoot, x := r.head, r.root, r.index
	r.mu.RUnlock()
	if head == "" {
		if oldHead == "" && !exists(bornFile(r.opt.Dir)) {
			return nil
		}
		return fmt.Errorf("branch %s is gone from %s (set it again: git -C %[2]s update-ref %[3]s <commit>; git -C %[2]s fsck --lost-found --no-reflogs names candidates)",
			r.opt.Branch, r.opt.Dir, r.read.Ref())
	}
	if head == oldHead {
		if r.opt.Remote == "" && r.isHeld() {
			r.unpinInEffect(ctx)
		}
		return nil
	}
	if head != accepted {
		if head, err = r.inEffect(ctx, oldHead, head); err != nil {
			return err
		}
	}
	root, err := r.read.RootOf(ctx, head)
	if err != nil {
		return err
	}
	m, err := r.read.PrepareMove(ctx, oldRoot, root, head, 0)
	if err != nil {
		return err
	}
	if err := r.read.Judge(ctx, x, &m, head, oldRoot, root); err != nil {
		return err
	}
	if r.recovered {
		if err := r.read.HoldClashes(ctx, x, &m, head, r.read.SpellingAt(root)); err != nil {
			return err
		}
	}
	if oldHead == "" {
		if err := markBorn(r.opt.Dir); err != nil {
			return fmt.Errorf("%w: %w", desired.ErrUnavailable, err)
		}
	}
	next := r.snapshot()
	ids := next.Apply(m)
	set, err := r.read.ReadSettings(ctx, root, r.settings, read.Instances{List: next.List, Before: x.Lookup, Needed: r.opt.NeededRepositories})
	if err != nil {
		return err
	}
	r.mu.Lock()
	r.index = next
	settingsChanged := set.Good != r.settings.Good && oldHead != ""
	r.setHeadLocked(head, root, set)
	r.mu.Unlock()
	r.pushLanded(head)
	r.maint.packs.Add(1) // a push brings a pack
	if settingsChanged {
		for _, p := range set.Problems {
			r.log.Warn("not obeyed, the last good definition counts", "revision", head, "problem", p.Error())
		}
	}
	for _, s := range m.Slots {
		if s == nil || s.Stray {
			continue
		}
		for _, p := range s.Links {
			r.log.Warn("not read", "revision", head, "problem", p.Error())
		}
		for _, p := range s.Problems {
			r.log.Warn("not obeyed, the last good revision stands", "revision", head, "problem", p.Error())
		}
		for _, p := range s.Exposed {
			r.log.Warn("a secret stands in git in clear", "revision", head, "problem", p.Error())
		}
	}
	for _, l := range m.Losses {
		r.log.Warn("not obeyed, the last good revision stands", "instance", l.Was.Instance, "revision", head, "problem", l.Problem().Error())
	}
	if oldHead != "" {
		r.notify(ids, settingsChanged)
	}
	return nil
}

func (r *Repo) setHeadLocked(head, root string, set read.SettingsState) {
	r.head, r.root, r.listed = head, root, nil
	r.settings = set
	close(r.moved)
	r.moved = make(chan struct{})
}
