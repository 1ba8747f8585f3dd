package reconciler_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/lcm"
	"github.com/jibe-vnfm/jibe/reconciler"
)

// problem waits until the instance's file isn't obeyed for a reason that has these words
// in it.
func (w *world) problem(words string) (p reconciler.Problem) {
	w.t.Helper()
	w.until("the file is a problem: "+words, func() bool {
		var ok bool
		p, ok = w.recon.View().Problem(id)
		return ok && strings.Contains(p.Message, words)
	})
	return p
}

// obeyed waits until the instance's file is obeyed.
func (w *world) obeyed() {
	w.t.Helper()
	w.until("the file is obeyed", func() bool {
		_, ok := w.recon.View().Problem(id)
		return !ok
	})
}

// lineOf is the number of the line of text that begins with start.
func lineOf(t *testing.T, text, start string) int {
	t.Helper()
	for i, line := range strings.Split(text, "\n") {
		if strings.HasPrefix(line, start) {
			return i + 1
		}
	}
	t.Fatalf("no line of %q begins with %q", text, start)
	return 0
}

func TestAHeadThatCannotBeDoneIsAProblemWithItsLineAndNothingIsBegun(t *testing.T) {
	t.Parallel()

	good := file("instantiated", "")
	for what, tt := range map[string]struct{ text, line, says string }{
		"a level out of range": {file("instantiated", "levels: {web: 99}\n"), "levels:", "99"},
		"an unknown aspect":    {file("instantiated", "levels: {none: 1}\n"), "levels:", "none"},
		"an unknown flavour":   {strings.Replace(good, "flavour: simple", "flavour: grand", 1), "flavour:", "grand"},
		"an unknown VIM":       {file("instantiated", "vim: elsewhere\n"), "vim:", "vims/elsewhere.yaml"},
		"an unknown package":   {strings.Replace(good, pkgTree, strings.Repeat("f", 40), 1), "vnfdId:", "no such package"},
		"a vnfdId of no VNFD":  {strings.Replace(strings.Replace(good, "package: "+pkgTree, "", 1), vnfdID, "00000000-0000-4000-8000-00000000000a", 1), "vnfdId:", "no such package"},
		"no package, not to run": {strings.Replace(strings.Replace(file("notInstantiated", ""), "package: "+pkgTree, "", 1), vnfdID,
			"00000000-0000-4000-8000-00000000000a", 1), "vnfdId:", "no such package"},
	} {
		t.Run(what, func(t *testing.T) {
			w := newWorld(t, nil)
			w.commit(tt.text)
			p := w.problem(tt.says)
			if p.File != dir+"/vnf.yaml" || p.Line != lineOf(t, tt.text, tt.line) || p.Instance != id || p.Since.IsZero() {
				t.Errorf("the problem is %+v", p)
			}
			if all := w.recon.View().Problems(); len(all) != 1 || all[0] != p {
				t.Errorf("all problems are %+v, want only %+v", all, p)
			}
			if ops, err := w.log.Operations(t.Context(), "", 0); err != nil || len(ops) > 0 {
				t.Errorf("operations %+v (%v), want none", ops, err)
			}
			w.commit(file("instantiated", ""))
			w.last(lcm.Instantiate, lcm.Completed)
			w.obeyed()
		})
	}
}

func TestARunningVNFIsLeftAloneWhileItsHeadCannotBeDone(t *testing.T) {
	t.Parallel()

	w := newWorld(t, nil)
	w.commit(file("instantiated", ""))
	w.last(lcm.Instantiate, lcm.Completed)
	text := file("instantiated", "levels: {web: 99}\n")
	bad := w.commit(text)
	first := w.problem("99")
	w.recon.Enqueue(id)
	if again := w.problem("99"); again != first {
		t.Errorf("the problem is %+v at the second look, was %+v", again, first)
	}
	if now, _ := w.repo.Lookup(id); now.Tree != bad.Tree {
		t.Error("the author's file was changed")
	}
	if n := w.units("VDU1"); n != 1 {
		t.Errorf("%d units run, want 1", n)
	}
	w.last(lcm.Instantiate, lcm.Completed)
	w.commit(file("instantiated", "levels: {web: 2}\n"))
	w.last(lcm.Scale, lcm.Completed)
	w.obeyed()
}

func TestTheProblemOfAnInstanceGoesWithIt(t *testing.T) {
	t.Parallel()

	w := newWorld(t, nil)
	w.commit(file("instantiated", "levels: {web: 99}\n"))
	w.problem("99")
	w.commit("")
	w.obeyed()
}

func TestAHeadThatCannotBeDoneIsSeenAgainAfterARestart(t *testing.T) {
	t.Parallel()

	w := newWorld(t, nil)
	w.commit(file("instantiated", "vim: elsewhere\n"))
	w.problem("elsewhere")
	w.stop()
	w.start()
	w.problem("elsewhere")
}

// closedRepo takes no commit of the reconciler's while it is closed.
type closedRepo struct {
	desired.Repo
	closed atomic.Bool
}

func (r *closedRepo) Write(ctx context.Context, w desired.Write) (desired.Revision, error) {
	if r.closed.Load() {
		return desired.Revision{}, fmt.Errorf("%w: protected branch", desired.ErrUnavailable)
	}
	return r.Repo.Write(ctx, w)
}

func TestAnOutcomeThatGitDoesNotTakeIsAProblemUntilItDoes(t *testing.T) {
	t.Parallel()

	repo := &closedRepo{}
	w := newWorld(t, func(c *reconciler.Config) {
		repo.Repo = c.Repo
		c.Repo = repo
	})
	repo.closed.Store(true)
	w.cloud.Refuse(web, "no room for it")
	w.commit(file("instantiated", ""))
	if p := w.problem("protected branch"); p.File != dir+"/vnf.yaml" || p.Instance != id || p.Remedy == "" {
		t.Errorf("the problem is %+v", p)
	}
	repo.closed.Store(false)
	w.recon.Enqueue(id)
	w.last(lcm.Instantiate, lcm.RolledBack)
	w.obeyed()
}

func TestTheErrorOfAnOperationIsASentenceThatDoesNotNameTheInstance(t *testing.T) {
	t.Parallel()

	for what, tt := range map[string]struct {
		prepare func(w *world)
		state   lcm.State
		want    string
	}{
		"refused before anything is touched": {func(w *world) { w.cloud.Refuse(web, "no room for it") }, lcm.RolledBack, "VIM lab: " + web + ": no room for it"},
		"failed while it ran":                {func(w *world) { w.cloud.Fail(web, "no memory") }, lcm.FailedTemp, web + ": no memory"},
		"the VIM was away": {func(w *world) { w.cloud.SetAway(errors.New("nobody answers")) }, lcm.RolledBack,
			"not done within 50ms; the last error was: VIM lab: VIM unavailable: nobody answers"},
	} {
		t.Run(what, func(t *testing.T) {
			w := newWorld(t, func(c *reconciler.Config) {
				if what == "the VIM was away" {
					c.StartTimeout = 50 * time.Millisecond
				}
			})
			tt.prepare(w)
			w.commit(file("instantiated", ""))
			op := w.last(lcm.Instantiate, tt.state)
			if op.Error == nil || op.Error.Detail != tt.want {
				t.Errorf("the error is %+v, want %q", op.Error, tt.want)
			}
			if away := what == "the VIM was away"; op.Unseen != away || (w.recon.View().Away("lab") != "") != away {
				t.Errorf("that its VIM was away is %t, and that it is %q", op.Unseen, w.recon.View().Away("lab"))
			}
		})
	}
}
