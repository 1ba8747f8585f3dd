package main

import (
	"encoding/json"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jibe-vnfm/jibe/admission"
	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/test/process"
)

// refusedPush is [push] with a server that refuses. meanwhile is called before it answers.
func refusedPush(t *testing.T, meanwhile func(git func(args ...string) string)) (said string, err error) {
	t.Helper()
	return push(t, func(w http.ResponseWriter, git func(args ...string) string) {
		meanwhile(git)
		problem := &desired.Problem{File: "instances/a/vnf.yaml", Message: "it holds another package"}
		if err := json.NewEncoder(w).Encode(admission.Verdict{Problems: []*desired.Problem{problem}}); err != nil {
			t.Error(err)
		}
	})
}

// push runs the push hook in a repository with a commit that isn't on its branch yet.
// answer is what the server does with the hook's request.
func push(t *testing.T, answer func(w http.ResponseWriter, git func(args ...string) string)) (said string, err error) {
	t.Helper()
	dir, err := os.MkdirTemp("", "jibe-hook-") // short, for the socket's path
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	git := func(args ...string) string {
		t.Helper()
		out, err := process.Git(t.Context(), dir, args...)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	git("init", "--quiet", "--bare", "--initial-branch=main")
	tree := git("mktree", "--missing")
	old := git("commit-tree", "-m", "First", tree)
	git("update-ref", "refs/heads/main", old)
	next := git("commit-tree", "-p", old, "-m", "Second", tree)

	socket := filepath.Join(dir, "socket")
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		answer(w, git)
	}))
	server.Listener = listener
	server.Start()
	t.Cleanup(server.Close)

	t.Chdir(dir)
	var stderr strings.Builder
	err = pushHook{socket: socket, repository: admission.DesiredRepository}.preReceive(t.Context(), strings.NewReader(old+" "+next+" refs/heads/main\n"), &stderr)
	return stderr.String(), err
}

func TestAPushThatAnotherCommitOvertookIsAnsweredWithFetchFirst(t *testing.T) {
	said, err := refusedPush(t, func(git func(args ...string) string) {
		git("update-ref", "refs/heads/main", git("commit-tree", "-p", "main", "-m", "Faster", "main^{tree}"))
	})
	if err == nil || !strings.Contains(said, "fetch first") || strings.Contains(said, "another package") {
		t.Errorf("it ends with %v and says %q", err, said)
	}
}

func TestAPushThatTheServerRefusesIsAnsweredWithTheReason(t *testing.T) {
	said, err := refusedPush(t, func(func(args ...string) string) {})
	if err == nil || !strings.Contains(said, "instances/a/vnf.yaml: it holds another package") || strings.Contains(said, "fetch first") {
		t.Errorf("it ends with %v and says %q", err, said)
	}
}

func TestAPushThatTheServerCanNotCheckIsRefused(t *testing.T) {
	said, err := push(t, func(w http.ResponseWriter, _ func(args ...string) string) {
		w.WriteHeader(http.StatusRequestEntityTooLarge)
	})
	if err == nil || !strings.Contains(err.Error(), "413") || strings.Contains(said, "no server answers") {
		t.Errorf("it ends with %v and says %q", err, said)
	}
}
