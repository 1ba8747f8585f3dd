package sol_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/lcm"
	"github.com/jibe-vnfm/jibe/plan"
	"github.com/jibe-vnfm/jibe/sol"
	"github.com/jibe-vnfm/jibe/sol/rest"
)

func TestCreateCommitsAnInstanceAndShowsItWhole(t *testing.T) {
	e := setup(t)
	a := e.want(201, "POST", api+"/vnf_instances", `{"vnfdId": "vnfd-1", "vnfInstanceName": "amf", "vnfInstanceDescription": "d", "metadata": {"key1": "v", "n": 3}}`)
	var in sol.VnfInstance
	a.json(t, &in)
	self := base + api + "/vnf_instances/" + in.ID
	if a.Header.Get("Location") != self || a.Header.Get("ETag") == "" {
		t.Errorf("headers %v", a.Header)
	}
	want := sol.VnfInstance{ID: in.ID, Name: "amf", Description: "d", VnfdID: "vnfd-1", Provider: "Company", ProductName: "Sample VNF",
		SoftwareVersion: "2.0", VnfdVersion: "1.0", InstantiationState: "NOT_INSTANTIATED", VnfConfigurableProperties: map[string]any{},
		Metadata: map[string]any{"key1": "v", "n": 3.0},
		Links:    map[string]sol.Link{"self": {Href: self}, "instantiate": {Href: self + "/instantiate"}}}
	if d := cmp.Diff(want, in); d != "" {
		t.Error(d)
	}
	if rev, ok := e.repo.Lookup(in.ID); !ok || rev.Dir != desired.APIDir(in.ID) {
		t.Errorf("revision %+v, %v", rev, ok)
	}
	got, err := desired.ParseInstance("instances/x/vnf.yaml", []byte(e.repo.text(in.ID)))
	if err != nil {
		t.Fatal(err)
	}
	if got.State != desired.NotInstantiated || got.Package != e.view.pkg.Tree || got.ID != in.ID {
		t.Errorf("committed: %+v", got)
	}
	w := e.repo.commits[0]
	if w.By != "nfvo <nfvo@jibe.invalid>" || !cmp.Equal(w.Trailers, []desired.Trailer{{Key: desired.TrailerType, Value: "CREATE"}, {Key: desired.TrailerRequestedBy, Value: "nfvo"}}) {
		t.Errorf("commit %q by %q: %v", w.Subject, w.By, w.Trailers)
	}
	if d := cmp.Diff(in, show(e, in.ID)); d != "" {
		t.Errorf("GET differs from POST's answer: %s", d)
	}
	if len(e.poked) != 1 {
		t.Errorf("poked %v", e.poked)
	}
}

func show(e *env, id string) sol.VnfInstance {
	e.t.Helper()
	var in sol.VnfInstance
	e.want(200, "GET", api+"/vnf_instances/"+id, "").json(e.t, &in)
	return in
}

func occurrence(e *env, id string) sol.VnfLcmOpOcc {
	e.t.Helper()
	var op sol.VnfLcmOpOcc
	e.want(200, "GET", api+"/vnf_lcm_op_occs/"+id, "").json(e.t, &op)
	return op
}

