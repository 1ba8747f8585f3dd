package app_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/jibe-vnfm/jibe/app"
	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/internal/datadir"
	"github.com/jibe-vnfm/jibe/test/kit"
	"github.com/jibe-vnfm/jibe/test/process"
)

// elementManagers are callers that are confined to the interface of SOL002, whatever their role.
const elementManagers = `- {name: em, role: admin, interface: sol002, token: token-of-em-000000}
- {name: emea, roles: [{role: admin, projects: [east]}], interface: sol002, em: core, token: token-of-emea-0000}
`

// callers makes requests as those of withPushers, and as element managers who come into the token
// file while the server runs.
type callers struct {
	*testing.T
	*process.Server
}

func newCallers(t *testing.T) callers {
	t.Helper()
	s := servesPushers(t, app.Options{})
	if err := os.WriteFile(datadir.TokensFile(s.Data), []byte(pushTokens+elementManagers), 0o600); err != nil {
		t.Fatal(err)
	}
	return callers{t, s}
}

// as makes a request that must be answered with status.
func (c callers) as(name string, status int, method, target string, body any) string {
	c.Helper()
	asks := *c.Server
	asks.Token = tokenOf(name)
	a, err := asks.Do(c.Context(), method, target, body)
	if err != nil {
		c.Fatal(err)
	}
	if a.Status != status {
		c.Errorf("%s: %s %s: %d %s, want %d", name, method, target, a.Status, a.Body, status)
	}
	return string(a.Body)
}

// list is what of the entries of a list has the key.
func (c callers) list(name, target, key string) (all []string) {
	c.Helper()
	text := c.as(name, http.StatusOK, http.MethodGet, target, nil)
	var entries []map[string]any
	if err := json.Unmarshal([]byte(text), &entries); err != nil || entries == nil {
		c.Fatalf("%s: %s: %v: %s", name, target, err, text)
	}
	for _, e := range entries {
		all = append(all, fmt.Sprint(e[key]))
	}
	slices.Sort(all)
	return all
}

// ids are those of the instances by their folders, once the three that were pushed are followed.
func (c callers) ids() map[string]string {
	c.Helper()
	ids := map[string]string{}
	kit.Eventually(c.T, func() error {
		var all []desired.Revision
		if err := json.Unmarshal([]byte(c.as("root", http.StatusOK, http.MethodGet, "/jibe/v1/instances", nil)), &all); err != nil {
			return err
		}
		for _, rev := range all {
			ids[rev.Dir] = rev.Instance
		}
		if len(ids) < 3 {
			return fmt.Errorf("only %v are followed", ids)
		}
		return nil
	})
	return ids
}

