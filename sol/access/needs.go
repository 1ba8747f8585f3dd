// Package access says what a request of the REST APIs needs, and what of that its caller has.
//
// The table of [Needs] is the only place that says which role a route takes. A [Scope] is what
// one caller may see and change, by the projects of the settings at one moment. The package
// serves nothing and knows no resource beyond where it belongs: a folder, a repository.
package access

import (
	"fmt"
	"maps"
	"net/http"
	"strings"
	"sync"

	"github.com/jibe-vnfm/jibe/auth"
)

// Need is what a request needs.
type Need struct {
	// Role is needed in the project that the resource belongs to.
	Role auth.Role
	// Everywhere says that Role is needed in all projects: what the request concerns belongs to
	// none.
	Everywhere bool
	// NotSOL002 says that SOL002 has nothing like it, so that whoever is confined to it may not.
	NotSOL002 bool
}

// Denied says why the caller may not do at all what has the need, nil where there is a project
// in which they may.
func (n Need) Denied(who auth.Identity) error {
	switch {
	case n.NotSOL002 && who.Interface == auth.SOL002:
		return fmt.Errorf("%s is confined to the interface of SOL002, which has nothing like this", who)
	case n.Everywhere && !who.May(n.Role, ""):
		return &DeniedError{who, n.Role, ""}
	case !who.MayAnywhere(n.Role):
		return fmt.Errorf("%s may do: %s; this needs the role %s", who, who.Describe(), n.Role)
	}
	return nil
}

// Needs returns what the method of a path needs. The path is the pattern that is served, from
// the server's root. ok is false for what the table doesn't know, which nobody may.
func Needs(method, path string) (need Need, ok bool) {
	if method == http.MethodHead {
		method = http.MethodGet
	}
	need, ok = table()[method+" "+path]
	return need, ok
}

// table has what is needed of each route, which is where it's said.
var table = sync.OnceValue(makeTable)

func makeTable() map[string]Need {
	t := map[string]Need{}
	add := func(prefix string, routes map[string]Need) {
		for route, need := range routes {
			method, path, _ := strings.Cut(route, " ")
			t[method+" "+prefix+path] = need
		}
	}
	view, operate := Need{Role: auth.Viewer}, Need{Role: auth.Operator}
	seePackage, changePackage := Need{Role: auth.Viewer, NotSOL002: true}, Need{Role: auth.Packager, NotSOL002: true}
	// A subscription is its owner's: whoever may see something may be told of it.
	subscriptions := map[string]Need{"GET /subscriptions": view, "POST /subscriptions": view, "GET /subscriptions/{id}": view, "DELETE /subscriptions/{id}": view}
	for _, root := range []string{"/vnflcm/v1", "/vnflcm/v2"} {
		add(root, subscriptions)
		add(root, map[string]Need{
			"GET /vnf_instances": view, "POST /vnf_instances": operate,
			"GET /vnf_instances/{id}": view, "PATCH /vnf_instances/{id}": operate, "DELETE /vnf_instances/{id}": operate,
			"GET /vnf_lcm_op_occs": view, "GET /vnf_lcm_op_occs/{id}": view,
		})
		for _, task := range []string{"instantiate", "scale", "terminate", "heal", "change_ext_conn", "scale_to_level", "change_flavour", "operate", "change_vnfpkg",
			"create_snapshot", "revert_to_snapshot"} {
			add(root+"/vnf_instances/{id}/", map[string]Need{"POST " + task: operate})
		}
		for _, task := range []string{"retry", "rollback", "fail", "cancel"} {
			add(root+"/vnf_lcm_op_occs/{id}/", map[string]Need{"POST " + task: operate})
		}
	}
	for _, root := range []string{"/vnfpkgm/v1", "/vnfpkgm/v2"} {
		packageSubscriptions := maps.Clone(subscriptions)
		for route := range packageSubscriptions {
			packageSubscriptions[route] = seePackage
		}
		add(root, packageSubscriptions)
		add(root, map[string]Need{
			"GET /vnf_packages": seePackage, "POST /vnf_packages": changePackage,
			"PATCH /vnf_packages/{id}": changePackage, "DELETE /vnf_packages/{id}": changePackage,
			"PUT /vnf_packages/{id}/package_content":                  changePackage,
			"POST /vnf_packages/{id}/package_content/upload_from_uri": changePackage,
			"GET /onboarded_vnf_packages":                             seePackage,
		})
		for _, one := range []string{"/vnf_packages/{id}", "/onboarded_vnf_packages/{vnfdId}"} {
			for _, part := range []string{"", "/package_content", "/vnfd", "/manifest", "/artifacts", "/artifacts/{path...}"} {
				add(root+one, map[string]Need{"GET " + part: seePackage})
			}
		}
	}
	// The registry shows all VIMs, and the file of a VIM gives power over it.
	list, admin := Need{Role: auth.Viewer, Everywhere: true, NotSOL002: true}, Need{Role: auth.Admin, Everywhere: true, NotSOL002: true}
	add("/v1.0", map[string]Need{"GET /vims": list, "POST /vims": admin, "GET /vims.json": list, "POST /vims.json": admin,
		"GET /vims/{id}": list, "PUT /vims/{id}": admin, "DELETE /vims/{id}": admin})
	see, plan := Need{Role: auth.Viewer, NotSOL002: true}, Need{Role: auth.Planner, NotSOL002: true}
	operateAll := Need{Role: auth.Operator, Everywhere: true, NotSOL002: true}
	add("/jibe/v1", map[string]Need{
		"GET /packages": see, "GET /instances": see, "GET /drift": see, "GET /problems": see, "GET /projects": see, "GET /members": {Role: auth.Viewer, Everywhere: true, NotSOL002: true}, "GET /operations/{id}/story": see,
		// A rollout concerns instances of any project.
		"GET /rollouts": list, "POST /rollouts/{name}/{action}": operateAll,
		"GET /subscriptions": see, "GET /subscriptions/{id}": see, "POST /check": plan, "POST /plan": plan, "GET /accept": admin, "POST /accept": admin,
		// A VIM has VNFs of any project.
		"GET /vims/{name}/former": admin, "POST /vims/{name}/forget": admin,
		// What belongs to no VNF belongs to no project.
		"GET /orphans": list, "POST /orphans/delete": admin,
		// A backup holds every key, and the examination tells of the host.
		"POST /backup": admin, "POST /backup/kept": admin, "GET /doctor": admin,
		// A link logs its caller in, and lets them do what they may.
		"POST /ui-links": see,
	})
	add("/ui", map[string]Need{"GET /{$}": see, "GET /events": see, "GET /instances/{id}": see, "GET /operations/{id}": see,
		"GET /git": see, "GET /git/branch": see, "GET /git/commits/{sha}": see, "GET /git/branches/{name...}": plan,
		// What is committed needs what the request of the API does, in the instance's project.
		"POST /propose": plan, "POST /commit": plan,
		// As the API has it.
		"GET /rollouts": list, "GET /rollouts/{name}": list, "POST /rollouts/{name}/propose": operateAll, "POST /rollouts/{name}/commit": operateAll})
	return t
}