func TestCreateRefusesBadRequests(t *testing.T) {
	e := setup(t)
	for body, want := range map[string]struct {
		status int
		detail string
	}{
		`{}`:                           {400, "vnfdId"},
		`{"vnfdId": "other"}`:          {422, "other"},
		`{"vnfdId": 1}`:                {400, `"vnfdId"`},
		`{"vnfdId": "vnfd-1",}`:        {400, "column 21"},
		`{"vnfdId": "vnfd-1"} x`:       {400, "goes on"},
		`{"vnfdId": "vnfd-1"`:          {400, "too early"},
		`[]`:                           {400, "object"},
		`{"vnfdId": "vnfd-1", "x": 1}`: {400, `"x"`},
		`{"vnfdId": "vnfd-1", "vnfInstanceName": "` + strings.Repeat("n", 256) + `"}`:         {400, "255"},
		`{"vnfdId": "vnfd-1", "vnfInstanceDescription": "` + strings.Repeat("n", 1025) + `"}`: {400, "1024"},
		`{"vnfdId": "vnfd-1", "metadata": []}`:                                                {400, `"metadata"`},
		`{"vnfdId": "vnfd-1", "metadata": {"VDU_VNFc_mapping": {"VDU1": ["a", "a"]}}}`:        {400, "twice"},
		`{"vnfdId": "vnfd-1", "metadata": {"VDU_VNFc_mapping": []}}`:                          {400, "VDU_VNFc_mapping"},
		`{"metadata": {"x": "` + strings.Repeat("n", 1<<20) + `"}}`:                           {413, "1048576"},
	} {
		a := e.do("POST", api+"/vnf_instances", body)
		if a.StatusCode != want.status || !strings.Contains(a.detail(t), want.detail) {
			t.Errorf("%.80s: %d %s; want %d and %q", body, a.StatusCode, a.body, want.status, want.detail)
		}
	}
	if len(e.repo.commits) != 0 {
		t.Errorf("refused requests made %d commits", len(e.repo.commits))
	}
}

