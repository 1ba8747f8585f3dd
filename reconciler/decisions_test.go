package reconciler_test

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/drivers"
	"github.com/jibe-vnfm/jibe/drivers/sim"
	"github.com/jibe-vnfm/jibe/lcm"
	"github.com/jibe-vnfm/jibe/plan"
	"github.com/jibe-vnfm/jibe/reconciler"
	"github.com/jibe-vnfm/jibe/test/kit"
)

// recorder writes down what a reconciler decides, in order: which operations it begins and ends, what it hands to
// drivers, and what it commits.
type recorder struct {
	mu    sync.Mutex
	lines []string
}

func (r *recorder) add(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lines = append(r.lines, fmt.Sprintf(format, args...))
}

// recordedRepo records the commits of the reconciler.
type recordedRepo struct {
	desired.Repo
	*recorder
}

func (r recordedRepo) Write(ctx context.Context, w desired.Write) (desired.Revision, error) {
	rev, err := r.Repo.Write(ctx, w)
	if err == nil {
		r.add("commit %q", w.Subject)
	}
	return rev, err
}

// recordedDriver records the steps that a driver is handed.
type recordedDriver struct {
	*sim.Driver
	*recorder
}

func (d recordedDriver) Do(ctx context.Context, want drivers.Rendering, steps ...plan.Step) error {
	for _, s := range steps {
		if !strings.Contains(s.Object, id) {
			continue // another instance's
		}
		d.add("do %s", s)
	}
	return d.Driver.Do(ctx, want, steps...)
}

// recorded starts a world whose decisions are recorded.
func recorded(t *testing.T, conf func(*reconciler.Config)) (*world, *recorder) {
	t.Helper()
	rec := &recorder{}
	w := newWorld(t, func(c *reconciler.Config) {
		c.Repo = recordedRepo{c.Repo, rec}
		plain := c.Driver
		c.Driver = func(v drivers.VIM) (drivers.Driver, error) {
			drv, err := plain(v)
			if err != nil {
				return nil, err
			}
			return recordedDriver{drv.(*sim.Driver), rec}, nil
		}
		c.Oplog.OnChange(func(op *lcm.Operation) {
			if op.Instance != id {
				return
			}
			who, why := "", ""
			if op.Automatic {
				who = "automatic "
			}
			if op.Error != nil && (op.State == lcm.FailedTemp || op.State.Ended()) {
				why = ": " + op.Error.Detail
			}
			rec.add("%s%s %s%s", who, op.Type, op.State, why)
		})
		if conf != nil {
			conf(c)
		}
	})
	return w, rec
}

