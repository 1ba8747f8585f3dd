package sol_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/lcm"
	"github.com/jibe-vnfm/jibe/sol/notify"
	"github.com/jibe-vnfm/jibe/sol/rest"
	"github.com/jibe-vnfm/jibe/vnfd"
)

// The trees of the packages that [env.successor] adds.
const (
	tree1 = "0123456789abcdef0123456789abcdef01234567"
	tree2 = "2222222222222222222222222222222222222222"
	tree3 = "3333333333333333333333333333333333333333"
)

// successor adds a package that may follow the one that runs.
func (e *env) successor(id, tree, version string, artifacts ...string) {
	pkg := *e.view.pkg
	d := *pkg.VNFD
	pkg.VNFD = &d
	pkg.Tree, d.ID, d.Version, d.SoftwareVersion = tree, id, version, version
	flavour := d.Flavours[0]
	flavour.VDUs = append(slices.Clone(flavour.VDUs), vnfd.VDU{ID: "VDU3", Name: "vdu3", Initial: 1, Max: -1})
	d.Flavours = []vnfd.Flavour{flavour}
	pkg.Artifacts = append([]string{"Files/a.yaml"}, artifacts...)
	e.view.newer = append(e.view.newer, &pkg)
}

// upgradable is an instance that runs vnfd-1, while vnfd-2 is at hand.
func upgradable(t *testing.T) (e *env, id, path string) {
	e = setup(t)
	e.successor("vnfd-2", tree2, "2.1", "Files/b.yaml")
	id = e.instantiated()
	return e, id, api + "/vnf_instances/" + id
}

// intent is what the instance's file says at head.
func (e *env) intent(id string) *desired.Instance {
	e.t.Helper()
	rev, _ := e.repo.Lookup(id)
	in, err := e.repo.Read(e.t.Context(), rev)
	if err != nil {
		e.t.Fatal(err)
	}
	return in
}

// pushed makes a person's text the instance's, as if its operation had ended.
func (e *env) pushed(id, text string) {
	e.t.Helper()
	rev := e.repo.push(id, text)
	if err := e.oplog.Adopt(e.t.Context(), id, func(i *lcm.Instance) error {
		i.Operated, i.Settled = rev, rev
		return nil
	}); err != nil {
		e.t.Fatal(err)
	}
}

