// Package proposal keeps pull requests in step with what wants them: it opens one for a branch, follows what becomes of
// it, and closes it when it isn't wanted any more.
//
// It keeps nothing durable, decides nothing and reads no git. Who wants a pull request asks for it again at each look, with the
// number that they have recorded: after a restart the forge is asked what there is for the branch, so that none is
// opened twice and none is forgotten. Nobody waits for the forge: an answer is what is known by now, and who asked
// is told when there is more.
package proposal

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/jibe-vnfm/jibe/forge"
)

const (
	// leastPoll is how far apart the forge is asked at least what became of pull requests although no delivery told.
	leastPoll = 30 * time.Second
	// breath is how far apart it is asked however many deliveries come.
	breath = 2 * time.Second
	// firstPause and longestPause are how long a forge is left alone that is away; each failure doubles the time.
	firstPause, longestPause = time.Second, 30 * time.Second
	// longestAgain is the same for one pull request or branch that is refused, which others don't wait for.
	longestAgain = 10 * time.Minute
	// commentName is what the mark of the comment says that tells why a pull request was closed.
	commentName = "closed"
)

// Wanted is a pull request that is to be there.
type Wanted struct {
	// Branch was pushed already, and is nobody else's.
	Branch string
	// Number and Link are those of the pull request as they were recorded, 0 and "" where none is known to have been
	// opened. With a number, none is opened any more.
	Number int64
	Link   string
	// Title and Text are those with which it is opened.
	Title, Text string
	// Changed is called when more is known of it, on a goroutine of the keeper's. It MUST NOT block.
	Changed func()
}

// State is what is known of a pull request; the zero value is nothing yet.
type State struct {
	Number int64
	// Link is the URL of its page.
	Link string
	Open bool
	// Merged is the commit that brought it into its base, "" where none has.
	Merged string
	// Err is why the forge couldn't tell or wasn't told when it was asked last, nil where it was.
	Err error
}

// Known says whether the forge has told of the pull request at all.
func (s State) Known() bool { return s.Number != 0 }

// Closed says whether somebody has closed it without merging it.
func (s State) Closed() bool { return s.Known() && !s.Open && s.Merged == "" }

// Config is what a [Keeper] works with. All but Remove is required.
type Config struct {
	Client forge.Client
	// Base is the branch that pull requests go into.
	Base string
	// Poll is how often the forge is asked although no delivery told of anything.
	Poll time.Duration
	// Remove removes the branch of a pull request that isn't wanted any more; it isn't there where that was done
	// before.
	Remove func(ctx context.Context, branch string) error
	Log    *slog.Logger
	Now    func() time.Time
}

// Keeper keeps pull requests. It is safe for concurrent use.
type Keeper struct {
	Config
	wake  chan struct{}
	lines *rate.Limiter

	mu      sync.Mutex
	wanted  map[string]*kept    // by branch
	leaving map[string]*leaving // by branch
	asked   time.Time           // when the forge was asked for all last
	look    bool                // it is to be asked, whenever that was
}

type kept struct {
	Wanted
	state State
	fresh bool // nothing was asked of it yet
	again
}

type leaving struct {
	why  string
	done bool
	err  error
	tell func()
	again
}

// again is when one is tried again that failed.
type again struct {
	at   time.Time // zero: it didn't fail
	wait time.Duration
}

// failed notes an error, or its end.
func (a *again) failed(now time.Time, err error) {
	if err == nil {
		*a = again{}
		return
	}
	a.wait = min(max(2*a.wait, firstPause), longestAgain)
	a.at = now.Add(a.wait)
}

// due says whether one that failed may be tried, or another one at all.
func (a *again) due(now time.Time) bool { return !now.Before(a.at) }

// New makes a keeper, which does nothing until [Keeper.Run].
func New(c Config) *Keeper {
	if c.Now == nil {
		c.Now = time.Now
	}
	return &Keeper{Config: c, wake: make(chan struct{}, 1), lines: rate.NewLimiter(1.0/60, 5), wanted: map[string]*kept{}, leaving: map[string]*leaving{}}
}

// Keep has the pull request be there, and returns what is known of it by now. It is opened once: one that somebody has
// closed or merged stays so.
func (k *Keeper) Keep(w Wanted) State {
	k.mu.Lock()
	defer k.mu.Unlock()
	x := k.wanted[w.Branch]
	if x == nil {
		x = &kept{fresh: true}
		k.wanted[w.Branch] = x
		k.poke()
	}
	x.Wanted = w
	return x.state
}

