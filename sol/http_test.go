package sol_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/jibe-vnfm/jibe/lcm"
	"github.com/jibe-vnfm/jibe/sol"
)

func TestAPIVersionsAreFree(t *testing.T) {
	e := setup(t)
	for prefix, versions := range map[string][]string{"/vnflcm": {"1.3.0", "1.2.0", "1.1.0", "2.0.0", "2.3.0"}, "/vnflcm/v2": {"2.0.0", "2.3.0"}, "/vnflcm/v1": {"1.3.0", "1.2.0", "1.1.0"}} {
		a := e.want(200, "GET", prefix+"/api_versions", "", "Authorization", "", "Version", "")
		list := []any{}
		for _, v := range versions {
			list = append(list, map[string]any{"version": v, "isDeprecated": false})
		}
		want := map[string]any{"uriPrefix": prefix, "apiVersions": list}
		if d := cmp.Diff(want, a.object(t)); d != "" {
			t.Error(d)
		}
		e.want(405, "POST", prefix+"/api_versions", "", "Authorization", "")
	}
}

func TestEveryOtherRequestNeedsAToken(t *testing.T) {
	e := setup(t)
	for _, path := range []string{"/vnf_instances", "/vnf_instances/x", "/vnf_instances/x/heal", "/vnf_lcm_op_occs", "/vnf_lcm_op_occs/x/retry", "/subscriptions", "/nothing"} {
		for _, token := range []string{"", "Bearer wrong-token-000000", "Basic " + operateToken} {
			a := e.want(401, "GET", api+path, "", "Authorization", token, "Version", "")
			if !strings.HasPrefix(a.Header.Get("WWW-Authenticate"), "Bearer") {
				t.Errorf("%s: WWW-Authenticate %q", path, a.Header.Get("WWW-Authenticate"))
			}
		}
	}
}

func TestAReaderCanOnlyRead(t *testing.T) {
	e := setup(t)
	e.want(200, "GET", api+"/vnf_instances", "", "Authorization", "Bearer "+readToken)
	e.want(403, "POST", api+"/vnf_instances", `{"vnfdId": "vnfd-1"}`, "Authorization", "Bearer "+readToken)
	e.want(403, "DELETE", api+"/vnf_instances/x", "", "Authorization", "Bearer "+readToken)
}

func TestVersionHeader(t *testing.T) {
	e := setup(t)
	for v, status := range map[string]int{
		"": 400, "2": 400, "2.0": 400, "02.0.0": 400, "2.00.0": 400, "0.1.0": 400, "v2.0.0": 400, "2.0.0.0": 400, "2.0.0-x": 400,
		"1.3.0": 406, "2.0.1": 406, "2.1.0": 406, "2.0.0": 200, "2.3.0": 200, "2.0.0-impl:example.com:test:1": 200,
	} {
		if a := e.do("GET", api+"/vnf_instances", "", "Version", v); a.StatusCode != status {
			t.Errorf("Version %q: %d, want %d", v, a.StatusCode, status)
		}
	}
}

func TestAcceptHeader(t *testing.T) {
	e := setup(t)
	for v, status := range map[string]int{
		"": 200, "*/*": 200, "application/*": 200, "application/json": 200, "text/html, application/json;q=0.5": 200,
		"text/html": 406, "application/json;q=0": 406, "*/*, application/json;q=0": 406, "application/xml, text/*": 406,
	} {
		if a := e.do("GET", api+"/vnf_instances", "", "Accept", v); a.StatusCode != status {
			t.Errorf("Accept %q: %d, want %d", v, a.StatusCode, status)
		}
	}
}

func TestContentTypeHeader(t *testing.T) {
	e := setup(t)
	id := e.create()
	for _, tt := range []struct {
		method, path, body, ct string
		status                 int
	}{
		{"POST", "/vnf_instances", `{"vnfdId": "vnfd-1"}`, "application/json; charset=utf-8", 201},
		{"POST", "/vnf_instances", `{"vnfdId": "vnfd-1"}`, "text/plain", 201},
		{"POST", "/vnf_instances", `{"vnfdId": "vnfd-1"}`, "application/xml", 415},
		{"POST", "/vnf_instances", `{"vnfdId": "vnfd-1"}`, "application/merge-patch+json", 415},
		{"POST", "/vnf_instances", `{"vnfdId": "vnfd-1"}`, "", 415},
		{"PATCH", "/vnf_instances/" + id, `{"vnfInstanceName": "x"}`, "application/xml", 415},
		{"PATCH", "/vnf_instances/" + id, `{"vnfInstanceName": "x"}`, "application/merge-patch+json", 202},
	} {
		if a := e.do(tt.method, api+tt.path, tt.body, "Content-Type", tt.ct); a.StatusCode != tt.status {
			t.Errorf("%s %s as %q: %d, want %d: %s", tt.method, tt.path, tt.ct, a.StatusCode, tt.status, a.body)
		}
	}
}

