package hooks_test

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jibe-vnfm/jibe/hooks"
	"github.com/jibe-vnfm/jibe/test/kit"
)

func TestTheLinesOfAStoryAreRecordedTogetherOnceASecondAndTheRestAtItsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var recorded [][]string
		var at []time.Time
		s := hooks.NewStory(time.Now, func(lines []hooks.Line) {
			var texts []string
			for _, line := range lines {
				texts, at = append(texts, line.Text), append(at, line.At)
			}
			recorded = append(recorded, texts)
		})
		began := time.Now()
		s.Say("worker1 joins")
		kit.Pass(300 * time.Millisecond)
		s.Say("worker2 joins")
		kit.Pass(3 * time.Second)
		s.Say("done")
		s.End()
		want := [][]string{{"worker1 joins", "worker2 joins"}, {"done"}}
		if !slices.EqualFunc(recorded, want, slices.Equal) {
			t.Errorf("recorded were %q, want %q", recorded, want)
		}
		if at[1].Sub(began) != 300*time.Millisecond {
			t.Errorf("the second line was said after %s", at[1].Sub(began))
		}
	})
}
