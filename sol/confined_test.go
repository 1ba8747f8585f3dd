package sol_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/jibe-vnfm/jibe/auth"
	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/sol"
)

const (
	adminToken = "admin-token-00000"
	eastToken  = "east-token-000000"
	westToken  = "west-token-000000"
	eastReader = "east-reader-00000"
	emToken    = "em-token-00000000"
	ciToken    = "ci-token-00000000"
)

// as is the header of a request with a token.
func as(token string) []string { return []string{"Authorization", "Bearer " + token} }

// inProjects is the API with the projects east and west, and callers of each.
func inProjects(t *testing.T) *env {
	t.Helper()
	tokens, err := auth.Parse(fmt.Appendf(nil, `tokens:
- {name: nfvo, role: operate, token: %s}
- {name: admin, role: admin, token: %s}
- {name: east, token: %s, roles: [{role: operator, projects: [east]}]}
- {name: west, token: %s, roles: [{role: operator, projects: [west]}, {role: packager, projects: [west]}]}
- {name: reader, token: %s, roles: [{role: viewer, projects: [east]}]}
- {name: ems, token: %s, role: operator, interface: sol002, em: ems-1}
- {name: ci, token: %s, role: planner}
`, operateToken, adminToken, eastToken, westToken, eastReader, emToken, ciToken))
	if err != nil {
		t.Fatal(err)
	}
	subs := subscriptions(t)
	e := setup(t, subs, func(c *sol.Config) { c.Auth = tokens })
	e.repo.settings.Projects = map[string]*desired.Project{"east": {Name: "east", Instances: []string{"east"}}, "west": {Name: "west", Instances: []string{"w*"}}}
	return e
}

// made is an instance in a project, made by who may there.
func (e *env) made(token string) string {
	e.t.Helper()
	var in sol.VnfInstance
	e.want(201, "POST", api+"/vnf_instances", `{"vnfdId": "vnfd-1", "vnfInstanceName": "amf"}`, as(token)...).json(e.t, &in)
	return in.ID
}

func (e *env) listed(path, token string) string {
	e.t.Helper()
	return string(e.want(200, "GET", api+path, "", as(token)...).body)
}

