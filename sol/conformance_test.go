package sol_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/jibe-vnfm/jibe/lcm"
	"github.com/jibe-vnfm/jibe/plan"
	"github.com/jibe-vnfm/jibe/test/published"
)

// conforms holds an answer against the published descriptions, where they are at hand:
// its headers, and its body by the schema. validated says whether all of both was.
func conforms(r *http.Request, a answer) (validated bool, err error) {
	path, ok := strings.CutPrefix(r.URL.Path, api)
	if !ok {
		return false, nil
	}
	return published.Lifecycle.Answer(path, r, published.Answer{Status: a.StatusCode, Header: a.Header, Body: a.body}, added)
}

// added are the attributes that no edition knows, and why they are there.
var added = map[string]string{
	"/jibe":                         "what ETSI has no words for: docs/guide/api-users.md",
	"/instantiatedVnfInfo/metadata": "clients look there for the namespace and the manifests of a VNF of containers",
}

// TestAnswersConformToThePublishedOpenAPI walks through a VNF's life. Every other
// test of this package holds its answers against the description too.
func TestAnswersConformToThePublishedOpenAPI(t *testing.T) {
	published.Need(t)
	held := func(method, path, body string) error {
		_, err := published.Lifecycle.Request(method, path, []byte(body))
		return err
	}
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
	e.large()
	levelled, operated, flavoured := e.instantiated(), e.instantiated(), e.instantiated()
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
		{"POST", "/vnf_instances/" + levelled + "/scale_to_level", `{"scaleInfo": [{"aspectId": "vdu1_aspect", "scaleLevel": 1}, {"aspectId": "vdu2_aspect", "scaleLevel": 2}]}`, 202},
		{"POST", "/vnf_instances/" + operated + "/operate", `{"changeStateTo": "STOPPED", "stopType": "GRACEFUL", "gracefulStopTimeout": 10}`, 202},
		{"POST", "/vnf_instances/" + flavoured + "/change_flavour", `{"newFlavourId": "large", "instantiationLevelId": "more", "additionalParams": {"a": "b"}}`, 202},
		{"GET", "/vnf_instances/" + flavoured, "", 200},
		{"GET", "/vnf_lcm_op_occs", "", 200},
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
			if err := held(tt.method, tt.path, tt.body); err != nil {
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
	if held("POST", in+"/heal", `{"cause": 1}`) == nil {
		t.Error("a wrong cause passed")
	}
}