func TestAChangeOfPackageCommitsThePackageAndTheWayToIt(t *testing.T) {
	e, id, path := upgradable(t)
	e.pushed(id, e.repo.text(id)+"extensions: {a: 1, b: 2}\nvnfConfigurableProperties: {p: {x: 1, y: 2}}\nheld: op-1\n")
	body := `{"vnfdId": "vnfd-2", "extensions": {"a": null, "c": 3}, "vnfConfigurableProperties": {"p": {"x": 9}}, "additionalParams": {
		"upgrade_type": "Blue-Green", "lcm-kubernetes-def-files": ["Files/b.yaml"], "drain": "30s", "own": {"k": 1},
		"lcm-operation-coordinate-new-vnf": "./Scripts/new.sh", "lcm-operation-coordinate-new-vnf-class": "New",
		"lcm-operation-coordinate-old-vnf": "Scripts/old.sh", "lcm-operation-coordinate-old-vnf-class": "Old"}}`
	op := e.begun(e.want(202, "POST", path+"/change_vnfpkg", body))
	got := e.intent(id)
	want := &desired.Instance{ID: id, Name: "amf", VnfdID: "vnfd-2", Package: tree2, Generation: "1", State: desired.Instantiated, Flavour: "simple",
		VIMConnections: got.VIMConnections,
		Params:         map[string]any{"lcm-kubernetes-def-files": []any{"Files/b.yaml", "Files/a.yaml"}, "namespace": "amf", "own": map[string]any{"k": int64(1)}},
		Update: desired.UpdatePolicy{Strategy: desired.BlueGreen, Drain: "30s",
			Coordinate: desired.Coordination{New: "Scripts/new.sh", NewClass: "New", Old: "Scripts/old.sh", OldClass: "Old"}},
		Extensions:             map[string]any{"b": int64(2), "c": int64(3)},
		ConfigurableProperties: map[string]any{"p": map[string]any{"x": int64(9), "y": int64(2)}}}
	if changed := desired.Changed(want, got); len(changed) > 0 {
		t.Errorf("%v differ:\n%s", changed, e.repo.text(id))
	}
	o := occurrence(e, op)
	var shown, asked map[string]any
	if json.Unmarshal(o.OperationParams, &shown) != nil || json.Unmarshal([]byte(body), &asked) != nil || !cmp.Equal(asked, shown) {
		t.Errorf("operationParams %s, want %s", o.OperationParams, body)
	}
	if o.Operation != lcm.ChangePackage || o.OperationState != lcm.Starting || o.PkgChange != nil {
		t.Errorf("%+v", o)
	}
	if in := show(e, id); in.VnfdID != "vnfd-1" || in.SoftwareVersion != "2.0" {
		t.Errorf("shown before the operation has completed: %+v", in)
	}
	commit := e.repo.commits[len(e.repo.commits)-1]
	if commit.Subject != "CHANGE_VNFPKG "+commit.Dir {
		t.Errorf("subject %q", commit.Subject)
	}

	unit := pod("c", "VDU1", "vdu1-1-2")
	unit.Generation = "1"
	e.finish(op, unit, pod("b", "VDU2", "vdu2-1"))
	in := show(e, id)
	if in.VnfdID != "vnfd-2" || in.SoftwareVersion != "2.1" || in.VnfdVersion != "2.1" || in.Provider != "Company" ||
		!cmp.Equal(in.Metadata, map[string]any{"lcm-kubernetes-def-files": []any{"Files/b.yaml", "Files/a.yaml"}}) {
		t.Errorf("%+v", in)
	}
	if m := in.InstantiatedVnfInfo.VnfcResourceInfo; m[0].Metadata["generation"] != "1" || m[1].Metadata["generation"] != nil {
		t.Errorf("%+v", m)
	}
	o = occurrence(e, op)
	var change map[string]any
	if err := json.Unmarshal(o.PkgChange, &change); err != nil || change["vnfdId"] != "vnfd-2" || change["vnfSoftwareVersion"] != "2.1" || change["extensions"] == nil || o.ChangedInfo != nil {
		t.Errorf("modificationsTriggeredByVnfPkgChange %s, %v", o.PkgChange, err)
	}
	if n := len(o.ResourceChanges.AffectedVnfcs); n != 2 {
		t.Errorf("%d affected VNFCs, want one that went and one that came", n)
	}
}

