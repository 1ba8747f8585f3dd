package sol_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"time"

	"strings"
	"testing"

	"github.com/jibe-vnfm/jibe/auth"
	"github.com/jibe-vnfm/jibe/desired/secret"
	"github.com/jibe-vnfm/jibe/internal/egress"
	"github.com/jibe-vnfm/jibe/lcm/oplog"
	"github.com/jibe-vnfm/jibe/sol/notify"
	"github.com/jibe-vnfm/jibe/store/bolt"

	"github.com/google/go-cmp/cmp"

	"github.com/jibe-vnfm/jibe/plan"
	"github.com/jibe-vnfm/jibe/sol"
)

const instantiateV1 = `{"flavourId": "simple", "vimConnectionInfo": [{"id": "vim1", "vimId": "v", "vimType": "kubernetes",
	"interfaceInfo": {"endpoint": "https://k8s:6443"}, "accessInfo": {"bearer_token": "very-secret"}}],
	"additionalParams": {"lcm-kubernetes-def-files": ["Files/a.yaml"], "namespace": "amf"}}`

// v1Operation is the operation that a 202 names.
func v1Operation(t *testing.T, a answer) string {
	t.Helper()
	id, ok := strings.CutPrefix(a.Header.Get("Location"), base+apiV1+"/vnf_lcm_op_occs/")
	if !ok {
		t.Fatalf("Location %q", a.Header.Get("Location"))
	}
	return id
}

// links are the references of a resource.
func links(resource map[string]any) map[string]string {
	out := map[string]string{}
	for name, l := range resource["_links"].(map[string]any) {
		out[name] = l.(map[string]any)["href"].(string)
	}
	return out
}

func TestClientsOfV1LiveAVNFsWholeLife(t *testing.T) {
	e := setup(t)
	made := e.want(201, "POST", apiV1+"/vnf_instances", `{"vnfdId": "vnfd-1", "vnfInstanceName": "amf"}`, "Version", "")
	id := made.object(t)["id"].(string)
	path := apiV1 + "/vnf_instances/" + id
	if made.Header.Get("Location") != base+path || links(made.object(t))["instantiate"] != base+path+"/instantiate" {
		t.Errorf("%v %s", made.Header, made.body)
	}
	op := v1Operation(t, e.want(202, "POST", path+"/instantiate", instantiateV1, "Version", "1.3.0"))
	e.finish(op, pod("a", "VDU1", "vdu1-1"), pod("b", "VDU2", "vdu2-1"))

	shown := e.want(200, "GET", path, "", "Version", "1.2.0-impl:x")
	in := shown.object(t)
	if shown.Header.Get("Version") != "1.2.0" {
		t.Errorf("Version %q", shown.Header.Get("Version"))
	}
	vims := []any{map[string]any{"id": "vim1", "vimId": "v", "vimType": "ETSINFV.KUBERNETES.V_1", "interfaceInfo": map[string]any{"endpoint": "https://k8s:6443"}}}
	if d := cmp.Diff(vims, in["vimConnectionInfo"]); d != "" {
		t.Error(d)
	}
	want := map[string]string{"self": base + path}
	for name, task := range map[string]string{"terminate": "terminate", "scale": "scale", "scaleToLevel": "scale_to_level", "operate": "operate",
		"heal": "heal", "changeExtConn": "change_ext_conn"} {
		want[name] = base + path + "/" + task
	}
	if d := cmp.Diff(want, links(in)); d != "" {
		t.Errorf("links: %s", d)
	}

	// Selectors and filters see what clients of v1 see.
	if got := ids(t, e.want(200, "GET", apiV1+"/vnf_instances?filter=(eq,vimConnectionInfo/id,vim1)", "", "Version", "")); len(got) != 1 || got[0] != id {
		t.Errorf("%v", got)
	}
	var list []map[string]any
	e.want(200, "GET", apiV1+"/vnf_instances?fields=vimConnectionInfo/vimType", "", "Version", "").json(t, &list)
	if d := cmp.Diff([]any{map[string]any{"vimType": "ETSINFV.KUBERNETES.V_1"}}, list[0]["vimConnectionInfo"]); d != "" || links(list[0])["self"] != base+path {
		t.Errorf("%v: %s", list, d)
	}
	list = nil
	e.want(200, "GET", apiV1+"/vnf_instances", "", "Version", "").json(t, &list)
	if list[0]["vimConnectionInfo"] != nil || list[0]["id"] != id {
		t.Errorf("%v", list)
	}

	// A connection is changed by its id, and what v1 lists to be deleted is deleted.
	op = v1Operation(t, e.want(202, "PATCH", path, `{"metadata": {"a": 1, "b": 2}, "extensions": {"c": 3}}`, "Version", ""))
	e.finish(op, pod("a", "VDU1", "vdu1-1"))
	op = v1Operation(t, e.want(202, "PATCH", path, `{"metadataDeleteList": ["a"], "vimConnectionInfo": [{"id": "vim1", "vimType": "kubernetes", "extra": {"x": 1}}]}`, "Version", ""))
	e.finish(op, pod("a", "VDU1", "vdu1-1"))
	in = e.want(200, "GET", path, "", "Version", "").object(t)
	if m := in["metadata"].(map[string]any); m["a"] != nil || m["b"] != 2.0 {
		t.Errorf("%v", in)
	}
	occ := e.want(200, "GET", apiV1+"/vnf_lcm_op_occs/"+op, "", "Version", "").object(t)
	if d := cmp.Diff([]any{map[string]any{"id": "vim1", "vimType": "kubernetes", "extra": map[string]any{"x": 1.0}}}, occ["operationParams"].(map[string]any)["vimConnectionInfo"]); d != "" {
		t.Errorf("operationParams: %s", d)
	}
	if l := links(occ); l["self"] != base+apiV1+"/vnf_lcm_op_occs/"+op || l["vnfInstance"] != base+path {
		t.Errorf("%v", l)
	}

	// The client sends no Version with this request.
	op = v1Operation(t, e.want(202, "POST", path+"/scale", scaleOut, "Version", ""))
	e.want(202, "POST", apiV1+"/vnf_lcm_op_occs/"+op+"/cancel", `{"cancelMode": "FORCEFUL"}`, "Version", "")
	e.want(404, "POST", path+"/change_vnfpkg", `{"vnfdId": "vnfd-1"}`, "Version", "")
}

