package sol_test

import (
	"encoding/json"
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/desired/secret"
	"github.com/jibe-vnfm/jibe/lcm"
	"github.com/jibe-vnfm/jibe/sol/rest"
)

const updateBody = `{"vnfdId": "vnfd-2", "vnfInstanceName": "modify_vnf_after", "metadata": {"configmap_secret_paths": ["Files/b.yaml"]}}`

func TestAnotherVnfdIDOfAVNFThatRunsIsAContainerUpdate(t *testing.T) {
	e, id, path := upgradable(t)
	e.successor("vnfd-3", tree3, "3.0")
	e.pushed(id, e.repo.text(id)+"update: {strategy: blueGreen}\n")
	params := e.intent(id).Params
	op := e.begun(e.want(202, "PATCH", path, updateBody, "Content-Type", "application/merge-patch+json"))
	got := e.intent(id)
	if got.VnfdID != "vnfd-2" || got.Package != tree2 || got.Base != tree1 || got.Generation != "" || got.Name != "modify_vnf_after" || got.Update.Strategy != desired.BlueGreen ||
		!cmp.Equal(got.Params, params) || !cmp.Equal(got.Overlays, []desired.Overlay{{Package: tree2, Paths: []string{"Files/b.yaml"}}}) {
		t.Errorf("%s", e.repo.text(id))
	}
	if o := occurrence(e, op); o.Operation != lcm.ModifyInfo || o.OperationState != lcm.Processing || o.ChangedInfo != nil {
		t.Errorf("%+v", o)
	}
	e.finish(op, pod("c", "VDU1", "vdu1-2"), pod("b", "VDU2", "vdu2-1"))
	o := occurrence(e, op)
	want := `{"metadata":{"configmap_secret_paths":["Files/b.yaml"]},"vnfInstanceName":"modify_vnf_after","vnfProductName":"Sample VNF","vnfProvider":"Company","vnfSoftwareVersion":"2.1","vnfdId":"vnfd-2","vnfdVersion":"2.1"}`
	if string(o.ChangedInfo) != want || o.PkgChange != nil || len(o.ResourceChanges.AffectedVnfcs) != 2 {
		t.Errorf("%s, %+v", o.ChangedInfo, o)
	}
	in := show(e, id)
	if in.VnfdID != "vnfd-2" || in.SoftwareVersion != "2.1" || in.Metadata["configmap_secret_paths"] == nil || in.InstantiatedVnfInfo.VnfcInfo[0].ID != "VDU1-vdu1-2" {
		t.Errorf("%+v", in)
	}

	// The next one lies on top, and the paths are those of each request.
	e.finish(e.begun(e.want(202, "PATCH", path, `{"vnfdId": "vnfd-3"}`)), pod("c", "VDU1", "vdu1-2"))
	if got := e.intent(id); got.Base != tree1 || got.Package != tree3 || !cmp.Equal(got.Overlays, []desired.Overlay{{Package: tree2, Paths: []string{"Files/b.yaml"}}, {Package: tree3}}) {
		t.Errorf("%s", e.repo.text(id))
	}
	e.finish(e.begun(e.want(202, "PATCH", path, `{"vnfdId": "vnfd-3", "metadata": {"configmap_secret_paths": ["Files/a.yaml"]}}`)), pod("c", "VDU1", "vdu1-2"))
	if got := e.intent(id).Overlays; len(got) != 3 || !cmp.Equal(got[2], desired.Overlay{Package: tree3, Paths: []string{"Files/a.yaml"}}) {
		t.Errorf("%+v", got)
	}
	before := e.repo.text(id)
	for _, again := range []string{`{"vnfdId": "vnfd-3"}`, `{"vnfdId": "vnfd-3", "metadata": {"configmap_secret_paths": ["Files/a.yaml"]}}`} {
		e.finish(e.begun(e.want(202, "PATCH", path, again)), pod("c", "VDU1", "vdu1-2"))
		if e.repo.text(id) != before {
			t.Errorf("%s again changes the file:\n%s", again, e.repo.text(id))
		}
	}

	// A change of package ends them all.
	e.want(202, "POST", path+"/change_vnfpkg", change(``))
	if got := e.intent(id); got.Base != "" || got.Overlays != nil || got.Package != tree2 {
		t.Errorf("%s", e.repo.text(id))
	}
}