func TestAChangeOfPackageRefusesBadRequestsAndWritesNothing(t *testing.T) {
	e, id, path := upgradable(t)
	e.successor("vnfd-3", tree3, "3.0")
	commits := len(e.repo.commits)
	for body, want := range map[string]struct {
		status int
		detail string
	}{
		`{}`:                           {400, `"vnfdId"`},
		`{"vnfdId": ""}`:               {400, `"vnfdId"`},
		`{"vnfdId": 1}`:                {400, `"vnfdId"`},
		`{"vnfdId": "nope"}`:           {422, "nope"},
		`{"vnfdId": "vnfd-2", "x": 1}`: {400, `"x"`},
		`{"vnfdId": "nope", "additionalParams": {"upgrade_type": "RollingUpdate"}}`:                        {422, "nope"},
		`{"vnfdId": "vnfd-2", "additionalParams": {"upgrade_type": "Rolling"}}`:                            {400, `"Blue-Green"`},
		`{"vnfdId": "vnfd-2", "additionalParams": {"upgrade_type": 1}}`:                                    {400, "additionalParams.upgrade_type"},
		`{"vnfdId": "vnfd-2", "additionalParams": []}`:                                                     {400, `"additionalParams"`},
		`{"vnfdId": "vnfd-2", "extensions": 1}`:                                                            {400, `"extensions"`},
		change(`"lcm-kubernetes-def-files": "Files/a.yaml"`):                                               {400, "lcm-kubernetes-def-files"},
		change(`"lcm-kubernetes-def-files": []`):                                                           {400, "lcm-kubernetes-def-files"},
		change(`"lcm-kubernetes-def-files": [1]`):                                                          {400, "lcm-kubernetes-def-files"},
		change(`"lcm-kubernetes-def-files": ["Files/none.yaml"]`):                                          {400, "Files/none.yaml"},
		change(`"lcm-operation-coordinate-new-vnf": 1`):                                                    {400, "lcm-operation-coordinate-new-vnf"},
		change(`"lcm-operation-coordinate-new-vnf": ""`):                                                   {400, "lcm-operation-coordinate-new-vnf"},
		change(`"lcm-operation-coordinate-new-vnf": "/etc/passwd"`):                                        {400, "file in the package"},
		change(`"lcm-operation-coordinate-old-vnf": "../x"`):                                               {400, "file in the package"},
		change(`"lcm-operation-coordinate-new-vnf-class": "New"`):                                          {400, "additionalParams.lcm-operation-coordinate-new-vnf is missing"},
		change(`"lcm-operation-coordinate-old-vnf-class": "Old", "lcm-operation-coordinate-new-vnf": "a"`): {400, "additionalParams.lcm-operation-coordinate-old-vnf is missing"},
		change(`"lcm-operation-coordinate-new-vnf": "a", "lcm-operation-coordinate-new-vnf-class": {}`):    {400, "lcm-operation-coordinate-new-vnf-class"},
		change(`"vdu_params": "VDU1"`):                                                                     {400, "additionalParams.vdu_params"},
		change(`"vdu_params": ["VDU1"]`):                                                                   {400, "additionalParams.vdu_params[0]"},
		change(`"vdu_params": {}`):                                                                         {400, "vdu_params[0].vdu_id"},
		change(`"vdu_params": [{"vdu_id": "VDU1"}, {"vdu_id": "VDU9"}]`):                                   {400, `vdu_params[1].vdu_id: neither VNFD vnfd-1 nor VNFD vnfd-2 has a VDU "VDU9"; they have VDU1, VDU2, VDU3`},
		change(`"vdu_params": {"vdu_id": "VDU1", "new_vnfc_param": 1}`):                                    {400, "vdu_params[0].new_vnfc_param"},
		change(`"vdu_params": {"vdu_id": "VDU1", "old_vnfc_param": {"cp-name": 1}}`):                       {400, "old_vnfc_param.cp-name"},
		change(`"vdu_params": {"vdu_id": "VDU1", "old_vnfc_param": {"password": {"very": "secret"}}}`):     {400, "old_vnfc_param.password"},
		change(`"vdu_params": {"vdu_id": "VDU1", "old_vnfc_param": {"cp-name": "a", "cp_name": "b"}}`):     {400, "different things"},
		change(`"vdu_params": {"vdu_id": "VDU1", "old_vnfc_param": {"password": "file:/etc/shadow"}}`):     {400, "reference"},
		change(`"external_lb_param": "x"`):                                                                 {400, "additionalParams.external_lb_param"},
		change(`"external_lb_param": {"password": 1}`):                                                     {400, "additionalParams.external_lb_param.password"},
		change(`"external_lb_param": {"note": "env:HOME"}`):                                                {400, "additionalParams.external_lb_param.note is a reference"},
		change(`"own": {"list": ["file:/etc/shadow"]}`):                                                    {400, "additionalParams.own.list[0] is a reference"},
		change(`"drain": 30`):     {400, "additionalParams.drain"},
		change(`"drain": "soon"`): {400, "additionalParams.drain"},
		change(`"drain": "-1s"`):  {400, "additionalParams.drain"},
		change(`"drain": "48h"`):  {400, "drain"},
		strings.Replace(change(``), `"vnfd-2"`, `"vnfd-2", "extVirtualLinks": [{"id": "a", "resourceId": "b", "extCps": []}]`, 1):      {422, "extVirtualLinks"},
		strings.Replace(change(``), `"vnfd-2"`, `"vnfd-2", "extManagedVirtualLinks": [{"id": "a"}]`, 1):                                {422, "extManagedVirtualLinks"},
		strings.Replace(change(``), `"vnfd-2"`, `"vnfd-1"`, 1):                                                                         {409, "already"},
		strings.Replace(change(``), `"vnfd-2"`, `"vnfd-2", `+strings.Replace(inlineVIM, "k8s", "other", 1), 1):                         {422, "https://k8s:6443"},
		strings.Replace(change(``), `"vnfd-2"`, `"vnfd-2", "vimConnectionInfo": {"v": {"vimId": "nope", "vimType": "kubernetes"}}`, 1): {404, "nope"},
		strings.Replace(change(``), `"vnfd-2"`, `"vnfd-2", `+strings.Replace(inlineVIM, "very-secret", "env:HOME", 1), 1):              {400, "reference"},
	} {
		a := e.do("POST", path+"/change_vnfpkg", body)
		if a.StatusCode != want.status || !strings.Contains(a.detail(t), want.detail) {
			t.Errorf("%s: %d %s; want %d and %q", body, a.StatusCode, a.body, want.status, want.detail)
		}
	}
	e.view.refuse = &rest.InvalidError{Status: 400, Detail: "StatefulSet amf/db has claims, which two generations can't share"}
	if a := e.want(400, "POST", path+"/change_vnfpkg", change(``)); !strings.Contains(a.detail(t), "StatefulSet amf/db") {
		t.Errorf("%s", a.body)
	}
	e.view.refuse = nil
	if len(e.repo.commits) != commits {
		t.Error("refused requests made commits")
	}
	if open, err := e.oplog.Unresolved(t.Context()); err != nil || len(open) != 0 {
		t.Errorf("left %v, %v", open, err)
	}
	// After all that, a good one is accepted: nothing was left behind.
	e.want(202, "POST", path+"/change_vnfpkg", change(``))
	if strings.Contains(e.logged.String(), "very-secret") || strings.Contains(e.repo.text(id), "very-secret") {
		t.Error("a secret is shown")
	}
}

