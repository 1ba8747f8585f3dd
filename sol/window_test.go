package sol_test

import (
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jibe-vnfm/jibe/lcm"
)

func TestARequestOutsideOfItsWindowsIsRefusedAndLeavesNothing(t *testing.T) {
	for name, opens := range map[string]int32{"before anything is written": 0, "in the write itself": 1} {
		t.Run(name, func(t *testing.T) {
			e := build(t)
			id := e.instantiated()
			path := api + "/vnf_instances/" + id
			text := e.intent(id)
			var asked atomic.Int32
			e.view.closed = func(typ lcm.Type) (string, time.Time, error) {
				if asked.Add(1) <= opens {
					return "", time.Time{}, nil
				}
				return "frozen, by maintenance.yaml", time.Now().Add(time.Hour), nil
			}
			a := e.want(409, "POST", path+"/scale", scaleOut)
			if !strings.Contains(string(a.body), "SCALE of VNF instance "+id+" can't begin now: frozen, by maintenance.yaml") {
				t.Errorf("it is refused by %s", a.body)
			}
			if s := a.Header.Get("Retry-After"); s != "3600" && s != "3601" {
				t.Errorf("Retry-After is %q", s)
			}
			if now := e.intent(id); now.Levels["vdu1_aspect"] != text.Levels["vdu1_aspect"] {
				t.Errorf("the levels are %v", now.Levels)
			}
			e.view.closed = nil
			e.finish(e.begun(e.want(202, "POST", path+"/scale", scaleOut))) // nothing is left prepared
		})
	}
}

func TestOnlyAnAdministratorMayOverrideWindows(t *testing.T) {
	e := build(t)
	path := api + "/vnf_instances/" + e.instantiated() + "/scale"
	a := e.want(403, "POST", path, scaleOut, "Jibe-Override", "I am in a hurry")
	if !strings.Contains(string(a.body), "Jibe-Override") {
		t.Errorf("it is refused by %s", a.body)
	}
}
