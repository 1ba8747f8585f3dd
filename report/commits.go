package report

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/desired/gitrepo"
	"github.com/jibe-vnfm/jibe/forge"
)

const (
	// mostOpen is how many commits are looked after that aren't done with. Above it the oldest are
	// given up: a forge that is away for days must cost neither memory nor, when it is back, an hour.
	mostOpen = 2000
	// mostNew is how many commits of one move of the branch are reported, the newest ones.
	mostNew = 1000
	// rest is how often is looked although nothing was told, as at what isn't obeyed: that tells nobody.
	rest = 2 * time.Second
	// breath is how long is waited between two looks: what changes meanwhile is looked at together.
	breath = 100 * time.Millisecond
	// wordsAfter is after how long other words are said of a state that is the same: a fleet's commit
	// fails at one instance after the other, and each status counts against a limit.
	wordsAfter = time.Minute
)

// tracked is a commit that isn't done with.
type tracked struct {
	gitrepo.Step
	board *board // nil before it was looked at

	want    forge.Status // zero where nothing is to be said
	settled bool         // want is the last
	said    forge.Status // by this process; zero where it hasn't said anything
	saidAt  time.Time
	since   time.Time // when it began to be outstanding
	again
}

// outstanding says whether the forge is to be told something.
func (t *tracked) outstanding(now time.Time) bool {
	switch {
	case t.want == t.said || t.want == (forge.Status{}):
		return false
	case t.want.State != t.said.State || t.settled:
		return true
	}
	return now.Sub(t.saidAt) >= wordsAfter
}

// done says whether there is nothing more to be said of it.
func (t *tracked) done() bool { return t.settled && t.want == t.said }

// commits is the loop that looks after the statuses of commits. It is used by one goroutine.
type commits struct {
	r      *Reporter
	f      *finder
	state  state
	keptAt time.Time
	open   []*tracked // the oldest first
	// by has the commits that change an instance.
	by map[string][]*tracked
}

// runCommits reports on commits until ctx ends.
func (r *Reporter) runCommits(ctx context.Context) error {
	c := &commits{r: r, f: newFinder(r.Config), by: map[string][]*tracked{}}
	for pause := firstPause; ; pause = min(2*pause, longestPause) {
		err := c.state.load(ctx, r.Store)
		if err == nil {
			break
		}
		r.Log.WarnContext(ctx, "which commits the forge is to be told of could not be read, will be tried again", "error", err)
		if err := sleep(ctx, pause); err != nil {
			return err
		}
	}
	for _, s := range c.state.Open {
		c.track(s)
	}
	for {
		more, err := c.turn(ctx)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			r.Log.WarnContext(ctx, "what the forge is to be told of commits isn't known, will be tried again", "error", err)
		}
		if !more || r.courier.ready() > 0 {
			if err := r.commits.pause(ctx, rest); err != nil {
				return err
			}
		}
		if err := sleep(ctx, breath); err != nil {
			return err
		}
	}
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

func (c *commits) track(s gitrepo.Step) {
	c.open = append(c.open, &tracked{Step: s})
}

// turn finds what is to be said, and says one thing. more says that there is more.
func (c *commits) turn(ctx context.Context) (more bool, err error) {
	changed, _ := c.r.take(c.r.commits)
	for id := range changed {
		for _, t := range c.by[id] {
			t.board.changed(id)
		}
	}
	if err := c.discover(ctx); err != nil {
		return false, err
	}
	err = c.evaluate(ctx)
	more = c.say(ctx)
	// What is stored may be behind: it is found, and said, once more then.
	if now := c.r.Now(); c.state.changed && now.Sub(c.keptAt) >= rest {
		c.keptAt = now
		c.state.Open = c.state.Open[:0]
		for _, t := range c.open {
			c.state.Open = append(c.state.Open, t.Step)
		}
		err = errors.Join(err, c.state.keep(ctx, c.r.Store))
	}
	return more, err
}

// discover finds the commits that head has since it was looked at last.
func (c *commits) discover(ctx context.Context) error {
	head := c.r.Repo.Head()
	if head == c.state.Head || head == "" {
		return nil
	}
	most := mostNew
	if c.state.Head == "" {
		most = 1 // the first start: what was before isn't spoken of
	}
	list, more, err := c.r.Repo.Since(ctx, c.state.Head, head, most)
	if errors.Is(err, desired.ErrNotFound) { // the history was rewritten, and a person has accepted it
		list, more, err = c.r.Repo.Since(ctx, "", head, 1)
	}
	if err != nil {
		return fmt.Errorf("commits since %s: %w", c.state.Head, err)
	}
	if more && most == mostNew {
		c.r.Log.WarnContext(ctx, "the branch moved by very many commits: the forge is told of the newest ones", "head", head, "commits", mostNew)
	}
	for _, s := range slices.Backward(list) {
		// Nobody waits for what becomes of a commit that completes another, and a push of a fleet has
		// one for each of its instances: the statuses that are waited for would come after theirs.
		if !s.FillsIn {
			c.track(s)
		}
	}
	c.state.Head, c.state.changed = head, true
	return nil
}