func TestInstantiateCommitsOneOperationAndShowsWhatRuns(t *testing.T) {
	e := setup(t)
	id := e.create()
	op := e.begun(e.want(202, "POST", api+"/vnf_instances/"+id+"/instantiate", instantiateBody))
	o := occurrence(e, op)
	if o.OperationState != lcm.Starting || o.Operation != lcm.Instantiate || o.VnfInstanceID != id || o.IsAutomaticInvocation || o.IsCancelPending {
		t.Errorf("%+v", o)
	}
	if strings.Contains(string(o.OperationParams), "very-secret") || !strings.Contains(string(o.OperationParams), `"endpoint":"https://k8s:6443"`) {
		t.Errorf("operationParams %s", o.OperationParams)
	}
	if in := show(e, id); in.InstantiationState != "NOT_INSTANTIATED" || in.InstantiatedVnfInfo != nil {
		t.Errorf("shown before the operation has completed: %+v", in)
	}
	w := e.repo.commits[1]
	if !cmp.Equal(w.Trailers, []desired.Trailer{{Key: desired.TrailerOperation, Value: op}, {Key: desired.TrailerType, Value: "INSTANTIATE"}, {Key: desired.TrailerRequestedBy, Value: "nfvo"},
		{Key: desired.TrailerParams, Value: string(o.OperationParams)}}) {
		t.Errorf("trailers %v", w.Trailers)
	}
	text := e.repo.text(id)
	if strings.Contains(text, "very-secret") || !strings.Contains(text, "age:") {
		t.Errorf("the credential isn't encrypted:\n%s", text)
	}

	gone := pod("x", "VDU1", "vdu1-0")
	gone.Deleting = true
	broken := pod("b", "VDU2", "vdu2-1")
	broken.Ready, broken.Reason, broken.Owner = false, "starting", "Deployment/amf/vdu2"
	e.finish(op, broken, gone, pod("a", "VDU1", "vdu1-1"))
	in := show(e, id)
	links := base + api + "/vnf_instances/" + id
	want := sol.VnfInstance{ID: id, Name: "amf", VnfdID: "vnfd-1", Provider: "Company", ProductName: "Sample VNF",
		SoftwareVersion: "2.0", VnfdVersion: "1.0", InstantiationState: "INSTANTIATED", VnfConfigurableProperties: map[string]any{},
		VimConnectionInfo: map[string]sol.VimConnectionInfo{"vim1": {VimID: "v", VimType: "ETSINFV.KUBERNETES.V_1", InterfaceInfo: map[string]string{"endpoint": "https://k8s:6443"}}},
		InstantiatedVnfInfo: &sol.InstantiatedVnfInfo{FlavourID: "simple", VnfState: "STARTED",
			ScaleStatus:    []sol.ScaleInfo{{AspectID: "vdu1_aspect", Level: 0}, {AspectID: "vdu2_aspect", Level: 1}},
			MaxScaleLevels: []sol.ScaleInfo{{AspectID: "vdu1_aspect", Level: 2}, {AspectID: "vdu2_aspect", Level: 3}},
			VnfcResourceInfo: []sol.VnfcResourceInfo{
				{ID: "a", VduID: "VDU1", ComputeResource: sol.ResourceHandle{VimConnectionID: "vim1", ResourceID: "vdu1-1", VimLevelResourceType: "Deployment"}, Metadata: map[string]any{"node": "n1", "Pod": map[string]any{"name": "vdu1-1"}}},
				{ID: "b", VduID: "VDU2", ComputeResource: sol.ResourceHandle{VimConnectionID: "vim1", ResourceID: "vdu2-1", VimLevelResourceType: "Deployment"}, Metadata: map[string]any{"node": "n1", "Pod": map[string]any{"name": "vdu2-1"}, "Deployment": map[string]any{"name": "vdu2"}, "ready": false, "reason": "starting"}}},
			VnfcInfo: []sol.VnfcInfo{{ID: "VDU1-vdu1-1", VduID: "VDU1", VnfcResourceInfoID: "a", VnfcState: "STARTED"}, {ID: "VDU2-vdu2-1", VduID: "VDU2", VnfcResourceInfoID: "b", VnfcState: "STARTED"}},
			Metadata: map[string]any{"namespace": "amf", "lcm-kubernetes-def-files": []any{"Files/a.yaml"}}},
		Metadata: map[string]any{"lcm-kubernetes-def-files": []any{"Files/a.yaml"}},
		Links: map[string]sol.Link{"self": {Href: links}, "terminate": {Href: links + "/terminate"}, "scale": {Href: links + "/scale"}, "heal": {Href: links + "/heal"},
			"scaleToLevel": {Href: links + "/scale_to_level"}, "operate": {Href: links + "/operate"},
			"changeCurrentVnfPkg": {Href: links + "/change_vnfpkg"}, "changeExtConn": {Href: links + "/change_ext_conn"}}}
	if d := cmp.Diff(want, in); d != "" {
		t.Error(d)
	}
	if o = occurrence(e, op); o.OperationState != lcm.Completed || len(o.ResourceChanges.AffectedVnfcs) != 2 || o.ResourceChanges.AffectedVnfcs[0].ChangeType != lcm.Added {
		t.Errorf("%+v", o)
	}
}

func TestUnitsOfTheLastRecordAreShownStaleWhileTheVIMIsUnseen(t *testing.T) {
	e := setup(t)
	id := e.instantiated()
	e.view.stale = true
	info := show(e, id).InstantiatedVnfInfo
	if len(info.VnfcInfo) != 2 || info.Metadata["stale"] != true {
		t.Errorf("%+v", info)
	}
}

func TestEqualCredentialsKeepTheirCiphertext(t *testing.T) {
	e := setup(t)
	id := e.instantiated()
	cipher := func() string {
		_, after, _ := strings.Cut(e.repo.text(id), "bearer_token:")
		line, _, _ := strings.Cut(after, "\n")
		return line
	}
	first := cipher()
	e.finish(e.begun(e.want(202, "POST", api+"/vnf_instances/"+id+"/terminate", `{"terminationType": "FORCEFUL"}`)))
	e.finish(e.begun(e.want(202, "POST", api+"/vnf_instances/"+id+"/instantiate", instantiateBody)), pod("c", "VDU1", "vdu1-2"))
	if first == "" || cipher() != first {
		t.Errorf("ciphertext changed from %q to %q", first, cipher())
	}
	e.finish(e.begun(e.want(202, "POST", api+"/vnf_instances/"+id+"/terminate", `{"terminationType": "FORCEFUL"}`)))
	e.want(202, "POST", api+"/vnf_instances/"+id+"/instantiate", strings.Replace(instantiateBody, "very-secret", "another", 1))
	if cipher() == first {
		t.Error("another credential has the same ciphertext")
	}
}

