// Package released_test holds the newest Jibe to the data directories of released versions: each
// was written by that version's own binary (see the script make beside), which was killed with an
// operation open.
package released_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jibe-vnfm/jibe/lcm"
	"github.com/jibe-vnfm/jibe/lcm/oplog"
	"github.com/jibe-vnfm/jibe/store/bolt"
	"github.com/jibe-vnfm/jibe/test/kit"
	"github.com/jibe-vnfm/jibe/test/process"
)

// made is what the script notes of what it did.
type made struct {
	Commit string `json:"commit"`
	// Open is the operation that had begun when the process was killed.
	Open      string            `json:"open"`
	Instances map[string]string `json:"instances"` // ids by name
}

func TestTheDataOfEveryReleasedVersionIsOpenedAndItsOperationsGoOn(t *testing.T) {
	archives, err := filepath.Glob("testdata/*.tar.gz")
	if err != nil || len(archives) == 0 {
		t.Fatalf("no data of released versions: %v, %v", archives, err)
	}
	for _, archive := range archives {
		t.Run(strings.TrimSuffix(filepath.Base(archive), ".tar.gz"), func(t *testing.T) { open(t, archive) })
	}
}

func open(t *testing.T, archive string) {
	data := filepath.Join(process.ShortTempDir(t), "data")
	if err := os.Mkdir(data, 0o700); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), "tar", "-xzf", archive, "-C", data).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	text, err := os.ReadFile(filepath.Join(data, "made.json"))
	if err != nil {
		t.Fatal(err)
	}
	var m made
	if err := json.Unmarshal(text, &m); err != nil {
		t.Fatal(err)
	}
	before := states(t, data)
	if before[m.Open] != lcm.Starting {
		t.Fatalf("the data of %s has no open operation: %s is %s", m.Commit, m.Open, before[m.Open])
	}
	s := process.Start(t, data, "--start-timeout", "5s")
	var ops []process.Operation
	kit.Eventually(t, func() (err error) {
		if ops, err = process.All[process.Operation](t.Context(), s, process.Operations); err != nil {
			return err
		}
		for _, op := range ops {
			want := lcm.Completed
			if op.ID == m.Open {
				want = lcm.RolledBack // its VIM is away still, so that its time to start passes
			}
			if op.State != string(want) {
				return fmt.Errorf("%s %s is %s: %s", op.Type, op.ID, op.State, op.Error.Detail)
			}
		}
		return nil
	})
	asked := 0
	for _, op := range ops {
		if _, known := before[op.ID]; known {
			asked++
		} else if !op.Automatic { // the simulator's infrastructure went with the process: what ran is put up again
			t.Errorf("%s %s began that nobody asked for", op.Type, op.ID)
		}
	}
	if asked < len(before) || asked < 6 {
		t.Errorf("%d of the %d operations are there", asked, len(before))
	}
	for name, want := range map[string]string{"one": "INSTANTIATED", "two": "INSTANTIATED", "three": "NOT_INSTANTIATED"} {
		var in struct {
			Name  string `json:"vnfInstanceName"`
			State string `json:"instantiationState"`
		}
		if err := s.Get(t.Context(), process.Instances+"/"+m.Instances[name], &in); err != nil || in.Name != name || in.State != want {
			t.Errorf("instance %s is %+v, %v; want %s", name, in, err, want)
		}
	}
	// It takes new work, and can be backed up.
	a := s.Want(t, http.StatusAccepted, http.MethodPost, process.Instances+"/"+m.Instances["one"]+"/scale", map[string]any{"type": "SCALE_IN", "aspectId": "front", "numberOfSteps": 1}, nil)
	s.Await(t, a.ID(), string(lcm.Completed))
	for _, args := range [][]string{{"backup", "--data", data, filepath.Join(filepath.Dir(data), "b.tar.gz")}, {"restore", "--verify", filepath.Join(filepath.Dir(data), "b.tar.gz")}} {
		if out, err := exec.CommandContext(t.Context(), process.Binary(t), args...).CombinedOutput(); err != nil {
			t.Errorf("jibe %v: %v: %s", args, err, out)
		}
	}
}

// states are those of the operations in the store of a data directory on which no server runs.
func states(t *testing.T, data string) map[string]lcm.State {
	t.Helper()
	copied := filepath.Join(t.TempDir(), "store.db") // the server is to find the file as it was left
	text, err := os.ReadFile(filepath.Join(data, "store.db"))
	if err == nil {
		err = os.WriteFile(copied, text, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	s, err := bolt.Open(copied)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	log, err := oplog.Open(t.Context(), s, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	all, err := log.Operations(t.Context(), "", 0)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]lcm.State{}
	for _, op := range all {
		out[op.ID] = op.State
	}
	return out
}
