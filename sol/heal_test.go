package sol_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/lcm"
	"github.com/jibe-vnfm/jibe/plan"
)

// sickly is an instance that runs with objects of every retention, a bare Pod, a
// Job's pod and one pod that is going.
func (e *env) sickly() (id, path string) {
	e.t.Helper()
	id = e.instantiated()
	going := pod("gone-uid", "VDU1", "vdu1-0")
	going.Deleting = true
	bare := pod("bare-uid", "VDU2", "bare")
	bare.Kind = "Pod"
	object := func(key, uid string, r plan.Retention) plan.ObservedObject {
		return plan.ObservedObject{Key: key, Incarnation: uid, Retention: r, Ready: true}
	}
	leaving := object("Secret/amf/old", "old-uid", plan.RetainNot)
	leaving.Deleting = true
	e.view.mu.Lock()
	defer e.view.mu.Unlock()
	e.view.units[id] = []plan.Unit{pod("a-uid", "VDU1", "vdu1-1"), pod("b-uid", "VDU2", "vdu2-1"), going, bare}
	e.view.others[id] = []plan.Unit{{ID: "job-uid", Key: "Pod/amf/migrate-1", Name: "migrate-1", Reason: "pod of Job migrate: Kubernetes runs Jobs to completion, they are not healed"}}
	e.view.objects[id] = []plan.ObservedObject{
		object("Namespace//amf", "ns-uid", plan.RetainAlways), object("ConfigMap/amf/jibe-x", "inv-uid", plan.RetainWithInstance),
		object("PersistentVolumeClaim/amf/data", "pvc-uid", plan.RetainData), object("PersistentVolumeClaim/amf/www-0", "www-uid", plan.RetainWithInstance),
		object("Deployment/amf/vdu1", "d-uid", plan.RetainNot), object("Service/amf/web", "s-uid", plan.RetainNot), leaving,
		object("Pod/amf/bare", "bare-uid", plan.RetainNot),
	}
	return id, api + "/vnf_instances/" + id
}

// condemned is what the instance's file condemns at head.
func (e *env) condemned(id string) map[string]string {
	e.t.Helper()
	rev, _ := e.repo.Lookup(id)
	in, err := e.repo.Read(e.t.Context(), rev)
	if err != nil {
		e.t.Fatal(err)
	}
	return in.Condemned
}