func TestAHealOfTheWholeVNFEndsContainerUpdates(t *testing.T) {
	for body, ends := range map[string]bool{
		`{}`: true, `{"additionalParams": {"all": true}}`: true,
		`{"additionalParams": {"all": false}}`: false, `{"vnfcInstanceId": ["a-uid"]}`: false,
	} {
		e := setup(t)
		e.successor("vnfd-2", tree2, "2.1", "Files/b.yaml")
		id, path := e.sickly()
		units, objects := e.view.units[id], e.view.objects[id]
		e.finish(e.begun(e.want(202, "PATCH", path, updateBody)), units...)
		e.view.objects[id] = objects
		was := e.intent(id)
		op := e.begun(e.want(202, "POST", path+"/heal", body))
		got := e.intent(id)
		if ended := got.Base == "" && got.Overlays == nil; ended != ends || got.Package != tree2 || len(got.Condemned) == 0 {
			t.Errorf("%s:\n%s", body, e.repo.text(id))
		}
		if files := got.Params["lcm-kubernetes-def-files"]; !cmp.Equal(files, was.Params["lcm-kubernetes-def-files"]) {
			t.Errorf("%s: %v", body, files)
		}
		if o := occurrence(e, op); o.Operation != lcm.Heal {
			t.Errorf("%s: %+v", body, o)
		}
	}
}

func TestAnotherLifeBeginsWithoutContainerUpdates(t *testing.T) {
	e, id, path := upgradable(t)
	e.finish(e.begun(e.want(202, "PATCH", path, updateBody)), pod("a", "VDU1", "vdu1-1"))
	e.finish(e.begun(e.want(202, "POST", path+"/terminate", `{"terminationType": "FORCEFUL"}`)))
	e.pushed(id, e.repo.text(id)+"generation: \"3\"\n")
	e.want(202, "POST", path+"/instantiate", instantiateBody)
	if got := e.intent(id); got.Base != "" || got.Overlays != nil || got.Generation != "" || got.Package != tree2 {
		t.Errorf("%s", e.repo.text(id))
	}
}

func TestAnotherVnfdIDBeforeInstantiationIsThePackageThatWillRun(t *testing.T) {
	e := setup(t)
	e.successor("vnfd-2", tree2, "2.1")
	id := e.create()
	path := api + "/vnf_instances/" + id
	op := e.begun(e.want(202, "PATCH", path, updateBody))
	if got := e.intent(id); got.VnfdID != "vnfd-2" || got.Package != tree2 || got.Base != "" || got.Overlays != nil {
		t.Errorf("%s", e.repo.text(id))
	}
	e.finish(op)
	if in := show(e, id); in.VnfdID != "vnfd-2" || in.SoftwareVersion != "2.1" || in.InstantiationState != "NOT_INSTANTIATED" {
		t.Errorf("%+v", in)
	}
	if !strings.Contains(string(occurrence(e, op).ChangedInfo), `"vnfSoftwareVersion":"2.1"`) {
		t.Errorf("changedInfo %s", occurrence(e, op).ChangedInfo)
	}
}