func TestInstantiateRefusesBadRequests(t *testing.T) {
	e := setup(t)
	e.repo.settings.VIMs["kube-a"] = &desired.VIM{Name: "kube-a", ID: "11111111-1111-4111-8111-111111111111", Type: "ETSINFV.KUBERNETES.V_1"}
	id := e.create()
	files := `, "additionalParams": {"lcm-kubernetes-def-files": ["a.yaml"]}}`
	for body, want := range map[string]struct {
		status int
		detail string
	}{
		`{}`: {400, "flavourId"},
		`{"flavourId": "none", ` + inlineVIM + files:                                                                                           {400, "flavourId"},
		`{"flavourId": "simple", "instantiationLevelId": "none", ` + inlineVIM + files:                                                         {400, "none"},
		`{"flavourId": "simple"` + files:                                                                                                       {422, "vimConnectionInfo"},
		`{"flavourId": "simple", "vimConnectionInfo": {"a": {"vimId": "nope"}}` + files:                                                        {404, "nope"},
		`{"flavourId": "simple", ` + inlineVIM + `}`:                                                                                           {400, "lcm-kubernetes-def-files"},
		`{"flavourId": "simple", ` + inlineVIM + strings.Replace(files, `["a.yaml"]`, `[1]`, 1):                                                {400, "lcm-kubernetes-def-files"},
		`{"flavourId": "simple", ` + strings.Replace(inlineVIM, "KUBERNETES", "WHAT", 1) + files:                                               {400, "vimType"},
		`{"flavourId": "simple", ` + strings.Replace(inlineVIM, "very-secret", "file:/etc/shadow", 1) + files:                                  {400, "reference"},
		`{"flavourId": "simple", ` + strings.Replace(inlineVIM, "very-secret", "age:YWJj", 1) + files:                                          {400, "reference"},
		`{"flavourId": "simple", ` + strings.Replace(inlineVIM, `"bearer_token"`, `"kubeconfig": "apiVersion: v1", "bearer_token"`, 1) + files: {400, "accessInfo.kubeconfig isn't taken"},
		`{"flavourId": "simple", ` + strings.Replace(inlineVIM, `"bearer_token"`, `"tokenFile": "/etc/passwd", "bearer_token"`, 1) + files:     {400, "accessInfo.tokenFile isn't taken"},
		`{"flavourId": "simple", "grantId": "x", ` + inlineVIM + files:                                                                         {400, "grantId"},
	} {
		a := e.do("POST", api+"/vnf_instances/"+id+"/instantiate", body)
		if a.StatusCode != want.status || !strings.Contains(a.detail(t), want.detail) {
			t.Errorf("%s: %d %s; want %d and %q", body, a.StatusCode, a.body, want.status, want.detail)
		}
	}
	if len(e.repo.commits) != 1 {
		t.Errorf("refused requests made commits")
	}
	e.want(404, "POST", api+"/vnf_instances/nope/instantiate", instantiateBody)
	// After all that, a good one is accepted: nothing was left behind.
	e.want(202, "POST", api+"/vnf_instances/"+id+"/instantiate", instantiateBody)
}