// evaluate finds what has become of the commits of which something changed, and forgets those that
// are done with.
func (c *commits) evaluate(ctx context.Context) error {
	now := c.r.Now()
	gone := map[*tracked]bool{}
	var failure error
	for _, t := range c.open {
		concerns, err := c.evaluateOne(ctx, t, now)
		if err != nil {
			failure = err // of one, which the others don't wait for
			continue
		}
		if !concerns || t.done() {
			gone[t] = true
		}
	}
	if over := len(c.open) - len(gone) - mostOpen; over > 0 {
		c.r.courier.drop(StatusKind, over)
		for _, own := range []bool{true, false} { // persons look for theirs
			for _, t := range c.open {
				if over > 0 && !gone[t] && t.Own == own {
					gone[t] = true
					over--
				}
			}
		}
	}
	if len(gone) == 0 {
		return failure
	}
	c.open = slices.DeleteFunc(c.open, func(t *tracked) bool { return gone[t] })
	clear(c.by)
	for _, t := range c.open {
		c.index(t)
	}
	c.state.changed = true
	return failure
}

func (c *commits) index(t *tracked) {
	if t.board == nil {
		return
	}
	for _, x := range t.board.targets {
		if x.Instance != "" {
			c.by[x.Instance] = append(c.by[x.Instance], t)
		}
	}
}

// evaluateOne finds what is to be said of one commit; concerns says whether it changes any instance
// or rollout and is in head's history.
func (c *commits) evaluateOne(ctx context.Context, t *tracked, now time.Time) (concerns bool, err error) {
	if t.board == nil {
		if has, err := c.f.reaches(ctx, c.r.Repo.Head(), t.Commit); err != nil || !has {
			return false, err // it was taken out of the history
		}
		targets, broken, err := c.f.targets(ctx, t.Step)
		if err != nil {
			return false, err
		}
		t.board = newBoard(t.Commit, targets, broken)
		c.index(t)
	}
	if len(t.board.targets)+t.board.broken == 0 {
		return false, nil
	}
	changed, err := t.board.update(ctx, c.f, now)
	if err != nil {
		return true, err
	}
	if changed || t.want == (forge.Status{}) {
		s := t.board.summary()
		t.want, t.settled = s.status(c.r.link(t.Commit, s)), s.settled()
	}
	if !t.outstanding(now) {
		t.since = time.Time{}
	} else if t.since.IsZero() {
		t.since = now
	}
	return true, nil
}

// link leads to the page with more: the only operation's or rollout's, else the commit's.
func (r *Reporter) link(commit string, s summary) string {
	switch only := s.only(); {
	case only != "" && len(s.rollouts) == 0:
		return r.OperationLink(only)
	case len(s.rollouts) == 1 && len(s.all) == 0:
		return r.RolloutLink(s.rollouts[0].Rollout)
	}
	return r.CommitLink(commit)
}

// say tells the forge of the one commit that is most urgent. more says that another is due.
func (c *commits) say(ctx context.Context) (more bool) {
	now := c.r.Now()
	var next *tracked
	n, due, since := 0, 0, time.Time{}
	for _, t := range c.open {
		if !t.outstanding(now) {
			continue
		}
		if n++; since.IsZero() || t.since.Before(since) {
			since = t.since
		}
		if !t.due(now) {
			continue
		}
		if due++; next == nil || t.urgent(next) {
			next = t
		}
	}
	c.r.courier.outstanding(StatusKind, n, since)
	if next == nil || c.r.courier.ready() > 0 {
		return false
	}
	want := next.want
	if c.r.courier.send(ctx, StatusKind, &next.again, "commit "+next.Commit, func(ctx context.Context) error {
		return c.r.Client.SetStatus(ctx, next.Commit, want)
	}) {
		next.said, next.saidAt, next.since = want, now, time.Time{}
		c.r.courier.outstanding(StatusKind, n-1, since)
	}
	return due > 1 || next.done()
}

// urgent says whether it is said before other: persons' commits before those of requests, which may be
// very many, and what has ended or failed before what is pending.
func (t *tracked) urgent(other *tracked) bool {
	if t.Own != other.Own {
		return other.Own
	}
	if a, b := t.want.State != forge.Pending, other.want.State != forge.Pending; a != b {
		return a
	}
	return t.since.Before(other.since)
}