// varies is what differs from run to run.
var varies = []struct {
	*regexp.Regexp
	with string
}{
	{regexp.MustCompile(`\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d)?(Z|[+-]\d\d:\d\d| UTC)?`), "TIME"},
	{regexp.MustCompile(`(commit|commit,|operation) [0-9a-f]{12}\b`), "$1 HASH"},
	{regexp.MustCompile(`web-\d+`), "web-N"},
	{regexp.MustCompile(`\(now [0-9a-zµ.]+\)`), "(now PAUSE)"},
	{regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`), "ID"},
}

// decisions are the lines so far, and the story of each operation of the instance.
func (w *world) decisions(rec *recorder) []byte {
	w.t.Helper()
	var out strings.Builder
	rec.mu.Lock()
	for _, line := range rec.lines {
		fmt.Fprintln(&out, line)
	}
	rec.mu.Unlock()

	var all []*lcm.Operation
	for _, typ := range []lcm.Type{lcm.Instantiate, lcm.Scale, lcm.ChangeFlavour, lcm.Operate, lcm.Heal, lcm.ModifyInfo, lcm.Terminate} {
		all = append(all, w.operations(typ)...)
	}
	for _, op := range all {
		if op.Instance != id {
			continue
		}
		fmt.Fprintf(&out, "\nstory of %s\n", op.Type)
		for _, line := range op.Story {
			if strings.Contains(line.Text, "is under way") {
				continue // how far another instance is
			}
			fmt.Fprintf(&out, "  %s\n", line.Text)
		}
	}
	text := strings.ReplaceAll(out.String(), id, "AMF")
	for _, v := range varies {
		text = v.ReplaceAllString(text, v.with)
	}
	return []byte(text)
}

// one level of the aspect web.
func web1(n int) string { return fmt.Sprintf("levels: {web: %d}\n", n) }

// TestDecisions drives the reconciler through each of its branches, and compares what it decided with a golden file.
func TestDecisions(t *testing.T) {
	t.Parallel()

	for name, s := range map[string]struct {
		conf func(*reconciler.Config)
		play func(*world)
	}{
		"life": {play: func(w *world) {
			w.commit(strings.NewReplacer("vim: lab\n", "", "package: "+pkgTree+"\n", "").Replace(file("instantiated", "")))
			w.last(lcm.Instantiate, lcm.Completed)
			w.commit(file("instantiated", web1(2)))
			w.last(lcm.Scale, lcm.Completed)
			w.commit(file("instantiated", web1(2)+"# a comment\n"))
			w.looks()
			w.commit(file("notInstantiated", web1(2)))
			w.last(lcm.Terminate, lcm.Completed)
			w.commit("")
			w.until("it is forgotten", func() bool { _, known := w.log.InstanceEntry(id); return !known })
		}},
		"failed-and-pushed-back": {play: func(w *world) {
			w.failToScale("no node has room")
			w.last(lcm.Scale, lcm.FailedTemp)
			w.cloud.Fail(web, "")
			w.commit(file("instantiated", ""))
			w.last(lcm.Scale, lcm.RolledBack)
		}},
		"failed-and-rolled-back": {play: func(w *world) {
			w.failToScale("no node has room")
			op := w.last(lcm.Scale, lcm.FailedTemp)
			w.cloud.Fail(web, "")
			w.decided(w.log.Rollback(w.t.Context(), op.ID))
			w.last(lcm.Scale, lcm.RolledBack)
		}},
		"failed-and-retried": {play: func(w *world) {
			w.failToScale("no node has room")
			op := w.last(lcm.Scale, lcm.FailedTemp)
			w.cloud.Fail(web, "")
			w.decided(w.log.Retry(w.t.Context(), op.ID))
			w.last(lcm.Scale, lcm.Completed)
		}},
		"failed-for-good": {play: func(w *world) {
			w.failToScale("no node has room")
			op := w.last(lcm.Scale, lcm.FailedTemp)
			w.decided(w.log.Fail(w.t.Context(), op.ID))
			w.last(lcm.Scale, lcm.Failed)
			w.cloud.Fail(web, "")
			w.commit(file("instantiated", web1(1)))
			w.last(lcm.Scale, lcm.Completed)
		}},
		"failed-and-superseded": {play: func(w *world) {
			w.failToScale("no node has room")
			w.last(lcm.Scale, lcm.FailedTemp)
			w.cloud.Fail(web, "")
			w.commit(file("instantiated", web1(1)))
			w.last(lcm.Scale, lcm.Completed)
		}},
		"gives-way": {play: func(w *world) {
			w.commit(file("instantiated", ""))
			w.last(lcm.Instantiate, lcm.Completed)
			w.cloud.SetLatency(time.Hour)
			w.commit(file("instantiated", web1(3)))
			old := w.waits(lcm.Scale)
			w.commit(file("instantiated", web1(1)))
			w.until("it gave way", func() bool { return w.operation(old.ID).State == lcm.Failed })
			w.cloud.Hasten()
			w.last(lcm.Scale, lcm.Completed)
		}},
		"never-supersedes": {play: func(w *world) {
			w.commit(file("instantiated", ""))
			w.last(lcm.Instantiate, lcm.Completed)
			w.cloud.SetLatency(time.Hour)
			w.commit(file("instantiated", web1(3)))
			old := w.waits(lcm.Scale)
			w.commit(file("instantiated", web1(1)+"supersede: never\n"))
			w.looks()
			w.cloud.Hasten()
			w.until("both are completed", func() bool { return w.begun() == 3 && w.operation(old.ID).State == lcm.Completed })
			w.last(lcm.Scale, lcm.Completed)
		}},
		"cancelled-forcefully": {play: func(w *world) { w.cancelled(lcm.Forceful) }},
		"cancelled-gracefully": {play: func(w *world) { w.cancelled(lcm.Graceful) }},
		"out-of-time": {play: func(w *world) {
			w.commit(file("instantiated", ""))
			w.last(lcm.Instantiate, lcm.Completed)
			w.cloud.SetLatency(time.Hour)
			w.commit(file("instantiated", web1(1)))
			w.waits(lcm.Scale)
			w.wait(501 * time.Second)
			w.last(lcm.Scale, lcm.FailedTemp)
		}},
		"not-to-be-done": {play: func(w *world) {
			w.commit(file("instantiated", ""))
			w.last(lcm.Instantiate, lcm.Completed)
			w.commit(file("instantiated", web1(99)))
			w.until("it is a problem", func() bool { _, is := w.recon.View().Problem(id); return is })
			w.looks()
			w.commit(file("instantiated", web1(1)))
			w.last(lcm.Scale, lcm.Completed)
			w.until("it is none any more", func() bool { _, is := w.recon.View().Problem(id); return !is })
		}},
		"suspended": {play: func(w *world) {
			w.commit(file("instantiated", ""))
			w.last(lcm.Instantiate, lcm.Completed)
			w.commit(file("instantiated", web1(1)+"suspend: true\n"))
			w.looks()
			w.cloud.Drift(web)
			w.looks()
			w.commit(file("instantiated", web1(1)))
			w.last(lcm.Scale, lcm.Completed)
		}},
		"window": {play: func(w *world) {
			w.commit(file("instantiated", ""))
			w.last(lcm.Instantiate, lcm.Completed)
			w.rule(frozen(time.Hour))
			w.commit(file("instantiated", web1(2)))
			w.waiting(lcm.Scale)
			w.cloud.Drift(web)
			w.last(lcm.Heal, lcm.Completed)
			w.wait(2 * time.Hour)
			w.last(lcm.Scale, lcm.Completed)
		}},
		"window-of-a-repair": {play: func(w *world) {
			w.commit(file("instantiated", ""))
			w.last(lcm.Instantiate, lcm.Completed)
			w.rule(frozen(time.Hour) + "binds: [HEAL]\n")
			w.cloud.Drift(web)
			w.drift(reconciler.DriftRefused)
			w.looks()
			w.wait(2 * time.Hour)
			w.last(lcm.Heal, lcm.Completed)
		}},
		"repair": {play: func(w *world) {
			w.commit(file("instantiated", ""))
			w.last(lcm.Instantiate, lcm.Completed)
			w.cloud.Lose(web)
			w.last(lcm.Heal, lcm.Completed)
		}},
		"repair-refused": {play: func(w *world) {
			w.commit(file("instantiated", ""))
			w.last(lcm.Instantiate, lcm.Completed)
			w.cloud.Refuse(web, "exceeded quota")
			w.cloud.Lose(web)
			w.last(lcm.Heal, lcm.FailedTemp)
			w.drift(reconciler.DriftFailing)
			w.cloud.Refuse(web, "")
			w.wait(11 * time.Second)
			w.last(lcm.Heal, lcm.Completed)
		}},
		"repair-superseded": {play: func(w *world) {
			w.commit(file("instantiated", ""))
			w.last(lcm.Instantiate, lcm.Completed)
			w.cloud.SetLatency(time.Hour)
			w.cloud.Lose(web)
			old := w.waits(lcm.Heal)
			w.commit(file("instantiated", web1(2)))
			w.until("it gave way", func() bool { return w.operation(old.ID).State == lcm.Failed })
			w.cloud.Hasten()
			w.last(lcm.Scale, lcm.Completed)
		}},
		"drift-reported": {play: func(w *world) {
			w.commit(file("instantiated", "drift: report\n"))
			w.last(lcm.Instantiate, lcm.Completed)
			w.cloud.Drift(web)
			w.drift(reconciler.DriftReported)
			w.commit(file("instantiated", "drift: correct\n"))
			w.last(lcm.Heal, lcm.Completed)
		}},
		"needs": {play: func(w *world) {
			w.together(file("instantiated", needs), udm("notInstantiated", ""))
			w.waitsFor(id, lcm.Instantiate, udmDir)
			w.together("", udm("instantiated", ""))
			w.op(id, lcm.Instantiate, lcm.Completed)
			w.together(file("notInstantiated", needs), udm("notInstantiated", ""))
			w.op(udmID, lcm.Terminate, lcm.Completed)
		}},
		"needs-and-gives-way": {play: func(w *world) {
			w.together(file("instantiated", needs), udm("notInstantiated", ""))
			w.waitsFor(id, lcm.Instantiate, udmDir)
			w.commit(file("instantiated", needs+web1(1)))
			w.until("it gave way", func() bool { return w.begun() == 2 })
			w.waitsFor(id, lcm.Instantiate, udmDir)
			w.together("", udm("instantiated", ""))
			w.op(id, lcm.Instantiate, lcm.Completed)
		}},
		"needs-and-cancelled": {play: func(w *world) {
			w.together(file("instantiated", needs), udm("notInstantiated", ""))
			op := w.waitsFor(id, lcm.Instantiate, udmDir)
			w.decided(w.log.Cancel(w.t.Context(), op.ID, lcm.Forceful))
			w.last(lcm.Instantiate, lcm.RolledBack)
		}},
		"vim-unreachable-before": {play: func(w *world) {
			w.cloud.SetAway(errors.New("no route to host"))
			w.commit(file("instantiated", ""))
			w.waitsFor(id, lcm.Instantiate, "VIM lab")
			w.wait(61 * time.Second)
			w.last(lcm.Instantiate, lcm.RolledBack)
		}},
		"vim-unreachable-meanwhile": {play: func(w *world) {
			w.commit(file("instantiated", ""))
			w.last(lcm.Instantiate, lcm.Completed)
			w.cloud.SetLatency(time.Hour)
			w.commit(file("instantiated", web1(1)))
			op := w.waits(lcm.Scale)
			w.cloud.SetAway(errors.New("no route to host"))
			w.until("it waits for the VIM", func() bool {
				w.recon.Enqueue(id)
				now, waits := w.operation(op.ID).Waiting()
				return waits && strings.Contains(now.For, "VIM lab")
			})
			w.wait(501 * time.Second)
			w.cloud.SetAway(nil)
			w.cloud.Hasten()
			w.last(lcm.Scale, lcm.Completed)
		}},
		"refused": {play: func(w *world) {
			w.commit(file("instantiated", ""))
			w.last(lcm.Instantiate, lcm.Completed)
			w.cloud.Refuse(web, "exceeded quota")
			w.commit(file("instantiated", web1(2)))
			w.last(lcm.Scale, lcm.RolledBack)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, rec := recorded(t, s.conf)
			s.play(w)
			w.looks()
			kit.Golden(t, "testdata/decisions/"+name+".golden", w.decisions(rec))
		})
	}
}

// decided has a decision of a client looked at.
func (w *world) decided(_ *lcm.Operation, err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
	w.recon.Enqueue(id)
}

// cancelled cancels a scale-out that waits for its units.
func (w *world) cancelled(mode string) {
	w.t.Helper()
	w.commit(file("instantiated", ""))
	w.last(lcm.Instantiate, lcm.Completed)
	w.cloud.SetLatency(time.Hour)
	w.commit(file("instantiated", web1(3)))
	op := w.waits(lcm.Scale)
	w.decided(w.log.Cancel(w.t.Context(), op.ID, mode))
	w.looks()
	w.cloud.Hasten()
	w.until("it has failed or ended", func() bool {
		w.recon.Enqueue(id)
		return w.operation(op.ID).State == lcm.FailedTemp || w.operation(op.ID).State.Ended()
	})
}