func TestAVIMIsNamedByItsFileOrItsID(t *testing.T) {
	for _, vimID := range []string{"kube-a", "11111111-1111-4111-8111-111111111111", ""} {
		e := setup(t)
		e.repo.settings.VIMs["kube-a"] = &desired.VIM{Name: "kube-a", ID: "11111111-1111-4111-8111-111111111111",
			Type: "ETSINFV.KUBERNETES.V_1", Endpoint: "https://a", Default: true}
		id := e.create()
		vim := ""
		if vimID != "" {
			vim = fmt.Sprintf(`"vimConnectionInfo": {"v": {"vimId": %q, "vimType": "ETSINFV.KUBERNETES.V_1"}}, `, vimID)
		}
		e.finish(e.begun(e.want(202, "POST", api+"/vnf_instances/"+id+"/instantiate",
			`{"flavourId": "simple", `+vim+`"additionalParams": {"lcm-kubernetes-def-files": ["a.yaml"]}}`)))
		if got := strings.Contains(e.repo.text(id), "vim: kube-a"); got != (vimID != "") {
			t.Errorf("vimId %q:\n%s", vimID, e.repo.text(id))
		}
		want := map[string]sol.VimConnectionInfo{"kube-a": {VimID: "11111111-1111-4111-8111-111111111111", VimType: "ETSINFV.KUBERNETES.V_1",
			InterfaceInfo: map[string]string{"endpoint": "https://a"}}}
		if d := cmp.Diff(want, show(e, id).VimConnectionInfo); d != "" {
			t.Errorf("vimId %q: %s", vimID, d)
		}
	}
}

func TestScaleCommitsTheAbsoluteLevel(t *testing.T) {
	e := setup(t)
	id := e.instantiated()
	scale := api + "/vnf_instances/" + id + "/scale"
	// vdu2_aspect starts at the default level's 1.
	for _, step := range []struct {
		body  string
		level int
	}{
		{`{"type": "SCALE_OUT", "aspectId": "vdu2_aspect"}`, 2},
		{`{"type": "SCALE_OUT", "aspectId": "vdu2_aspect", "numberOfSteps": "1"}`, 3},
		{`{"type": "SCALE_IN", "aspectId": "vdu2_aspect", "numberOfSteps": 3, "additionalParams": {"any": {"thing": 1}}}`, 0},
	} {
		op := e.begun(e.want(202, "POST", scale, step.body))
		if !strings.Contains(e.repo.text(id), fmt.Sprintf("vdu2_aspect: %d", step.level)) {
			t.Errorf("%s:\n%s", step.body, e.repo.text(id))
		}
		if !strings.Contains(string(occurrence(e, op).OperationParams), `"numberOfSteps":`) {
			t.Errorf("operationParams %s", occurrence(e, op).OperationParams)
		}
		e.finish(op, pod("a", "VDU1", "vdu1-1"), pod("b", "VDU2", "vdu2-1"))
		if got := show(e, id).InstantiatedVnfInfo.ScaleStatus[1].Level; got != step.level {
			t.Errorf("%s: scaleLevel %d, want %d", step.body, got, step.level)
		}
	}
}

func TestScaleRefusesBadRequests(t *testing.T) {
	e := setup(t)
	fresh := e.create()
	id := e.instantiated()
	e.want(409, "POST", api+"/vnf_instances/"+fresh+"/scale", `{"type": "SCALE_OUT", "aspectId": "vdu1_aspect"}`)
	for body, want := range map[string]string{
		`{"type": "UP", "aspectId": "vdu1_aspect"}`:                              "type",
		`{"type": "SCALE_OUT"}`:                                                  "aspectId",
		`{"type": "SCALE_OUT", "aspectId": "nope"}`:                              "Invalid aspectId",
		`{"type": "SCALE_OUT", "aspectId": "vdu1_aspect", "numberOfSteps": 3}`:   "Invalid numberOfSteps",
		`{"type": "SCALE_IN", "aspectId": "vdu1_aspect"}`:                        "Invalid numberOfSteps",
		`{"type": "SCALE_OUT", "aspectId": "vdu1_aspect", "numberOfSteps": 0}`:   "Invalid numberOfSteps",
		`{"type": "SCALE_OUT", "aspectId": "vdu1_aspect", "numberOfSteps": 1.5}`: "integer",
		`{"type": "SCALE_OUT", "aspectId": "vdu1_aspect", "numberOfSteps": "x"}`: "integer",
	} {
		a := e.do("POST", api+"/vnf_instances/"+id+"/scale", body)
		if a.StatusCode != 400 || !strings.Contains(a.detail(t), want) {
			t.Errorf("%s: %d %s; want 400 and %q", body, a.StatusCode, a.body, want)
		}
	}
	// After the others, as it is accepted, and what is out of range depends on the level.
	e.finish(e.begun(e.want(202, "POST", api+"/vnf_instances/"+id+"/scale", `{"type": "SCALE_OUT", "aspectId": "vdu1_aspect", "numberOfSteps": null}`)))
	e.view.refuse = &rest.InvalidError{Status: 400, Detail: "VDU1 is a DaemonSet, which can't be scaled"}
	a := e.want(400, "POST", api+"/vnf_instances/"+id+"/scale", `{"type": "SCALE_OUT", "aspectId": "vdu2_aspect"}`)
	if !strings.Contains(a.detail(t), "DaemonSet") {
		t.Errorf("%s", a.body)
	}
}