func TestJibesOwnAPIIsConfinedToTheProjectsAndInterfaceOfItsCaller(t *testing.T) {
	t.Parallel()
	c := newCallers(t)
	ids := c.ids()
	for what, k := range map[string]struct{ target, key, who, want string }{
		"instances":                {"/jibe/v1/instances", "dir", "root", "[instances/east/amf instances/else/amf instances/west/amf]"},
		"instances of east":        {"/jibe/v1/instances", "dir", "east", "[instances/east/amf]"},
		"instances of both":        {"/jibe/v1/instances", "dir", "both", "[instances/east/amf instances/west/amf]"},
		"projects":                 {"/jibe/v1/projects", "name", "read", "[default east west]"},
		"projects of east":         {"/jibe/v1/projects", "name", "east", "[east]"},
		"packages":                 {"/jibe/v1/packages", "vnfdId", "read", "[" + process.SmallVnfd + "]"},
		"packages that east lacks": {"/jibe/v1/packages", "vnfdId", "east", "[]"},
		"drift of east":            {"/jibe/v1/drift?instance=" + ids["instances/east/amf"], "dir", "east", "[]"},
		"drift that all may see":   {"/jibe/v1/drift?instance=" + ids["instances/west/amf"], "dir", "read", "[]"},
	} {
		if got := fmt.Sprint(c.list(k.who, k.target, k.key)); got != k.want {
			t.Errorf("%s: %s, want %s", what, got, k.want)
		}
	}

	// What one may not see is answered as what isn't there.
	west, unknown := ids["instances/west/amf"], "5f0f9a34-0000-4000-8000-000000000000"
	hidden := c.as("east", http.StatusNotFound, http.MethodGet, "/jibe/v1/drift?instance="+west, nil)
	if nobody := c.as("east", http.StatusNotFound, http.MethodGet, "/jibe/v1/drift?instance="+unknown, nil); strings.ReplaceAll(hidden, west, unknown) != nobody {
		t.Errorf("%s\ntells more than\n%s", hidden, nobody)
	}

	for _, name := range []string{"em", "emea"} {
		for _, route := range []string{"GET packages", "GET instances", "GET drift", "GET problems", "GET projects", "GET subscriptions", "GET subscriptions/x", "GET operations/x/story", "POST check", "POST plan", "POST accept",
			"GET orphans", "POST orphans/delete"} {
			method, path, _ := strings.Cut(route, " ")
			if said := c.as(name, http.StatusForbidden, method, "/jibe/v1/"+path, nil); !strings.Contains(said, "SOL002") {
				t.Errorf("%s: %s: %s", name, route, said)
			}
		}
	}
	for _, name := range []string{"read", "plan", "pack", "ops", "east"} {
		c.as(name, http.StatusForbidden, http.MethodPost, "/jibe/v1/accept", nil)
		c.as(name, http.StatusForbidden, http.MethodPost, "/jibe/v1/orphans/delete", nil)
	}
	c.as("east", http.StatusForbidden, http.MethodGet, "/jibe/v1/orphans", nil) // they belong to no project
	c.as("read", http.StatusOK, http.MethodGet, "/jibe/v1/orphans", nil)
	if said := c.as("root", http.StatusConflict, http.MethodPost, "/jibe/v1/accept", nil); !strings.Contains(said, "nothing to accept") {
		t.Error(said)
	}
}

func TestOnlyWhatConcernsTheCallersProjectsIsJudgedAndPlannedForThem(t *testing.T) {
	kit.Long(t)
	t.Parallel()
	c := newCallers(t)
	ids := c.ids()
	head := func(dir string) string {
		text, err := process.Git(t.Context(), c.Desired(), "show", "main:"+dir+"/vnf.yaml")
		if err != nil {
			t.Fatal(err)
		}
		return text + "\n" // which Git has cut off
	}
	one := func(dir, id, file string) map[string]any {
		return map[string]any{"instances": []any{map[string]any{"dir": dir, "instance": id, "file": file}}}
	}
	other := fmt.Sprintf(notYet, "amf-2")
	west := ids["instances/west/amf"]
	for what, k := range map[string]struct {
		who      string
		status   int
		proposal map[string]any
	}{
		"their own":                            {"east", http.StatusOK, one("instances/east/new", "", other)},
		"one of another project":               {"east", http.StatusForbidden, one("instances/west/new", "", other)},
		"one of no project":                    {"east", http.StatusForbidden, one("instances/new", "", other)},
		"another's, by the id in the file":     {"east", http.StatusForbidden, one("instances/east/new", "", "id: "+west+"\n"+other)},
		"another's, by a way round":            {"east", http.StatusForbidden, one("instances/east/../west/amf", "", other)},
		"the end of another's, by a way round": {"east", http.StatusForbidden, one("instances/east/../west/amf", west, "")},
		"the end of another's":                 {"east", http.StatusForbidden, one("instances/west/amf", west, "")},
		"the end of another's, as if theirs":   {"east", http.StatusForbidden, one("instances/east/amf", west, "")},
		"another's that is as it was":          {"east", http.StatusOK, one("instances/west/amf", west, head("instances/west/amf"))},
		"another's that is as one of theirs":   {"east", http.StatusForbidden, one("instances/west/amf", west, head("instances/east/amf"))},
		"settings":                             {"east", http.StatusForbidden, map[string]any{"instances": []any{}, "settings": map[string]any{"vims": map[string]any{"x": map[string]any{"type": "sim"}}}}},
		"settings for who plans everything":    {"plan", http.StatusOK, map[string]any{"instances": []any{}, "settings": map[string]any{}}},
		"anything by who only reads":           {"read", http.StatusForbidden, one("instances/east/new", "", other)},
		"one of both's projects":               {"both", http.StatusOK, one("instances/west/new", "", other)},
		"packagers are planners, of east":      {"pkge", http.StatusOK, one("instances/east/new", "", other)},
		"packagers are planners, not of west":  {"pkge", http.StatusForbidden, one("instances/west/new", "", other)},
	} {
		for _, route := range []string{"/jibe/v1/check", "/jibe/v1/plan"} {
			said := c.as(k.who, k.status, http.MethodPost, route, k.proposal)
			if t.Failed() {
				t.Fatalf("%s: %s", what, said)
			}
		}
	}
}

