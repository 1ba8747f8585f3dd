package reconciler_test

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/drivers"
	"github.com/jibe-vnfm/jibe/lcm"
	"github.com/jibe-vnfm/jibe/plan"
)

const cache = "Workload/" + id + "/cache"

func TestCommitsStopAndStartAVNFAtItsLevels(t *testing.T) {
	t.Parallel()

	w := newWorld(t, nil)
	w.commit(file("instantiated", "levels: {web: 2}\n"))
	w.last(lcm.Instantiate, lcm.Completed)
	w.commit(file("stopped", "levels: {web: 2}\n"))
	op := w.last(lcm.Operate, lcm.Completed)
	if n, db := w.units("VDU1"), w.units("VDU2"); n != 0 || db != 0 {
		t.Errorf("%d and %d units run", n, db)
	}
	if got := op.Changes().Vnfcs; len(got) != 5 || got[0].ChangeType != lcm.Removed {
		t.Errorf("affected: %v", got)
	}
	w.commit(file("stopped", "levels: {web: 1, db: 1}\n"))
	w.last(lcm.ScaleToLevel, lcm.Completed)
	w.commit(file("instantiated", "levels: {web: 1, db: 1}\n"))
	w.until("started", func() bool { return w.units("VDU1") == 2 && w.units("VDU2") == 4 })
	w.last(lcm.Operate, lcm.Completed)
	w.commit(file("stopped", "levels: {web: 1, db: 1}\n"))
	w.until("stopped", func() bool { return w.units("VDU1") == 0 && w.units("VDU2") == 0 })
	w.commit(file("notInstantiated", ""))
	w.last(lcm.Terminate, lcm.Completed)
}

func TestAStartThatFailsCanBeRetriedAndTakenBack(t *testing.T) {
	t.Parallel()

	for _, way := range []string{"retry", "rollback", "fail"} {
		t.Run(way, func(t *testing.T) {
			w := newWorld(t, nil)
			w.commit(file("instantiated", ""))
			w.last(lcm.Instantiate, lcm.Completed)
			w.commit(file("stopped", ""))
			w.last(lcm.Operate, lcm.Completed)
			w.cloud.Fail(web, "no node has room")
			w.commit(file("instantiated", ""))
			op := w.last(lcm.Operate, lcm.FailedTemp)
			if !strings.Contains(op.Error.Detail, "no node has room") {
				t.Errorf("the error says %q", op.Error.Detail)
			}
			want, state := 0, desired.Stopped
			var err error
			switch way {
			case "retry":
				want, state = 1, desired.Instantiated
				w.cloud.Fail(web, "")
				_, err = w.log.Retry(t.Context(), op.ID)
			case "rollback":
				_, err = w.log.Rollback(t.Context(), op.ID)
			case "fail":
				_, err = w.log.Fail(t.Context(), op.ID)
				want = 1 // a failed operation leaves what it has come to
			}
			if err != nil {
				t.Fatal(err)
			}
			w.recon.Enqueue(id)
			w.last(lcm.Operate, map[string]lcm.State{"retry": lcm.Completed, "rollback": lcm.RolledBack, "fail": lcm.Failed}[way])
			if got := w.head().State; got != state || w.units("VDU1") != want {
				t.Errorf("git says %s, %d units; want %s, %d", got, w.units("VDU1"), state, want)
			}
		})
	}
}