func TestTerminateThenDeleteLeavesNothing(t *testing.T) {
	e := setup(t)
	id := e.instantiated()
	path := api + "/vnf_instances/" + id
	e.want(409, "DELETE", path, "")
	e.want(400, "POST", path+"/terminate", `{"terminationType": "NOW"}`)
	e.want(400, "POST", path+"/terminate", `{"terminationType": "GRACEFUL", "gracefulTerminationTimeout": -1}`)
	op := e.begun(e.want(202, "POST", path+"/terminate", `{"terminationType": "GRACEFUL", "gracefulTerminationTimeout": 7}`))
	if got := string(occurrence(e, op).OperationParams); got != `{"gracefulTerminationTimeout":7,"terminationType":"GRACEFUL"}` {
		t.Errorf("operationParams %s", got)
	}
	e.want(409, "DELETE", path, "")
	e.finish(op)
	o := occurrence(e, op)
	if o.ResourceChanges == nil || len(o.ResourceChanges.AffectedVnfcs) != 2 || o.ResourceChanges.AffectedVnfcs[0].ChangeType != lcm.Removed {
		t.Errorf("resourceChanges %+v", o.ResourceChanges)
	}
	in := show(e, id)
	if in.InstantiationState != "NOT_INSTANTIATED" || in.VimConnectionInfo != nil || !cmp.Equal(in.InstantiatedVnfInfo, &sol.InstantiatedVnfInfo{FlavourID: "simple", VnfState: "STOPPED"}) {
		t.Errorf("%+v", in)
	}
	e.want(409, "POST", path+"/terminate", `{"terminationType": "FORCEFUL"}`)
	e.want(204, "DELETE", path, "")
	e.want(404, "GET", path, "")
	e.want(404, "DELETE", path, "")
	if _, ok := e.repo.Lookup(id); ok {
		t.Error("the directory is still there")
	}
	e.want(200, "GET", api+"/vnf_lcm_op_occs/"+op, "") // history stays
}

