package reconciler

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/jibe-vnfm/jibe/test/kit"
)

func TestAPauseDoublesOnlyAfterItPassed(t *testing.T) {
	t.Parallel()

	synctest.Test(t, func(t *testing.T) {
		p := newPauses()
		if got := p.When("a"); got != firstRetry {
			t.Errorf("the first pause is %s", got)
		}
		for range 9 { // events begin nine passes, which fail
			kit.Pass(10 * time.Millisecond)
			p.When("a")
		}
		if got := p.When("a"); got != firstRetry-90*time.Millisecond {
			t.Errorf("after nine failed passes within the pause, %s are left of it", got)
		}

		kit.Pass(firstRetry)
		if got := p.When("a"); got != 2*firstRetry {
			t.Errorf("the second pause is %s", got)
		}
		if got := p.When("b"); got != firstRetry {
			t.Errorf("another instance pauses for %s", got)
		}
		p.Forget("a")
		if got := p.When("a"); got != firstRetry {
			t.Errorf("after a pass that succeeded, the pause is %s", got)
		}
	})
}