func TestUnknownPathsAndMethods(t *testing.T) {
	e := setup(t)
	for _, path := range []string{"/", "/vnflcm", "/vnflcm/v1", "/vnflcm/v3/vnf_instances", api, api + "/nothing", api + "/vnf_instances/x/nothing", api + "/vnf_instances/", api + "/subscriptions"} {
		e.want(404, "GET", path, "")
	}
	for _, task := range []string{"create_snapshot", "revert_to_snapshot"} {
		a := e.want(404, "POST", api+"/vnf_instances/x/"+task, "{}")
		if !strings.Contains(a.detail(t), "not supported") {
			t.Errorf("%s: %s", task, a.body)
		}
	}
	for path, allow := range map[string]string{
		"/vnf_instances": "GET, POST", "/vnf_instances/x": "DELETE, GET, PATCH", "/vnf_instances/x/scale": "POST",
		"/vnf_lcm_op_occs": "GET", "/vnf_lcm_op_occs/x": "GET", "/vnf_lcm_op_occs/x/fail": "POST",
	} {
		if a := e.want(405, "PUT", api+path, ""); a.Header.Get("Allow") != allow {
			t.Errorf("%s: Allow %q, want %q", path, a.Header.Get("Allow"), allow)
		}
	}
	e.want(405, "DELETE", api+"/vnf_lcm_op_occs/x", "")
}

func TestRequestsAreObserved(t *testing.T) {
	type seen struct {
		route, method string
		status        int
	}
	var got []seen
	e := setup(t, func(c *sol.Config) {
		c.Observe = func(_ context.Context, route, method string, status int, _ time.Duration) {
			got = append(got, seen{route, method, status})
		}
	})
	e.do("GET", api+"/vnf_instances/secret-id", "")
	e.do("GET", "/elsewhere", "")
	if d := cmp.Diff([]seen{{api + "/vnf_instances/{id}", "GET", 404}, {"other", "GET", 404}}, got, cmp.AllowUnexported(seen{})); d != "" {
		t.Error(d)
	}
}

func TestAPanicIsAnAnswer(t *testing.T) {
	e := setup(t)
	e.repo.before = func() { panic("on purpose") }
	e.want(500, "POST", api+"/vnf_instances", `{"vnfdId": "vnfd-1"}`)
	if !strings.Contains(e.logged.String(), "on purpose") {
		t.Error("the panic wasn't logged")
	}
	e.repo.before = nil
	e.want(201, "POST", api+"/vnf_instances", `{"vnfdId": "vnfd-1"}`)
}

