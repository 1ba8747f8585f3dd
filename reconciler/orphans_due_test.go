package reconciler

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestAnOrphanThatMovesAllTheTimeIsSurveyedLessOften(t *testing.T) {
	t.Parallel()

	synctest.Test(t, func(t *testing.T) {
		waits := func(instances ...string) time.Duration {
			o := newOrphans()
			o.note(&Orphans{Orphans: []Orphan{{VIM: "lab", Instance: "known", Object: "Pod/a"}}, VIMs: []string{"lab"}}, time.Now())
			began := time.Now()
			stop := make(chan struct{})
			go func() {
				for {
					for _, id := range instances {
						o.moved(id)
					}
					select {
					case <-stop:
						return
					case <-time.After(time.Second):
					}
				}
			}()
			o.due(t.Context(), surveyPause)
			close(stop)
			return time.Since(began)
		}

		if w := waits("known"); w != surveyLater {
			t.Errorf("a known one: after %s", w)
		}
		if w := waits("known", "new"); w != surveySoon {
			t.Errorf("a new one: after %s", w)
		}
		if w := waits(); w != surveyPause {
			t.Errorf("none: after %s", w)
		}
	})
}
