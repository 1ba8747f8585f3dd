package auth

import (
	"bytes"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// tokenFile writes a token file as an editor does: in place.
func tokenFile(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func identities(t *testing.T, text string) *Identities {
	t.Helper()
	path := filepath.Join(t.TempDir(), "tokens.yaml")
	tokenFile(t, path, text)
	i, err := OpenIdentities(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	return i
}

func bearer(token string) (r *http.Request) {
	r = httptest.NewRequest("GET", "/", nil)
	r.Header.Set("Authorization", "Bearer "+token)
	return r
}

func TestATokenThatIsTakenOutOfTheFileEndsAtOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tokens.yaml")
	const one, two, three = "0123456789abcdef", "fedcba9876543210", "0123456701abcdef"
	tokenFile(t, path, "tokens: [{name: a, role: admin, token: "+one+"}]")
	i, err := OpenIdentities(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	valid := func(step, want string) {
		t.Helper()
		for _, token := range []string{one, two, three} {
			if _, err := i.Authenticate(bearer(token)); (err == nil) != (token == want) {
				t.Errorf("%s: token %s: %v", step, token, err)
			}
		}
	}
	valid("at the start", one)
	// The same size, in the same moment.
	tokenFile(t, path, "tokens: [{name: a, role: admin, token: "+two+"}]")
	valid("written in place", two)
	other := path + ".new"
	tokenFile(t, other, "tokens: [{name: a, role: admin, token: "+three+"}]")
	old := time.Now().Add(-time.Hour)
	if err := os.Chtimes(other, old, old); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(other, path); err != nil {
		t.Fatal(err)
	}
	valid("another file in its place", three)
}

func TestATokenFileThatIsBrokenLeavesTheLastGoodOneInForce(t *testing.T) {
	var logged bytes.Buffer
	path := filepath.Join(t.TempDir(), "tokens.yaml")
	good := "tokens: [{name: a, role: admin, token: 0123456789abcdef}]"
	tokenFile(t, path, good)
	i, err := OpenIdentities(path, slog.New(slog.NewTextHandler(&logged, nil)))
	if err != nil {
		t.Fatal(err)
	}
	for what, spoil := range map[string]func(){
		"no YAML":        func() { tokenFile(t, path, "tokens: [{name: secret-secret-secret") },
		"empty":          func() { tokenFile(t, path, "") },
		"an empty list":  func() { tokenFile(t, path, "tokens: []") },
		"gone":           func() { os.Remove(path) },
		"read by others": func() { tokenFile(t, path, good); os.Chmod(path, 0o644) },
		"half a role":    func() { tokenFile(t, path, "tokens: [{name: b, role: adm, token: fedcba9876543210}]") },
	} {
		logged.Reset()
		spoil()
		for range 3 {
			if who, err := i.Authenticate(bearer("0123456789abcdef")); err != nil || who.Name != "a" {
				t.Errorf("%s: %v, %v", what, who, err)
			}
			if _, err := i.Authenticate(bearer("fedcba9876543210")); !errors.Is(err, ErrUnauthenticated) {
				t.Errorf("%s: a token of the broken file: %v", what, err)
			}
		}
		if i.Broken() == nil || strings.Count(logged.String(), "level=ERROR") != 1 || strings.Contains(logged.String(), "secret") {
			t.Errorf("%s: %v, logged %s", what, i.Broken(), logged.String())
		}
		os.Remove(path)
		tokenFile(t, path, good)
		if err := i.Broken(); err != nil {
			t.Errorf("after %s: %v", what, err)
		}
	}
}

func TestWhatAnOwnerMayIsAsTheFileSaysNow(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tokens.yaml")
	tokenFile(t, path, "tokens: [{name: a, role: admin, token: 0123456789abcdef}]")
	i, err := OpenIdentities(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	then, err := i.Authenticate(bearer("0123456789abcdef"))
	if err != nil {
		t.Fatal(err)
	}
	tokenFile(t, path, "tokens: [{name: a, roles: [{role: viewer, projects: [east]}], token: 0123456789abcdef}]")
	if now, ok := i.Current(then); !ok || now.May(Admin, "") || !now.May(Viewer, "east") || now.May(Viewer, "west") {
		t.Errorf("%v, %v", now, ok)
	}
	tokenFile(t, path, "tokens: [{name: b, role: admin, token: 0123456789abcdef}]")
	if now, ok := i.Current(then); ok {
		t.Errorf("who was taken out is %v", now)
	}
	// Whom another issuer vouches for has what they had, whatever their name.
	if now, ok := i.Current(Identity{Name: "b", Issuer: "https://idp"}); !ok || now.MayAnywhere(Viewer) {
		t.Errorf("%v, %v", now, ok)
	}
}
