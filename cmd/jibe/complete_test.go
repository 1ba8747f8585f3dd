package main

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

func TestArgumentsAreCompletedFromTheServer(t *testing.T) {
	instance := object{"id": "1", "vnfInstanceName": "web-a", "instantiationState": "INSTANTIATED", "vnfProductName": "webapp"}
	other := object{"id": "2", "vnfInstanceName": "a-web-a", "instantiationState": "INSTANTIATED", "vnfProductName": "webapp"}
	pkg := object{"vnfdId": "3a5c1f0e", "version": "1.0", "repository": "packages", "path": "webapp"}
	failed := object{"id": "6d0f", "operation": "SCALE", "operationState": "FAILED_TEMP", "startTime": "2026-01-02T03:04:05Z"}
	answers := map[string]any{
		"/vnflcm/v2/vnf_instances?exclude_default":                                                           []object{instance, other},
		"/vnflcm/v2/vnf_instances?exclude_default&filter=" + url.QueryEscape("(cont,vnfInstanceName,'web')"): []object{instance, other},
		"/jibe/v1/packages": []object{pkg},
		"/vnflcm/v2/vnf_lcm_op_occs?exclude_default&filter=" + url.QueryEscape("(in,operationState,FAILED_TEMP)"): []object{failed},
	}
	for _, test := range []struct{ line, want string }{
		{"heal ", "web-a\tinstantiated, webapp\na-web-a\tinstantiated, webapp\n"},
		{"get instance web", "web-a\tinstantiated, webapp\n"},
		{"upgrade web-a 3a", "3a5c1f0e\t1.0, packages webapp\n"},
		{"retry ", "6d0f\tSCALE FAILED_TEMP, since 2026-01-02T03:04:05Z\n"},
		{"rollback 7", ""},
	} {
		words := strings.Split(test.line, " ")
		got := completed(t, answers, words)
		if got != test.want+":4\n" { // ShellCompDirectiveNoFileComp
			t.Errorf("%q is completed with\n%s, want\n%s:4", test.line, got, test.want)
		}
	}
}

// serving is the URL of a server that has these answers, by URI, and no others.
func serving(t *testing.T, answers map[string]any) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, ok := answers[r.URL.RequestURI()]
		if !ok {
			t.Errorf("nobody expected GET %s", r.URL.RequestURI())
			w.WriteHeader(http.StatusNotFound)
			return
		}
		if err := json.NewEncoder(w).Encode(body); err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(s.Close)
	return s.URL
}

func completed(t *testing.T, answers map[string]any, words []string) string {
	t.Helper()
	server := serving(t, answers)
	last := len(words) - 1 // which is completed: the server's URL stands before it
	args := append([]string{cobra.ShellCompRequestCmd}, words[:last]...)
	args = append(args, "--server", server, words[last])
	root := newRoot()
	var out strings.Builder
	root.SetOut(&out)
	root.SetErr(&strings.Builder{})
	root.SetArgs(args)
	if err := root.ExecuteContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func TestACommandThatIsCompletedExists(t *testing.T) {
	root := newRoot()
	for path := range completions() {
		cmd, _, err := root.Find(strings.Fields(path))
		if err != nil || cmd.CommandPath() != "jibe "+path || cmd.ValidArgsFunction == nil {
			t.Errorf("jibe %s isn't completed: %v", path, err)
		}
	}
}

func TestEveryCommandHasAManualPage(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "man")
	alone(t, "man", dir)
	for _, cmd := range commands(newRoot()) {
		name := strings.ReplaceAll(cmd.CommandPath(), " ", "-") + ".1"
		page, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Error(err)
			continue
		}
		if !strings.HasPrefix(string(page), `.nh`) || !strings.Contains(string(page), ".SH SYNOPSIS") {
			t.Errorf("%s is no manual page:\n%.300s", name, page)
		}
	}
}

// commands are those that a person sees, at any depth.
func commands(root *cobra.Command) []*cobra.Command {
	list := []*cobra.Command{root}
	for _, c := range root.Commands() {
		if c.IsAvailableCommand() && c.Name() != "help" {
			list = append(list, commands(c)...)
		}
	}
	return list
}
