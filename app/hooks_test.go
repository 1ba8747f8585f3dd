package app_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/jibe-vnfm/jibe/admission"
	"github.com/jibe-vnfm/jibe/lcm"
	"github.com/jibe-vnfm/jibe/test/kit"
)

// hookedID is the instance whose package has a hook for scaling.
const hookedID = "6f7f4b0e-54b6-4a4e-9d3c-2f6f0d9b7c55"

func TestAScalingWhoseHookMayNotRunIsRefusedByAPIAndPlanAndGoesThroughWithHooksSkip(t *testing.T) {
	t.Parallel()
	f := newFollowed(t, "")
	f.release(func(text string) string {
		const node = "      type: examples.small.VNF\n      properties:\n        flavour_description"
		return strings.Replace(text, node, "      interfaces: {Vnflcm: {scale_start: {implementation: ../Files/kubernetes/configmap.yaml}}}\n"+node, 1)
	}, "1.5.0")
	f.known("1.5.0")
	file := func(more string) string {
		return "id: " + hookedID + "\nname: hooked\nvnfdId: " + vnfdID("1.5.0") + "\nflavour: simple\nparams: {namespace: b}\n" + more
	}
	// ended waits for the instance's newest operation of the type to be in the state.
	ended := func(typ lcm.Type, state lcm.State) (op struct {
		ID, Operation, OperationState string
	}) {
		t.Helper()
		kit.Eventually(t, func() error {
			a, err := f.Do(t.Context(), http.MethodGet, "/vnflcm/v2/vnf_lcm_op_occs?all_fields&filter=(eq,vnfInstanceId,"+hookedID+")", nil)
			if err != nil {
				return err
			}
			list := []json.RawMessage{}
			if err := json.Unmarshal(a.Body, &list); err != nil {
				return err
			}
			for _, raw := range list {
				if err := json.Unmarshal(raw, &op); err == nil && op.Operation == string(typ) && op.OperationState == string(state) {
					return nil
				}
			}
			return fmt.Errorf("no %s is %s: %s", typ, state, a.Body)
		})
		return op
	}
	change(f.desired, map[string]string{"instances/b/vnf.yaml": file("")})
	ended(lcm.Instantiate, lcm.Completed) // which has no hook

	refused := func(who, said string) {
		t.Helper()
		for _, part := range []string{"SCALE needs hooks of the package that may not run: Files/kubernetes/configmap.yaml (scale_start)",
			"hooks: true at repository small in repositories.yaml", "hooks: skip in vnf.yaml"} {
			if !strings.Contains(said, part) {
				t.Errorf("%s doesn't say %q: %s", who, part, said)
			}
		}
	}
	a, err := f.Do(t.Context(), http.MethodPost, "/vnflcm/v2/vnf_instances/"+hookedID+"/scale", map[string]any{"type": "SCALE_OUT", "aspectId": "front"})
	if err != nil || a.Status != http.StatusUnprocessableEntity {
		t.Fatalf("a request to scale is answered with %d %s (%v)", a.Status, a.Body, err)
	}
	refused("the API", string(a.Body))
	const scaled = "levels: {front: 1}\n"
	for _, what := range []string{"check", "plan"} {
		a, err := f.Do(t.Context(), http.MethodPost, "/jibe/v1/"+what, admission.Proposal{Instances: []admission.Candidate{{Dir: "instances/b", File: file(scaled)}}})
		var v admission.Verdict
		if err == nil {
			err = json.Unmarshal(a.Body, &v)
		}
		if err != nil || len(v.Problems) != 1 || v.Problems[0].File != "instances/b/vnf.yaml" {
			t.Fatalf("%s: %v %+v", what, err, v)
		}
		refused(what, v.Problems[0].Message)
	}
	// This server has installed no hook, as on a forge.
	change(f.desired, map[string]string{"instances/b/vnf.yaml": file(scaled)})
	kit.Eventually(t, func() error {
		a, err := f.Do(t.Context(), http.MethodGet, "/jibe/v1/problems", nil)
		if err != nil || !strings.Contains(string(a.Body), hookedID) {
			return fmt.Errorf("the file isn't shown as one that can't be obeyed: %s (%w)", a.Body, err)
		}
		refused("the problem", string(a.Body))
		return nil
	})

	change(f.desired, map[string]string{"instances/b/vnf.yaml": file(scaled + "hooks: skip\n")})
	op := ended(lcm.Scale, lcm.Completed)
	if a, err = f.Do(t.Context(), http.MethodGet, "/jibe/v1/operations/"+op.ID+"/story", nil); err != nil ||
		!strings.Contains(string(a.Body), "scale_start: Files/kubernetes/configmap.yaml was skipped, as vnf.yaml says hooks: skip") {
		t.Errorf("the story is %s (%v)", a.Body, err)
	}
}