func TestHealCondemnsWhatIsMeantAndNothingElse(t *testing.T) {
	a, b := map[string]string{"Pod/amf/vdu1-1": "a-uid"}, map[string]string{"Pod/amf/vdu2-1": "b-uid"}
	both := map[string]string{"Pod/amf/vdu1-1": "a-uid", "Pod/amf/vdu2-1": "b-uid"}
	pods := map[string]string{"Pod/amf/vdu1-1": "a-uid", "Pod/amf/vdu2-1": "b-uid", "Pod/amf/bare": "bare-uid"}
	whole := map[string]string{"Deployment/amf/vdu1": "d-uid", "Service/amf/web": "s-uid", "Pod/amf/bare": "bare-uid"}
	data := maps.Clone(whole)
	data["PersistentVolumeClaim/amf/data"] = "pvc-uid"
	for body, want := range map[string]struct {
		condemned map[string]string
		note      string
	}{
		`{"vnfcInstanceId": ["a-uid"]}`:                                        {a, "Heal VNFC a-uid (Pod/amf/vdu1-1)\n"},
		`{"vnfcInstanceId": ["vdu2-1"]}`:                                       {b, "Heal VNFC b-uid (Pod/amf/vdu2-1)\n"},
		`{"vnfcInstanceId": ["VDU2-vdu2-1", "vdu1-1"]}`:                        {both, "Heal VNFC b-uid (Pod/amf/vdu2-1)\nHeal VNFC a-uid (Pod/amf/vdu1-1)\n"},
		`{"vnfcInstanceId": ["bare-uid"], "additionalParams": {"all": false}}`: {map[string]string{"Pod/amf/bare": "bare-uid"}, "Heal VNFC bare-uid (Pod/amf/bare)\n"},
		`{}`:                                   {whole, "Heal the whole VNF (3 objects)\n"},
		`{"cause": " it\nhangs\u0000\u202e "}`: {whole, "Heal the whole VNF (3 objects)\nCause: it hangs\n"},
		`{"additionalParams": {"all": true, "x": 1}}`:                     {data, "Heal the whole VNF (4 objects)\n"},
		`{"additionalParams": {"all": false}, "healScript": "https://x"}`: {pods, "Heal the VNFCs of the whole VNF (3 VNFCs)\n"},
	} {
		e := setup(t)
		id, path := e.sickly()
		op := e.begun(e.want(202, "POST", path+"/heal", body))
		if d := cmp.Diff(want.condemned, e.condemned(id)); d != "" {
			t.Errorf("%s: %s", body, d)
		}
		commit := e.repo.commits[len(e.repo.commits)-1]
		if commit.Body != want.note || commit.Subject != "HEAL "+commit.Dir {
			t.Errorf("%s: %q, %q", body, commit.Subject, commit.Body)
		}
		record, err := e.oplog.Operation(t.Context(), op)
		if err != nil {
			t.Fatal(err)
		}
		trailers := []desired.Trailer{{Key: desired.TrailerOperation, Value: op}, {Key: desired.TrailerType, Value: "HEAL"}, {Key: desired.TrailerRequestedBy, Value: "nfvo"}}
		if string(record.Params) != "{}" {
			trailers = append(trailers, desired.Trailer{Key: desired.TrailerParams, Value: desired.OneLine(record.Params)})
		}
		if d := cmp.Diff(trailers, commit.Trailers); d != "" {
			t.Errorf("%s: %s", body, d)
		}
		var targets []plan.Target
		for _, key := range slices.Sorted(maps.Keys(want.condemned)) {
			targets = append(targets, plan.TargetOf(key, want.condemned[key]))
		}
		if d := cmp.Diff(targets, record.Journal.Targets); d != "" {
			t.Errorf("%s: targets: %s", body, d)
		}
		if n := len(record.UnitsBefore); n != 3 {
			t.Errorf("%s: it began with %d units, want the 3 that aren't going", body, n)
		}
		var shown, asked map[string]any
		o := occurrence(e, op)
		if err := json.Unmarshal(o.OperationParams, &shown); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal([]byte(body), &asked); err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(asked, shown); d != "" || o.Operation != lcm.Heal || o.IsAutomaticInvocation {
			t.Errorf("%s: %+v: %s", body, o, d)
		}
	}
}

