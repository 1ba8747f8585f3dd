package admission_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/jibe-vnfm/jibe/admission"
	"github.com/jibe-vnfm/jibe/drivers"
	"github.com/jibe-vnfm/jibe/lcm"
	"github.com/jibe-vnfm/jibe/plan"
	"github.com/jibe-vnfm/jibe/reconciler"
)

// upgrade is what site n's instance would have: its own name, namespace, pod and address, and an
// image that may differ.
func upgrade(n int, image string) reconciler.Preview {
	namespace := fmt.Sprintf("ns-%d", n)
	name := fmt.Sprintf("amf-%d", n)
	deployment := "Deployment/" + namespace + "/amf"
	return reconciler.Preview{
		Instance: fmt.Sprintf("00000000-0000-4000-8000-%012d", n), Dir: "instances/site/" + name, Name: name, Type: lcm.ChangePackage,
		VDUs: map[string]string{deployment: "AMF"},
		Steps: []plan.Step{
			{Stage: 0, Action: plan.Grant, Object: "CHANGE_VNFPKG"},
			{Stage: 1, Action: plan.Apply, Object: deployment, From: 2, To: 2, Reason: "changed"},
			{Stage: 2, Action: plan.Wait, Object: fmt.Sprintf("Pod/%s/amf-%x", namespace, n*7919), Reason: "until it is gone"},
			{Stage: 2, Action: plan.Wait, Object: fmt.Sprintf("Unit/%s/amf-%x", namespace, n*7907), Reason: "until it is gone"}, // of the simulator
		},
		Filled: []string{"package: 1234"},
		Diff: []drivers.Deviation{
			{Object: deployment, Field: "spec.template.spec.containers[name=amf].image", Have: "amf:1", Want: image},
			{Object: deployment, Field: "metadata.labels[instance]", Have: "", Want: fmt.Sprintf("00000000-0000-4000-8000-%012d", n)},
			{Object: deployment, Field: "spec.template.spec.containers[name=amf].env[name=ADDRESS].value", Have: fmt.Sprintf("10.0.%d.%d", n/250, n%250), Want: fmt.Sprintf("10.1.%d.%d", n/250, n%250)},
		},
	}
}