func TestServersAreTurnedOffAndOnAndStay(t *testing.T) {
	t.Parallel()

	w, r, _ := machines(t, nil)
	before, _ := w.live()
	w.commit(file("stopped", twoWebs))
	op := w.last(lcm.Operate, lcm.Completed)
	units, _ := w.live()
	if len(units) != 4 || len(r.steps(plan.Stop)) != 4 || slices.ContainsFunc(units, func(u plan.Unit) bool { return !u.Stopped || u.Ready }) {
		t.Errorf("units %+v after %q", units, r.did)
	}
	if got := op.Changes().Vnfcs; len(got) != 4 || got[0].ChangeType != lcm.Modified {
		t.Errorf("affected: %v", got)
	}
	// Somebody starts one: that is drift.
	r.meddle(func(x *stack) { x.servers[1].off = false })
	w.recon.Enqueue(id)
	if op := w.last(lcm.Heal, lcm.Completed); !op.Automatic || len(r.steps(plan.Stop)) != 5 {
		t.Errorf("a server that somebody started: %q", r.did)
	}
	w.commit(file("instantiated", twoWebs))
	w.last(lcm.Operate, lcm.Completed)
	// Somebody stops one.
	r.meddle(func(x *stack) { x.servers[1].off = true })
	w.recon.Enqueue(id)
	if op := w.last(lcm.Heal, lcm.Completed); !op.Automatic || len(r.steps(plan.Start)) != 5 {
		t.Errorf("a server that somebody stopped: %q", r.did)
	}
	after, _ := w.live()
	if !slices.EqualFunc(before, after, func(a, b plan.Unit) bool { return a.ID == b.ID }) || len(r.steps(plan.DeleteUnit)) > 0 {
		t.Errorf("servers were replaced: %+v, then %+v", before, after)
	}
}

// operate asks for a stop as a request does.
func (w *world) operate(params map[string]any, more string) {
	w.t.Helper()
	rev, _ := w.repo.Lookup(id)
	text, _ := json.Marshal(params)
	op := lcm.Operation{ID: "7c0a4f7e-0a52-4a4e-9d4b-6f3c0a9a1b12", Instance: id, Type: lcm.Operate, Before: rev, Params: text}
	if err := w.log.Prepare(w.t.Context(), op); err != nil {
		w.t.Fatal(err)
	}
	after := w.commit(file("stopped", more))
	if _, err := w.log.Commit(w.t.Context(), op.ID, after); err != nil {
		w.t.Fatal(err)
	}
	w.recon.Enqueue(id)
}

func TestAGracefulStopLeavesServersTheirTimeAndAForcefulOneNone(t *testing.T) {
	t.Parallel()

	w, r, _ := machines(t, nil)
	drains := func(op *lcm.Operation) bool {
		return slices.ContainsFunc(op.Story, func(l lcm.StoryLine) bool { return strings.HasPrefix(l.Text, "connections drain") })
	}
	begun := time.Now()
	w.operate(map[string]any{"changeStateTo": "STOPPED", "stopType": "GRACEFUL", "gracefulStopTimeout": 0.3}, twoWebs)
	op := w.last(lcm.Operate, lcm.Completed)
	if took := time.Since(begun); took < 300*time.Millisecond || len(r.steps(plan.Stop)) != 4 || !drains(op) {
		t.Errorf("stopped after %s: %q", took, r.did)
	}
	w, r, _ = machines(t, nil)
	w.operate(map[string]any{"changeStateTo": "STOPPED", "stopType": "FORCEFUL"}, twoWebs)
	if op = w.last(lcm.Operate, lcm.Completed); drains(op) || len(r.steps(plan.Stop)) != 4 {
		t.Errorf("a forceful stop: %q", r.did)
	}
}

func TestAStopUnderWayCanBeCancelled(t *testing.T) {
	t.Parallel()

	w, r, _ := machines(t, nil)
	w.operate(map[string]any{"changeStateTo": "STOPPED", "stopType": "GRACEFUL", "gracefulStopTimeout": 3600}, twoWebs)
	op := w.last(lcm.Operate, lcm.Processing)
	if _, err := w.log.Cancel(t.Context(), op.ID, lcm.Forceful); err != nil {
		t.Fatal(err)
	}
	w.recon.Enqueue(id)
	w.last(lcm.Operate, lcm.FailedTemp)
	if _, err := w.log.Rollback(t.Context(), op.ID); err != nil {
		t.Fatal(err)
	}
	w.recon.Enqueue(id)
	w.last(lcm.Operate, lcm.RolledBack)
	if got := w.head().State; got != desired.Instantiated || len(r.steps(plan.Stop)) > 0 {
		t.Errorf("git says %s after %q", got, r.did)
	}
}

