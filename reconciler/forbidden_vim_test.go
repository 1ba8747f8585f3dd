package reconciler_test

import (
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/drivers"
	"github.com/jibe-vnfm/jibe/lcm"
	"github.com/jibe-vnfm/jibe/plan"
	"github.com/jibe-vnfm/jibe/reconciler"
)

// fickle resolves VIMs until they are forbidden.
type fickle struct {
	noSecrets
	no    atomic.Pointer[drivers.RefusedError]
	times atomic.Int32 // for which it was forbidden
}

func (f *fickle) VIM(v *desired.VIM) (drivers.VIM, error) {
	if no := f.no.Load(); no != nil {
		f.times.Add(1)
		return drivers.VIM{}, no
	}
	return f.noSecrets.VIM(v)
}

func TestAVIMThatIsForbiddenRefusesWhatWouldBeginAndLeavesWhatRunsAlone(t *testing.T) {
	t.Parallel()

	secrets := &fickle{}
	var later atomic.Int64
	w := newWorld(t, func(c *reconciler.Config) {
		c.Secrets = secrets
		c.Now = func() time.Time { return time.Now().Add(time.Duration(later.Load())) }
	})
	w.commit(file("instantiated", ""))
	w.last(lcm.Instantiate, lcm.Completed)
	secrets.no.Store(&drivers.RefusedError{Field: "vim", Reason: "vims/lab.yaml: the file is elsewhere (move it)"})
	later.Store(int64(2 * time.Minute)) // after which references are read again

	before := w.head()
	after := *before
	after.Levels = map[string]int{"web": 2}
	if field, reason, ok := reconciler.Refused(w.recon.View().Check(t.Context(), nil, before, &after)); !ok || field != "vim" || !strings.Contains(reason, "move it") {
		t.Errorf("a change at a VIM that isn't used isn't refused by it: %s %s", field, reason)
	}
	w.commit(file("instantiated", "levels: {web: 2}\n"))
	op := w.last(lcm.Scale, lcm.RolledBack)
	if op.Error == nil || op.Error.Detail != "vims/lab.yaml: the file is elsewhere (move it)" || len(op.Journal.Issued) > 0 {
		t.Errorf("the operation says %+v, and began %q", op.Error, op.Journal.Issued)
	}
	secrets.no.Store(nil)
	w.until("what ran runs", func() bool { return w.units("VDU1") == 1 && w.units("VDU2") == 2 })
	w.commit(file("instantiated", "levels: {web: 2}\n"))
	w.last(lcm.Scale, lcm.Completed)
}

func TestAnOperationWhoseVIMIsForbiddenMeanwhileWaitsForIt(t *testing.T) {
	t.Parallel()

	secrets := &fickle{}
	var later atomic.Int64
	w := newWorld(t, func(c *reconciler.Config) {
		c.Secrets = secrets
		c.Now = func() time.Time { return time.Now().Add(time.Duration(later.Load())) }
	})
	w.commit(file("instantiated", ""))
	w.last(lcm.Instantiate, lcm.Completed)
	w.cloud.BeforeStep(func(string, plan.Step) error { return errors.New("not now") })
	w.commit(file("instantiated", "levels: {web: 2}\n"))
	w.last(lcm.Scale, lcm.Processing)
	secrets.no.Store(&drivers.RefusedError{Field: "vim", Reason: "forbidden"})
	later.Store(int64(2 * time.Minute))
	again := func() {
		t.Helper()
		passes := secrets.times.Load() + 2
		w.until("the VIM is asked for again", func() bool {
			w.recon.Enqueue(id)
			return secrets.times.Load() >= passes
		})
	}
	again() // from here on no pass is under way that began before
	w.cloud.BeforeStep(nil)
	again()
	if op := w.last(lcm.Scale, lcm.Processing); op.Error != nil {
		t.Errorf("the operation says %+v", op.Error)
	}
	secrets.no.Store(nil)
	w.last(lcm.Scale, lcm.Completed)
}
