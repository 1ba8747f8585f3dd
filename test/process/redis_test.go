package process_test

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jibe-vnfm/jibe/test/kit"
	"github.com/jibe-vnfm/jibe/test/process"
	"github.com/jibe-vnfm/jibe/test/redisserver"
)

// onRedis prepares a process for requests: a simulated VIM and a package.
func onRedis(t *testing.T, s *process.Server) {
	t.Helper()
	s.PushPackages(t, []string{process.SmallVnfd}, process.SmallPackage())
	s.PushFiles(t, map[string]string{"vims/sim.yaml": "type: sim\ndefault: true\n"})
}

// made makes an instance and instantiates it in a namespace.
func made(t *testing.T, s *process.Server, namespace string) (id string) {
	t.Helper()
	id = s.Want(t, http.StatusCreated, http.MethodPost, process.Instances, map[string]string{"vnfdId": process.SmallVnfd}, nil).ID()
	s.Await(t, asked(t, s, id, "instantiate", map[string]any{"flavourId": "simple", "additionalParams": map[string]any{"namespace": namespace}}), "COMPLETED")
	return id
}

// asked begins an operation and returns its id. What isn't accepted yet is asked for again.
func asked(t *testing.T, s *process.Server, id, task string, body any) (op string) {
	t.Helper()
	kit.Eventually(t, func() error {
		a, err := s.Do(t.Context(), http.MethodPost, process.Instances+"/"+id+"/"+task, body)
		if err != nil {
			return err
		}
		if a.Status != http.StatusAccepted {
			return fmt.Errorf("%s: %d: %s", task, a.Status, a.Body)
		}
		op = a.ID()
		return nil
	})
	return op
}

func operations(t *testing.T, s *process.Server) map[string]string {
	t.Helper()
	all, err := process.All[process.Operation](t.Context(), s, process.Operations)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for _, op := range all {
		if !op.Automatic {
			out[op.ID] = op.Type + " " + op.State
		}
	}
	return out
}

func ready(t *testing.T, s *process.Server, want int, text string) {
	t.Helper()
	kit.Eventually(t, func() error {
		a, err := s.Do(t.Context(), http.MethodGet, "/readyz", nil)
		if err == nil && (a.Status != want || !strings.Contains(string(a.Body), text)) {
			err = fmt.Errorf("/readyz: %d, %s", a.Status, a.Body)
		}
		return err
	})
}

