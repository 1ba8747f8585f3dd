package reconciler_test

import (
	"errors"
	"maps"
	"testing"
	"time"

	"github.com/jibe-vnfm/jibe/lcm"
	"github.com/jibe-vnfm/jibe/reconciler"
)

func TestAVIMIsUsedWhileInstancesAreAtIt(t *testing.T) {
	t.Parallel()

	for name, ends := range map[string]func(*world){
		"and isn't once they are terminated": func(w *world) { w.commit(file("notInstantiated", "")) },
		"and isn't once they are removed":    func(w *world) { w.commit("") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, func(c *reconciler.Config) { c.Secrets = addressed{} })
			w.vimFile("lab", "type: sim\ndefault: true\nendpoint: https://a\n")
			w.vimFile("spare", "type: sim\nendpoint: https://b\n")
			used := func(lab int) func() bool {
				return func() bool {
					return maps.Equal(w.recon.View().InstancesAtVIMs(), map[string]int{"lab": lab, "spare": 0})
				}
			}
			w.until("none is used", used(0))
			w.commit(file("instantiated", ""))
			w.last(lcm.Instantiate, lcm.Completed)
			w.until("the instance is at lab", used(1))

			w.stop()
			w.start()
			w.recon.EnqueueAll()
			w.until("a restart sees it again", used(1))

			w.cloud.SetVIMAway("lab", errors.New("connection refused"), false)
			ends(w)
			w.until("the termination waits for the VIM", func() bool {
				ops := w.operations(lcm.Terminate)
				if len(ops) == 0 {
					return false
				}
				_, waits := ops[0].Waiting()
				return waits
			})
			if !used(1)() {
				t.Errorf("used while a termination waits there: %v", w.recon.View().InstancesAtVIMs())
			}
			w.cloud.SetVIMAway("lab", nil, false)
			w.wait(3 * time.Second) // its identity is asked for no more often
			w.until("none is used any more", used(0))
		})
	}
}
