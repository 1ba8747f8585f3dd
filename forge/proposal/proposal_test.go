package proposal_test

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jibe-vnfm/jibe/forge"
	"github.com/jibe-vnfm/jibe/forge/proposal"
	"github.com/jibe-vnfm/jibe/test/kit"
)

// memory is a forge in memory.
type memory struct {
	forge.Client
	mu       sync.Mutex
	branches map[string]bool
	pulls    []*pull
	away     error
	lost     bool // the answer of the next Open is lost
	requests int
	refused  map[string]bool // branches that can't be proposed, or removed
	comments map[int64]string
}

type pull struct {
	forge.PullRequest
	open   bool
	merged string
}

func (m *memory) asked() error { m.requests++; return m.away }

func (m *memory) find(is func(*pull) bool) *pull {
	if i := slices.IndexFunc(m.pulls, is); i >= 0 {
		return m.pulls[i]
	}
	return nil
}

// Opened implements [forge.Client].
func (m *memory) Opened(context.Context, string) (all []forge.PullRequest, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, p := range m.pulls {
		if p.open {
			all = append(all, p.PullRequest)
		}
	}
	return all, m.asked()
}

// Proposed implements [forge.Client].
func (m *memory) Proposed(_ context.Context, branch, _ string) (forge.PullRequest, bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if p := m.find(func(p *pull) bool { return p.Branch == branch }); p != nil {
		return p.PullRequest, true, m.asked()
	}
	return forge.PullRequest{}, false, m.asked()
}

// Outcome implements [forge.Client].
func (m *memory) Outcome(_ context.Context, number int64) (forge.Outcome, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	p := m.pulls[number-1]
	return forge.Outcome{Open: p.open, Merged: p.merged}, m.asked()
}

// Open implements [forge.Client].
func (m *memory) Open(_ context.Context, w forge.Proposal) (forge.PullRequest, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.asked(); err != nil {
		return forge.PullRequest{}, err
	}
	if m.refused[w.Branch] {
		return forge.PullRequest{}, &forge.Error{Status: 422}
	}
	p := &pull{PullRequest: forge.PullRequest{Number: int64(len(m.pulls) + 1), Branch: w.Branch, Base: w.Base, Link: "page"}, open: true}
	m.pulls = append(m.pulls, p)
	if m.lost {
		m.lost = false
		return forge.PullRequest{}, forge.ErrAway
	}
	return p.PullRequest, nil
}

// Close implements [forge.Client].
func (m *memory) Close(_ context.Context, branch, _ string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, p := range m.pulls {
		if p.Branch == branch {
			p.open = false
		}
	}
	return m.asked()
}

// SetComment implements [forge.Client].
func (m *memory) SetComment(_ context.Context, number int64, _, text string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.comments[number] = text
	return m.asked()
}

func (m *memory) set(f func()) { m.mu.Lock(); defer m.mu.Unlock(); f() }

// inMemory runs f with a keeper, which is started anew by restart.
func inMemory(t *testing.T, f func(t *testing.T, m *memory, k func() *proposal.Keeper, restart func())) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		m := &memory{branches: map[string]bool{}, comments: map[int64]string{}}
		var keeper *proposal.Keeper
		var stop func()
		start := func() {
			ctx, cancel := context.WithCancel(t.Context())
			keeper = proposal.New(proposal.Config{Client: m, Base: "main", Poll: time.Minute, Log: slog.New(slog.DiscardHandler),
				Remove: func(_ context.Context, branch string) error {
					m.mu.Lock()
					defer m.mu.Unlock()
					if m.refused[branch] {
						m.requests++
						return errors.New("the branch is protected")
					}
					delete(m.branches, branch)
					return nil
				}})
			done := make(chan error, 1)
			k := keeper
			go func() { done <- k.Run(ctx) }()
			stop = func() {
				cancel()
				if err := <-done; err != nil {
					t.Error(err)
				}
			}
		}
		start()
		defer func() { stop() }()
		f(t, m, func() *proposal.Keeper { return keeper }, func() { stop(); start() })
	})
}

func settle() { kit.Pass(5 * time.Second) }

