package desired_test

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/jibe-vnfm/jibe/desired"
)

func TestGrantingIsReadWithItsDefaults(t *testing.T) {
	got, err := desired.ParseGranting("granting.yaml", []byte(`
nfvo:
  name: central
  wait: 2h
policy:
  - {name: few, vims: [edge], maxVnfcs: 20}
`))
	want := desired.Granting{
		Policy:  []desired.GrantRule{{Name: "few", VIMs: []string{"edge"}, MaxVNFCs: 20}},
		NFVO:    &desired.NFVO{Name: "central", Timeout: 30 * time.Second, Wait: 2 * time.Hour},
		Repairs: desired.RepairsAsk,
	}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, %v", got, err)
	}
	if got, err := desired.ParseGranting("granting.yaml", nil); err != nil || got.NFVO != nil || got.Repairs != desired.RepairsAsk {
		t.Errorf("an empty file is %+v, %v", got, err)
	}
}

func TestGrantingThatMeansNothingIsRefusedWithItsLine(t *testing.T) {
	for text, says := range map[string]string{
		"nfvo: {name: 'a b'}":                                        "can't name an NFVO",
		"nfvo: {endpoint: 'https://n'}":                              `unknown key "nfvo.endpoint"`,
		"nfvo: {name: n, timeout: 0s}":                               `can't be "0s"`,
		"nfvo: {name: n, wait: 100000h}":                             "at most",
		"repairs: never":                                             "repairs",
		"policy: [{name: x}]":                                        "refuses nothing",
		"policy: [{deny: true}]":                                     `"policy[0].name" is missing`,
		"policy: [{name: x, deny: true, maxVnfcs: 1}]":               "limits mean nothing",
		"policy: [{name: x, deny: true}, {name: x, deny: true}]":     "given twice",
		"policy: [{name: x, maxVnfcs: 0}]":                           "can't be 0",
		"policy: [{name: x, operations: [MODIFY_INFO], deny: true}]": "MODIFY_INFO",
		"policy: [{name: x, operations: [SCALE], maxInstances: 1}]":  "only INSTANTIATE",
	} {
		_, err := desired.ParseGranting("granting.yaml", []byte(text))
		if err == nil || !strings.Contains(err.Error(), says) || !strings.HasPrefix(err.Error(), "granting.yaml:1: ") {
			t.Errorf("%s: got %v, want it to say %q", text, err, says)
		}
	}
}

func TestOnlyJibeWritesWhatWasGranted(t *testing.T) {
	in := func(state string, zones ...string) *desired.Instance {
		x := &desired.Instance{State: state}
		if len(zones) > 0 {
			x.Granted = &desired.Granted{VDUs: map[string]desired.GrantedVDU{"VDU1": {Zones: zones}}}
		}
		return x
	}
	const runs, not = desired.Instantiated, desired.NotInstantiated
	held := func(vim ...string) *desired.Instance { // what an instantiation left that was set to FAILED
		x := in(not, vim...)
		x.Held = "0d6c8c5a-4d6b-4b0b-8f10-2d6a37bb0f11"
		return x
	}
	for name, c := range map[string]struct {
		before, after *desired.Instance
		foreign       bool
	}{
		"nothing":          {in(runs), in(runs), false},
		"the same":         {in(runs, "a"), in(runs, "a"), false},
		"another":          {in(runs, "a"), in(runs, "b"), true},
		"taken away":       {in(runs, "a"), in(runs), true},
		"brought":          {in(runs), in(runs, "a"), true},
		"stopped":          {in(runs, "a"), in(desired.Stopped, "a"), false},
		"a copy":           {nil, in(runs, "a"), true},
		"of a former life": {in(not, "a"), in(runs, "a"), true},
		"terminated":       {in(runs, "a"), in(not), false},
		"removed":          {in(runs, "a"), nil, false},
		"idle":             {in(not), in(not, "a"), false},
		"held":             {held(), held("a"), true},
		"held from idle":   {in(not, "a"), held("a"), true},
		"held from birth":  {nil, held("a"), true},
		"held another":     {held("a"), held("b"), true},
		"held as it ran":   {in(runs, "a"), held("a"), false},
	} {
		if p := desired.ForeignGrant("granted.yaml", c.before, c.after); (p != nil) != c.foreign {
			t.Errorf("%s: %v", name, p)
		}
	}
}

func FuzzParseGranted(f *testing.F) {
	f.Add("vim: a\nvdus:\n  VDU1:\n    zones: [az-1]\n    image: i\n")
	f.Add("extVirtualLinks:\n  - {id: l, resourceId: n, extCps: []}\ninstead: {l: m}\n")
	f.Fuzz(func(t *testing.T, text string) {
		g, err := desired.ParseGranted("granted.yaml", []byte(text))
		if err != nil {
			return
		}
		out, err := g.Format()
		if err != nil {
			return
		}
		back, err := desired.ParseGranted("granted.yaml", out)
		if err != nil || !back.Same(g) {
			t.Errorf("%q is written as %q, which reads as %+v, %v", text, out, back, err)
		}
	})
}

func FuzzParseGranting(f *testing.F) {
	f.Add("nfvo:\n  name: n\n  wait: 5m\npolicy:\n  - {name: x, deny: true}\n")
	f.Fuzz(func(t *testing.T, text string) {
		if g, err := desired.ParseGranting("granting.yaml", []byte(text)); err == nil && g.NFVO != nil && g.NFVO.Timeout <= 0 {
			t.Errorf("a request to the NFVO has no bound: %q", text)
		}
	})
}