func TestModifyRefusesBadRequestsInBothStates(t *testing.T) {
	e, running, _ := upgradable(t)
	fresh := e.create()
	commits := len(e.repo.commits)
	both := map[string]struct {
		status int
		detail string
	}{
		`{}`:                     {400, "nothing"},
		`[]`:                     {400, "object"},
		`{"x": 1}`:               {400, `"x"`},
		`{"vnfInstanceName": 1}`: {400, "vnfInstanceName"},
		`{"vnfInstanceName": "` + strings.Repeat("n", 256) + `"}`: {400, "255"},
		`{"metadata": "x"}`:                             {400, `"metadata"`},
		`{"extensions": [1]}`:                           {400, `"extensions"`},
		`{"vnfConfigurableProperties": 1}`:              {400, `"vnfConfigurableProperties"`},
		`{"vnfdId": null}`:                              {400, `"vnfdId"`},
		`{"vnfdId": 7}`:                                 {400, `"vnfdId"`},
		`{"vnfdId": ""}`:                                {400, `"vnfdId"`},
		`{"vnfdId": "nope"}`:                            {422, "nope"},
		`{"vnfcInfoModifications": []}`:                 {422, "VDU"},
		`{"vimConnectionInfo": null}`:                   {400, "vimConnectionInfo"},
		`{"vimConnectionInfo": []}`:                     {400, "vimConnectionInfo"},
		`{"metadata": {"configmap_secret_paths": "x"}}`: {400, "configmap_secret_paths"},
		`{"vnfdId": "vnfd-2", "metadata": {"configmap_secret_paths": ["a", 1]}}`: {400, "configmap_secret_paths"},
		`{"vnfdId": "vnfd-2", "metadata": {"configmap_secret_paths": [""]}}`:     {400, "configmap_secret_paths"},
		`{"metadata": {"password": "env:HOME"}}`:                                 {400, "reference"},
	}
	alone := maps.Clone(both)
	alone[`{`+inlineVIM+`}`] = struct {
		status int
		detail string
	}{400, "instantiate takes it"}
	for body, want := range map[string]struct {
		status int
		detail string
	}{
		`{"vimConnectionInfo": {"vim1": null}}`:                                                 {400, "can't be without"},
		`{"vimConnectionInfo": {"vim1": 1}}`:                                                    {400, "vimConnectionInfo"},
		`{"vimConnectionInfo": {"vim1": {"x": 1}}}`:                                             {400, `"x"`},
		`{"vimConnectionInfo": {"vim1": {"accessInfo": {"bearer_token": [1]}}}}`:                {400, "accessInfo"},
		`{"vimConnectionInfo": {"vim1": {"vimType": "what"}}}`:                                  {400, "vimType"},
		`{"vimConnectionInfo": {"vim1": {"interfaceInfo": null}}}`:                              {404, `"v"`},
		`{"vimConnectionInfo": {"vim1": {"interfaceInfo": {"endpoint": "https://other"}}}}`:     {422, "another VIM"},
		`{"vimConnectionInfo": {"vim1": {"accessInfo": {"bearer_token": "file:/etc/shadow"}}}}`: {400, "reference"},
	} {
		both[body] = want
	}
	for id, table := range map[string]map[string]struct {
		status int
		detail string
	}{running: both, fresh: alone} {
		for body, want := range table {
			a := e.do("PATCH", api+"/vnf_instances/"+id, body)
			if a.StatusCode != want.status || !strings.Contains(a.detail(t), want.detail) {
				t.Errorf("%.100s: %d %s; want %d and %q", body, a.StatusCode, a.body, want.status, want.detail)
			}
		}
	}
	e.view.refuse = &rest.InvalidError{Status: 400, Detail: "ConfigMap amf/c is immutable"}
	if a := e.want(400, "PATCH", api+"/vnf_instances/"+running, updateBody); !strings.Contains(a.detail(t), "immutable") {
		t.Errorf("%s", a.body)
	}
	e.view.refuse = nil
	if len(e.repo.commits) != commits {
		t.Error("refused requests made commits")
	}
	for _, id := range []string{running, fresh} {
		path := api + "/vnf_instances/" + id
		e.want(412, "PATCH", path, `{"vnfdId": "vnfd-2"}`, "If-Match", `"other"`)
		tag := e.want(200, "GET", path, "").Header.Get("ETag")
		e.want(202, "PATCH", path, `{"vnfdId": "vnfd-2"}`, "If-Match", tag)
	}
}

func TestAttributesAreMergedInBothStates(t *testing.T) {
	for _, attr := range []string{"metadata", "extensions", "vnfConfigurableProperties"} {
		e := setup(t)
		for _, id := range []string{e.create(), e.instantiated()} {
			path := api + "/vnf_instances/" + id
			for _, step := range []struct {
				patch string
				want  map[string]any
			}{
				{`{"a": {"x": 1, "y": 2}, "b": "c", "l": [1, 2]}`, map[string]any{"a": map[string]any{"x": 1.0, "y": 2.0}, "b": "c", "l": []any{1.0, 2.0}}},
				{`{"a": {"x": null}, "b": {"n": true}, "l": [3], "none": null}`, map[string]any{"a": map[string]any{"y": 2.0}, "b": map[string]any{"n": true}, "l": []any{3.0}}},
				{`{}`, map[string]any{"a": map[string]any{"y": 2.0}, "b": map[string]any{"n": true}, "l": []any{3.0}}},
				{`{"a": null}`, map[string]any{"b": map[string]any{"n": true}, "l": []any{3.0}}},
				{`null`, map[string]any{}},
			} {
				op := e.begun(e.want(202, "PATCH", path, `{"`+attr+`": `+step.patch+`}`, "Content-Type", "application/merge-patch+json"))
				e.finish(op, pod("a", "VDU1", "vdu1-1"))
				got, _ := e.want(200, "GET", path, "").object(t)[attr].(map[string]any)
				if got = maps.Clone(got); got == nil {
					got = map[string]any{}
				}
				delete(got, "lcm-kubernetes-def-files")
				if d := cmp.Diff(step.want, got); d != "" {
					t.Errorf("%s %s: %s", attr, step.patch, d)
				}
				if changed := string(occurrence(e, op).ChangedInfo); !strings.Contains(changed, `"`+attr+`":{`) {
					t.Errorf("%s %s: changedInfo %s", attr, step.patch, changed)
				}
			}
		}
	}
}