func TestWhatIsOfAnotherProjectDoesNotExistForACaller(t *testing.T) {
	e := inProjects(t)
	mine, theirs := e.made(eastToken), e.made(operateToken)
	if head, _ := e.repo.LookupHead(mine); head.Dir != desired.APIDirBelow("east", mine) {
		t.Errorf("made in %s", head.Dir)
	}
	op := e.begun(e.want(202, "POST", api+"/vnf_instances/"+theirs+"/instantiate", instantiateBody))
	own := e.begun(e.want(202, "POST", api+"/vnf_instances/"+mine+"/instantiate", instantiateBody, as(eastToken)...))
	one, occ := api+"/vnf_instances/"+theirs, api+"/vnf_lcm_op_occs/"+op
	bodies := map[string]string{"instantiate": instantiateBody, "scale": scaleOut, "terminate": `{"terminationType": "FORCEFUL"}`, "heal": `{}`, "operate": `{"changeStateTo": "STOPPED"}`,
		"scale_to_level": `{"instantiationLevelId": "x"}`, "change_flavour": `{"newFlavourId": "x"}`, "change_vnfpkg": `{"vnfdId": "vnfd-1"}`,
		"change_ext_conn": `{"extVirtualLinks": [` + leftLink + `]}`}
	for _, token := range []string{eastToken, westToken, eastReader} {
		reads := token == eastReader
		want := map[bool]int{false: 404, true: 403}[reads]
		e.want(404, "GET", one, "", as(token)...)
		e.want(404, "GET", occ, "", as(token)...)
		e.want(want, "PATCH", one, `{"vnfInstanceName": "x"}`, as(token)...)
		e.want(want, "DELETE", one, "", as(token)...)
		for task, body := range bodies {
			e.want(want, "POST", one+"/"+task, body, as(token)...)
		}
		for _, task := range []string{"retry", "rollback", "fail"} {
			e.want(want, "POST", occ+"/"+task, "", as(token)...)
		}
		e.want(want, "POST", occ+"/cancel", `{"cancelMode": "FORCEFUL"}`, as(token)...)
		for _, list := range []string{"/vnf_instances", "/vnf_instances?filter=(eq,id," + theirs + ")", "/vnf_instances?filter=(eq,vnfInstanceName,amf)&all_fields", "/vnf_lcm_op_occs",
			"/vnf_lcm_op_occs?filter=(eq,id," + op + ")", "/vnf_lcm_op_occs?filter=(eq,vnfInstanceId," + theirs + ")"} {
			if got := e.listed(list, token); strings.Contains(got, theirs) {
				t.Errorf("%s: %s", list, got)
			}
		}
	}
	for _, token := range []string{eastToken, eastReader} {
		e.want(200, "GET", api+"/vnf_lcm_op_occs/"+own, "", as(token)...)
		if !strings.Contains(e.listed("/vnf_instances", token), mine) || !strings.Contains(e.listed("/vnf_lcm_op_occs", token), own) {
			t.Error("they don't see their own")
		}
	}
	if got := e.listed("/vnf_instances", ciToken); !strings.Contains(got, mine) || !strings.Contains(got, theirs) {
		t.Errorf("who sees everything: %s", got)
	}
	a := e.want(403, "POST", api+"/vnf_instances/"+mine+"/terminate", `{"terminationType": "FORCEFUL"}`, as(ciToken)...)
	if d := a.detail(t); !strings.Contains(d, "operator") {
		t.Error(d)
	}
	// A pattern is no folder in which instances could be made.
	if d := e.want(403, "POST", api+"/vnf_instances", `{"vnfdId": "vnfd-1"}`, as(westToken)...).detail(t); !strings.Contains(d, "operator in project default") {
		t.Error(d)
	}
	rec, err := e.oplog.Operation(t.Context(), own)
	if err != nil || rec.RequestedBy != "east" {
		t.Errorf("%v, %v", rec, err)
	}
}

func TestWhoSeesAnInstanceAndMayNotChangeItIsToldRoleAndProject(t *testing.T) {
	e := inProjects(t)
	id := e.made(eastToken)
	e.config.Auth, _ = auth.Parse([]byte("tokens: [{name: mixed, token: mixed-token-00000, roles: [{role: viewer}, {role: operator, projects: [west]}]}]"))
	e.handler = sol.New(e.config)
	e.want(200, "GET", api+"/vnf_instances/"+id, "", as("mixed-token-00000")...)
	a := e.want(403, "DELETE", api+"/vnf_instances/"+id, "", as("mixed-token-00000")...)
	if d := a.detail(t); !strings.Contains(d, "this needs the role operator in project east") {
		t.Error(d)
	}
}

func TestWhatAnInstanceDidInAnotherProjectStaysThere(t *testing.T) {
	e := inProjects(t)
	id := e.made(operateToken)
	op := e.begun(e.want(202, "POST", api+"/vnf_instances/"+id+"/instantiate", instantiateBody))
	e.finish(op, pod("a", "VDU1", "vdu1-1"))
	// Somebody gives the id to an instance of their own.
	e.repo.move(id, "instances/east/amf")
	e.want(200, "GET", api+"/vnf_instances/"+id, "", as(eastToken)...)
	e.want(404, "GET", api+"/vnf_lcm_op_occs/"+op, "", as(eastToken)...)
	if got := e.listed("/vnf_lcm_op_occs", eastToken); got != "[]" {
		t.Error(got)
	}
	e.want(200, "GET", api+"/vnf_lcm_op_occs/"+op, "", as(adminToken)...)
}

