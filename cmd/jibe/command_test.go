package main

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
)

// execute runs a command of jibe against a server and returns what it prints: out for
// others to use, hints for people.
func execute(t *testing.T, server http.Handler, args ...string) (out, hints string, err error) {
	t.Helper()
	s := httptest.NewServer(server)
	defer s.Close()
	root := newRoot()
	var stdout, stderr strings.Builder
	root.SetOut(&stdout)
	root.SetErr(&stderr)
	root.SetArgs(append(args, "--server", s.URL))
	err = root.ExecuteContext(t.Context())
	return stdout.String(), stderr.String(), err
}

// output is what the command prints where the server has these answers, by URI, and no
// others.
func output(t *testing.T, answers map[string]any, args ...string) string {
	t.Helper()
	out, _, err := execute(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, ok := answers[r.URL.RequestURI()]
		if !ok {
			t.Errorf("nobody expected GET %s", r.URL.RequestURI())
			w.WriteHeader(http.StatusNotFound)
			return
		}
		if err := json.NewEncoder(w).Encode(body); err != nil {
			t.Error(err)
		}
	}), args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// shownAs are the answers to a request of one instance: briefly, then all of it.
func shownAs(instance map[string]any) map[string]any {
	id := text(instance, "id")
	return map[string]any{
		instancesPath + "?" + briefly + "&filter=" + url.QueryEscape(expression("eq", "id", id)): []any{instance},
		instancesPath + "/" + id: instance,
	}
}

// listedAs are the answers to a request of a list that has one entry: which there are, then
// what is shown of them.
func listedAs(path, which, shown string, entry map[string]any) map[string]any {
	return map[string]any{
		path + "?" + which: []any{entry},
		path + "?" + shown + "&filter=" + url.QueryEscape(expression("in", "id", text(entry, "id"))): []any{entry},
	}
}
