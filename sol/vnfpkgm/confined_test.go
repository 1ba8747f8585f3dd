package vnfpkgm_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/jibe-vnfm/jibe/auth"
	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/sol/vnfpkgm"
	"github.com/jibe-vnfm/jibe/test/kit"
)

// confinedTokens are callers of every kind, by name.
const confinedTokens = `tokens:
- {name: nfvo, role: packager, token: operate-token-000}
- {name: admin, role: admin, token: token-of-admin-00}
- {name: eastern, roles: [{role: packager, projects: [east]}], token: token-of-eastern-}
- {name: western, roles: [{role: packager, projects: [west]}], token: token-of-western-}
- {name: guest, roles: [{role: viewer, projects: [east]}], token: token-of-guest-00}
- {name: operator, role: operator, token: token-of-operator}
- {name: em, role: admin, interface: sol002, token: token-of-em-00000}
`

func TestAPackageIsSeenWhereItsRepositoryMayBeUsedAndChangedByThePackagersOfItsProject(t *testing.T) {
	kit.Long(t)
	t.Parallel()

	tokens, err := auth.Parse([]byte(confinedTokens))
	if err != nil {
		t.Fatal(err)
	}
	e := setup(t, func(c *vnfpkgm.Config) { c.Auth = tokens })
	e.settings.Projects = map[string]*desired.Project{
		"east": {Name: "east", Instances: []string{"east"}, Repositories: []string{"packages"}},
		"west": {Name: "west", Instances: []string{"west"}},
	}
	by := func(name string) string {
		return "Bearer " + map[string]string{"nfvo": operateToken, "admin": "token-of-admin-00", "eastern": "token-of-eastern-", "western": "token-of-western-",
			"guest": "token-of-guest-00", "operator": "token-of-operator", "em": "token-of-em-00000"}[name]
	}
	path, shown := e.onboard(zipped(t, sample(t, "amf-id")))
	if shown.field("onboardingState") != "ONBOARDED" {
		t.Fatal(string(shown.body))
	}
	waiting := e.create()
	onboarded := "/onboarded_vnf_packages/amf-id"

	list := func(name string) string {
		var entries []struct{ ID string }
		if err := json.Unmarshal(e.must(http.StatusOK, "GET", "/vnf_packages", nil, "Authorization", by(name)).body, &entries); err != nil {
			t.Fatal(err)
		}
		var paths []string
		for _, entry := range entries {
			paths = append(paths, "/vnf_packages/"+entry.ID)
		}
		slices.Sort(paths)
		return strings.Join(paths, " ")
	}
	both := []string{path, waiting}
	slices.Sort(both)
	for name, want := range map[string]string{"nfvo": strings.Join(both, " "), "eastern": strings.Join(both, " "), "guest": strings.Join(both, " "), "operator": strings.Join(both, " "), "western": ""} {
		if got := list(name); got != want {
			t.Errorf("%s is shown %q, want %q", name, got, want)
		}
	}

	for name, want := range map[string]struct{ read, write int }{
		"guest":    {http.StatusOK, http.StatusForbidden},
		"operator": {http.StatusOK, http.StatusForbidden},
		"western":  {http.StatusNotFound, http.StatusNotFound},
		"em":       {http.StatusForbidden, http.StatusForbidden},
		"eastern":  {http.StatusOK, http.StatusOK},
		"admin":    {http.StatusOK, http.StatusOK},
	} {
		for _, target := range []string{path, waiting, onboarded, path + "/package_content", onboarded + "/artifacts", onboarded + "/package_content"} {
			e.must(want.read, "GET", target, nil, "Authorization", by(name), "Accept", "*/*")
		}
		for i, target := range []string{path, waiting} {
			e.must(want.write, "PATCH", target, map[string]any{"userDefinedData": map[string]any{"by": fmt.Sprint(name, i)}}, "Authorization", by(name))
		}
		if want.write == http.StatusOK {
			continue
		}
		e.must(want.write, "DELETE", waiting, nil, "Authorization", by(name))
		e.must(want.write, "PUT", waiting+"/package_content", zipped(t, sample(t, "smf-id")), "Authorization", by(name))
		e.must(want.write, "POST", waiting+"/package_content/upload_from_uri", map[string]any{"addressInformation": "https://packages.example/smf.csar"}, "Authorization", by(name))
		if a := e.do("POST", "/vnf_packages", map[string]any{}, "Authorization", by(name)); a.StatusCode != http.StatusForbidden && a.StatusCode != http.StatusNotFound {
			t.Errorf("%s makes a package: %d %s", name, a.StatusCode, a.body)
		}
	}
	// The packager of another project is answered as if there were no such package.
	hidden := e.must(http.StatusNotFound, "GET", path, nil, "Authorization", by("western"))
	unknown := e.must(http.StatusNotFound, "GET", "/vnf_packages/5f0f9a34-0000-4000-8000-000000000000", nil, "Authorization", by("western"))
	if got := strings.ReplaceAll(string(hidden.body), strings.TrimPrefix(path, "/vnf_packages/"), "5f0f9a34-0000-4000-8000-000000000000"); got != string(unknown.body) {
		t.Errorf("%s\ntells more than\n%s", got, unknown.body)
	}

	// A repository that two projects use is written by the packagers of default.
	e.settings.Projects["west"].Repositories = []string{"packages"}
	e.must(http.StatusOK, "GET", path, nil, "Authorization", by("western"))
	for _, name := range []string{"eastern", "western"} {
		e.must(http.StatusForbidden, "DELETE", waiting, nil, "Authorization", by(name))
	}
	e.must(http.StatusNoContent, "DELETE", waiting, nil, "Authorization", by("nfvo"))
}