// change is a rolling change to vnfd-2 with further additionalParams.
func change(more string) string {
	if more != "" {
		more = ", " + more
	}
	return `{"vnfdId": "vnfd-2", "additionalParams": {"upgrade_type": "RollingUpdate"` + more + `}}`
}

func TestAChangeOfPackageNeedsAnInstanceAtRest(t *testing.T) {
	e, _, path := upgradable(t)
	e.want(404, "POST", api+"/vnf_instances/nope/change_vnfpkg", change(``))
	if a := e.want(409, "POST", api+"/vnf_instances/"+e.create()+"/change_vnfpkg", change(``)); !strings.Contains(a.detail(t), "NOT_INSTANTIATED") {
		t.Errorf("%s", a.body)
	}
	e.want(412, "POST", path+"/change_vnfpkg", change(``), "If-Match", `"other"`)
	tag := e.want(200, "GET", path, "").Header.Get("ETag")
	op := e.begun(e.want(202, "POST", path+"/change_vnfpkg", change(``), "If-Match", tag))
	for _, r := range [][3]string{{"POST", "/change_vnfpkg", change(``)}, {"POST", "/scale", scaleOut}, {"PATCH", "", `{"vnfdId": "vnfd-2"}`}} {
		if a := e.want(409, r[0], path+r[1], r[2]); !strings.Contains(a.detail(t), op) {
			t.Errorf("%s %s doesn't name the operation: %s", r[0], r[1], a.body)
		}
	}
	e.move(op, nil, lcm.Broke)
	e.want(409, "POST", path+"/change_vnfpkg", change(``))
	e.want(202, "POST", api+"/vnf_lcm_op_occs/"+op+"/rollback", "")
}

