package auth

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

func TestFirstStartMakesATokenFileForItsOwnerAlone(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tokens.yaml")
	if _, err := OpenIdentities(path, nil); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if got := info.Mode().Perm(); got != 0o600 {
		t.Errorf("mode %04o, want 0600", got)
	}
	first, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	tokens, err := OpenIdentities(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	if again, _ := os.ReadFile(path); string(again) != string(first) {
		t.Error("the second start changed the file")
	}
	var f struct{ Tokens []struct{ Token string } }
	if err := yaml.Unmarshal(first, &f); err != nil {
		t.Fatal(err)
	}
	r := httptest.NewRequest("GET", "/", nil)
	r.Header.Set("Authorization", "Bearer "+f.Tokens[0].Token)
	id, err := tokens.Authenticate(r)
	if err != nil || id.String() != "admin" || !id.May(Admin, "") {
		t.Errorf("%+v, %v", id, err)
	}
}

func TestWrongCredentialsAreRefused(t *testing.T) {
	tokens, err := Parse([]byte("tokens:\n- {name: nfvo, role: operate, token: 0123456789abcdef}\n" +
		"- {name: viewer, role: read, token: 'sha256:30182e35bf94d26bbb1371f62ffcfd566295ffd1692f05a677b7094247620753'}\n"))
	if err != nil {
		t.Fatal(err)
	}
	for header, want := range map[string]string{
		"":                         "",
		"Bearer":                   "",
		"Bearer ":                  "",
		"Bearer 0123456789abcdeg":  "",
		"Basic 0123456789abcdef":   "",
		"Bearer 0123456789abcdef":  "nfvo",
		"bearer 0123456789abcdef":  "nfvo",
		"Bearer viewer-token-0001": "viewer",
		"Bearer 0123456789abcdef0": "",
		"Bearer sha256:30182e35bf94d26bbb1371f62ffcfd566295ffd1692f05a677b7094247620753": "",
	} {
		r := httptest.NewRequest("GET", "/", nil)
		r.Header.Set("Authorization", header)
		id, err := tokens.Authenticate(r)
		if id.Name != want || (want == "") != errors.Is(err, ErrUnauthenticated) {
			t.Errorf("%q: %+v, %v", header, id, err)
		}
	}
}

func TestBadTokenFilesAreRefusedWithoutShowingTokens(t *testing.T) {
	for _, in := range []string{
		"", "tokens: []", "tokens: [{name: a, role: boss, token: secret-secret-secret}]", "tokens: [{name: a, role: read, token: secret}]",
		"tokens: [{role: read, token: secret-secret-secret}]", "tokens: [{name: a, role: read, token: 'sha256:secret'}]",
		"tokens: [{name: a, role: read, token: secret-secret-secret, secret-key: 1}]", "tokens: secret", "tokens: [{name: \"a\\nb\", role: read, token: secret-secret-secret}]",
	} {
		_, err := Parse([]byte(in))
		if err == nil {
			t.Errorf("%q was accepted", in)
		} else if strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: the error shows the token: %v", in, err)
		}
	}
	path := filepath.Join(t.TempDir(), "tokens.yaml")
	if err := os.WriteFile(path, []byte("tokens: [{name: a, role: read, token: secret-secret-secret}]"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenIdentities(path, nil); err == nil || !strings.Contains(err.Error(), "chmod 600") {
		t.Errorf("a file that others can read: %v", err)
	}
}

func TestRolesIncludeWhatTheyAreMadeOf(t *testing.T) {
	includes := map[Role]string{
		Viewer: "viewer", Planner: "viewer planner", Operator: "viewer planner operator", Packager: "viewer planner packager",
		Admin: "viewer planner operator packager admin", "": "", "read": "", "boss": "",
	}
	for r, want := range includes {
		for need := range includes {
			if got := r.Includes(need); got != slices.Contains(strings.Fields(want), string(need)) {
				t.Errorf("%q.Includes(%q) = %v", r, need, got)
			}
		}
	}
	for text, want := range map[string]Role{"read": Viewer, "operate": Operator, "admin": Admin, "packager": Packager, "": "", "Admin": "", "boss": ""} {
		if r, err := ParseRole(text); r != want || (err == nil) != (want != "") {
			t.Errorf("ParseRole(%q) = %q, %v", text, r, err)
		}
	}
}

func TestAPermissionReachesItsProjectsAlone(t *testing.T) {
	id := Identity{Permissions: []Permission{{Viewer, nil}, {Operator, []string{"east", "west"}}, {Admin, []string{}}}}
	for _, c := range []struct {
		role    Role
		project string
		want    bool
	}{
		{Viewer, "east", true}, {Viewer, "north", true}, {Viewer, "", true},
		{Operator, "east", true}, {Operator, "west", true}, {Operator, "north", false}, {Operator, "", false}, {Operator, "*", false},
		{Packager, "east", false}, {Admin, "east", false}, {Admin, "", false},
	} {
		if got := id.May(c.role, c.project); got != c.want {
			t.Errorf("%s in %q: %v", c.role, c.project, got)
		}
	}
	if !id.MayAnywhere(Operator) || id.MayAnywhere(Admin) || id.MayAnywhere(Packager) || (Identity{}).MayAnywhere(Viewer) {
		t.Error("MayAnywhere")
	}
	all := Identity{Permissions: []Permission{{Operator, []string{"east", AllProjects}}}}
	if !all.May(Operator, "") || !all.May(Operator, "north") {
		t.Error("* isn't all projects")
	}
	// As a subscription's owner is stored.
	stored, err := json.Marshal(id)
	if err != nil {
		t.Fatal(err)
	}
	var back Identity
	if err := json.Unmarshal(stored, &back); err != nil || !reflect.DeepEqual(back, id) {
		t.Errorf("%s: %+v, %v", stored, back, err)
	}
}

func TestWhatATokenFileLeavesEmptyIsNotTakenForEverything(t *testing.T) {
	for _, in := range []string{
		"role: operator, interface: ", "role: operator, interface: ''", "role: operator, interface: sol004", "role: operator, interface: sol002, em: ",
		"role: operator, em: ems-1", "role: operator, interface: sol003, em: ems-1",
		"roles: [{role: operator, projects: }]", "roles: [{role: operator, projects: []}]", "roles: [{role: operator, projects: ['']}]",
		"roles: [{role: operator, projects: east}]", "roles: []", "roles: ", "role: ", "roles: [{projects: [east]}]",
		"role: operator, roles: [{role: viewer}]", "role: operator, project: east",
	} {
		if tokens, err := Parse([]byte("tokens: [{name: a, token: 0123456789abcdef, " + in + "}]")); err == nil {
			t.Errorf("%s: %+v", in, tokens.entries[0].Identity)
		}
	}
	for _, in := range []string{
		"tokens: [{name: a, role: viewer, token: 0123456789abcdef}, {name: b, role: admin, token: 0123456789abcdef}]",
		"tokens: [{name: a, role: viewer, token: 0123456789abcdef}, {name: a, role: admin, token: 0123456789abcdeg}]",
	} {
		if _, err := Parse([]byte(in)); err == nil {
			t.Errorf("%s was accepted", in)
		}
	}
	tokens, err := Parse([]byte("tokens: [{name: a, token: 0123456789abcdef, interface: sol002, em: ems-1, roles: [{role: operator, projects: [east, west]}, {role: read}]}]"))
	want := Identity{Name: "a", Issuer: IssuerTokens, Interface: SOL002, EM: "ems-1", Permissions: []Permission{{Operator, []string{"east", "west"}}, {Viewer, nil}}}
	if err != nil || !reflect.DeepEqual(tokens.entries[0].Identity, want) {
		t.Errorf("%+v, %v", tokens, err)
	}
}

func TestAMappingOfRolesIsReadOrRefused(t *testing.T) {
	got, err := ParseMapping([]string{"reader=read,member=operator@east,west,boss=admin", "member=packager@east", "a=b=viewer"})
	want := map[string][]Permission{"reader": {{Viewer, nil}}, "member": {{Operator, []string{"east", "west"}}, {Packager, []string{"east"}}}, "boss": {{Admin, nil}}, "a=b": {{Viewer, nil}}}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%v, %v", got, err)
	}
	for _, bad := range []string{"", "member", "=viewer", "member=", "member=boss", "member=viewer@", "member=viewer@,east", "member=viewer@east,", "member=viewer,east", "member=viewer,", "east,member=viewer"} {
		if got, err := ParseMapping([]string{bad}); err == nil {
			t.Errorf("%q: %v", bad, got)
		}
	}
}

func TestNobodyOfAnotherIssuerHasTheNameOfATokenHere(t *testing.T) {
	if a, b := (Identity{Name: "admin", Issuer: IssuerTokens}), (Identity{Name: "admin", Issuer: "https://idp"}); a.String() != "admin" || b.String() != "admin (https://idp)" || a.Is(b) {
		t.Errorf("%s, %s", a, b)
	}
}

func TestATokenMayComeAsAPasswordOrInXAuthToken(t *testing.T) {
	tokens, err := Parse([]byte("tokens: [{name: nfvo, role: operate, token: 0123456789abcdef}]"))
	if err != nil {
		t.Fatal(err)
	}
	for name, set := range map[string]func(r *http.Request, token string){
		"basic":        func(r *http.Request, token string) { r.SetBasicAuth("anyone", token) },
		"X-Auth-Token": func(r *http.Request, token string) { r.Header.Set("X-Auth-Token", token) },
	} {
		for token, want := range map[string]string{"0123456789abcdef": "nfvo", "0123456789abcdeg": "", "": ""} {
			r := httptest.NewRequest(http.MethodGet, "/", nil)
			set(r, token)
			who, err := tokens.Authenticate(r)
			if who.Name != want || (err == nil) != (want != "") {
				t.Errorf("%s %q: %q, %v", name, token, who.Name, err)
			}
		}
	}
}