// Forget is for a pull request that whoever wanted it looks after no more: another process does.
func (k *Keeper) Forget(branch string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.wanted, branch)
	delete(k.leaving, branch)
}

// Withdraw closes the pull request of a branch, if one is open, and removes the branch. why, "" for nothing, is said
// in a comment before (Markdown). done says that nothing is left of either; until then Withdraw is to be called again,
// and tell is called when that is worth it. err is why it wasn't done so far.
func (k *Keeper) Withdraw(branch, why string, tell func()) (done bool, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.wanted, branch)
	x := k.leaving[branch]
	if x == nil {
		x = &leaving{}
		k.leaving[branch] = x
		k.poke()
	}
	x.why, x.tell = why, tell
	if x.done {
		delete(k.leaving, branch)
	}
	return x.done, x.err
}

// Delivered is called when the forge has told that something happened.
func (k *Keeper) Delivered() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.wanted)+len(k.leaving) > 0 {
		k.look = true
		k.poke()
	}
}

func (k *Keeper) poke() {
	select {
	case k.wake <- struct{}{}:
	default: // it is awake already
	}
}

// Run works until ctx ends.
func (k *Keeper) Run(ctx context.Context) error {
	pause := time.Duration(0) // after a failure of the forge as a whole
	for {
		wake := k.wake
		if pause > 0 { // one that is away isn't asked more often because more is wanted
			wake = nil
		}
		timer := time.NewTimer(k.rest(pause))
		select {
		case <-ctx.Done():
		case <-timer.C:
		case <-wake:
		}
		timer.Stop()
		if ctx.Err() != nil {
			return nil
		}
		err := k.turn(ctx)
		if err == nil {
			pause = 0
			continue
		}
		if ctx.Err() != nil {
			return nil
		}
		pause = max(min(max(2*pause, firstPause), longestPause), forge.After(err))
		if k.lines.Allow() {
			k.Log.WarnContext(ctx, "pull requests aren't up to date, will be tried again", "error", err)
		}
	}
}