func TestASuspendedInstanceIsNotChanged(t *testing.T) {
	e, id, path := upgradable(t)
	e.pushed(id, e.repo.text(id)+"suspend: true\n")
	for _, r := range [][3]string{{"POST", "/change_vnfpkg", change(``)}, {"PATCH", "", `{"vnfdId": "vnfd-2"}`}} {
		if a := e.want(409, r[0], path+r[1], r[2]); !strings.Contains(a.detail(t), "suspend") {
			t.Errorf("%s", a.body)
		}
	}
}

func TestTheWayToAPackageIsTheRequestsAndElseTheFiles(t *testing.T) {
	const file = "update: {strategy: blueGreen, drain: 10s, barePods: true, coordinate: {new: old.sh, newClass: Old, params: {vdu_params: [{vdu_id: VDU1}]}}}\n"
	for body, want := range map[string]desired.UpdatePolicy{
		`{"vnfdId": "vnfd-2"}`: {Strategy: desired.BlueGreen, Drain: "10s", BarePods: true},
		change(``):             {Strategy: desired.Rolling, Drain: "10s", BarePods: true},
		change(`"drain": "1m", "lcm-operation-coordinate-old-vnf": "a.py"`):                      {Strategy: desired.Rolling, Drain: "1m", BarePods: true, Coordinate: desired.Coordination{Old: "a.py"}},
		`{"vnfdId": "vnfd-2", "additionalParams": {"upgrade_type": "BlueGreen", "drain": "0s"}}`: {Strategy: desired.BlueGreen, Drain: "0s", BarePods: true},
	} {
		e, id, path := upgradable(t)
		e.pushed(id, e.repo.text(id)+file)
		e.want(202, "POST", path+"/change_vnfpkg", body)
		if d := cmp.Diff(want, e.intent(id).Update); d != "" {
			t.Errorf("%s: %s", body, d)
		}
	}
	e, id, path := upgradable(t)
	e.pushed(id, e.repo.text(id)+"update: {strategy: container, coordinate: {new: old.sh}}\n")
	if a := e.want(400, "POST", path+"/change_vnfpkg", `{"vnfdId": "vnfd-2"}`); !strings.Contains(a.detail(t), `additionalParams.upgrade_type is missing`) || !strings.Contains(a.detail(t), `"Blue-Green"`) {
		t.Errorf("%s", a.body)
	}
	e.want(202, "POST", path+"/change_vnfpkg", change(``))
	if got := e.repo.text(id); strings.Contains(got, "coordinate") || !strings.Contains(got, "strategy: rolling") {
		t.Errorf("%s", got)
	}
}

func TestVDUParametersReachScriptsInOneForm(t *testing.T) {
	const entry = `{"vdu_id": "VDU3", "old_vnfc_param": {"cp-name": "CP1", "username": "u", "password": "very-secret"}, "new_vnfc_param": {"cp_name": "CP2", "cp-name": "CP2"}, "x": 1}`
	for _, given := range []string{entry, "[" + entry + "]"} {
		e, id, path := upgradable(t)
		op := e.begun(e.want(202, "POST", path+"/change_vnfpkg",
			change(`"vdu_params": `+given+`, "external_lb_param": {"ip_address": "10.0.0.1", "username": "u", "password": "very-secret"}`)))
		coordinate := e.intent(id).Update.Coordinate.Params
		vdu := coordinate["vdu_params"].([]any)[0].(map[string]any)
		old := vdu["old_vnfc_param"].(map[string]any)
		lb := coordinate["external_lb_param"].(map[string]any)
		for _, m := range []map[string]any{old, lb} {
			if s, _ := m["password"].(string); !strings.HasPrefix(s, "age:") {
				t.Errorf("%s: password %v", given, m["password"])
			}
			delete(m, "password")
		}
		want := map[string]any{"external_lb_param": map[string]any{"ip_address": "10.0.0.1", "username": "u"},
			"vdu_params": []any{map[string]any{"vdu_id": "VDU3", "x": int64(1), "new_vnfc_param": map[string]any{"cp_name": "CP2"},
				"old_vnfc_param": map[string]any{"cp_name": "CP1", "username": "u"}}}}
		if d := cmp.Diff(want, coordinate); d != "" {
			t.Errorf("%s: %s", given, d)
		}
		if shown := string(occurrence(e, op).OperationParams); !strings.Contains(shown, `"cp-name":"CP1"`) || strings.Contains(shown, "password") {
			t.Errorf("operationParams %s", shown)
		}
	}
}