func TestWithRecordsInRedisNothingIsLostByAKillNorByAnOutage(t *testing.T) {
	kit.Long(t)
	t.Parallel()
	r := redisserver.Start(t, "--requirepass", "secret")
	password := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(password, []byte("secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	args := []string{"--store", r.URL("prefix=mine"), "--store-password", "file:" + password}
	data := filepath.Join(t.TempDir(), "data")
	s := process.Start(t, data, args...)
	onRedis(t, s)
	id := made(t, s, "a")
	s.Await(t, asked(t, s, id, "scale", map[string]any{"type": "SCALE_OUT", "aspectId": "front"}), "COMPLETED")
	before := operations(t, s)
	if len(before) != 2 {
		t.Fatalf("operations: %v", before)
	}
	if _, err := os.Stat(filepath.Join(data, "store.db")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("there is a store in the data directory, too: %v", err)
	}

	s.Kill()
	s = process.Start(t, data, args...)
	if after := operations(t, s); fmt.Sprint(after) != fmt.Sprint(before) {
		t.Fatalf("after a kill there are %v, before there were %v", after, before)
	}

	// A second process must not work with the same records.
	other := filepath.Join(t.TempDir(), "other")
	second, err := process.StartBinary(process.Binary(t), other, args...)
	for range 2 {
		if err != nil {
			break
		}
		// Where the machine stood still for longer than the store is the first one's, the second may get
		// it: the first ends, or gets it back a while after the second's end.
		second.KillGroup()
		select {
		case <-s.Exited():
			s = process.Start(t, data, args...)
		case <-time.After(15 * time.Second):
		}
		second, err = process.StartBinary(process.Binary(t), other, args...)
	}
	if err == nil {
		second.KillGroup()
		t.Error("a second process serves from the same store")
	} else if !strings.Contains(err.Error(), "another process serves") || !strings.Contains(err.Error(), fmt.Sprintf("/%d/", s.Pid())) {
		t.Errorf("a second process: %v, want the first one's name", err)
	}

	ready(t, s, http.StatusOK, "ok")
	r.Kill()
	scale := map[string]any{"type": "SCALE_OUT", "aspectId": "front"}
	a, err := s.Do(t.Context(), http.MethodPost, process.Instances+"/"+id+"/scale", scale)
	if err != nil || a.Status != http.StatusServiceUnavailable || a.Header.Get("Retry-After") == "" {
		t.Errorf("a request while Redis is away: %+v, %v, want 503 with Retry-After", a, err)
	}
	ready(t, s, http.StatusServiceUnavailable, "store")
	if err := s.Get(t.Context(), process.Instances, new(any)); err != nil {
		t.Errorf("a list of instances while Redis is away: %v", err)
	}
	r.Start(t)
	ready(t, s, http.StatusOK, "ok")
	op := asked(t, s, id, "scale", scale)
	s.Await(t, op, "COMPLETED")
	after := operations(t, s)
	for id, state := range before {
		if after[id] != state {
			t.Errorf("operation %s is %q after the outage, was %q", id, after[id], state)
		}
	}
	if text := s.Log(); strings.Contains(text, "secret") {
		t.Error("the log has Redis's password")
	}
	if err := s.Stop(); err != nil {
		t.Fatal(err)
	}
	s = process.Start(t, data, args...) // at once: the lease was given back
	if len(operations(t, s)) != len(after) {
		t.Errorf("after an end in order there are %v, before there were %v", operations(t, s), after)
	}
}

func TestTheRecordsOfADataDirectoryGoToRedis(t *testing.T) {
	kit.Long(t)
	t.Parallel()
	data := filepath.Join(t.TempDir(), "data")
	s := process.Start(t, data)
	onRedis(t, s)
	made(t, s, "a")
	before := operations(t, s)
	if err := s.Stop(); err != nil {
		t.Fatal(err)
	}
	r := redisserver.Start(t)
	s = process.Start(t, data, "--store", r.URL())
	if after := operations(t, s); len(before) == 0 || fmt.Sprint(after) != fmt.Sprint(before) {
		t.Fatalf("in Redis are %v, in the file were %v", after, before)
	}
	made(t, s, "b")
	if out, _, code := s.CLI(t, "doctor", "--data", data); !strings.Contains(out, "Redis ") || !strings.Contains(out, "appendfsync always") {
		t.Errorf("doctor: %d\n%s", code, out)
	}
	if err := s.Stop(); err != nil {
		t.Fatal(err)
	}
	if _, said, code := s.CLI(t, "repository", "archive", "--data", data, "--keep-commits", "1", "--output", filepath.Join(t.TempDir(), "history.git")); code == 0 || !strings.Contains(said, "in Redis") {
		t.Errorf("a cut of the history without the records: %d\n%s", code, said)
	}
	if without, err := process.StartBinary(process.Binary(t), data); err == nil {
		without.KillGroup()
		t.Error("a start without the records is accepted")
	} else if !strings.Contains(err.Error(), "--store") {
		t.Errorf("a start without the records: %v", err)
	}
	// Another installation's data directory with records of its own isn't mixed with these.
	other := filepath.Join(t.TempDir(), "other")
	o := process.Start(t, other)
	onRedis(t, o)
	made(t, o, "a")
	if err := o.Stop(); err != nil {
		t.Fatal(err)
	}
	if mixed, err := process.StartBinary(process.Binary(t), other, "--store", r.URL()); err == nil {
		mixed.KillGroup()
		t.Error("two installations share their records")
	} else if !strings.Contains(err.Error(), "another installation") {
		t.Errorf("two installations on one prefix: %v", err)
	}
}