func TestAPullRequestIsOpenedOnceWhateverIsLost(t *testing.T) {
	inMemory(t, func(t *testing.T, m *memory, k func() *proposal.Keeper, restart func()) {
		told := 0
		want := proposal.Wanted{Branch: "a", Title: "A", Changed: func() { told++ }}
		m.set(func() { m.lost = true })
		if s := k().Keep(want); s != (proposal.State{}) {
			t.Errorf("at first: %+v", s)
		}
		settle()
		s := k().Keep(want)
		if s.Number != 1 || !s.Open || s.Link != "page" || s.Err != nil || told == 0 {
			t.Errorf("opened: %+v, told %d times", s, told)
		}
		restart() // before its number was recorded
		k().Keep(want)
		m.set(func() { m.pulls[0].open = false })
		restart()
		k().Keep(want)
		settle()
		if s = k().Keep(want); !s.Closed() || len(m.pulls) != 1 {
			t.Errorf("closed while nobody looked: %+v, %d pull requests", s, len(m.pulls))
		}
		m.set(func() { m.pulls[0].merged = "commit" })
		k().Delivered()
		settle()
		if s = k().Keep(want); s.Merged != "commit" || s.Closed() {
			t.Errorf("merged: %+v", s)
		}
	})
}

func TestAForgeThatIsAwayIsLeftAloneAndToldLater(t *testing.T) {
	inMemory(t, func(t *testing.T, m *memory, k func() *proposal.Keeper, _ func()) {
		want := proposal.Wanted{Branch: "a", Title: "A", Changed: func() {}}
		m.set(func() { m.away = forge.ErrAway })
		k().Keep(want)
		kit.Pass(10 * time.Minute)
		if s := k().Keep(want); !errors.Is(s.Err, forge.ErrAway) || m.requests > 30 {
			t.Errorf("%+v after %d requests", s, m.requests)
		}
		if done, err := k().Withdraw("b", "", nil); done {
			t.Errorf("withdrawn: %v", err)
		}
		m.set(func() { m.away = nil })
		kit.Pass(time.Minute)
		if s := k().Keep(want); s.Number != 1 || s.Err != nil {
			t.Errorf("after it was back: %+v", s)
		}
		if done, err := k().Withdraw("b", "", nil); !done || err != nil {
			t.Errorf("withdrawn: %v, %v", done, err)
		}
		at := m.requests
		kit.Pass(10 * time.Minute)
		if n := m.requests - at; n < 8 || n > 24 {
			t.Errorf("%d requests in 10 minutes in which nothing happens", n)
		}
	})
}

func TestAPullRequestThatIsNotWantedAnyMoreIsClosedWithItsBranch(t *testing.T) {
	inMemory(t, func(t *testing.T, m *memory, k func() *proposal.Keeper, restart func()) {
		m.set(func() { m.branches["a"] = true })
		k().Keep(proposal.Wanted{Branch: "a", Title: "A"})
		settle()
		told := 0
		if done, _ := k().Withdraw("a", "cancelled", func() { told++ }); done {
			t.Error("withdrawn at once")
		}
		restart() // nobody knows any more that it began
		for range 2 {
			k().Withdraw("a", "cancelled", func() { told++ })
			settle()
			if done, err := k().Withdraw("a", "cancelled", func() { told++ }); !done || err != nil {
				t.Errorf("%v, %v", done, err)
			}
		}
		if m.pulls[0].open || m.branches["a"] || m.comments[1] != "cancelled" || told == 0 {
			t.Errorf("left: %+v, branches %v, comments %v, told %d times", m.pulls[0], m.branches, m.comments, told)
		}
	})
}

func TestOneThatIsRefusedHoldsUpNoOther(t *testing.T) {
	inMemory(t, func(t *testing.T, m *memory, k func() *proposal.Keeper, _ func()) {
		m.set(func() { m.refused = map[string]bool{"a": true, "b": true} })
		k().Keep(proposal.Wanted{Branch: "a", Title: "A"})
		k().Withdraw("b", "", nil)
		kit.Pass(time.Hour)
		if s := k().Keep(proposal.Wanted{Branch: "a", Title: "A"}); s.Err == nil || s.Known() {
			t.Errorf("the one that is refused: %+v", s)
		}
		if done, err := k().Withdraw("b", "", nil); done || err == nil {
			t.Errorf("the one that can't be removed: %v, %v", done, err)
		}
		if m.requests > 200 {
			t.Errorf("%d requests in an hour", m.requests)
		}
		k().Keep(proposal.Wanted{Branch: "c", Title: "C"})
		settle()
		if s := k().Keep(proposal.Wanted{Branch: "c", Title: "C"}); !s.Open {
			t.Errorf("another: %+v", s)
		}
		m.set(func() { m.refused = nil })
		kit.Pass(11 * time.Minute)
		if s := k().Keep(proposal.Wanted{Branch: "a", Title: "A"}); !s.Open {
			t.Errorf("once it is taken: %+v", s)
		}
		if done, err := k().Withdraw("b", "", nil); !done || err != nil {
			t.Errorf("once it can be removed: %v, %v", done, err)
		}
	})
}