func TestSecretsOfAChangeOfPackageStayHidden(t *testing.T) {
	e, id, path := upgradable(t)
	body := strings.Replace(change(`"vdu_params": {"vdu_id": "VDU1", "new_vnfc_param": {"password": "very-secret"}}, "external_lb_param": {"password": "very-secret", "ssh_key": "very-secret", "client_key": "", "passwords": {"a": ["very-secret"]}},
		"api_token": "very-secret"`), `"vnfd-2"`, `"vnfd-2", "extensions": {"password": "very-secret"}, `+inlineVIM, 1)
	sealed := func() string {
		return e.intent(id).Update.Coordinate.Params["external_lb_param"].(map[string]any)["password"].(string)
	}
	op := e.begun(e.want(202, "POST", path+"/change_vnfpkg", body))
	first := sealed()
	e.finish(op, pod("c", "VDU1", "vdu1-2"))
	record, err := e.oplog.Operation(t.Context(), op)
	if err != nil {
		t.Fatal(err)
	}
	recorded, err := json.Marshal(record)
	if err != nil {
		t.Fatal(err)
	}
	e.successor("vnfd-2", tree3, "2.2")
	e.begun(e.want(202, "POST", path+"/change_vnfpkg", body))
	if sealed() != first {
		t.Error("an equal password has got another ciphertext")
	}
	events, err := e.oplog.Events(t.Context(), 0, 100)
	if err != nil {
		t.Fatal(err)
	}
	var notified []byte
	for _, ev := range events {
		n, err := json.Marshal(notify.NewNotification("6d1ad17d-6a4c-4a4c-8d3a-1c2f2d1f9d11", notify.Full, base, ev))
		if err != nil {
			t.Fatal(err)
		}
		notified = append(notified, n...)
	}
	if !strings.Contains(string(notified), `"modificationsTriggeredByVnfPkgChange":{"extensions":{}`) {
		t.Errorf("notified: %s", notified)
	}
	for _, w := range e.repo.commits {
		if strings.Contains(w.Subject+w.Body, "very-secret") {
			t.Errorf("commit %q %q", w.Subject, w.Body)
		}
	}
	for what, text := range map[string]string{
		"log": e.logged.String(), "file": e.repo.text(id), "record": string(recorded), "notifications": string(notified),
		"instance": string(e.do("GET", path, "").body), "instances": string(e.do("GET", api+"/vnf_instances?all_fields", "").body),
		"op occs": string(e.do("GET", api+"/vnf_lcm_op_occs?all_fields", "").body),
	} {
		if strings.Contains(text, "very-secret") || what != "file" && strings.Contains(text, "age:") {
			t.Errorf("%s: %s", what, text)
		}
	}
}

