package reconciler

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jibe-vnfm/jibe/test/kit"
)

func TestAnOrphanThatAnotherReplicaSurveysWakesNoneOften(t *testing.T) {
	t.Parallel()

	synctest.Test(t, func(t *testing.T) {
		surveys := func(found error) (n int) {
			o := newOrphans()
			o.note(&Orphans{}, time.Now())
			ctx, cancel := context.WithTimeout(t.Context(), 21*time.Second)
			defer cancel()
			go func() {
				for ctx.Err() == nil {
					o.moved("elsewhere")
					kit.Pause(ctx, 500*time.Millisecond)
				}
			}()
			pause := surveyPause
			for o.due(ctx, pause) {
				o.begin()
				if n++; found != nil {
					pause = surveySoon
					o.failed()
				} else {
					o.note(&Orphans{VIMs: []string{"lab"}}, time.Now())
				}
			}
			return n
		}

		if n := surveys(nil); n != 2 { // after 2 s and 12 s
			t.Errorf("%d surveys in 21 s that find nothing of it", n)
		}
		if n := surveys(errBehind); n != 10 {
			t.Errorf("%d surveys in 21 s that can't be made", n)
		}
	})
}

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
