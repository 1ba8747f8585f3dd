package hooks_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/hooks"
	"github.com/jibe-vnfm/jibe/lcm"
	"github.com/jibe-vnfm/jibe/plan"
)

// reached is what a script gets of a VNFC with the ports, where vdu_params names a connection
// point, or none.
func reached(t *testing.T, cp string, ports ...string) (hooks.Target, error) {
	t.Helper()
	unit := plan.Unit{Key: "Server/VDU1/0", ID: "s@1", Name: "s", VDU: "VDU1", Ready: true}
	contact := map[string]any{"username": "ubuntu"}
	if cp != "" {
		contact["cp_name"] = cp
	}
	side := sideOf("1", nil, func(in *desired.Instance) {
		in.Update.Coordinate = desired.Coordination{New: "Scripts/new.py", Params: map[string]any{"vdu_params": map[string]any{"vdu_id": "VDU1", "new_vnfc_param": contact}}}
	})
	f := hooks.Facts{
		Operation: &lcm.Operation{ID: "op", Type: lcm.ChangePackage}, Before: side, After: side, Subject: side,
		Observed: plan.Observed{Units: []plan.Unit{unit}},
		Reveal:   func(params map[string]any) (map[string]any, error) { return params, nil },
	}
	for i, name := range ports {
		f.Observed.Resources = append(f.Observed.Resources, plan.Resource{Kind: plan.LinkPort, Unit: unit.Key, Name: name,
			Addresses: []plan.Address{{IP: "10.0.0." + string(rune('1'+i))}}})
	}
	name := plan.CoordinateNew + "@" + unit.Key
	script, ok := f.Script(name)
	if !ok {
		t.Fatal("there is no script")
	}
	c, err := f.Call(name, script)
	if err != nil {
		return hooks.Target{}, err
	}
	return *c.Input.Target, nil
}

func TestAConnectionPointIsAPortOfThatNameOrTheOnlyPort(t *testing.T) {
	for _, c := range []struct {
		cp      string
		ports   []string
		address string
	}{
		{"CP2", []string{"CP1", "CP2"}, "10.0.0.2"},
		{"CP1", []string{"cp"}, "10.0.0.1"}, // the VNFD and the template call it differently
		{"", []string{"cp"}, "10.0.0.1"},
		{"", []string{"CP1", "CP2"}, ""}, // which one, the script may know
	} {
		got, err := reached(t, c.cp, c.ports...)
		if err != nil || got.Address != c.address || got.CpName != c.cp {
			t.Errorf("connection point %q of %v: %+v, %v", c.cp, c.ports, got, err)
		}
	}
}

func TestAConnectionPointThatIsNoneOfSeveralPortsIsRefusedWithTheirNames(t *testing.T) {
	_, err := reached(t, "CP9", "CP2", "CP1")
	var invalid *hooks.InvalidError
	if !errors.As(err, &invalid) || invalid.Field != "update.coordinate.params.vdu_params" ||
		!strings.Contains(err.Error(), "VNFC Server/VDU1/0 of VDU VDU1 has no connection point CP9; it has CP1, CP2") {
		t.Errorf("%v", err)
	}
}