func TestAnEndpointThatIsPatchedTakesNoCredentialAlong(t *testing.T) {
	e, id, path := upgradable(t)
	const elsewhere = "https://elsewhere:6443"
	// At which nothing runs yet: a VNF isn't taken elsewhere by that.
	merge := func(status int, endpoint, access string) answer {
		t.Helper()
		return e.want(status, "PATCH", path, `{"vimConnectionInfo": {"vim2": {"vimType": "kubernetes", "interfaceInfo": {"endpoint": "`+endpoint+`"}, "accessInfo": `+access+`}}}`, "Content-Type", "application/merge-patch+json")
	}
	e.finish(e.begun(merge(202, "https://second:6443", `{"bearer_token": "very-secret"}`)), pod("a", "VDU1", "vdu1-1"))
	was := e.repo.text(id)
	for _, access := range []string{`{}`, `{"username": "u"}`} {
		if got := string(merge(400, elsewhere, access).body); !strings.Contains(got, "vimConnectionInfo.vim2.accessInfo.bearer_token was given for another endpoint") {
			t.Errorf("%s: %s", access, got)
		}
	}
	if e.repo.text(id) != was {
		t.Errorf("a refused request has changed\n%s", e.repo.text(id))
	}
	e.begun(merge(202, elsewhere, `{"bearer_token": "very-secret"}`))
	ref := e.intent(id).VIMConnections["vim2"].AccessInfo["bearer_token"]
	if is, err := e.keeper.ScopeOf(ref); err != nil || is != secret.ForConnection("p", elsewhere) {
		t.Errorf("it is for %s: %v", is, err)
	}
}

func TestAConnectionIsPatchedAndItsSecretsStayHidden(t *testing.T) {
	e, id, path := upgradable(t)
	first := e.intent(id).VIMConnections["vim1"]
	op := e.begun(e.want(202, "PATCH", path, `{"vimConnectionInfo": {"vim1": {"interfaceInfo": {"ssl_ca_cert": "PEM"}, "extra": {"a": 1, "token": "very-secret"}}}}`))
	got := e.intent(id).VIMConnections["vim1"]
	if got.AccessInfo["bearer_token"] != first.AccessInfo["bearer_token"] || !cmp.Equal(got.InterfaceInfo, map[string]string{"endpoint": "https://k8s:6443", "ssl_ca_cert": "PEM"}) || got.VimID != "v" {
		t.Errorf("%s", e.repo.text(id))
	}
	e.finish(op, pod("a", "VDU1", "vdu1-1"))
	if changed := string(occurrence(e, op).ChangedInfo); changed != `{"vimConnectionInfo":{"vim1":{"extra":{"a":1},"interfaceInfo":{"endpoint":"https://k8s:6443","ssl_ca_cert":"PEM"},"vimId":"v","vimType":"ETSINFV.KUBERNETES.V_1"}}}` {
		t.Errorf("changedInfo %s", changed)
	}
	op = e.begun(e.want(202, "PATCH", path, `{"vimConnectionInfo": {"vim1": {"accessInfo": {"bearer_token": "renewed", "username": "u", "password": "pass-word"}}}}`))
	got = e.intent(id).VIMConnections["vim1"]
	token, err := e.keeper.For(secret.ForConnection("p", got.InterfaceInfo["endpoint"])).Resolve(got.AccessInfo["bearer_token"])
	if err != nil || token != "renewed" || got.AccessInfo["username"] != "u" || got.InterfaceInfo["ssl_ca_cert"] != "PEM" {
		t.Errorf("%q, %v:\n%s", token, err, e.repo.text(id))
	}
	e.finish(op, pod("a", "VDU1", "vdu1-1"))
	record, err := e.oplog.Operation(t.Context(), op)
	if err != nil {
		t.Fatal(err)
	}
	recorded, err := json.Marshal(record)
	if err != nil {
		t.Fatal(err)
	}
	for what, text := range map[string]string{"file": e.repo.text(id), "record": string(recorded), "log": e.logged.String(),
		"instance": string(e.do("GET", path, "").body), "op occ": string(e.do("GET", api+"/vnf_lcm_op_occs/"+op, "").body)} {
		for _, secret := range []string{"very-secret", "renewed", "pass-word"} {
			if strings.Contains(text, secret) {
				t.Errorf("%s: %s", what, text)
			}
		}
	}
	e.finish(e.begun(e.want(202, "PATCH", path, `{"vimConnectionInfo": {"vim1": {"accessInfo": {"password": null}}}}`)), pod("a", "VDU1", "vdu1-1"))
	if got := e.intent(id).VIMConnections["vim1"].AccessInfo; len(got) != 2 || got["password"] != "" {
		t.Errorf("%v", got)
	}
}