func TestRetryRollbackFailAndCancelFollowTheStateMachine(t *testing.T) {
	e := setup(t)
	id := e.instantiated()
	begin := func() (op, path string) {
		op = e.begun(e.want(202, "POST", api+"/vnf_instances/"+id+"/scale", `{"type": "SCALE_OUT", "aspectId": "vdu1_aspect"}`))
		return op, api + "/vnf_lcm_op_occs/" + op
	}
	state := func(op string, want lcm.State) sol.VnfLcmOpOcc {
		t.Helper()
		o := occurrence(e, op)
		if o.OperationState != want {
			t.Fatalf("state %s, want %s", o.OperationState, want)
		}
		return o
	}
	op, path := begin()
	for _, task := range []string{"retry", "rollback", "fail"} {
		if a := e.want(409, "POST", path+"/"+task, ""); !strings.Contains(a.detail(t), "STARTING") {
			t.Errorf("%s", a.body)
		}
	}
	if o := state(op, lcm.Starting); o.Links["cancel"].Href == "" || o.Links["retry"].Href+o.Links["rollback"].Href+o.Links["fail"].Href != "" {
		t.Errorf("links %v", o.Links)
	}
	e.move(op, nil, lcm.Broke)
	o := state(op, lcm.FailedTemp)
	if o.Error == nil || !strings.Contains(o.Error.Detail, "Pod/amf/vdu1-1") || o.Links["cancel"].Href != "" ||
		o.Links["retry"].Href == "" || o.Links["rollback"].Href == "" || o.Links["fail"].Href == "" {
		t.Errorf("%+v", o)
	}
	e.want(409, "POST", path+"/cancel", `{"cancelMode": "FORCEFUL"}`)
	if a := e.want(202, "POST", path+"/retry", ""); len(a.body) != 0 || a.Header.Get("Location") != "" {
		t.Errorf("retry answered %v %s", a.Header, a.body)
	}
	if state(op, lcm.Processing).Error == nil {
		t.Error("the error is gone before the retry succeeded")
	}
	e.want(400, "POST", path+"/cancel", `{"cancelMode": "NOW"}`)
	e.want(400, "POST", path+"/cancel", ``)
	e.want(202, "POST", path+"/cancel", `{"cancelMode": "GRACEFUL"}`)
	if o := state(op, lcm.Processing); !o.IsCancelPending || o.CancelMode != "GRACEFUL" {
		t.Errorf("%+v", o)
	}
	e.move(op, nil, lcm.Broke)
	e.want(202, "POST", path+"/rollback", "")
	state(op, lcm.RollingBack)
	e.move(op, nil, lcm.Broke)
	var failed sol.VnfLcmOpOcc
	e.want(200, "POST", path+"/fail", "").json(t, &failed)
	if failed.ID != op || failed.OperationState != lcm.Failed {
		t.Errorf("%+v", failed)
	}
	state(op, lcm.Failed)
	e.want(409, "POST", path+"/fail", "")
	for _, task := range []string{"retry", "rollback", "fail"} {
		e.want(404, "POST", api+"/vnf_lcm_op_occs/nope/"+task, "")
	}
	e.want(404, "GET", api+"/vnf_lcm_op_occs/nope", "")
	e.want(404, "POST", api+"/vnf_lcm_op_occs/nope/cancel", `{"cancelMode": "GRACEFUL"}`)
}

func TestCancelInStartingRollsBackAtOnce(t *testing.T) {
	e := setup(t)
	id := e.create()
	op := e.begun(e.want(202, "POST", api+"/vnf_instances/"+id+"/instantiate", instantiateBody))
	e.want(202, "POST", api+"/vnf_lcm_op_occs/"+op+"/cancel", `{"cancelMode": "FORCEFUL"}`)
	if o := occurrence(e, op); o.OperationState != lcm.RolledBack || o.Error == nil {
		t.Errorf("%+v", o)
	}
	// Its commit must be taken back before the next request.
	e.want(409, "POST", api+"/vnf_instances/"+id+"/instantiate", instantiateBody)
}

func TestRollbackOfAScaleInIsRefused(t *testing.T) {
	e := setup(t)
	id := e.instantiated()
	op := e.begun(e.want(202, "POST", api+"/vnf_instances/"+id+"/scale", `{"type": "SCALE_IN", "aspectId": "vdu2_aspect"}`))
	e.move(op, nil, lcm.Broke)
	e.want(409, "POST", api+"/vnf_lcm_op_occs/"+op+"/rollback", "")
	if o := occurrence(e, op); o.Links["rollback"].Href != "" || o.Links["retry"].Href == "" {
		t.Errorf("links %v", o.Links)
	}
}

func TestTimesAreUTC(t *testing.T) {
	e := setup(t)
	id := e.instantiated()
	_ = id
	var list []map[string]any
	e.want(200, "GET", api+"/vnf_lcm_op_occs", "").json(t, &list)
	one := e.want(200, "GET", api+"/vnf_lcm_op_occs/"+list[0]["id"].(string), "").object(t)
	for _, attr := range []string{"startTime", "stateEnteredTime"} {
		s := list[0][attr].(string)
		if _, err := time.Parse(time.RFC3339Nano, s); err != nil || !strings.HasSuffix(s, "Z") || one[attr] != s {
			t.Errorf("%s: %q in the list, %q alone, %v", attr, s, one[attr], err)
		}
	}
}

func TestNoAuthenticatorLetsNobodyIn(t *testing.T) {
	e := setup(t, func(c *sol.Config) { c.Auth = nil })
	e.want(http.StatusUnauthorized, "GET", api+"/vnf_instances", "")
}
