package reconciler_test

import (
	"context"
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jibe-vnfm/jibe/hooks"
	"github.com/jibe-vnfm/jibe/lcm"
	"github.com/jibe-vnfm/jibe/store/bolt"
)

// change changes a record in the store as an attacker does who may write there, while no process runs.
func (w *world) change(key string, change func(rec map[string]any)) {
	w.t.Helper()
	db, err := bolt.Open(filepath.Join(w.data, "store.db"))
	if err != nil {
		w.t.Fatal(err)
	}
	defer db.Close()
	stored, err := db.Get(w.t.Context(), key)
	if err != nil {
		w.t.Fatal(err)
	}
	var rec map[string]any
	if err := json.Unmarshal(stored.Value, &rec); err != nil {
		w.t.Fatal(err)
	}
	change(rec)
	if stored.Value, err = json.Marshal(rec); err != nil {
		w.t.Fatal(err)
	}
	if _, err := db.Put(w.t.Context(), stored); err != nil {
		w.t.Fatal(err)
	}
}

// evilVIM is a VIM that has Jibe send a file of the host to an address of the attacker's.
func evilVIM() map[string]any {
	return map[string]any{"edge": map[string]any{"type": "kubernetes", "instance": id, "endpoint": "https://evil.example", "credentials": map[string]any{"token": "file:/var/lib/jibe/secrets/kube-a"}}}
}

func TestAChangedOperationCommitsNothingAndRunsNoHook(t *testing.T) {
	t.Parallel()

	w, _, s := managed(t)
	s.leaves(func(hooks.Call) hooks.Output { return hooks.Output{HandOver: json.RawMessage(`"mine"`)} })
	s.then(func(_ context.Context, c hooks.Call) error {
		if c.Input.Hook == "scale_end" {
			return &hooks.FailedError{Path: c.Path, Reason: "exit status 1"}
		}
		return nil
	})
	op := w.scale(file("instantiated", "levels: {web: 2}\n"), lcm.FailedTemp)
	ran := len(s.inputs())

	w.stop()
	w.change("operation/"+op.ID, func(rec map[string]any) {
		rec["handOver"] = "file:/var/lib/jibe/secrets/kube-a"
		rec["modified"] = map[string]any{"vims": evilVIM(), "params": map[string]any{"password": "file:/var/lib/jibe/secrets/kube-a"}}
	})
	w.start()
	s.then(nil)
	w.retriedInVain(op.ID)

	if now, err := w.log.Operation(t.Context(), op.ID); err != nil || now.Error == nil || !strings.Contains(now.Error.Detail, "Roll it back") {
		t.Errorf("%+v, %v", now, err)
	}
	if got := len(s.inputs()); got != ran {
		t.Errorf("%d hooks were run", got-ran)
	}
	if _, err := w.log.Rollback(t.Context(), op.ID); err != nil {
		t.Fatal(err)
	}
	w.recon.Enqueue(id)
	w.last(lcm.Scale, lcm.RolledBack)
	if first := s.inputs()[ran]; len(first.HandOver) > 0 {
		t.Errorf("a hook of the rollback was handed %s", first.HandOver)
	}
	if vim := w.provides(); vim != nil {
		t.Errorf("committed is %+v", vim)
	}
}

func TestAChangedOutcomeIsNotCommitted(t *testing.T) {
	t.Parallel()

	w, _, _ := managed(t)
	op := w.scale(file("instantiated", "levels: {web: 2}\n"), lcm.Completed)
	head := w.repo.Head()

	w.stop()
	w.change("operation/"+op.ID, func(rec map[string]any) {
		rec["modified"] = map[string]any{"vims": evilVIM(), "params": map[string]any{"password": "file:/var/lib/jibe/secrets/kube-a"}}
	})
	w.change("instance/"+id, func(rec map[string]any) { rec["owed"] = op.ID })
	w.start()
	w.recon.Enqueue(id)
	w.last(lcm.Scale, lcm.Completed) // nothing is outstanding any more

	if got := w.repo.Head(); got != head {
		t.Errorf("commit %s was made of the record", got)
	}
}
