package lcm_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/jibe-vnfm/jibe/lcm"
	"github.com/jibe-vnfm/jibe/plan"
)

func TestAStopHasTheTimeThatItsRequestSays(t *testing.T) {
	for params, want := range map[string]struct {
		time    time.Duration
		bounded bool
	}{
		`{"changeStateTo":"STOPPED"}`:                                                    {0, true}, // FORCEFUL, as SOL003 has it
		`{"changeStateTo":"STOPPED","stopType":"FORCEFUL"}`:                              {0, true},
		`{"changeStateTo":"STOPPED","stopType":"GRACEFUL","gracefulStopTimeout":90}`:     {90 * time.Second, true},
		`{"changeStateTo":"STOPPED","stopType":"GRACEFUL"}`:                              {0, false}, // a commit's
		`{"changeStateTo":"STOPPED","stopType":"GRACEFUL","gracefulStopTimeout":"soon"}`: {0, false},
	} {
		if got, bounded := lcm.StopTime(json.RawMessage(params)); got != want.time || bounded != want.bounded {
			t.Errorf("%s: %v, bounded: %v; want %v, %v", params, got, bounded, want.time, want.bounded)
		}
	}
}

func TestAUnitThatWasStoppedIsModified(t *testing.T) {
	runs := plan.Unit{ID: "a@1", Key: "Server/web/a", VDU: "web", Ready: true}
	stopped := runs
	stopped.Stopped, stopped.Ready = true, false
	for _, c := range []struct{ before, after plan.Unit }{{runs, stopped}, {stopped, runs}} {
		got := lcm.Difference([]plan.Unit{c.before}, []plan.Unit{c.after}, nil, nil)
		if len(got) != 1 || got[0].ChangeType != lcm.Modified || got[0].ID != "a" {
			t.Errorf("%v", got)
		}
	}
}