func TestModifyIsAMergePatch(t *testing.T) {
	e := setup(t)
	id := e.create()
	path := api + "/vnf_instances/" + id
	op := e.begun(e.want(202, "PATCH", path, `{"vnfInstanceName": "smf", "vnfInstanceDescription": "d", "metadata": {"a": {"x": 1, "y": 2}, "b": "c"}}`, "Content-Type", "application/merge-patch+json"))
	if o := occurrence(e, op); o.Operation != lcm.ModifyInfo || o.OperationState != lcm.Processing {
		t.Errorf("%+v", o)
	}
	e.finish(op)
	op = e.begun(e.want(202, "PATCH", path, `{"vnfInstanceDescription": null, "metadata": {"a": {"x": null}, "b": "d"}}`))
	e.finish(op)
	in := show(e, id)
	if in.Name != "smf" || in.Description != "" || !cmp.Equal(in.Metadata, map[string]any{"a": map[string]any{"y": 2.0}, "b": "d"}) {
		t.Errorf("%+v", in)
	}
	var changed map[string]any
	if err := json.Unmarshal(occurrence(e, op).ChangedInfo, &changed); err != nil || changed["metadata"] == nil {
		t.Errorf("changedInfo %v, %v", changed, err)
	}
	for body, status := range map[string]int{
		`{}`: 400, `{"x": 1}`: 400, `{"vnfInstanceName": 1}`: 400, `{"metadata": "x"}`: 400,
		`{"vnfInstanceName": "` + strings.Repeat("n", 256) + `"}`: 400,
	} {
		if a := e.do("PATCH", path, body); a.StatusCode != status {
			t.Errorf("%.60s: %d %s, want %d", body, a.StatusCode, a.body, status)
		}
	}
}

func TestAPersonsCommentsSurviveTheAPI(t *testing.T) {
	e := setup(t)
	id := "22222222-2222-4222-8222-222222222222"
	rev := e.repo.push(id, "# the core's AMF\nid: "+id+"\nname: amf # tokyo\nvnfdId: vnfd-1\nstate: notInstantiated\n")
	if err := e.oplog.Created(t.Context(), id, lcm.VNF{}, rev); err != nil {
		t.Fatal(err)
	}
	e.want(202, "PATCH", api+"/vnf_instances/"+id, `{"vnfInstanceDescription": "x"}`)
	for _, comment := range []string{"# the core's AMF", "# tokyo", "description: x"} {
		if !strings.Contains(e.repo.text(id), comment) {
			t.Errorf("%q is gone:\n%s", comment, e.repo.text(id))
		}
	}
}

func TestARemovedDirectoryIsShownUntilItsOperationEnds(t *testing.T) {
	e := setup(t)
	id := e.instantiated()
	before, _ := e.repo.Lookup(id)
	gone := e.repo.push(id, "")
	op, err := e.oplog.Born(t.Context(), lcm.Operation{ID: "op-gone", Instance: id, Type: lcm.Terminate, Before: before, After: desired.Revision{Instance: id, Dir: before.Dir, Commit: gone.Commit}, UnitsBefore: []plan.Unit{pod("a", "VDU1", "vdu1-1")}})
	if err != nil {
		t.Fatal(err)
	}
	if in := show(e, id); in.InstantiationState != "INSTANTIATED" {
		t.Errorf("%+v", in)
	}
	var all []sol.VnfInstance
	e.want(200, "GET", api+"/vnf_instances", "").json(t, &all)
	if len(all) != 1 {
		t.Errorf("the list has %d entries, want 1", len(all))
	}
	e.want(409, "POST", api+"/vnf_instances/"+id+"/scale", `{"type": "SCALE_OUT", "aspectId": "vdu1_aspect"}`)
	e.finish(op.ID)
	e.want(404, "GET", api+"/vnf_instances/"+id, "")
}

