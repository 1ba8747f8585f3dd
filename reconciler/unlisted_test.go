package reconciler_test

import (
	"strings"
	"testing"
	"time"

	"github.com/jibe-vnfm/jibe/lcm"
	"github.com/jibe-vnfm/jibe/reconciler"
)

// gone is what a VIM says of a kind that it can't list.
const gone = `conversion webhook for example.com/v1, Kind=Gadget failed: service "gone" not found`

func TestAKindThatCantBeListedIsAProblemOfItsInstances(t *testing.T) {
	t.Parallel()
	w := running(t, "", nil)
	view := w.recon.View()

	w.cloud.Drift(web)
	w.cloud.Unlist(id, "Gadget.example.com", gone, w.now().Add(-time.Minute))
	w.until("told", func() bool { return len(view.Unlisted()) > 0 })

	problem, ok := view.Problem(id)
	if !ok || problem.File != dir+"/vnf.yaml" || !strings.Contains(problem.Message, "VIM lab can't list kind Gadget.example.com") || !strings.Contains(problem.Message, gone) {
		t.Errorf("the instance's problem is %+v", problem)
	}
	if all := view.Problems(); len(all) != 1 || all[0] != problem {
		t.Errorf("the problems are %+v, want that one", all)
	}
	if x := view.Unlisted()[0]; x.VIM != "lab" || x.Kind != "Gadget.example.com" || x.Instance != id || x.Why != gone {
		t.Errorf("the kind out of sight is %+v", x)
	}
	if why := view.Away("lab"); why != "" {
		t.Errorf("a VIM that answers counts as unreachable: %s", why)
	}

	w.cloud.Unlist(id, "", "", time.Time{})
	w.last(lcm.Heal, lcm.Completed)
	w.until("over", func() bool { return len(view.Unlisted()) == 0 })
	if _, ok := view.Problem(id); ok {
		t.Error("the kind can be listed again, and the instance still has a problem")
	}
}

func TestAKindThatIsOutOfSightForAMomentIsNotTold(t *testing.T) {
	t.Parallel()
	w := running(t, "", nil)

	w.cloud.Unlist(id, "Gadget.example.com", gone, w.now())
	w.looks()

	if all := w.recon.View().Unlisted(); len(all) > 0 {
		t.Errorf("a webhook that is started again is told: %+v", all)
	}
	if why := w.recon.View().Away("lab"); why != "" {
		t.Errorf("a VIM that answers counts as unreachable: %s", why)
	}
}

func TestAnOperationNamesTheKindThatItWaitsFor(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *reconciler.Config) { c.Timeout = 10 * time.Minute })
	w.cloud.SetLatency(time.Hour)
	w.commit(file("instantiated", ""))
	w.last(lcm.Instantiate, lcm.Processing)

	const what = "kind Gadget.example.com at VIM lab, which can't be listed"
	w.cloud.Unlist(id, "Gadget.example.com", gone, w.now().Add(-time.Minute))
	w.until("told", func() bool {
		now, _ := w.last(lcm.Instantiate, lcm.Processing).Waiting()
		return now.For == what
	})
	w.wait(time.Hour) // longer than the operation may take
	if len(w.recon.View().Unlisted()) == 0 {
		t.Error("the instance has no problem")
	}

	w.cloud.Hasten()
	w.cloud.Unlist(id, "", "", time.Time{})
	done := w.last(lcm.Instantiate, lcm.Completed)
	var told []string
	for _, line := range done.Story {
		if strings.Contains(line.Text, "can't be") || strings.Contains(line.Text, "again") {
			told = append(told, line.Text)
		}
	}
	if len(told) != 2 || told[1] != "the kind can be listed again" {
		t.Errorf("the wait and its end are told as %q", told)
	}
	w.until("over", func() bool { return len(w.recon.View().Unlisted()) == 0 })
}
