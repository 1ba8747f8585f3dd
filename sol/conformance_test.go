package sol_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"

	"github.com/jibe-vnfm/jibe/lcm"
	"github.com/jibe-vnfm/jibe/plan"
	"github.com/jibe-vnfm/jibe/test/published"
)

// conforms holds an answer against the published descriptions, where they are at hand:
// its headers, and its body by the schema. validated says whether all of both was.
func conforms(r *http.Request, a answer) (validated bool, err error) {
	path, ok := strings.CutPrefix(r.URL.Path, api)
	if !ok || strings.Contains(r.URL.RawQuery, "fields=") {
		return false, nil // parts of structures are asked for: no schema describes them
	}
	editions, err := published.Editions()
	if err != nil {
		return false, err
	}
	unknown := map[string]int{}
	for _, edition := range editions {
		held, more, err := described(edition.T, path, r, a)
		if err != nil {
			return false, fmt.Errorf("%s: %w", edition.Name, err)
		}
		validated = validated || held
		slices.Sort(more)
		for _, name := range slices.Compact(more) {
			unknown[name]++
		}
	}
	for name, n := range unknown {
		if _, known := added[name]; !known && n == len(editions) {
			return false, fmt.Errorf("no edition knows the attribute %s, and it isn't one of those that Jibe adds", name)
		}
	}
	return validated, nil
}

// added are the attributes that no edition knows, and why they are there.
var added = map[string]string{
	"/jibe":                         "what ETSI has no words for: docs/guide/api-users.md",
	"/instantiatedVnfInfo/metadata": "clients look there for the namespace and the manifests of a VNF of containers",
}

// described holds an answer against one description. unknown are attributes that this
// doesn't name.
func described(doc *openapi3.T, path string, r *http.Request, a answer) (validated bool, unknown []string, err error) {
	op := operationFor(doc, r.Method, path)
	if op == nil {
		return false, nil, nil
	}
	ref := op.Responses.Status(a.StatusCode)
	if ref == nil {
		switch a.StatusCode {
		case http.StatusPreconditionFailed, http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType, http.StatusUnprocessableEntity:
			return false, nil, nil // SOL013 clause 6.4 has them for every resource
		}
		return false, nil, fmt.Errorf("status %d isn't described", a.StatusCode)
	}
	if h := ref.Value.Headers["Location"]; h != nil && a.Header.Get("Location") == "" {
		if a.StatusCode < 300 && strings.Contains(path, "vnf_instances") || a.StatusCode == http.StatusCreated {
			return false, nil, errors.New("Location is missing")
		}
	}
	if len(ref.Value.Content) == 0 {
		if len(a.body) != 0 && a.StatusCode < 300 {
			return false, nil, errors.New("a body is not described")
		}
		return true, nil, nil
	}
	if len(a.body) == 0 {
		return a.StatusCode == http.StatusAccepted || a.StatusCode == http.StatusNoContent, nil, nil
	}
	media := ref.Value.Content.Get(strings.Split(a.Header.Get("Content-Type"), ";")[0])
	if media == nil {
		media = ref.Value.Content.Get("application/json")
	}
	if media == nil || media.Schema == nil {
		return false, nil, nil
	}
	var v any
	if err := json.Unmarshal(a.body, &v); err != nil {
		return false, nil, err
	}
	values := []any{v}
	if list, ok := v.([]any); ok && !media.Schema.Value.Type.Is("array") {
		values = list
	}
	for _, v := range values {
		if err := published.Holds(media.Schema.Value, v, openapi3.DisablePatternValidation()); err != nil {
			return false, nil, err
		}
		unknown = append(unknown, published.Unknown(media.Schema.Value, v)...)
	}
	return true, unknown, nil
}

func operationFor(doc *openapi3.T, method, path string) *openapi3.Operation {
	parts := strings.Split(path, "/")
next:
	for pattern, item := range doc.Paths.Map() {
		want := strings.Split(pattern, "/")
		if len(want) != len(parts) {
			continue
		}
		for i, w := range want {
			if w != parts[i] && !strings.HasPrefix(w, "{") {
				continue next
			}
		}
		return item.GetOperation(method)
	}
	return nil
}

