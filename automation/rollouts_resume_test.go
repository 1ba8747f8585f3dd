package automation

import (
	"testing"

	"github.com/jibe-vnfm/jibe/automation/rollout"
	"github.com/jibe-vnfm/jibe/lcm"
	"github.com/jibe-vnfm/jibe/test/kit"
)

// People are shown what is decided, which the runner writes down a moment later.
func TestAResumeCountsForAHaltThatIsNotWrittenDownYet(t *testing.T) {
	kit.Long(t)
	t.Parallel()

	w := newProposing(t)
	w.goOn()
	w.merge()
	w.begin()
	w.goOn()
	for _, list := range w.ops {
		op := list[len(list)-1]
		op.State, op.StateEntered = lcm.Failed, w.now
	}
	w.want(rollout.Halted, "a person")
	if w.ledger().Halted != nil {
		t.Fatal("it is written down already: nothing is proven")
	}
	w.ask(RolloutResume)
	w.goOn()
	if st := w.status(); st.Phase == rollout.Halted || st.Counts.Failed != 1 || st.Spent != 0 || w.ledger().Forgiven != 1 {
		t.Errorf("once resumed it is %+v, and the ledger forgives %d", st, w.ledger().Forgiven)
	}
}