func TestEntriesOfHooksAreShownFromTheEndOfTheOperationOn(t *testing.T) {
	e := setup(t)
	id := e.create()
	path := api + "/vnf_instances/" + id
	op := e.begun(e.want(202, "POST", path+"/instantiate", instantiateBody))
	if _, err := e.oplog.Record(t.Context(), op, func(op *lcm.Operation, _ *lcm.Instance) error {
		op.Modified = lcm.Entries{Metadata: map[string]any{"nodes": "two"}, Extensions: map[string]any{"endpoint": "there"}}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	shown := func() (metadata, extensions any) {
		in := e.want(200, "GET", path, "").object(t)
		m, _ := in["metadata"].(map[string]any)
		x, _ := in["extensions"].(map[string]any)
		return m["nodes"], x["endpoint"]
	}
	if m, x := shown(); m != nil || x != nil {
		t.Errorf("before the end: %v, %v", m, x)
	}
	e.finish(op, pod("a", "VDU1", "vdu1-1"))
	if in, err := e.oplog.Instance(t.Context(), id); err != nil || in.OutstandingCommit != op {
		t.Fatalf("the record is %+v (%v): git has it already", in, err)
	}
	if m, x := shown(); m != "two" || x != "there" {
		t.Errorf("after the end: %v, %v", m, x)
	}
}

func TestWhatStillHasObjectsIsNotDeleted(t *testing.T) {
	e := setup(t)
	id := e.create()
	path := api + "/vnf_instances/" + id
	op := e.begun(e.want(202, "POST", path+"/instantiate", instantiateBody))
	e.move(op, nil, lcm.Broke)
	e.view.objects[id] = []plan.ObservedObject{{Key: "Deployment/amf/vdu1"}}

	failed := e.want(200, "POST", api+"/vnf_lcm_op_occs/"+op+"/fail", "")
	if text := string(failed.body); !strings.Contains(text, "it leaves Deployment/amf/vdu1: terminate") {
		t.Errorf("FAILED doesn't say what is left: %s", text)
	}
	e.restore(op)

	refused := e.want(409, "DELETE", path, "")
	if text := refused.detail(t); !strings.Contains(text, "Deployment/amf/vdu1") || !strings.Contains(text, "terminate it first") {
		t.Errorf("the refusal says %s", text)
	}
	e.view.stale = true
	e.want(409, "DELETE", path, "")
	e.view.stale = false

	e.finish(e.begun(e.want(202, "POST", path+"/terminate", `{"terminationType": "FORCEFUL"}`)))
	delete(e.view.objects, id)
	e.want(204, "DELETE", path, "")
}

// restore does the reconciler's part after an instantiation was set to FAILED.
func (e *env) restore(op string) {
	e.t.Helper()
	o, err := e.oplog.Operation(e.t.Context(), op)
	if err != nil {
		e.t.Fatal(err)
	}
	rev, err := e.repo.Write(e.t.Context(), desired.Write{Instance: o.Instance, Dir: o.After.Dir, Subject: "Take back", Change: func(_ desired.Revision, now desired.Files) (desired.Files, error) {
		text, err := desired.Edit(o.After.Dir+"/vnf.yaml", now[desired.InstanceFile],
			desired.KeyValue{Path: []string{"state"}, Value: desired.NotInstantiated}, desired.KeyValue{Path: []string{"held"}, Value: op})
		return desired.Files{desired.InstanceFile: text}, err
	}})
	if err != nil {
		e.t.Fatal(err)
	}
	if err := e.oplog.Adopt(e.t.Context(), o.Instance, func(i *lcm.Instance) error {
		i.OutstandingCommit, i.Operated = "", rev
		return nil
	}); err != nil {
		e.t.Fatal(err)
	}
}

func TestARolledBackInstantiationIsShownWithItsReason(t *testing.T) {
	e := setup(t)
	id := e.create()
	path := api + "/vnf_instances/" + id
	op := e.begun(e.want(202, "POST", path+"/instantiate", instantiateBody))
	_, err := e.oplog.Record(t.Context(), op, func(op *lcm.Operation, _ *lcm.Instance) error {
		return op.Advance(lcm.Refused, time.Now(), &lcm.ProblemDetails{Status: 422, Title: "INSTANTIATE failed", Detail: "namespace site-b not found"})
	})
	if err != nil {
		t.Fatal(err)
	}
	e.restore(op)

	for _, from := range []string{path, api + "/vnf_instances?fields=jibe&filter=(eq,id," + id + ")"} {
		if a := e.want(200, "GET", from, ""); !strings.Contains(string(a.body), `"rolledBack":{"id":"`+op+`","operation":"INSTANTIATE","reason":"namespace site-b not found"}`) {
			t.Errorf("%s: %s", from, a.body)
		}
	}
}
