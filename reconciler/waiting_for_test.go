package reconciler_test

import (
	"strings"
	"testing"
	"time"

	"github.com/jibe-vnfm/jibe/lcm"
)

// waitingFor waits until the instance is seen to wait for this, "" for nothing.
func (w *world) waitingFor(what string) {
	w.t.Helper()
	w.until("it waits for "+what, func() bool {
		why, waits := w.recon.View().WaitingFor(id)

		return waits == (what != "") && strings.Contains(why.For, what)
	})
}

func TestAnInstanceSaysWhatItWaitsFor(t *testing.T) {
	t.Parallel()

	w := newWorld(t, nil)
	w.together(file("instantiated", needs), udm("notInstantiated", ""))
	w.waitingFor("what it needs: " + udmDir)
	w.together("", udm("instantiated", ""))
	w.last(lcm.Instantiate, lcm.Completed)
	w.waitingFor("")

	w.rule(frozen(time.Hour))
	w.commit(file("instantiated", "levels: {web: 1}\n"))
	w.waitingFor("frozen (new year)")
	w.wait(2 * time.Hour)
	w.last(lcm.Scale, lcm.Completed)
	w.waitingFor("")

	w.cloud.SetLatency(time.Hour)
	w.commit(file("instantiated", "levels: {web: 2}\n"))
	w.waitingFor("2 of 3 units are ready")
	w.commit(file("instantiated", "levels: {web: 2}\nsuspend: true\n"))
	w.waitingFor("suspend: true")
	w.commit(file("instantiated", "levels: {web: 2}\n"))
	w.cloud.Fail(web, "no node has room")
	w.cloud.Hasten()
	w.last(lcm.Scale, lcm.FailedTemp)
	w.waitingFor("a person: SCALE failed")
}
