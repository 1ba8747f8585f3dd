package desired_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/jibe-vnfm/jibe/desired"
)

const (
	treeA = "9f31c2a09f31c2a09f31c2a09f31c2a09f31c2a0"
	treeB = "1b0e3c4d1b0e3c4d1b0e3c4d1b0e3c4d1b0e3c4d"
	treeC = "c0ffee00c0ffee00c0ffee00c0ffee00c0ffee00c0ffee00c0ffee00c0ffee00" // SHA-256
)

func TestHowAPackageIsChangedAndFollowedIsRead(t *testing.T) {
	rolling := desired.UpdatePolicy{Strategy: desired.Rolling}
	for text, want := range map[string]desired.Instance{
		"update:\n":                                    {Update: rolling},
		"update: {}":                                   {Update: rolling},
		"update: {strategy: container}":                {Update: desired.UpdatePolicy{Strategy: desired.Container}},
		"update: {drain: 1m30s}":                       {Update: desired.UpdatePolicy{Strategy: desired.Rolling, Drain: "1m30s"}},
		"update: {drain: 0s}":                          {Update: desired.UpdatePolicy{Strategy: desired.Rolling, Drain: "0s"}},
		"update: {drain: 1h}":                          {Update: desired.UpdatePolicy{Strategy: desired.Rolling, Drain: "1h"}},
		"update: {drain: }":                            {Update: rolling},
		"update: {barePods: true}":                     {Update: desired.UpdatePolicy{Strategy: desired.Rolling, BarePods: true}},
		"update: {allAtOnce: true}":                    {Update: desired.UpdatePolicy{Strategy: desired.Rolling, AllAtOnce: true}},
		"update: {coordinate: }":                       {Update: rolling},
		"generation: \"1\"":                            {Update: rolling, Generation: "1"},
		"generation: green-2":                          {Update: rolling, Generation: "green-2"},
		"generation: abcdefghijklmnop":                 {Update: rolling, Generation: "abcdefghijklmnop"},
		"generation:":                                  {Update: rolling},
		"follow: ~1.4":                                 {Update: rolling, Follow: desired.Follow{Versions: "~1.4"}},
		"follow: \">=2.1, <3 || 4.0.0-rc.1\"":          {Update: rolling, Follow: desired.Follow{Versions: ">=2.1, <3 || 4.0.0-rc.1"}},
		"follow: \"*\"":                                {Update: rolling, Follow: desired.Follow{Versions: "*"}},
		"follow:":                                      {Update: rolling},
		"follow: {versions: ^2}":                       {Update: rolling, Follow: desired.Follow{Versions: "^2"}},
		"follow: {versions: ^2, branch: upgrades/amf}": {Update: rolling, Follow: desired.Follow{Versions: "^2", Branch: "upgrades/amf"}},
		"base:\noverlays:":                             {Update: rolling},
		"update: {vdus: [VDU1, VDU2]}":                 {Update: desired.UpdatePolicy{Strategy: desired.Rolling, VDUs: []string{"VDU1", "VDU2"}}},
		"vdus:":                                        {Update: rolling},
		"vdus:\n  VDU2: {package: " + treeA + ", files: [a.yaml, b.yaml]}\n  VDU3: {package: " + treeB + "}": {
			Update: rolling, VDUs: map[string]desired.VDUPin{"VDU2": {Package: treeA, Files: []string{"a.yaml", "b.yaml"}}, "VDU3": {Package: treeB}}},
		"base: " + treeA + "\noverlays:\n- {package: " + treeB + ", paths: [a.yaml, b/c.yaml]}\n- package: " + treeC: {
			Update: rolling, Base: treeA, Overlays: []desired.Overlay{{Package: treeB, Paths: []string{"a.yaml", "b/c.yaml"}}, {Package: treeC}}},
		`update:
  strategy: blueGreen
  drain: 30s
  coordinate:
    new: Scripts/new.sh
    newClass: New
    old: Scripts/old.py
    oldClass: Old
    params:
      external_lb_param: {ip_address: 10.0.0.1, username: u, password: "env:LB"}
      vdu_params: [{vdu_id: VDU1, new_vnfc_param: {cp_name: VDU1_CP1}}]`: {Update: desired.UpdatePolicy{
			Strategy: desired.BlueGreen, Drain: "30s",
			Coordinate: desired.Coordination{New: "Scripts/new.sh", NewClass: "New", Old: "Scripts/old.py", OldClass: "Old",
				Params: map[string]any{
					"external_lb_param": map[string]any{"ip_address": "10.0.0.1", "username": "u", "password": "env:LB"},
					"vdu_params":        []any{map[string]any{"vdu_id": "VDU1", "new_vnfc_param": map[string]any{"cp_name": "VDU1_CP1"}}},
				}}}},
	} {
		in, err := desired.ParseInstance(someFile, []byte("vnfdId: x\n"+text+"\n"))
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		want.ID, want.Derived, want.Dir, want.VnfdID, want.State, want.Drift = in.ID, true, "instances/site-a/amf", "x", desired.Instantiated, desired.DriftCorrect
		if diff := cmp.Diff(&want, in); diff != "" {
			t.Errorf("%s: %s", text, diff)
		}
		out, err := desired.Format(in)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if back, err := desired.ParseInstance(someFile, out); err != nil || !desired.Equal(in, back) {
			t.Errorf("%s: written as\n%s: %v, %v", text, out, desired.Changed(in, back), err)
		}
	}
}

func TestTheFormInWhichVersionsAreFollowedIsNoIntent(t *testing.T) {
	read := func(text string) *desired.Instance {
		in, err := desired.ParseInstance(someFile, []byte("vnfdId: x\n"+text+"\n"))
		if err != nil {
			t.Fatal(err)
		}
		return in
	}
	if differ := desired.Changed(read("follow: ~1.4"), read("follow: {versions: \"~1.4\"}")); len(differ) > 0 {
		t.Error(differ)
	}
	for text, want := range map[string][]string{
		"follow: ~1.5":                                                            {"follow"},
		"follow: {versions: ~1.4, branch: b}":                                     {"follow"},
		"follow: ~1.4\nupdate: {drain: 1s}":                                       {"update"},
		"follow: ~1.4\nupdate: {coordinate: {new: a}}":                            {"update"},
		"follow: ~1.4\ngeneration: \"1\"":                                         {"generation"},
		"follow: ~1.4\nbase: " + treeA + "\noverlays: [{package: " + treeB + "}]": {"base", "overlays"},
	} {
		if diff := cmp.Diff(want, desired.Changed(read("follow: ~1.4"), read(text))); diff != "" {
			t.Errorf("%s: %s", text, diff)
		}
	}
}

func TestADrainIsATime(t *testing.T) {
	for text, want := range map[string]time.Duration{"": 0, "30s": 30 * time.Second, "1h": time.Hour, "soon": 0} {
		if got := (desired.UpdatePolicy{Drain: text}).DrainTime(); got != want {
			t.Errorf("%q is %s", text, got)
		}
	}
}