func TestHealAddsItsTombstonesToTheFileAndNothingElse(t *testing.T) {
	e := setup(t)
	id, path := e.sickly()
	rev := e.repo.push(id, "# ours\n"+e.repo.text(id)+"drift: report # for now\n")
	if err := e.oplog.Adopt(t.Context(), id, func(i *lcm.Instance) error {
		i.Operated, i.Settled = rev, rev
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	was := strings.SplitAfter(e.repo.text(id), "\n")
	e.want(202, "POST", path+"/heal", `{}`)
	var added []string
	for line := range strings.Lines(e.repo.text(id)) {
		if len(was) > 0 && line == was[0] {
			was = was[1:]
			continue
		}
		added = append(added, strings.TrimSpace(line))
	}
	want := []string{"condemned:", "Deployment/amf/vdu1: d-uid", "Pod/amf/bare: bare-uid", "Service/amf/web: s-uid"}
	if d := cmp.Diff(want, added); d != "" || strings.Join(was, "") != "" {
		t.Errorf("%s\n%s", d, e.repo.text(id))
	}
}

func TestHealRefusesBadRequestsAndWritesNothing(t *testing.T) {
	e := setup(t)
	other := e.instantiated()
	e.view.mu.Lock()
	e.view.units[other] = []plan.Unit{pod("other-uid", "VDU1", "vdu1-9")}
	e.view.mu.Unlock()
	id, path := e.sickly()
	now := "VDU1-vdu1-1 (a-uid), VDU2-bare (bare-uid), VDU2-vdu2-1 (b-uid)"
	text, commits := e.repo.text(id), len(e.repo.commits)
	for _, tt := range []struct{ body, says string }{
		{`{"vnfcInstanceId": ["nope"]}`, `"nope" is no VNFC of VNF instance ` + id + `; the VNFCs are now: ` + now},
		{`{"vnfcInstanceId": ["a-uid", "nope"]}`, now},
		{`{"vnfcInstanceId": ["VDU2-vdu1-1"]}`, now},
		{`{"vnfcInstanceId": [""]}`, now},
		{`{"vnfcInstanceId": ["Pod/amf/vdu1-1"]}`, now},
		{`{"vnfcInstanceId": ["d-uid"]}`, now}, // an object is no VNFC
		{`{"vnfcInstanceId": ["other-uid"]}`, `"other-uid" is no VNFC`},
		{`{"vnfcInstanceId": ["` + strings.Repeat("x", 5000) + `"]}`, `xxx"… is no VNFC`},
		{`{"vnfcInstanceId": ["job-uid"]}`, `"job-uid" (Pod/amf/migrate-1) can't be healed: pod of Job migrate: `},
		{`{"vnfcInstanceId": ["migrate-1", "a-uid"]}`, `"migrate-1" (Pod/amf/migrate-1) can't be healed: pod of Job migrate: `},
		{`{"vnfcInstanceId": ["vdu1-0"]}`, `being deleted already`},
		{`{"vnfcInstanceId": []}`, `leave it out to heal the whole VNF`},
		{`{"vnfcInstanceId": null}`, `leave it out to heal the whole VNF`},
		{`{"vnfcInstanceId": "a-uid"}`, `must be a list of ids`},
		{`{"vnfcInstanceId": [1]}`, `must be a list of ids`},
		{`{"vnfcInstanceId": ["a-uid", "a-uid"]}`, `holds "a-uid" twice`},
		{`{"vnfcInstanceId": ["a-uid", "VDU1-vdu1-1"]}`, `"VDU1-vdu1-1" is "a-uid"`},
		{`{"vnfcInstanceId": ["vdu1-1", "VDU1-vdu1-1"]}`, `the same VNFC twice`},
		{`{"vnfcInstanceId": ["a-uid"], "additionalParams": {"all": true}}`, `can't be true together with vnfcInstanceId`},
		{`{"additionalParams": {"all": "true"}}`, `additionalParams.all must be true or false`},
		{`{"additionalParams": {"all": null}}`, `additionalParams.all must be true or false`},
		{`{"vnfcInstanceId": ["a-uid"], "additionalParams": {"all": 1}}`, `additionalParams.all must be true or false`},
		{`{"additionalParams": []}`, `"additionalParams" has the wrong type`},
		{`{"cause": 1}`, `"cause" has the wrong type`},
		{`{"healScript": {}}`, `"healScript" has the wrong type`},
		{`{"vnfcInstanceIds": ["a-uid"]}`, `unknown attribute "vnfcInstanceIds"`},
		{`{"vnfcInstanceId": ["a-uid"`, `is not JSON`},
		{`[]`, `must be a JSON object`},
		{``, `body is empty`},
	} {
		a := e.want(400, "POST", path+"/heal", tt.body, "Content-Type", "application/json")
		if d := a.detail(t); !strings.Contains(d, tt.says) || len(d) > 1000 {
			t.Errorf("%.100s: %s", tt.body, d)
		}
	}
	e.want(404, "POST", api+"/vnf_instances/nope/heal", `{}`)
	e.want(412, "POST", path+"/heal", `{}`, "If-Match", `"other"`)
	e.want(403, "POST", path+"/heal", `{}`, "Authorization", "Bearer "+readToken)
	e.nothingWritten(id, text, commits)
	tag := e.want(200, "GET", path, "").Header.Get("ETag")
	e.want(202, "POST", path+"/heal", `{}`, "If-Match", tag)
}

func (e *env) nothingWritten(id, text string, commits int) {
	e.t.Helper()
	if e.repo.text(id) != text || len(e.repo.commits) != commits {
		e.t.Errorf("something was written: %d commits instead of %d\n%s", len(e.repo.commits), commits, e.repo.text(id))
	}
	if open, err := e.oplog.Unresolved(e.t.Context()); err != nil || len(open) != 0 {
		e.t.Errorf("left %v, %v", open, err)
	}
}

func TestAnUnknownIDIsNotAnsweredWithAThousandOthers(t *testing.T) {
	e := setup(t)
	id, path := e.sickly()
	e.view.mu.Lock()
	for i := range 1000 {
		e.view.units[id] = append(e.view.units[id], pod(fmt.Sprintf("uid-%d", i), "VDU1", fmt.Sprintf("many-%d", i)))
	}
	e.view.mu.Unlock()
	if d := e.want(400, "POST", path+"/heal", `{"vnfcInstanceId": ["nope"]}`).detail(t); !strings.HasSuffix(d, "and 953 more") {
		t.Error(d)
	}
}

func TestANameThatTwoVNFCsHaveIsAskedBack(t *testing.T) {
	e := setup(t)
	id, path := e.sickly()
	twin := pod("twin-uid", "VDU1", "vdu1-1")
	twin.Key = "Pod/other/vdu1-1"
	e.view.mu.Lock()
	e.view.units[id] = append(e.view.units[id], twin, pod("c-uid", "x", "a-uid")) // one is named as another's id
	e.view.mu.Unlock()
	if d := e.want(400, "POST", path+"/heal", `{"vnfcInstanceId": ["vdu1-1"]}`).detail(t); !strings.Contains(d, "one of a-uid, twin-uid") {
		t.Error(d)
	}
	e.want(202, "POST", path+"/heal", `{"vnfcInstanceId": ["twin-uid", "a-uid"]}`)
	if d := cmp.Diff(map[string]string{"Pod/other/vdu1-1": "twin-uid", "Pod/amf/vdu1-1": "a-uid"}, e.condemned(id)); d != "" {
		t.Error(d)
	}
}

func TestHealNeedsAnInstanceAtRest(t *testing.T) {
	for name, tt := range map[string]struct {
		prepare func(e *env, id, path string)
		status  int
		says    string
	}{
		"not instantiated": {func(e *env, id, path string) {
			e.finish(e.begun(e.want(202, "POST", path+"/terminate", `{"terminationType": "FORCEFUL"}`)))
		}, 409, "NOT_INSTANTIATED"},
		"an operation runs": {func(e *env, id, path string) { e.want(202, "POST", path+"/scale", scaleOut) }, 409, "STARTING"},
		"a heal runs":       {func(e *env, id, path string) { e.want(202, "POST", path+"/heal", `{}`) }, 409, "STARTING"},
		"an operation failed": {func(e *env, id, path string) {
			e.move(e.begun(e.want(202, "POST", path+"/heal", `{}`)), nil, lcm.Broke)
		}, 409, "FAILED_TEMP"},
		"suspended": {func(e *env, id, path string) { e.repo.push(id, e.repo.text(id)+"suspend: true\n") }, 409, "suspend"},
		"a push waits": {func(e *env, id, path string) {
			e.repo.push(id, e.repo.text(id)+"levels: {vdu1_aspect: 1}\n")
		}, 409, "SCALE"},
		"a pushed heal waits": {func(e *env, id, path string) {
			e.repo.push(id, e.repo.text(id)+"condemned: {Pod/amf/vdu1-1: a-uid}\n")
		}, 409, "HEAL"},
		"the VIM can't be seen": {func(e *env, id, path string) { e.view.stale = true }, 503, "can't be seen"},
		"nothing runs": {func(e *env, id, path string) {
			e.view.units[id], e.view.objects[id] = nil, nil
		}, 409, "nothing to heal"},
		"all of it goes": {func(e *env, id, path string) {
			for i := range e.view.objects[id] {
				e.view.objects[id][i].Deleting = true
			}
		}, 409, "nothing to heal"},
	} {
		t.Run(name, func(t *testing.T) {
			e := setup(t)
			id, path := e.sickly()
			tt.prepare(e, id, path)
			text, commits := e.repo.text(id), len(e.repo.commits)
			a := e.want(tt.status, "POST", path+"/heal", `{}`)
			if !strings.Contains(a.detail(t), tt.says) {
				t.Errorf("%s", a.body)
			}
			if tt.status == 503 && a.Header.Get("Retry-After") == "" {
				t.Error("503 without Retry-After")
			}
			e.nothingWritten(id, text, commits)
		})
	}
}
