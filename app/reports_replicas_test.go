package app_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/jibe-vnfm/jibe/app"
	"github.com/jibe-vnfm/jibe/test/kit"
)

// statusAPI is the API of a Gitea that keeps the statuses of commits, and has no pull request.
type statusAPI struct {
	mu  sync.Mutex
	all map[string][]map[string]any // by commit, the oldest first
}

// ServeHTTP implements http.Handler.
func (s *statusAPI) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	parts := strings.Split(r.URL.Path, "/")
	switch {
	case r.Method == http.MethodPost && parts[len(parts)-2] == "statuses":
		commit := parts[len(parts)-1]
		var in map[string]any
		_ = json.NewDecoder(r.Body).Decode(&in)
		status := map[string]any{"id": len(s.all[commit]) + 1, "status": in["state"], "context": in["context"], "description": in["description"], "target_url": in["target_url"]}
		s.all[commit] = append(s.all[commit], status)
		w.WriteHeader(http.StatusCreated)
		_ = json.NewEncoder(w).Encode(status)
	case parts[len(parts)-1] == "statuses":
		_ = json.NewEncoder(w).Encode(append([]map[string]any{}, s.all[parts[len(parts)-2]]...))
	case parts[len(parts)-1] == "pulls":
		_, _ = w.Write([]byte("[]"))
	default:
		w.WriteHeader(http.StatusNotFound)
	}
}

// of are the states that a commit had.
func (s *statusAPI) of(commit string) (states []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, x := range s.all[commit] {
		states = append(states, fmt.Sprint(x["status"]))
	}
	return states
}

func TestOneReplicaTellsTheForgeAndAnotherGoesOnWhereItEnded(t *testing.T) {
	t.Parallel()

	told := &statusAPI{all: map[string][]map[string]any{}}
	forge := forgeOf(t, told)
	r, list := newReplicasWith(t, 2, func(o *app.Options) {
		o.BaseURL = "https://jibe.example" // by which people reach whichever of them
		o.Forge = forge
	})
	r.members(list[1], 2)
	success := func(commit string) {
		t.Helper()
		kit.Eventually(t, func() error {
			if got := told.of(commit); len(got) == 0 || got[len(got)-1] != "success" {
				return fmt.Errorf("commit %s had the statuses %v", commit, got)
			}
			return nil
		})
	}
	r.create(list[0], 1)
	first := r.work.Git("rev-parse", "HEAD")
	success(first)

	r.stop[0]() // it began first, and has the job
	r.members(list[1], 1)
	r.work.Pull()
	r.work.Replace("instances/n0/vnf.yaml", "name: web", "name: other")
	r.work.Push("Rename")
	second := r.work.Git("rev-parse", "HEAD")
	r.poke(list[1])
	success(second)
	for _, commit := range []string{first, second} {
		got := told.of(commit)
		distinct := slices.Compact(slices.Clone(got))
		// What a replica was telling as it ended may be told again by the next, which can't know of the answer.
		if len(got)-len(distinct) > 1 || len(distinct) > 2 || slices.Index(distinct, "success") != len(distinct)-1 {
			t.Errorf("commit %s had the statuses %v", commit, got)
		}
	}
}