func TestAnElementManagerHasItsInstancesAndSOL002Alone(t *testing.T) {
	e := inProjects(t)
	mine, other := e.instantiated(), e.instantiated()
	e.repo.setEM(mine, "ems-1")
	e.repo.setEM(other, "ems-2")
	path := api + "/vnf_instances/" + mine
	a := e.want(200, "GET", path, "", as(emToken)...)
	if strings.Contains(string(a.body), "vimConnectionInfo") || !strings.Contains(string(e.want(200, "GET", path, "").body), "vimConnectionInfo") {
		t.Errorf("%s", a.body)
	}
	e.want(404, "GET", api+"/vnf_instances/"+other, "", as(emToken)...)
	e.want(404, "POST", api+"/vnf_instances/"+other+"/heal", `{}`, as(emToken)...)
	if got := e.listed("/vnf_instances?all_fields", emToken); strings.Contains(got, other) || !strings.Contains(got, mine) || strings.Contains(got, "vimConnectionInfo") {
		t.Error(got)
	}
	if got := e.listed("/vnf_lcm_op_occs?all_fields", emToken); strings.Contains(got, other) || !strings.Contains(got, mine) || strings.Contains(got, "vimConnectionInfo") {
		t.Error(got)
	}
	for _, name := range []string{"vimConnectionInfo", "VIMConnectionInfo"} {
		a := e.do("PATCH", path, `{"`+name+`": {"vim1": {"vimId": "v", "vimType": "ETSINFV.KUBERNETES.V_1", "interfaceInfo": {"endpoint": "https://evil:6443"}}}}`, as(emToken)...)
		if a.StatusCode != http.StatusForbidden || !strings.Contains(a.detail(t), "SOL002") {
			t.Errorf("%s: %d %s", name, a.StatusCode, a.body)
		}
	}
	if d := e.want(403, "POST", api+"/vnf_instances", `{"vnfdId": "vnfd-1"}`, as(emToken)...).detail(t); !strings.Contains(d, "ems-1") {
		t.Error(d)
	}
	e.want(202, "PATCH", path, `{"vnfInstanceName": "smf"}`, as(emToken)...)
}

func TestASubscriptionIsItsOwnersAndTheAdmins(t *testing.T) {
	e := inProjects(t)
	var sub struct{ ID string }
	e.want(201, "POST", api+"/subscriptions", `{"callbackUri": "`+subscriber(t, 204)+`"}`, as(eastToken)...).json(t, &sub)
	path := api + "/subscriptions/" + sub.ID
	for _, token := range []string{operateToken, westToken, eastReader, emToken, ciToken} {
		e.want(404, "GET", path, "", as(token)...)
		e.want(404, "DELETE", path, "", as(token)...)
		if got := e.listed("/subscriptions", token); got != "[]" {
			t.Error(got)
		}
	}
	for _, token := range []string{eastToken, adminToken} {
		e.want(200, "GET", path, "", as(token)...)
		if got := e.listed("/subscriptions", token); !strings.Contains(got, sub.ID) {
			t.Error(got)
		}
	}
	e.want(204, "DELETE", path, "", as(adminToken)...)
}

func TestNobodyHasWhatNoRoleIsSaidFor(t *testing.T) {
	e := inProjects(t)
	e.config.Auth, _ = auth.Parse([]byte("tokens: [{name: a, token: nothing-token-000, roles: [{role: packager, projects: [nowhere]}]}]"))
	e.handler = sol.New(e.config)
	for _, path := range []string{"/vnf_instances", "/vnf_lcm_op_occs"} {
		if got := e.listed(path, "nothing-token-000"); got != "[]" {
			t.Error(got)
		}
	}
	e.want(403, "POST", api+"/vnf_instances", `{"vnfdId": "vnfd-1"}`, as("nothing-token-000")...)
}

// move is somebody's push that gives the id to an instance in another directory.
func (r *memRepo) move(id, dir string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	d := r.dirs[id]
	d.rev.Dir = dir
	r.dirs[id] = d
	r.changes.Note(id)
}

// setEM has the instance name an element manager.
func (r *memRepo) setEM(id, em string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	in := *r.dirs[id].in
	in.EM = em
	d := r.dirs[id]
	d.in = &in
	r.dirs[id] = d
	r.changes.Note(id)
}
