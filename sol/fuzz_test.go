package sol

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/plan"
	"github.com/jibe-vnfm/jibe/sol/rest"
)

// FuzzDecode holds that any body is understood or refused with 400, and that
// what is shown of it as operationParams is JSON without secrets.
func FuzzDecode(f *testing.F) {
	f.Add(`{"flavourId": "simple", "vimConnectionInfo": {"v": {"vimType": "x", "accessInfo": {"password": "p"}}}, "additionalParams": {"a": 1.5e3}}`)
	f.Add(`{"flavourId": 1}`)
	f.Add("{\"flavourId\": \"a\"\n,,}")
	f.Fuzz(func(t *testing.T, body string) {
		var req instantiateVnfRequest
		if err := rest.Decode([]byte(body), &req); err != nil {
			var invalid *rest.InvalidError
			if !errors.As(err, &invalid) || invalid.Status != 400 || invalid.Detail == "" {
				t.Fatalf("%q: %v", body, err)
			}
			return
		}
		rest.Object(req.AdditionalParams)
		shown := params(req)
		var v map[string]any
		if err := json.Unmarshal(shown, &v); err != nil {
			t.Fatalf("%q: %q: %v", body, shown, err)
		}
		if cmp.Diff(v, redact(v)) != "" {
			t.Fatalf("%q: %s still holds what is to be left out", body, shown)
		}
	})
}

// FuzzHeal holds that any HealVnfRequest is refused for a reason, or condemns some
// of what runs and nothing else, and that its commit's message stays one of lines.
func FuzzHeal(f *testing.F) {
	f.Add(`{"vnfcInstanceId": ["a", "VDU-pod-b"], "cause": "x", "additionalParams": {"all": false}}`)
	f.Add(`{"vnfcInstanceId": [], "additionalParams": {"all": true}}`)
	f.Add(`{"vnfcInstanceId": null, "healScript": "y"}`)
	f.Add("{\"cause\": \"a\\n\\nOperation: TERMINATE\"}")
	f.Add(`{"vnfcInstanceId": ["pod-a", "pod-a"]}`)
	seen := sight{fresh: true, Observed: plan.Observed{
		Objects: []plan.ObservedObject{{Key: "Deployment/n/d", Incarnation: "d"}, {Key: "PersistentVolumeClaim/n/c", Incarnation: "c", Retention: plan.RetainData},
			{Key: "Namespace//n", Incarnation: "n", Retention: plan.RetainAlways}},
		Units: []plan.Unit{{Key: "Pod/n/pod-a", ID: "a", Name: "pod-a", VDU: "VDU"}, {Key: "Pod/n/pod-b", ID: "b", Name: "pod-b", VDU: "VDU"},
			{Key: "Pod/n/pod-c", ID: "gone", Name: "pod-c", VDU: "VDU", Deleting: true}},
		Others: []plan.Unit{{Key: "Pod/n/job", ID: "job", Name: "job"}}}}
	f.Fuzz(func(t *testing.T, body string) {
		var req healVnfRequest
		err := rest.Decode([]byte(body), &req)
		var target healTarget
		if err == nil {
			target, err = targetOf(req)
		}
		var doomed map[string]string
		if err == nil {
			doomed, err = target.choose(&desired.Instance{ID: "id"}, seen)
		}
		if err != nil {
			var invalid *rest.InvalidError
			if !errors.As(err, &invalid) || invalid.Status != 400 || invalid.Detail == "" || len(invalid.Detail) > 2000 {
				t.Fatalf("%q: %v", body, err)
			}
			return
		}
		if len(doomed) == 0 || len(seen.Unspent(doomed)) != len(doomed) || doomed["Namespace//n"] != "" || doomed["Pod/n/pod-c"] != "" ||
			req.VnfcInstanceID.set && len(doomed) != len(req.VnfcInstanceID.list) {
			t.Fatalf("%q condemns %v", body, doomed)
		}
		for line := range strings.Lines(target.note(seen, req.Cause)) {
			if !strings.HasPrefix(line, "Heal ") && !strings.HasPrefix(line, "Cause: ") || len(line) > 4*mostCause+20 {
				t.Fatalf("%q: %q in the commit", body, line)
			}
		}
		var shown healVnfRequest
		if err := rest.Decode(params(req), &shown); err != nil || cmp.Diff(req.VnfcInstanceID.list, shown.VnfcInstanceID.list) != "" {
			t.Fatalf("%q: operationParams: %v", body, err)
		}
	})
}

// FuzzUpgrade holds that the additionalParams of any change of package are refused for
// a reason, or are all kept: for the way to the package, the scripts or the manifests.
func FuzzUpgrade(f *testing.F) {
	f.Add(`{"upgrade_type": "Blue-Green", "drain": "30s", "x": {"y": 1}}`)
	f.Add(`{"vdu_params": [{"vdu_id": "a", "old_vnfc_param": {"cp-name": "c", "password": "p"}}], "external_lb_param": {"password": "p"}}`)
	f.Add(`{"vdu_params": {"vdu_id": "a", "new_vnfc_param": {"cp-name": "c", "cp_name": {}}}}`)
	f.Add(`{"lcm-operation-coordinate-new-vnf": "./../x", "lcm-operation-coordinate-new-vnf-class": "C", "lcm-kubernetes-def-files": ["a"]}`)
	f.Fuzz(func(t *testing.T, text string) {
		given := map[string]any{}
		if rest.Decode([]byte(text), &given) != nil {
			return
		}
		rest.Object(given)
		was, err := json.Marshal(given)
		if err != nil {
			t.Fatal(err)
		}
		up, err := upgradeOf(given)
		if err != nil {
			var invalid *rest.InvalidError
			if !errors.As(err, &invalid) || invalid.Status != 400 || !strings.Contains(invalid.Detail, "additionalParams.") {
				t.Fatalf("%q: %v", text, err)
			}
			return
		}
		if is, err := json.Marshal(given); err != nil || string(is) != string(was) {
			t.Fatalf("%q was altered to %s", text, is)
		}
		for key := range given {
			switch _, rest := up.rest[key]; key {
			case upgradeType, drainParam, defFiles, newScript, newScriptClass, oldScript, oldScriptClass:
				if rest {
					t.Fatalf("%q: %s is taken for a parameter of the VNF", text, key)
				}
			case vduParams, externalLBParam:
				if _, handed := up.coordinate.Params[key]; rest || !handed {
					t.Fatalf("%q: %s doesn't reach the scripts alone", text, key)
				}
			default:
				if !rest {
					t.Fatalf("%q: %s is lost", text, key)
				}
			}
		}
		if list, _ := up.coordinate.Params[vduParams].([]any); len(list) != len(up.vdus) {
			t.Fatalf("%q: %d VDUs of %d", text, len(up.vdus), len(list))
		}
		for _, p := range []string{up.coordinate.New, up.coordinate.Old} {
			if strings.HasPrefix(p, "/") || strings.HasPrefix(p, "../") {
				t.Fatalf("%q: the script %q is outside the package", text, p)
			}
		}
	})
}