func TestWhatIsTheSameForThousandsIsSaidOnceAndTheOthersApart(t *testing.T) {
	var previews []reconciler.Preview
	for n := range 1000 {
		image := "amf:2"
		if n%400 == 7 { // 7, 407, 807
			image = "amf:2-debug"
		}
		previews = append(previews, upgrade(n, image))
	}
	refused := upgrade(2000, "amf:2")
	refused.Error, refused.Steps, refused.Diff, refused.Filled = "instances/site/amf-2000: level 9 is too many", nil, nil, nil
	ended := reconciler.Preview{Instance: "e", Dir: "instances/site/old", Type: lcm.Terminate, Steps: []plan.Step{{Action: plan.Delete, Object: "Deployment/old/x"}}}
	same := reconciler.Preview{Instance: "s", Dir: "instances/site/same"}
	groups := admission.GroupPreviews(append(previews, same, ended, refused))
	var got []string
	for _, g := range groups {
		got = append(got, fmt.Sprintf("%d %s %s", len(g.Dirs), g.Operation, g.Effect))
	}
	want := []string{
		"1 CHANGE_VNFPKG ", // refused
		"1 TERMINATE 1 object goes",
		"997 CHANGE_VNFPKG 2 VNFCs of AMF are replaced, 1 object changes",
		"3 CHANGE_VNFPKG 2 VNFCs of AMF are replaced, 1 object changes",
		"1  ",
	}
	if !slices.Equal(got, want) {
		t.Fatalf("groups:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if groups[0].Error == "" {
		t.Error("what is refused doesn't go first")
	}
	if !slices.Equal(groups[3].Dirs, []string{"instances/site/amf-407", "instances/site/amf-7", "instances/site/amf-807"}) {
		t.Errorf("those that differ: %v", groups[3].Dirs)
	}
	shared := groups[2].Shared
	if object := shared.Steps[1].Object; object != "Deployment/<namespace>/amf" {
		t.Errorf("the shared step is about %s", object)
	}
	for _, d := range shared.Diff {
		switch {
		case strings.HasSuffix(d.Field, "image") && d.Want != "amf:2",
			strings.Contains(d.Field, "label") && d.Want != "<id>",
			strings.HasSuffix(d.Field, "value") && (d.Want != "(each its own)" || d.Have != "(each its own)"):
			t.Errorf("shared: %s %q -> %q", d.Field, d.Have, d.Want)
		}
	}
	// One alone is shown as it is.
	if alone := admission.GroupPreviews(previews[:1])[0]; alone.Shared.Steps[1].Object != "Deployment/ns-0/amf" || alone.Shared.Diff[2].Want != "10.1.0.0" {
		t.Errorf("alone: %+v", alone.Shared)
	}
}

func TestADifferenceThatHalfOfFewHaveIsNotTakenForTheirOwn(t *testing.T) {
	groups := admission.GroupPreviews([]reconciler.Preview{upgrade(1, "amf:2"), upgrade(2, "amf:2"), upgrade(3, "amf:3"), upgrade(4, "amf:3")})
	for _, g := range groups {
		for _, d := range g.Shared.Diff {
			if strings.HasSuffix(d.Field, "image") && d.Want == "(each its own)" {
				t.Errorf("the image of %v is hidden", g.Dirs)
			}
		}
	}
	if len(groups) != 2 {
		t.Errorf("%d groups, want one for each image", len(groups))
	}
}

func TestEffectsAreCounted(t *testing.T) {
	for want, steps := range map[string][]plan.Step{
		"1 VNFC of V goes, 1 object changes": {{Action: plan.Scale, Object: "Deployment/n/d", From: 3, To: 2, VDU: "V"}},
		"1 object changes":                   {{Action: plan.Scale, Object: "Deployment/n/d", From: 2, To: 3, VDU: "V"}},
		"1 VNFC of V is replaced":            {{Action: plan.DeleteUnit, Object: "Pod/n/p", Owner: "Deployment/n/d"}},
		"1 object is made anew":              {{Action: plan.Delete, Object: "Service/n/s"}, {Stage: 1, Action: plan.Apply, Object: "Service/n/s", From: -1}},
		"2 objects go, 1 object is new":      {{Action: plan.Apply, Object: "Deployment/n/new", From: -1, To: 2}, {Action: plan.Delete, Object: "Deployment/n/d"}, {Action: plan.Delete, Object: "ConfigMap/n/c"}},
	} {
		p := reconciler.Preview{Steps: steps, VDUs: map[string]string{"Deployment/n/d": "V"}}
		if got := admission.EffectOf(p).String(); got != want {
			t.Errorf("%v: %q, want %q", steps, got, want)
		}
	}
}

func TestInstancesThatEachWaitForTheirOwnAreOneGroupAndThoseThatWaitForOneAreAnother(t *testing.T) {
	var previews []reconciler.Preview
	for n := range 40 {
		p := upgrade(n, "amf:2")
		p.WaitsFor = fmt.Sprintf("what it needs: instances/site/udm-%d, which isn't instantiated", n)
		previews = append(previews, p)
	}
	free := upgrade(100, "amf:2")
	groups := admission.GroupPreviews(append(previews, free))
	if len(groups) != 2 || len(groups[0].Dirs) != 40 || groups[0].Shared.WaitsFor != "other instances (each its own)" || groups[1].Shared.WaitsFor != "" {
		t.Errorf("%d groups: %+v", len(groups), groups)
	}
	for i := range previews {
		previews[i].WaitsFor = "what it needs: instances/core/udm, which is stopped"
	}
	if groups = admission.GroupPreviews(previews); len(groups) != 1 || groups[0].Shared.WaitsFor != previews[0].WaitsFor {
		t.Errorf("%+v", groups)
	}
}