// rest is how long there is nothing to do, unless something is wanted. pause is how long the forge is left alone.
func (k *Keeper) rest(pause time.Duration) time.Duration {
	if pause > 0 {
		return pause
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	now, rest := k.Now(), max(k.Poll, leastPoll)
	sooner := func(a again) {
		if !a.at.IsZero() {
			rest = min(rest, max(a.at.Sub(now), time.Millisecond))
		}
	}
	for _, x := range k.wanted {
		sooner(x.again)
	}
	for _, x := range k.leaving {
		sooner(x.again)
	}
	return rest
}

// work is what one turn has to do, as it stood when the turn began.
type work struct {
	wanted  []Wanted
	leaving map[string]string
}

// take returns what is to be done now; ok is false where that is nothing.
func (k *Keeper) take() (w work, ok bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	now := k.Now()
	due := k.look || now.Sub(k.asked) >= max(k.Poll, leastPoll)
	w.leaving = map[string]string{}
	for branch, x := range k.leaving {
		if !x.done && x.due(now) {
			w.leaving[branch] = x.why
		}
	}
	for _, branch := range slices.Sorted(maps.Keys(k.wanted)) {
		if x := k.wanted[branch]; x.due(now) && (due || x.fresh || x.state.Err != nil) {
			want := x.Wanted
			want.Number, want.Link = cmp.Or(want.Number, x.state.Number), cmp.Or(want.Link, x.state.Link)
			w.wanted = append(w.wanted, want)
		}
	}
	if len(w.wanted)+len(w.leaving) == 0 {
		return w, false
	}
	if due {
		k.asked, k.look = now, false
	}
	return w, true
}

// turn asks the forge once for all, and then does what is left of each. An error is that of a forge that is to be left
// alone for a while.
func (k *Keeper) turn(ctx context.Context) error {
	w, ok := k.take()
	if !ok {
		return nil
	}
	open := map[string]forge.PullRequest{}
	all, err := k.Client.Opened(ctx, k.Base)
	for _, p := range all {
		open[p.Branch] = p
	}
	stop := err
	for _, want := range w.wanted {
		if stop != nil {
			k.learn(want.Branch, func(s *State) { s.Err = stop })
			continue
		}
		s, err := k.follow(ctx, want, open)
		if err == nil {
			k.learn(want.Branch, func(now *State) { *now = s })
			continue
		}
		k.learn(want.Branch, func(s *State) { s.Err = err })
		if away(err) {
			stop = err
		} else {
			k.refused(ctx, "to open or find it, as it is wanted", want.Branch, err)
		}
	}
	for _, branch := range slices.Sorted(maps.Keys(w.leaving)) {
		err := stop
		if err == nil {
			if err = k.close(ctx, branch, w.leaving[branch], open); away(err) {
				stop = err
			}
		}
		if err == nil && k.Remove != nil {
			err = k.Remove(ctx, branch)
		}
		if err != nil && stop == nil {
			k.refused(ctx, "to close it, or to remove its branch, as it isn't wanted any more", branch, err)
		}
		k.left(branch, err, stop == nil)
	}
	if stop == nil { // deliveries come in numbers
		t := time.NewTimer(breath)
		defer t.Stop()
		select {
		case <-ctx.Done():
		case <-t.C:
		}
	}
	return stop
}

// refused tells whoever can do something about it, as it may stay so until they do.
func (k *Keeper) refused(ctx context.Context, what, branch string, err error) {
	if ctx.Err() == nil && k.lines.Allow() {
		k.Log.WarnContext(ctx, "the forge refuses something of a pull request: see what the token's user may do there, and whether the branch is protected; it is tried again", "what", what, "branch", branch, "error", err)
	}
}

// away says whether an error is of the forge as a whole.
func away(err error) bool {
	return err != nil && (errors.Is(err, forge.ErrAway) || errors.Is(err, forge.ErrLimited) || errors.Is(err, forge.ErrDenied) || !errors.As(err, new(*forge.Error)))
}

// follow finds what became of a pull request, and opens it where there never was one.
func (k *Keeper) follow(ctx context.Context, w Wanted, open map[string]forge.PullRequest) (State, error) {
	is, found := open[w.Branch]
	if found {
		return State{Number: is.Number, Link: is.Link, Open: true}, nil
	}
	if is, found = (forge.PullRequest{Number: w.Number, Link: w.Link}), w.Number != 0; !found {
		var err error
		if is, found, err = k.Client.Proposed(ctx, w.Branch, k.Base); err != nil {
			return State{}, err
		}
	}
	if !found {
		made, err := k.Client.Open(ctx, forge.Proposal{Branch: w.Branch, Base: k.Base, Title: w.Title, Text: w.Text})
		if err != nil {
			return State{}, err
		}
		k.Log.InfoContext(ctx, "pull request opened", "branch", w.Branch, "number", made.Number)
		return State{Number: made.Number, Link: made.Link, Open: true}, nil
	}
	became, err := k.Client.Outcome(ctx, is.Number)
	if err != nil {
		return State{}, err
	}
	return State{Number: is.Number, Link: is.Link, Open: became.Open, Merged: became.Merged}, nil
}

// learn takes over what is known of a pull request, and tells who wants it where that is news.
func (k *Keeper) learn(branch string, change func(*State)) {
	k.mu.Lock()
	x := k.wanted[branch]
	if x == nil {
		k.mu.Unlock()
		return
	}
	was := x.state
	change(&x.state)
	x.fresh = false
	if x.failed(k.Now(), x.state.Err); x.state.Err != nil && away(x.state.Err) {
		x.again = again{} // it is no fault of its own
	}
	news := was.Number != x.state.Number || was.Open != x.state.Open || was.Merged != x.state.Merged || (was.Err == nil) != (x.state.Err == nil)
	tell := x.Changed
	k.mu.Unlock()
	if news && tell != nil {
		tell()
	}
}

// close closes what is open for a branch.
func (k *Keeper) close(ctx context.Context, branch, why string, open map[string]forge.PullRequest) error {
	is, found := open[branch]
	if !found {
		return nil
	}
	if why != "" {
		if err := k.Client.SetComment(ctx, is.Number, commentName, why); err != nil {
			return err
		}
	}
	if err := k.Client.Close(ctx, branch, k.Base); err != nil {
		return err
	}
	k.Log.InfoContext(ctx, "pull request closed", "branch", branch, "number", is.Number)
	return nil
}

// left notes how far a branch has gone. own says that an error is none of the forge as a whole.
func (k *Keeper) left(branch string, err error, own bool) {
	k.mu.Lock()
	x := k.leaving[branch]
	if x == nil {
		k.mu.Unlock()
		return
	}
	x.done, x.err = err == nil, err
	if x.failed(k.Now(), err); !own {
		x.again = again{}
	}
	tell := x.tell
	k.mu.Unlock()
	if err == nil && tell != nil {
		tell()
	}
}