func TestACommitChangesTheFlavour(t *testing.T) {
	t.Parallel()

	w := newWorld(t, nil)
	w.commit(file("instantiated", ""))
	w.last(lcm.Instantiate, lcm.Completed)
	large := strings.Replace(file("instantiated", ""), "flavour: simple", "flavour: large", 1)
	w.cloud.Fail(cache, "no memory")
	w.commit(large)
	op := w.last(lcm.ChangeFlavour, lcm.FailedTemp)
	if _, err := w.log.Rollback(t.Context(), op.ID); err != nil {
		t.Fatal(err)
	}
	w.recon.Enqueue(id)
	w.last(lcm.ChangeFlavour, lcm.RolledBack)
	if n, db, more := w.units("VDU1"), w.units("VDU2"), w.units("VDU3"); n != 1 || db != 2 || more != 0 || w.head().Flavour != "simple" {
		t.Errorf("after the rollback there are %d, %d and %d units of flavour %s", n, db, more, w.head().Flavour)
	}
	w.cloud.Fail(cache, "")
	w.commit(large)
	w.last(lcm.ChangeFlavour, lcm.Completed)
	if n, db, more := w.units("VDU1"), w.units("VDU2"), w.units("VDU3"); n != 3 || db != 0 || more != 1 {
		t.Errorf("there are %d, %d and %d units", n, db, more)
	}
}

func TestWhatCannotBeChangedTogetherOrOfAStoppedVNFIsRefused(t *testing.T) {
	t.Parallel()

	w, _ := upgradable(t, nil)
	read := func(text string) *desired.Instance {
		in, err := desired.ParseInstance(dir+"/vnf.yaml", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		return in
	}
	settings, err := w.repo.Settings()
	if err != nil {
		t.Fatal(err)
	}
	of := func(state string) string { return file(state, "params: {router: true}\n") }
	for name, c := range map[string]struct {
		before, after string
		field         string
		conflict      bool
	}{
		"the package of a VNF that is stopped, blue-green":   {of("stopped"), strings.Replace(of("stopped"), vnfdID, vnfd2, 1) + "update: {strategy: blueGreen}\n", "", false},
		"the package of a VNF that is stopped, with scripts": {of("stopped"), strings.Replace(of("stopped"), vnfdID, vnfd2, 1) + "update: {coordinate: {new: Scripts/new.sh}}\n", "state", true},
		"the package of a VNF that is stopped":               {of("stopped"), strings.Replace(of("stopped"), vnfdID, vnfd2, 1), "", false},
		"a stop with a change of package":                    {of("instantiated"), strings.Replace(of("stopped"), vnfdID, vnfd2, 1), "", false},
		"a start with other parameters":                      {of("stopped"), file("instantiated", "params: {router: false}\n"), "", false},
		"package and flavour":                                {of("instantiated"), strings.NewReplacer(vnfdID, vnfd2, "flavour: simple", "flavour: large").Replace(of("instantiated")), "flavour", false},
		"a start":                                            {of("stopped"), of("instantiated"), "", false},
		"a scale of a VNF that is stopped":                   {of("stopped"), of("stopped") + "levels: {web: 1}\n", "", false},
		"information about a VNF that is stopped":            {of("stopped"), of("stopped") + "description: x\n", "", false},
		"the termination of a VNF that is stopped":           {of("stopped"), of("notInstantiated"), "", false},
		"a VNF that is stopped from the beginning":           {"", of("stopped"), "", false},
	} {
		t.Run(name, func(t *testing.T) {
			var before *desired.Instance
			if c.before != "" {
				before = read(c.before)
			}
			err := w.recon.View().Check(t.Context(), settings, before, read(c.after))
			var refused *drivers.RefusedError
			if !errors.As(err, &refused) {
				if err != nil || c.field != "" {
					t.Errorf("got %v", err)
				}
				return
			}
			if refused.Field != c.field || refused.Conflict != c.conflict {
				t.Errorf("refused: %+v", refused)
			}
		})
	}
}