func TestWhatV1CanNotSayIsRefused(t *testing.T) {
	e := setup(t)
	id := e.create()
	for body, says := range map[string]string{
		`{"flavourId": "simple", "vimConnectionInfo": {"vim1": {}}}`:                                            "must be a list",
		`{"flavourId": "simple", "vimConnectionInfo": [{"vimType": "kubernetes"}]}`:                             "vimConnectionInfo[0].id is missing",
		`{"flavourId": "simple", "vimConnectionInfo": [1]}`:                                                     "vimConnectionInfo[0].id is missing",
		`{"flavourId": "simple", "vimConnectionInfo": [{"id": "a"}, {"id": "a"}]}`:                              "twice",
		`{"flavourId": "simple", "flavourId": "other"}`:                                                         "stands twice",
		`{"flavourId": "simple", "nonsense": 1}`:                                                                `unknown attribute "nonsense"`,
		`{"flavourId": "simple", "extVirtualLinks": [{"extCps": [{"cpConfig": [{"cpInstanceId": "x"}, {}]}]}]}`: "/vnflcm/v2",
	} {
		a := e.want(400, "POST", apiV1+"/vnf_instances/"+id+"/instantiate", body, "Version", "")
		if d := a.detail(t); !strings.Contains(d, says) || strings.Contains(d, "line ") && !strings.Contains(says, "twice") {
			t.Errorf("%s: %s", body, d)
		}
	}
	for body, says := range map[string]string{
		`{"metadata": {"a": 1}, "metadataDeleteList": ["a"]}`:                                       "is in metadata too",
		`{"metadata": 1, "metadataDeleteList": ["a"]}`:                                              "must be an object",
		`{"metadataDeleteList": "a"}`:                                                               "must be a list",
		`{"vimConnectionInfoDeleteIds": [1]}`:                                                       "vimConnectionInfoDeleteIds[0] must be text",
		`{"vimConnectionInfo": [{"id": "a", "vimType": "x"}], "vimConnectionInfoDeleteIds": ["a"]}`: "is in vimConnectionInfo too",
	} {
		if a := e.want(400, "PATCH", apiV1+"/vnf_instances/"+id, body, "Version", ""); !strings.Contains(a.detail(t), says) {
			t.Errorf("%s: %s", body, a.body)
		}
	}
	e.want(406, "GET", apiV1+"/vnf_instances", "", "Version", "2.0.0")
	e.want(401, "GET", apiV1+"/vnf_instances", "", "Authorization", "")
}