func TestAVIMOfTheRepositoryIsPatchedInItsFile(t *testing.T) {
	e := setup(t)
	e.repo.settings.VIMs["kube-a"] = &desired.VIM{Name: "kube-a", Type: desired.VIMKubernetes, Endpoint: "https://a", Default: true}
	id := e.create()
	path := api + "/vnf_instances/" + id
	e.finish(e.begun(e.want(202, "POST", path+"/instantiate", strings.Replace(instantiateBody, inlineVIM, `"vimConnectionInfo": {}`, 1))), pod("a", "VDU1", "vdu1-1"))
	a := e.want(422, "PATCH", path, `{"vimConnectionInfo": {"kube-a": {"accessInfo": {"bearer_token": "x"}}}}`)
	if !strings.Contains(a.detail(t), "vims/") {
		t.Errorf("%s", a.body)
	}
	e.want(400, "PATCH", path, `{"vimConnectionInfo": {"kube-a": null}}`)
	unchanged := e.repo.text(id)
	for _, same := range []string{`{}`, `{"kube-a": {"vimId": "kube-a"}}`, `{"kube-a": {"vimId": "kube-a", "vimType": "ETSINFV.KUBERNETES.V_1", "interfaceInfo": {"endpoint": "https://a"}}}`} {
		e.finish(e.begun(e.want(202, "PATCH", path, `{"vimConnectionInfo": `+same+`}`)), pod("a", "VDU1", "vdu1-1"))
		if e.repo.text(id) != unchanged {
			t.Errorf("%s sent back as it was read changes the file:\n%s", same, e.repo.text(id))
		}
	}
	e.want(202, "PATCH", path, `{"vimConnectionInfo": {"v": {"vimId": "kube-a"}}}`)
	if got := e.intent(id); got.VIM != "kube-a" || got.VIMConnections != nil {
		t.Errorf("%s", e.repo.text(id))
	}
}

func TestWhatIsOnlyShownIsNotWrittenIntoGit(t *testing.T) {
	e, id, path := upgradable(t)
	sent := `{"metadata": {"lcm-kubernetes-def-files": ["Files/a.yaml"], "k": "v"}}`
	e.finish(e.begun(e.want(202, "PATCH", path, sent)), pod("a", "VDU1", "vdu1-1"))
	if got := e.intent(id).Metadata; !cmp.Equal(got, map[string]any{"k": "v"}) {
		t.Errorf("%v", got)
	}
	if got := show(e, id).Metadata; !cmp.Equal(got, map[string]any{"k": "v", "lcm-kubernetes-def-files": []any{"Files/a.yaml"}}) {
		t.Errorf("shown: %v", got)
	}
	// The same holds for the connection, which is shown without its secrets.
	seen, err := json.Marshal(map[string]any{"vimConnectionInfo": show(e, id).VimConnectionInfo})
	if err != nil {
		t.Fatal(err)
	}
	was := e.repo.text(id)
	e.finish(e.begun(e.want(202, "PATCH", path, string(seen))), pod("a", "VDU1", "vdu1-1"))
	if e.repo.text(id) != was {
		t.Errorf("%s changes the file:\n%s", seen, e.repo.text(id))
	}
	// One that says something else is the client's own, and stays.
	e.finish(e.begun(e.want(202, "PATCH", path, `{"metadata": {"lcm-kubernetes-def-files": "mine"}}`)), pod("a", "VDU1", "vdu1-1"))
	if got := show(e, id).Metadata; !cmp.Equal(got, map[string]any{"k": "v", "lcm-kubernetes-def-files": "mine"}) {
		t.Errorf("shown: %v", got)
	}
}
