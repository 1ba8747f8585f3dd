package report

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/jibe-vnfm/jibe/forge"
	"github.com/jibe-vnfm/jibe/store"
)

const (
	// lookPause is how far apart the forge is asked for its pull requests at least, however many
	// deliveries come.
	lookPause = 5 * time.Second
	// leastPoll is how far apart it is asked without a delivery at least.
	leastPoll = 30 * time.Second
	// mostPulls is how many pull requests are looked after.
	mostPulls = 1000
)

// CommentName is what the mark of the comment says.
const CommentName = "plan"

// pull is the record of a pull request that isn't done with: what can't be found again once it is
// merged.
type pull struct {
	Number int64  `json:"number"`
	Branch string `json:"branch"`
	// Commit is where the branch was when it was planned, "" before.
	Commit string   `json:"commit,omitempty"`
	Plan   string   `json:"plan,omitempty"`
	Would  []Target `json:"would,omitempty"`
	// Base is what it was planned on, and Anything that of [Plan].
	Base     string `json:"base,omitempty"`
	Anything bool   `json:"anything,omitempty"`
	// Merged is the commit that brought it in, "" while it is open.
	Merged string `json:"merged,omitempty"`
	// Said is the digest of the comment's text as it was said last.
	Said string `json:"said,omitempty"`

	version uint64
	// at is where the branch is by what the forge said last.
	at string
	// seen is the commit of the base up to which it was looked what has moved there, "" for Base; behind
	// is since when the plan is older than that in what it touches, zero where it isn't, and movedAt when
	// something of that moved last.
	seen            string
	behind, movedAt time.Time

	board   *board // of Merged, nil before it is known what that changes
	settled bool   // text is the last
	text    string // what is to be said, "" for nothing yet
	// state is that of what was merged, and saidState the one that was said last, at saidAt.
	state, saidState forge.State
	saidAt, since    time.Time
	planning         again
	again
}

func (p *pull) key() string { return pullPrefix + strconv.FormatInt(p.Number, 10) }

func digest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

// outstanding says whether the forge is to be told something, or a plan is to be made first.
func (p *pull) outstanding(now time.Time) bool {
	switch {
	case p.unplanned():
		return true
	case p.text == "" || digest(p.text) == p.Said:
		return false
	case p.Merged == "" || p.settled || p.state != p.saidState:
		return true
	}
	return now.Sub(p.saidAt) >= wordsAfter
}

func (p *pull) unplanned() bool { return p.Merged == "" && p.at != "" && p.at != p.Commit }

// pulls is the loop that looks after the comments. It is used by one goroutine.
type pulls struct {
	r    *Reporter
	f    *finder
	base *bases
	all  map[int64]*pull
	look bool // the forge is to be asked which there are
	// lookedAt is when it was asked last.
	lookedAt time.Time
	looking  again
}

// runPulls reports on pull requests until ctx ends.
func (r *Reporter) runPulls(ctx context.Context) error {
	p := &pulls{r: r, f: newFinder(r.Config), base: newBases(r.Repo), look: true}
	for pause := firstPause; ; pause = min(2*pause, longestPause) {
		err := p.load(ctx)
		if err == nil {
			break
		}
		r.Log.WarnContext(ctx, "what was planned for pull requests could not be read, will be tried again", "error", err)
		if err := sleep(ctx, pause); err != nil {
			return err
		}
	}
	for {
		err := p.turn(ctx)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			r.Log.WarnContext(ctx, "the comments of pull requests aren't up to date, will be tried again", "error", err)
		}
		if err := r.pulls.pause(ctx, rest); err != nil {
			return err
		}
		if err := sleep(ctx, breath); err != nil {
			return err
		}
	}
}

// load takes up what was left.
func (p *pulls) load(ctx context.Context) error {
	p.all = map[int64]*pull{}
	recs, err := p.r.Store.List(ctx, pullPrefix, "", 0)
	if err != nil {
		return err
	}
	for _, rec := range recs {
		x := &pull{version: rec.Version}
		if err := json.Unmarshal(rec.Value, x); err != nil {
			return fmt.Errorf("record %s: %w", rec.Key, err)
		}
		p.all[x.Number] = x
	}
	return nil
}