// describedBody holds a request's body against the published description.
func describedBody(doc *openapi3.T, method, path, body string) error {
	var v any
	if err := json.Unmarshal([]byte(body), &v); err != nil {
		return err
	}
	described := operationFor(doc, method, path).RequestBody
	if described == nil {
		return nil // the file forgets CancelMode
	}
	return described.Value.Content.Get("application/json").Schema.Value.VisitJSON(v)
}

// TestAnswersConformToThePublishedOpenAPI walks through a VNF's life. Every other
// test of this package holds its answers against the description too.
func TestAnswersConformToThePublishedOpenAPI(t *testing.T) {
	published.Need(t)
	editions, err := published.Editions()
	if err != nil {
		t.Fatal(err)
	}
	doc := editions[0].T
	e := setup(t, subscriptions(t))
	id := e.instantiated()
	in := "/vnf_instances/" + id
	scale := e.begun(e.want(202, "POST", api+in+"/scale", scaleOut))
	op := "/vnf_lcm_op_occs/" + scale
	e.move(scale, nil, lcm.Broke)
	sick, healing := e.sickly()
	healed := e.begun(e.want(202, "POST", healing+"/heal", `{"cause": "it hangs"}`))
	e.finish(healed, pod("new", "VDU1", "vdu1-2"))
	e.repo.push(sick, e.repo.text(sick)+"drift: report\n")
	e.successor("vnfd-2", tree2, "2.1")
	upgraded := e.instantiated()
	pkg := e.begun(e.want(202, "POST", api+"/vnf_instances/"+upgraded+"/change_vnfpkg", change(``)))
	e.finish(pkg, pod("new", "VDU1", "vdu1-2"))
	updated := e.instantiated()
	patched := e.begun(e.want(202, "PATCH", api+"/vnf_instances/"+updated, updateBody))
	e.finish(patched, pod("new", "VDU1", "vdu1-2"))
	spread, servers := e.servers()
	e.finish(e.begun(e.want(202, "POST", servers+"/heal", `{"vnfcInstanceId": ["s1"], "additionalParams": {"all": true}}`)), server("VDU1", "a", "s1", "t2"))
	connected := e.begun(e.want(202, "POST", servers+"/change_ext_conn", `{"extVirtualLinks": [`+on("right", "ext2", "CP1", `{"a": `+anyAddress+`}`)+`]}`))
	e.record(connected, []plan.Unit{server("VDU1", "a", "s1", "t3")}, []plan.Resource{port(server("VDU1", "a", "s1", "t3"), "p8", "CP1", "ext2", true, "10.1.0.1")})
	sub := e.want(201, "POST", api+"/subscriptions", `{"callbackUri": "`+subscriber(t, 204)+`", "filter": {"vnfInstanceSubscriptionFilter": {"vnfdIds": ["a"],
		"vnfProductsFromProviders": [{"vnfProvider": "p", "vnfProducts": [{"vnfProductName": "n", "versions": [{"vnfSoftwareVersion": "1", "vnfdVersions": ["2"]}]}]}]}, "operationStates": ["COMPLETED"]}}`).object(t)["id"].(string)
	for _, tt := range []struct {
		method, path, body string
		status             int
	}{
		{"GET", "/api_versions", "", 200},
		{"POST", "/vnf_instances", `{"vnfdId": "vnfd-1"}`, 201},
		{"POST", "/vnf_instances", `{}`, 400},
		{"GET", "/vnf_instances", "", 200},
		{"GET", "/vnf_instances?all_fields", "", 200},
		{"GET", in, "", 200},
		{"GET", "/vnf_instances/nope", "", 404},
		{"POST", in + "/scale", scaleOut, 409},
		{"GET", "/vnf_instances/" + sick, "", 200},
		{"POST", "/vnf_instances/" + sick + "/heal", `{"vnfcInstanceId": ["nope"]}`, 400},
		{"POST", "/vnf_instances/" + sick + "/heal", `{"vnfcInstanceId": ["new"], "cause": "it hangs", "healScript": "https://x", "additionalParams": {"all": false}}`, 202},
		{"POST", "/vnf_instances/" + sick + "/heal", `{}`, 409},
		{"GET", "/vnf_lcm_op_occs/" + healed, "", 200},
		{"POST", "/vnf_instances/nope/change_vnfpkg", change(``), 404},
		{"POST", "/vnf_instances/" + upgraded + "/change_vnfpkg", change(``), 409},
		{"POST", "/vnf_instances/" + upgraded + "/change_vnfpkg", `{"vnfdId": 1}`, 400},
		{"GET", "/vnf_lcm_op_occs/" + pkg, "", 200},
		{"GET", "/vnf_instances/" + upgraded, "", 200},
		{"POST", "/vnf_instances/" + upgraded + "/change_vnfpkg", `{"vnfdId": "vnfd-1", ` + inlineVIM + `, "extensions": {"a": 1}, "vnfConfigurableProperties": {"b": 2},
			"additionalParams": {"upgrade_type": "Blue-Green", "lcm-kubernetes-def-files": ["Files/a.yaml"], "lcm-operation-coordinate-new-vnf": "a.sh",
			"vdu_params": [{"vdu_id": "VDU1", "new_vnfc_param": {"cp_name": "CP1", "username": "u", "password": "p"}}]}}`, 202},
		{"GET", "/vnf_lcm_op_occs/" + patched, "", 200},
		{"GET", "/vnf_instances/" + updated, "", 200},
		{"PATCH", "/vnf_instances/" + updated, `{"vnfdId": 1}`, 400},
		{"PATCH", "/vnf_instances/" + updated, `{"vnfdId": "vnfd-1", "vimConnectionInfo": {"vim1": {"vimType": "ETSINFV.KUBERNETES.V_1", "extra": {"a": 1}}}}`, 202},
		{"GET", "/vnf_instances/" + spread, "", 200},
		{"GET", "/vnf_lcm_op_occs/" + connected, "", 200},
		{"POST", "/vnf_instances/" + spread + "/change_ext_conn", `{"extVirtualLinks": []}`, 400},
		{"POST", "/vnf_instances/" + spread + "/change_ext_conn", `{"extVirtualLinks": [` + leftLink + `]}`, 202},
		{"POST", "/vnf_instances/" + spread + "/change_ext_conn", `{"extVirtualLinks": [` + leftLink + `]}`, 409},
		{"GET", "/vnf_lcm_op_occs?all_fields", "", 200},
		{"GET", op, "", 200},
		{"POST", op + "/retry", "", 202},
		{"GET", op, "", 200},
		{"POST", op + "/cancel", `{"cancelMode": "GRACEFUL"}`, 202},
		{"GET", op, "", 200},
		{"POST", op + "/fail", "", 409},
		{"GET", "/subscriptions", "", 200},
		{"GET", "/subscriptions/" + sub, "", 200},
		{"DELETE", "/subscriptions/" + sub, "", 204},
	} {
		r := e.request(tt.method, api+tt.path, tt.body)
		a := e.send(r)
		if a.StatusCode != tt.status {
			t.Fatalf("%s %s: %d, want %d: %s", tt.method, tt.path, a.StatusCode, tt.status, a.body)
		}
		if ok, err := conforms(r, a); !ok || err != nil {
			t.Errorf("%s %s: %d was not held against the description: %v", tt.method, tt.path, tt.status, err)
		}
		if tt.status == http.StatusAccepted && tt.body != "" {
			if err := describedBody(doc, tt.method, tt.path, tt.body); err != nil {
				t.Errorf("%s %s: we take a body that isn't described: %v", tt.method, tt.path, err)
			}
		}
	}
	// The oracle distinguishes good from bad.
	r := e.request("GET", api+in, "")
	a := e.send(r)
	a.body = []byte(strings.Replace(string(a.body), `"INSTANTIATED"`, `"RUNNING"`, 1))
	if _, err := conforms(r, a); err == nil {
		t.Error("a wrong instantiationState passed")
	}
	if describedBody(doc, "POST", in+"/heal", `{"cause": 1}`) == nil {
		t.Error("a wrong cause passed")
	}
}
