package hot_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/drivers/openstack/hot"
	"github.com/jibe-vnfm/jibe/vnfd"
)

func managed(link string) []desired.ExtManagedVirtualLink {
	return []desired.ExtManagedVirtualLink{{ID: "m", VirtualLinkDescID: link, ResourceID: "net-9"}}
}

func text(t *testing.T, v any) string {
	t.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func TestAnExternallyManagedNetworkTakesThePlaceOfTheTemplatesOwn(t *testing.T) {
	a := open(t, "testdata/nfv.txtar")
	var s given
	if err := json.Unmarshal([]byte(a.text["input.json"]), &s); err != nil {
		t.Fatal(err)
	}
	s.ExtManaged = managed("inner")
	r, err := render(a.files, s)
	if err != nil {
		t.Fatal(err)
	}
	b, err := r.Create(map[string]int{"VDU1": 1, "VDU2": 1})
	if err != nil {
		t.Fatal(err)
	}
	resources := b.Template["resources"].(map[string]any)
	if resources["inner"] != nil || resources["inner_subnet"] != nil {
		t.Error("the network or its subnet is still made")
	}
	if got := at(resources["VDU1_group"], "properties", "resource", "properties", "net2"); got != "net-9" {
		t.Errorf("net2 is %v", got)
	}
	if at(resources["VDU2-0"], "depends_on") != nil {
		t.Error("the server still waits for the subnet")
	}
}

func TestOfAVNFOnTwoVIMsOnlyWhatRunsHereIsMade(t *testing.T) {
	a := open(t, "testdata/nfv.txtar")
	var s given
	if err := json.Unmarshal([]byte(a.text["input.json"]), &s); err != nil {
		t.Fatal(err)
	}
	s.Runs = []string{"VDU1"}
	s.VDUs[1].Image = ""
	r, err := render(a.files, s)
	if err != nil {
		t.Fatal(err)
	}
	b, err := r.Create(map[string]int{"VDU1": 1})
	if err != nil {
		t.Fatal(err)
	}
	if all := text(t, b.Template); strings.Contains(all, "VDU2") || strings.Contains(all, "disk") || !strings.Contains(all, "VDU1_group") {
		t.Error(all)
	}
}

func TestWhatTemplatesNameAtTheVIMIsFound(t *testing.T) {
	a := open(t, "testdata/nfv.txtar")
	r, err := a.render(t, "input.json")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, f := range r.Facts() {
		got = append(got, string(f.Kind)+" "+f.Value+" of "+f.VDU)
	}
	want := []string{
		"fixed IP address 10.0.0.7 of VDU2", "flavour m1.small of VDU2", "flavour m1.tiny of VDU1",
		"image img1 of VDU1", "image img1 of VDU2", "network net0 of VDU1", "network net0 of VDU2", "network outside of VDU2",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestWhatIsHiddenNeverStandsInATemplateAndItsOldValueStandsWhileAMemberIsMadeOfIt(t *testing.T) {
	top := strings.Replace(minimal, "  nfv: {type: json}\n", "  nfv: {type: json}\n  password: {type: string, hidden: true}\n", 1)
	top = strings.Replace(top, "flavor: m1.tiny", "flavor: m1.tiny\n      admin_pass: {get_param: password}", 1)
	make := func(password string) *hot.Rendered {
		r, err := render(folder(top), with(vdu1("img1"), map[string]any{"password": password}))
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	old, next := make("sesame1"), make("sesame2")
	w := &world{}
	b, err := old.Create(map[string]int{"VDU1": 1})
	if err != nil {
		t.Fatal(err)
	}
	w.update(old, b, nil)
	param := at(b.Template, "resources", "VDU1-0", "properties", "admin_pass", "get_param")
	if strings.Contains(text(t, b.Template), "sesame") || param != "password_"+old.VDUs["VDU1"].Digest[:8] || b.Parameters[param.(string)] != "sesame1" {
		t.Errorf("%v %v", param, text(t, b))
	}
	kept, err := next.Update(w.live, hot.Want{Counts: map[string]int{"VDU1": 2}})
	if err != nil {
		t.Fatal(err)
	}
	if !kept.Existing || at(kept.Template, "parameters", param.(string)) == nil || kept.Parameters[param.(string)] != nil {
		t.Errorf("the value that only Heat knows wasn't left to it: %s", text(t, kept))
	}
	w.update(next, kept, nil)
	b, err = next.Update(w.live, hot.Want{Renew: map[string][]string{"VDU1": {"0"}}})
	if err != nil || b.Existing || strings.Contains(text(t, b), param.(string)) {
		t.Errorf("the old value still stands: %v %s", err, text(t, b))
	}
}

func TestPlainWordsMeanWhatTheyMeanToHeat(t *testing.T) {
	top := "heat_template_version: 2013-05-23\nresources:\n  r:\n    type: OS::Heat::Value\n    properties: {a: yes, b: 'yes', c: 010, d: 1:30, e: 2013-05-23, f: 1.50, g: 0x1f, h: ~, i: 1_000}\n"
	r, err := render(folder(top), given{VDUs: []vnfd.VDU{}})
	if err != nil {
		t.Fatal(err)
	}
	b, err := r.Create(nil)
	if err != nil {
		t.Fatal(err)
	}
	got := text(t, at(b.Template, "resources", "r", "properties"))
	if want := `{"a":true,"b":"yes","c":8,"d":90,"e":"2013-05-23","f":1.5,"g":31,"h":null,"i":1000}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