func TestV1ShowsServersAndTheirNetworksInItsWords(t *testing.T) {
	e := setup(t)
	id, servers := e.servers()
	connected := e.begun(e.want(202, "POST", servers+"/change_ext_conn", `{"extVirtualLinks": [`+on("right", "ext2", "CP1", `{"a": `+anyAddress+`}`)+`]}`))
	e.record(connected, []plan.Unit{server("VDU1", "a", "s1", "t3")}, []plan.Resource{port(server("VDU1", "a", "s1", "t3"), "p8", "CP1", "ext2", true, "10.1.0.1")})
	info := e.want(200, "GET", apiV1+"/vnf_instances/"+id, "", "Version", "").object(t)["instantiatedVnfInfo"].(map[string]any)
	if _, later := info["extVirtualLinkInfo"].([]any)[0].(map[string]any)["currentVnfExtCpData"]; later {
		t.Errorf("%v", info)
	}
	occ := e.want(200, "GET", apiV1+"/vnf_lcm_op_occs/"+connected, "", "Version", "").object(t)
	asked := occ["operationParams"].(map[string]any)["extVirtualLinks"].([]any)[0].(map[string]any)["extCps"].([]any)[0].(map[string]any)["cpConfig"]
	if _, list := asked.([]any); !list {
		t.Errorf("cpConfig %v", asked)
	}
	// What one version was told, the other changes.
	op := v1Operation(t, e.want(202, "POST", apiV1+"/vnf_instances/"+id+"/change_ext_conn",
		`{"extVirtualLinks": [`+strings.Replace(on("left", "ext1", "CP1", `{"1": `+anyAddress+`}`), `{"1": `+anyAddress+`}`, `[`+anyAddress+`]`, 1)+`]}`, "Version", ""))
	var o sol.VnfLcmOpOcc
	e.want(200, "GET", api+"/vnf_lcm_op_occs/"+op, "").json(t, &o)
	if !strings.Contains(string(o.OperationParams), `"cpConfig":{"1":`) {
		t.Errorf("%s", o.OperationParams)
	}
}

func TestWhoSubscribesByV1IsNotifiedInItsForm(t *testing.T) {
	got := make(chan map[string]any, 100)
	versions := make(chan string, 100)
	subscriber := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			body, err := io.ReadAll(r.Body)
			var n map[string]any
			if err == nil {
				err = json.Unmarshal(body, &n)
			}
			if err != nil {
				t.Errorf("%s: %v", body, err)
			}
			got <- n
		}
		versions <- r.Header.Get("Version")
		w.WriteHeader(http.StatusNoContent)
	}))
	defer subscriber.Close()
	st, err := bolt.Open(filepath.Join(t.TempDir(), "notify.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	keeper, err := secret.Open(t.TempDir(), nil)
	if err != nil {
		t.Fatal(err)
	}
	var service *notify.Service
	e := setup(t, func(c *sol.Config) {
		service, err = notify.New(notify.Config{Oplog: c.Operations, Store: st, Secrets: keeper.For(secret.ForSubscriptions()), Egress: egress.Anywhere(), Base: base, APIs: []notify.API{sol.NotificationsV1()},
			Sees: func(who auth.Identity, _ oplog.Event) bool { return who.May(auth.Viewer, "") }})
		if err != nil {
			t.Fatal(err)
		}
		c.Subscriptions, c.SubscriptionsV1 = service.Lifecycle(api), service.Lifecycle(apiV1)
	})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- service.Run(ctx) }()
	defer func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}()
	made := e.want(201, "POST", apiV1+"/subscriptions", `{"callbackUri": "`+subscriber.URL+`", "filter": {"operationTypes": ["MODIFY_INFO", "INSTANTIATE"]}}`, "Version", "")
	sub := made.object(t)
	self := base + apiV1 + "/subscriptions/" + sub["id"].(string)
	if links(sub)["self"] != self || made.Header.Get("Location") != self || sub["verbosity"] != nil {
		t.Errorf("%v %s", made.Header, made.body)
	}
	// One kind of resource, whichever version shows it.
	if ids := ids(t, e.want(200, "GET", api+"/subscriptions", "")); len(ids) != 1 || ids[0] != sub["id"] {
		t.Errorf("%v", ids)
	}
	id := e.instantiated()
	e.finish(e.begun(e.want(202, "PATCH", api+"/vnf_instances/"+id, `{"vimConnectionInfo": {"vim1": {"vimType": "ETSINFV.KUBERNETES.V_1", "extra": {"a": 1}}}}`)), pod("a", "VDU1", "vdu1-1"))
	last := map[string]any{}
	for timeout := time.After(time.Minute); last["operation"] != "MODIFY_INFO" || last["operationState"] != "COMPLETED"; {
		select {
		case last = <-got:
		case <-timeout:
			t.Fatalf("no notification of the end; the last was %v", last)
		}
		if last["verbosity"] != nil || !strings.HasPrefix(links(last)["vnfInstance"], base+apiV1+"/vnf_instances/") || links(last)["subscription"] != self {
			t.Errorf("%v", last)
		}
	}
	if _, list := last["changedInfo"].(map[string]any)["vimConnectionInfo"].([]any); !list {
		t.Errorf("changedInfo %v", last["changedInfo"])
	}
	if v := <-versions; v != "1.3.0" {
		t.Errorf("Version %q", v)
	}
	e.want(204, "DELETE", apiV1+"/subscriptions/"+sub["id"].(string), "", "Version", "")
}
