package main

import (
	"crypto/sha256"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jibe-vnfm/jibe/auth"
)

func TestA401SaysWhichTokenWasSentAndWhereItWasFound(t *testing.T) {
	tokens, err := auth.Parse([]byte("tokens: [{name: nfvo, role: operate, token: right-right-right}]"))
	if err != nil {
		t.Fatal(err)
	}
	server := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := tokens.Authenticate(r); err != nil {
			http.Error(w, err.Error(), http.StatusUnauthorized)
		}
	})
	dir := t.TempDir()
	file := filepath.Join(dir, "wrong")
	for name, text := range map[string]string{"wrong": "wrong-wrong-wrong\n", "tokens.yaml": "tokens: [{name: a, role: admin, token: local-local-local}]\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	digest := func(token string) string { return fmt.Sprintf("sha256:%.12x", sha256.Sum256([]byte(token))) }
	for what, c := range map[string]struct {
		env  map[string]string
		args []string
		want []string
	}{
		"none":             {want: []string{"401", "no token was sent", "--token-file, $JIBE_TOKEN or --data"}},
		"a file":           {args: []string{"--token-file", file}, want: []string{"--token-file " + file, digest("wrong-wrong-wrong")}},
		"a file by name":   {env: map[string]string{"JIBE_TOKEN_FILE": file}, want: []string{"$JIBE_TOKEN_FILE, " + file, digest("wrong-wrong-wrong")}},
		"a variable":       {env: map[string]string{"JIBE_TOKEN": "stale-stale-stale"}, args: []string{"--data", dir}, want: []string{"of $JIBE_TOKEN,", digest("stale-stale-stale")}},
		"a data directory": {args: []string{"--data", dir}, want: []string{"data directory " + dir, digest("local-local-local")}},
	} {
		for _, name := range []string{"JIBE_TOKEN_FILE", "JIBE_TOKEN", "JIBE_DATA"} {
			t.Setenv(name, c.env[name])
		}
		out, _, err := execute(t, server, append([]string{"get", "instances"}, c.args...)...)
		if err == nil {
			t.Errorf("%s: %s", what, out)
			continue
		}
		for _, part := range c.want {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("%s: %q isn't in: %v", what, part, err)
			}
		}
		if strings.Contains(err.Error(), "-wrong") || strings.Contains(err.Error(), "-stale") || strings.Contains(err.Error(), "-local") {
			t.Errorf("%s: the token is shown: %v", what, err)
		}
	}
}