// keep makes a record durable, or removes it.
func (p *pulls) keep(ctx context.Context, x *pull, gone bool) error {
	rec := store.Record{Key: x.key(), Version: x.version, Delete: gone}
	if gone {
		delete(p.all, x.Number)
		if x.version == 0 {
			return nil
		}
	} else {
		value, err := json.Marshal(x)
		if err != nil {
			return err
		}
		rec.Value = value
	}
	put, err := p.r.Store.Put(ctx, rec)
	if errors.Is(err, store.ErrConflict) { // an earlier Put was written although it said that it might not have been
		was, getErr := p.r.Store.Get(ctx, rec.Key)
		if errors.Is(getErr, store.ErrNotFound) && gone {
			return nil
		}
		if getErr != nil {
			return getErr
		}
		rec.Version = was.Version
		put, err = p.r.Store.Put(ctx, rec)
	}
	if err == nil && len(put) > 0 {
		x.version = put[0].Version
	}
	return err
}

// turn brings everything up to date, one request after the other.
func (p *pulls) turn(ctx context.Context) error {
	changed, delivered := p.r.take(p.r.pulls)
	for id := range changed { // before anything can fail: it is told once
		for _, x := range p.all {
			x.board.changed(id)
		}
	}
	now := p.r.Now()
	p.look = p.look || delivered || now.Sub(p.lookedAt) >= max(p.r.Poll, leastPoll)
	if p.look && now.Sub(p.lookedAt) >= lookPause && p.looking.due(now) && p.r.courier.ready() == 0 {
		if err := p.ask(ctx, now); err != nil {
			return err
		}
	}
	failure := p.base.look(ctx, p.all, now)
	anew := p.base.due(p.all, now)
	for _, n := range slices.Sorted(maps.Keys(p.all)) {
		x := p.all[n]
		if err := p.bring(ctx, x, anew[n]); err != nil {
			failure = fmt.Errorf("pull request %d: %w", n, err)
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	n, since := 0, time.Time{}
	for _, x := range p.all {
		if x.outstanding(now) {
			if n++; since.IsZero() || x.since.Before(since) {
				since = x.since
			}
		}
	}
	p.r.courier.outstanding(CommentKind, n, since)
	return failure
}

// ask asks which pull requests are open, and what became of those that were.
func (p *pulls) ask(ctx context.Context, now time.Time) error {
	var open []forge.PullRequest
	p.lookedAt = now
	if !p.r.courier.send(ctx, LookKind, &p.looking, "pull requests", func(ctx context.Context) (err error) {
		open, err = p.r.Client.Opened(ctx, p.r.Branch)
		return err
	}) {
		return nil
	}
	p.look = false
	there := map[int64]bool{}
	for _, o := range open {
		there[o.Number] = true
		x := p.all[o.Number]
		if x == nil {
			if len(p.all) >= mostPulls {
				continue
			}
			x = &pull{Number: o.Number}
			p.all[o.Number] = x
		}
		x.Branch, x.at, x.Merged = o.Branch, o.Commit, ""
		if x.outstanding(now) && x.since.IsZero() {
			x.since = now
		}
	}
	for _, n := range slices.Sorted(maps.Keys(p.all)) {
		x := p.all[n]
		if there[n] || x.Merged != "" {
			continue
		}
		var became forge.Outcome
		if !p.r.courier.send(ctx, LookKind, &x.again, fmt.Sprintf("pull request %d", n), func(ctx context.Context) (err error) {
			became, err = p.r.Client.Outcome(ctx, n)
			return err
		}) {
			p.look = true
			continue
		}
		switch {
		case became.Open: // into another branch now
			if err := p.keep(ctx, x, true); err != nil {
				return err
			}
		case became.Merged == "" || x.Commit == "": // closed, or nothing was said of it
			if err := p.keep(ctx, x, true); err != nil {
				return err
			}
		default:
			x.Merged, x.at, x.board = became.Merged, "", nil
			if err := p.keep(ctx, x, false); err != nil {
				return err
			}
		}
	}
	return nil
}

// bring brings one pull request's comment up to date. anew says that it is planned once more.
func (p *pulls) bring(ctx context.Context, x *pull, anew bool) error {
	now := p.r.Now()
	if anew || x.unplanned() {
		if !x.planning.due(now) || !p.base.all.AllowN(now, 1) {
			return nil
		}
		if err := p.plan(ctx, x); err != nil {
			x.planning.wait = min(max(2*x.planning.wait, firstAgain), longestAgain)
			x.planning.notBefore = p.r.Now().Add(x.planning.wait)
			return fmt.Errorf("plan %s: %w", x.Branch, err)
		}
		x.planning = again{}
	}
	switch {
	case x.Merged != "":
		if err := p.follow(ctx, x, now); err != nil {
			return err
		}
	case x.Commit != "":
		x.text = openComment(x)
	}
	if !x.outstanding(now) {
		x.since = time.Time{}
	} else if x.since.IsZero() {
		x.since = now
	}
	if x.outstanding(now) && x.due(now) && p.r.courier.ready() == 0 {
		text := x.text
		if !p.r.courier.send(ctx, CommentKind, &x.again, fmt.Sprintf("pull request %d", x.Number), func(ctx context.Context) error {
			return p.r.Client.SetComment(ctx, x.Number, CommentName, text)
		}) {
			return nil
		}
		x.Said, x.since, x.saidAt, x.saidState = digest(text), time.Time{}, now, x.state
		if !x.settled {
			return p.keep(ctx, x, false)
		}
	}
	if x.settled && !x.outstanding(now) {
		return p.keep(ctx, x, true)
	}
	return nil
}

// plan makes the plan of where the branch is.
func (p *pulls) plan(ctx context.Context, x *pull) error {
	made, err := p.r.Plan(ctx, x.Branch)
	if err != nil {
		return err
	}
	x.at, x.Commit, x.Plan, x.Would = made.Commit, made.Commit, made.Text, made.Targets
	x.Base, x.Anything = made.Base, made.Anything
	x.seen, x.behind, x.movedAt = "", time.Time{}, time.Time{}
	return p.keep(ctx, x, false)
}

// follow finds what has become of one that was merged.
func (p *pulls) follow(ctx context.Context, x *pull, now time.Time) error {
	has, err := p.f.reaches(ctx, p.r.Repo.Head(), x.Merged)
	if err != nil {
		return err
	}
	if !has { // the branch wasn't fetched yet
		delete(p.f.reached, [2]string{p.r.Repo.Head(), x.Merged})
		return nil
	}
	if x.board == nil {
		if x.board, err = p.merged(ctx, x); err != nil {
			return err
		}
	}
	if _, err := x.board.update(ctx, p.f, now); err != nil {
		return err
	}
	s := x.board.summary()
	x.settled, x.state = s.settled(), s.state()
	x.text = mergedComment(x, s, p.r.CommitLink(x.Merged), p.r.OperationLink, p.r.RolloutLink)
	return nil
}

// merged finds the instances and rollouts that the merge has changed: those of its last commit, and those that
// were planned, as a pull request may have become several commits.
func (p *pulls) merged(ctx context.Context, x *pull) (*board, error) {
	steps, _, err := p.r.Repo.Since(ctx, "", x.Merged, 1)
	if err != nil {
		return nil, err
	}
	list, broken, err := p.f.targets(ctx, steps[0])
	if err != nil {
		return nil, err
	}
	for _, t := range x.Would {
		if !slices.ContainsFunc(list, func(has Target) bool { return has.key() == t.key() }) {
			list = append(list, t)
		}
	}
	return newBoard(x.Merged, list, broken), nil
}
