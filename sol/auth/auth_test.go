package auth

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

func TestFirstStartMakesATokenFileForItsOwnerAlone(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tokens.yaml")
	if _, err := LoadOrCreate(path); err != nil {
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
	tokens, err := LoadOrCreate(path)
	if err != nil {
		t.Fatal(err)
	}
	if again, _ := os.ReadFile(path); string(again) != string(first) {
		t.Error("the second start changed the file")
	}
	var f file
	if err := yaml.Unmarshal(first, &f); err != nil {
		t.Fatal(err)
	}
	r := httptest.NewRequest("GET", "/", nil)
	r.Header.Set("Authorization", "Bearer "+f.Tokens[0].Token)
	id, err := tokens.Authenticate(r)
	if err != nil || id != (Identity{Name: "admin", Role: Admin}) {
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
	if _, err := LoadOrCreate(path); err == nil || !strings.Contains(err.Error(), "chmod 600") {
		t.Errorf("a file that others can read: %v", err)
	}
}

func TestRolesIncludeEachOther(t *testing.T) {
	order := []Role{Read, Operate, Admin}
	for i, r := range order {
		for j, need := range order {
			if r.Allows(need) != (i >= j) {
				t.Errorf("%s.Allows(%s) = %v", r, need, r.Allows(need))
			}
		}
	}
	if Role("").Allows(Read) || Admin.Allows("") {
		t.Error("the empty role takes part")
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