func TestAChangeToThePackageThatRunsNeedsAnotherReason(t *testing.T) {
	same := func(more string) string { return strings.Replace(change(``), `"vnfd-2"`, `"vnfd-1"`+more, 1) }
	e, id, path := upgradable(t)
	e.want(409, "POST", path+"/change_vnfpkg", same(``))
	e.want(409, "POST", path+"/change_vnfpkg", same(`, `+inlineVIM))
	e.want(409, "POST", path+"/change_vnfpkg", same(`, "extensions": {"never": null}`))
	op := e.begun(e.want(202, "POST", path+"/change_vnfpkg", same(`, "extensions": {"a": 1}`)))
	e.finish(op, pod("a", "VDU1", "vdu1-1"))
	e.want(409, "POST", path+"/change_vnfpkg", same(`, "extensions": {"a": 1}`))
	e.successor("vnfd-1", tree3, "1.1") // published anew under its vnfdId
	e.want(202, "POST", path+"/change_vnfpkg", same(``))
	if got := e.intent(id); got.Package != tree3 || got.VnfdID != "vnfd-1" {
		t.Errorf("%+v", got)
	}
}

func TestAVNFThatRunsStaysOnItsVIM(t *testing.T) {
	named := `"vimConnectionInfo": {"v": {"vimId": "kube-a", "vimType": "kubernetes"}}`
	for _, c := range []struct {
		vim, says string // what it was instantiated with, and what the request says
		status    int
	}{
		{inlineVIM, inlineVIM, 202},
		{inlineVIM, strings.Replace(inlineVIM, "https://k8s:6443", "https://K8S:6443/", 1), 202},
		{inlineVIM, strings.Replace(inlineVIM, "very-secret", "renewed", 1), 202},
		{inlineVIM, named, 202}, // the same endpoint
		{inlineVIM, strings.Replace(named, "kube-a", "kube-b", 1), 422},
		{inlineVIM, strings.Replace(inlineVIM, "6443", "6444", 1), 422},
		{inlineVIM, strings.Replace(inlineVIM, "ETSINFV.KUBERNETES.V_1", "sim", 1), 422},
		{named, named, 202},
		{named, inlineVIM, 202},
		{named, strings.Replace(named, "kube-a", "kube-b", 1), 422},
		{named, strings.Replace(inlineVIM, "k8s", "other", 1), 422},
		{strings.Replace(named, "kube-a", "kube-c", 1), inlineVIM, 422},                 // nobody knows kube-c's endpoint
		{`"vimConnectionInfo": {}`, strings.Replace(named, "kube-a", "kube-b", 1), 202}, // the default
		{`"vimConnectionInfo": {}`, named, 422},
	} {
		for _, method := range []string{"POST", "PATCH"} {
			e := setup(t)
			e.successor("vnfd-2", tree2, "2.1")
			e.repo.settings.VIMs = map[string]*desired.VIM{
				"kube-a": {Name: "kube-a", Type: desired.VIMKubernetes, Endpoint: "https://k8s:6443"},
				"kube-b": {Name: "kube-b", Type: desired.VIMKubernetes, Endpoint: "https://b:6443", Default: true},
				"kube-c": {Name: "kube-c", Type: desired.VIMKubernetes, Kubeconfig: "file:/etc/kube-c"}}
			id := e.create()
			path := api + "/vnf_instances/" + id
			e.finish(e.begun(e.want(202, "POST", path+"/instantiate", strings.Replace(instantiateBody, inlineVIM, c.vim, 1))), pod("a", "VDU1", "vdu1-1"))
			at, body := path, `{`+c.says+`}`
			if method == "POST" {
				at, body = path+"/change_vnfpkg", strings.Replace(change(``), `"vnfd-2"`, `"vnfd-2", `+c.says, 1)
			}
			a := e.do(method, at, body)
			if a.StatusCode != c.status || c.status == 422 && !strings.Contains(a.detail(t), "another VIM") {
				t.Errorf("%s on %s: %s: %d %s, want %d", method, c.vim, c.says, a.StatusCode, a.body, c.status)
			}
			if strings.Contains(e.repo.text(id), "very-secret") || strings.Contains(e.repo.text(id), "renewed") {
				t.Errorf("a credential in clear:\n%s", e.repo.text(id))
			}
		}
	}
}