func TestTheRegistryOfVIMsIsReadByViewersOfEverythingAndChangedByAdminsAlone(t *testing.T) {
	kit.Long(t)
	t.Parallel()
	c := newCallers(t)
	for name, reads := range map[string]bool{"root": true, "read": true, "plan": true, "pack": true, "ops": true, "east": false, "both": false, "em": false, "emea": false} {
		for _, route := range []struct {
			method, path   string
			writes         bool
			status         int // where the caller may
			needsAdminBody any
		}{
			{http.MethodGet, "/v1.0/vims", false, http.StatusOK, nil},
			{http.MethodGet, "/v1.0/vims.json", false, http.StatusOK, nil},
			{http.MethodGet, "/v1.0/vims/none", false, http.StatusNotFound, nil},
			{http.MethodPost, "/v1.0/vims", true, http.StatusBadRequest, map[string]any{}},
			{http.MethodPost, "/v1.0/vims.json", true, http.StatusBadRequest, map[string]any{}},
			{http.MethodPut, "/v1.0/vims/none", true, http.StatusBadRequest, map[string]any{}},
			{http.MethodDelete, "/v1.0/vims/none", true, http.StatusNotFound, nil},
		} {
			status := route.status
			if route.writes && name != "root" || !reads {
				status = http.StatusForbidden
			}
			c.as(name, status, route.method, route.path, route.needsAdminBody)
		}
	}
	if out, err := process.Git(t.Context(), c.Desired(), "ls-tree", "-r", "--name-only", "main", "vims"); err != nil || out != "" {
		t.Errorf("%v: %s", err, out)
	}
}

func TestGitIsNoInterfaceOfSOL002(t *testing.T) {
	t.Parallel()
	c := newCallers(t)
	for _, name := range []string{"em", "emea"} {
		for _, repository := range []string{"desired.git", "packages/packages.git"} {
			out, err := process.Git(t.Context(), t.TempDir(), "ls-remote", as(c.Server, name, repository))
			if err == nil || !strings.Contains(fmt.Sprint(out, err), "confined to the interface of SOL002") {
				t.Errorf("%s fetches %s: %v %s", name, repository, err, out)
			}
			push, err := process.Git(t.Context(), c.Desired(), "push", as(c.Server, name, repository), "main:refs/heads/theirs")
			if err == nil || !strings.Contains(fmt.Sprint(push, err), "confined to the interface of SOL002") {
				t.Errorf("%s pushes to %s: %v %s", name, repository, err, push)
			}
		}
	}
	if out, err := process.Git(t.Context(), t.TempDir(), "ls-remote", as(c.Server, "root", "desired.git")); err != nil || !strings.Contains(out, "refs/heads/main") {
		t.Errorf("an admin who isn't confined: %v %s", err, out)
	}
}
