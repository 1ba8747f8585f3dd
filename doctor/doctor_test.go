package doctor_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jibe-vnfm/jibe/doctor"
)

func TestChecksAreToldInTheirOrderWhateverTheyTake(t *testing.T) {
	turn := make(chan struct{})
	var checks []doctor.Check
	for i := range 4 {
		checks = append(checks, doctor.Check{Name: fmt.Sprint(i), Run: func(context.Context) doctor.Finding {
			if i == 0 {
				<-turn // the first ends last
			}
			if i == 3 {
				close(turn)
			}
			return doctor.Finding{State: doctor.OK, Means: fmt.Sprint("found ", i)}
		}})
	}
	for i, r := range doctor.Run(t.Context(), checks) {
		if r.Name != fmt.Sprint(i) || r.Means != fmt.Sprint("found ", i) {
			t.Errorf("result %d is %+v", i, r)
		}
	}
}

func TestACheckThatHangsOrBreaksHasFailedAndHoldsNothingUp(t *testing.T) {
	synctest.Test(t, hangsOrBreaks)
}

// hangsOrBreaks is in a time of its own: who notices the end has a second to say more, in which a machine may stall.
func hangsOrBreaks(t *testing.T) {
	never := make(chan struct{})
	defer close(never)
	results := doctor.Run(t.Context(), []doctor.Check{
		{Name: "hangs", Timeout: time.Millisecond, Run: func(context.Context) doctor.Finding { <-never; return doctor.Finding{} }},
		{Name: "breaks", Run: func(context.Context) doctor.Finding { panic("index out of range") }},
		{Name: "notices", Timeout: time.Millisecond, Run: func(ctx context.Context) doctor.Finding {
			<-ctx.Done()
			return doctor.Finding{State: doctor.Skipped, Means: "too large"}
		}},
	})
	for i, want := range []struct {
		state doctor.State
		means string
	}{{doctor.Failed, "no answer"}, {doctor.Failed, "index out of range"}, {doctor.Skipped, "too large"}} {
		if r := results[i]; r.State != want.state || !strings.Contains(r.Means, want.means) {
			t.Errorf("%+v, want %+v", r, want)
		}
	}
	if !doctor.Sick(results) || doctor.Sick(results[2:]) {
		t.Error("a failed check makes it sick, and nothing else does")
	}
}
