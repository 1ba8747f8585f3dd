package lcm_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/lcm"
	"github.com/jibe-vnfm/jibe/plan"
)

// stored is the operation as it is read from its text.
func stored(t interface{ Fatal(...any) }, op *lcm.Operation) *lcm.Operation {
	text, err := json.Marshal(op)
	if err != nil {
		t.Fatal(err)
	}
	out := new(lcm.Operation)
	if err := json.Unmarshal(text, out); err != nil {
		t.Fatal(err)
	}
	return out
}

func TestWhatIsNotifiedTellsTheSameChangesAsTheOperation(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		units := func(what string) []plan.Unit {
			return rapid.SliceOfNDistinct(rapid.Custom(func(r *rapid.T) plan.Unit {
				n := rapid.IntRange(0, 5).Draw(r, "unit")
				return plan.Unit{ID: fmt.Sprintf("u%d@%d", n, rapid.IntRange(0, 1).Draw(r, "life")), Key: fmt.Sprint("Pod/", n), Name: fmt.Sprint("pod", n), VDU: "vdu",
					Deleting: rapid.IntRange(0, 4).Draw(r, "deleting") == 0,
					Metadata: map[string]string{"node": rapid.SampledFrom([]string{"", "a", "b"}).Draw(r, "node")}}
			}), -1, 4, plan.Unit.Resource).Draw(r, what)
		}
		resources := func(what string) []plan.Resource {
			return rapid.SliceOfN(rapid.Custom(func(r *rapid.T) plan.Resource {
				n := rapid.IntRange(0, 3).Draw(r, "resource")
				return plan.Resource{Kind: rapid.SampledFrom([]plan.ResourceKind{plan.LinkPort, plan.Storage, plan.VirtualLink}).Draw(r, "kind"), ID: fmt.Sprint("r", n), Name: fmt.Sprint("cp", n),
					Unit: fmt.Sprint("Pod/", rapid.IntRange(0, 5).Draw(r, "of")), Network: fmt.Sprint("r", n%2), External: n > 1}
			}), 0, 3).Draw(r, what)
		}
		op := &lcm.Operation{ID: "op", Instance: "amf", Type: rapid.SampledFrom([]lcm.Type{lcm.Scale, lcm.ModifyInfo, lcm.Terminate}).Draw(r, "type"),
			State: rapid.SampledFrom(lcm.States()).Draw(r, "state"), VIM: "vim",
			UnitsBefore: units("before"), UnitsAfter: units("after"),
			Story: []lcm.StoryLine{{Text: "much"}}, Params: json.RawMessage(`{"a":1}`)}
		if rapid.Bool().Draw(r, "with resources") {
			op.ResourcesBefore, op.ResourcesAfter = resources("used"), resources("uses")
		}
		if rapid.IntRange(0, 3).Draw(r, "connected") == 0 {
			op.ExtLinks = []desired.ExtVirtualLink{{ID: "net"}}
		}
		got := stored(r, op.Notified())
		if diff := cmp.Diff(stored(r, op).Changes(), got.Changes()); diff != "" {
			r.Fatalf("changes (-of the operation +of what is notified):\n%s", diff)
		}
		if op.State == lcm.Completed && len(op.ExtLinks) > 0 && len(got.ResourcesAfter) != len(op.ResourcesAfter) {
			r.Fatalf("the connected networks lost their ports")
		}
		if got.VIM != op.VIM && !got.Changes().Empty() {
			r.Fatalf("where the units are isn't notified")
		}
		if got.Story != nil {
			r.Fatalf("the story is notified")
		}
	})
}

func TestOfUnitsThatStayedNothingIsNotified(t *testing.T) {
	unit := func(n int) plan.Unit { return plan.Unit{ID: fmt.Sprint("u", n), Name: fmt.Sprint("pod", n)} }
	op := &lcm.Operation{Type: lcm.Scale, State: lcm.Completed, UnitsBefore: []plan.Unit{unit(1), unit(2)}, UnitsAfter: []plan.Unit{unit(1), unit(2), unit(3)}}
	if n := op.Notified(); len(n.UnitsBefore) != 0 || len(n.UnitsAfter) != 1 {
		t.Errorf("notified are %v and %v", n.UnitsBefore, n.UnitsAfter)
	}
	op.State = lcm.Processing
	if n := op.Notified(); n.UnitsAfter != nil {
		t.Errorf("notified in %s are %v", op.State, n.UnitsAfter)
	}
}
