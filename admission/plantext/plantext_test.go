package plantext

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/jibe-vnfm/jibe/admission"
)

// printed is what `jibe plan` prints of an answer of the server.
func printed(t *testing.T, answer string) string {
	t.Helper()
	var v admission.Verdict
	d := json.NewDecoder(strings.NewReader(answer))
	d.DisallowUnknownFields()
	if err := d.Decode(&v); err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	Text(&b, v, admission.GroupPreviews(v.Previews))
	return b.String()
}

func TestAPlanShowsBelowEachStepWhatItChanges(t *testing.T) {
	got := printed(t, `{"problems": [], "previews": [{"instance": "i1", "dir": "instances/a", "operation": "CHANGE_VNFPKG",
	"filled": ["package: 9f31c2", "generation: 1"],
	"steps": [
		{"stage": 0, "action": "apply", "object": "ConfigMap/a/cfg-1", "from": -1, "reason": "new"},
		{"stage": 0, "action": "apply", "object": "Secret/a/key", "reason": "changed"},
		{"stage": 1, "action": "apply", "object": "Deployment/a/web", "from": 2, "to": 2, "reason": "changed"},
		{"stage": 1, "action": "scale", "object": "Deployment/a/db", "from": 1, "to": 3},
		{"stage": 2, "action": "wait", "object": "Deployment/a/web", "reason": "until it is ready"},
		{"stage": 3, "action": "deleteUnit", "object": "Pod/a/web-x", "incarnation": "u1", "reason": "outdated", "owner": "ReplicaSet/a/web"},
		{"stage": 4, "action": "delete", "object": "Pod/a/bare", "incarnation": "u2", "reason": "outgrown"},
		{"stage": 5, "action": "apply", "object": "Pod/a/bare", "from": -1, "reason": "created again"},
		{"stage": 6, "action": "delete", "object": "ConfigMap/a/cfg", "incarnation": "u3", "reason": "no longer desired"}],
	"diff": [
		{"object": "ConfigMap/a/cfg-1", "field": "data.greeting", "want": "\"good\n evening\""},
		{"object": "ConfigMap/a/cfg-1", "field": "immutable", "want": "true"},
		{"object": "Deployment/a/web", "field": "spec.template.spec.containers[name=web].image", "want": "\"nginx:1.28\"", "have": "\"nginx:1.27\""},
		{"object": "Deployment/a/web", "field": "spec.paused", "have": "true"},
		{"object": "Deployment/a/web", "field": "spec.minReadySeconds", "want": "5"},
		{"object": "Deployment/a/db", "field": "spec.replicas", "want": "3", "have": "1"},
		{"object": "Pod/a/web-x", "have": "outdated"},
		{"object": "Pod/a/bare", "want": "present", "have": "outgrown"},
		{"object": "Pod/a/bare", "field": "spec.hostname", "want": "\"b\""},
		{"object": "ConfigMap/a/cfg", "have": "present"}]}]}`)
	want := `instances/a: CHANGE_VNFPKG
  package: 9f31c2 (filled in)
  generation: 1 (filled in)
   1. apply ConfigMap/a/cfg-1 (new)
        + ConfigMap/a/cfg-1
        +   data.greeting: "good evening"
        +   immutable: true
   1. apply Secret/a/key (changed)
          no field differs
   2. apply Deployment/a/web 2 -> 2 (changed)
        ~ spec.template.spec.containers[name=web].image: "nginx:1.27" -> "nginx:1.28"
        - spec.paused: true
        + spec.minReadySeconds: 5
   2. scale Deployment/a/db 1 -> 3
        ~ spec.replicas: 1 -> 3
   3. wait Deployment/a/web (until it is ready)
   4. deleteUnit Pod/a/web-x (outdated)
        - Pod/a/web-x
   5. delete Pod/a/bare (outgrown)
        - Pod/a/bare
   6. apply Pod/a/bare (created again)
        + Pod/a/bare
        +   spec.hostname: "b"
   7. delete ConfigMap/a/cfg (no longer desired)
        - ConfigMap/a/cfg
  3 objects change, 1 is new, 1 is made anew, 1 goes, 1 unit is replaced
1 instance would change
`
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestAPlanOfAVIMThatCanNotCompareFieldsShowsTheStepsAlone(t *testing.T) {
	got := printed(t, `{"problems": [], "previews": [
	{"instance": "i1", "dir": "instances/a", "operation": "INSTANTIATE", "steps": [
		{"stage": 0, "action": "grant", "object": "grant"},
		{"stage": 1, "action": "apply", "object": "Workload/a/x", "from": -1, "to": 2, "reason": "new"},
		{"stage": 1, "action": "apply", "object": "Workload/a/y", "from": -1, "to": 1, "reason": "new"}]},
	{"instance": "i2", "dir": "instances/b", "steps": []},
	{"instance": "i3", "dir": "instances/c", "operation": "CHANGE_VNFPKG", "steps": [], "error": "update.strategy: StatefulSet/c/db has volumeClaimTemplates"}]}`)
	want := `instances/c: update.strategy: StatefulSet/c/db has volumeClaimTemplates
instances/a: INSTANTIATE
   1. grant grant
   2. apply Workload/a/x 0 -> 2 (new)
   2. apply Workload/a/y 0 -> 1 (new)
  2 objects are new
instances/b: no change of what runs
1 instance would change
`
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
