package app_test

import (
	"fmt"
	"maps"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jibe-vnfm/jibe/test/kit"
	"github.com/jibe-vnfm/jibe/test/process"
)

// history is what a replica shows of all operations, by id.
func history(t *testing.T, s *process.Server) map[string]string {
	t.Helper()
	all, err := process.All[process.Operation](t.Context(), s, process.Operations)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for _, op := range all {
		out[op.ID] = fmt.Sprint(op.Type, " ", op.State, " of ", op.Instance, " automatic ", op.Automatic)
	}
	return out
}

// remembers waits until a replica shows these operations again, and sees that it stays so.
func remembers(t *testing.T, s *process.Server, want map[string]string) {
	t.Helper()
	same := func() error {
		if have := history(t, s); !maps.Equal(have, want) {
			return fmt.Errorf("operations are %v, want %v", have, want)
		}
		return nil
	}
	kit.Eventually(t, same)
	for until := time.Now().Add(1500 * time.Millisecond); time.Now().Before(until); time.Sleep(100 * time.Millisecond) {
		if err := same(); err != nil {
			t.Fatal(err)
		}
	}
}

// lived takes instances through their lives: one by pushes alone, and one by requests that is scaled, healed,
// and another one that has ended.
func (r *replicas) lived(s *process.Server) (pushed, asked string) {
	r.Helper()
	pushed = r.create(s, 1)[0]
	small := process.SmallVnfd
	made := func(namespace string) string {
		id := s.Want(r, http.StatusCreated, http.MethodPost, process.Instances, map[string]string{"vnfdId": small}, nil).ID()
		s.Await(r, r.asks(s, id, "instantiate", map[string]any{"flavourId": "simple", "additionalParams": map[string]any{"namespace": namespace}}), "COMPLETED")
		return id
	}
	asked = made("a")
	s.Await(r, r.scale(s, asked), "COMPLETED")
	r.runs(s, asked, 2)
	s.Await(r, r.asks(s, asked, "heal", map[string]any{"cause": "it is  hot"}), "COMPLETED")
	r.runs(s, asked, 2)
	gone := made("b")
	s.Await(r, r.asks(s, gone, "terminate", map[string]any{"terminationType": "FORCEFUL"}), "COMPLETED")
	kit.Eventually(r, func() error {
		a, err := s.Do(r.Context(), http.MethodDelete, process.Instances+"/"+gone, nil)
		if err == nil && a.Status != http.StatusNoContent {
			err = fmt.Errorf("delete: %d %s", a.Status, a.Body)
		}
		return err
	})
	r.work.Pull()
	file := filepath.Join("instances", "n0", "vnf.yaml")
	r.work.WriteFiles(map[string]string{file: r.work.Read(file) + "levels: {front: 1}\n"})
	r.work.Push("Scale out")
	r.poke(s)
	r.runs(s, pushed, 2)
	return pushed, asked
}

// asks begins an operation and returns its id. What isn't accepted yet is asked for again.
func (r *replicas) asks(s *process.Server, id, task string, body any) (op string) {
	r.Helper()
	kit.Eventually(r, func() error {
		a, err := s.Do(r.Context(), http.MethodPost, process.Instances+"/"+id+"/"+task, body)
		if err == nil && a.Status != http.StatusAccepted {
			err = fmt.Errorf("%s: %d %s", task, a.Status, a.Body)
		}
		if err == nil {
			op = a.ID()
		}
		return err
	})
	return op
}

func units(t *testing.T, s *process.Server, id string) (out []string) {
	t.Helper()
	var in shown
	if err := s.Get(t.Context(), process.Instances+"/"+id, &in); err != nil {
		t.Fatal(err)
	}
	for _, u := range in.Info.Units {
		out = append(out, u.ID)
	}
	slices.Sort(out)
	return out
}

func TestAnEmptiedStoreIsRebuiltFromGitAndNoVNFNotices(t *testing.T) {
	r, s := newReplicas(t, 2)
	pushed, asked := r.lived(s[0])
	before, calls := history(t, s[0]), r.cloud.Calls().VIM()
	if len(before) != 7 {
		t.Fatalf("%d operations: %v", len(before), before)
	}
	were := map[string][]string{pushed: units(t, s[0], pushed), asked: units(t, s[0], asked)}
	if err := r.redis.Client(t).FlushAll(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	for _, one := range s {
		remembers(t, one, before)
		for id, want := range were {
			if have := units(t, one, id); !slices.Equal(have, want) {
				t.Errorf("units of %s are %v, were %v", id, have, want)
			}
		}
	}
	if n := r.cloud.Calls().VIM(); n != calls {
		t.Errorf("the VIM was called %d times after the store was emptied", n-calls)
	}
	for _, id := range []string{pushed, asked} {
		s[1].Await(t, r.scale(s[1], id), "COMPLETED")
		r.runs(s[0], id, 3)
	}
	var text strings.Builder
	for id, what := range history(t, s[1]) {
		if before[id] == "" {
			text.WriteString(strings.Fields(what)[0])
		}
	}
	if text.String() != "SCALESCALE" {
		t.Errorf("since then there were %s", text.String())
	}
}
