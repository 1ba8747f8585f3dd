// Package released_test holds the newest Jibe to the data directories of released versions: each
// was written by that version's own binary (see the script make beside), which was killed with
// operations open.
package released_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
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
	// Address is where the subscriber is, and the package that was being fetched; "" in data of
	// versions for which there was nothing but the operation.
	Address string `json:"address"`
	// The operations in other states that last.
	Failed      string `json:"failed"`
	Processing  string `json:"processing"`
	RollingBack string `json:"rollingBack"`
	Packages    struct {
		Empty   string `json:"empty"`
		Fetched string `json:"fetched"`
	} `json:"packages"`
}

// began are the states of operations when the process was killed, by id.
func (m *made) began() map[string]lcm.State {
	open := map[string]lcm.State{m.Open: lcm.Starting}
	if m.Address != "" {
		open[m.Failed], open[m.Processing], open[m.RollingBack] = lcm.FailedTemp, lcm.Processing, lcm.RollingBack
	}
	return open
}

// ends is the state in which an operation ends, once that which failed is tried again.
func (m *made) ends(id string) lcm.State {
	switch id {
	case m.Open: // its VIM is away still, so that its time to start passes
		return lcm.RolledBack
	case m.RollingBack:
		return lcm.RolledBack
	}
	return lcm.Completed
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
	for id, state := range m.began() {
		if before[id] != state {
			t.Fatalf("of the data of %s operation %s is %s, want %s", m.Commit, id, before[id], state)
		}
	}
	args := []string{"--start-timeout", "5s"}
	var e *elsewhere
	if m.Address != "" {
		e = listen(t, m.Address)
		args = append(args, "--allow-hooks", "--unconfined-hooks", "--local-package-sources", "--notify-retention", "876000h") // the data are from years ago some day
	}
	s := process.Start(t, data, args...)
	if m.Failed != "" {
		// Nobody but a person goes on with it.
		s.Want(t, http.StatusAccepted, http.MethodPost, process.Operations+"/"+m.Failed+"/retry", nil, nil)
	}
	var ops []process.Operation
	kit.Eventually(t, func() (err error) {
		if ops, err = process.All[process.Operation](t.Context(), s, process.Operations); err != nil {
			return err
		}
		for _, op := range ops {
			if op.Automatic && op.State == string(lcm.RolledBack) && doneLater(ops, op) {
				continue // a machine that stalls may take longer than the time to start, which is short here
			}
			if want := m.ends(op.ID); op.State != string(want) {
				return fmt.Errorf("%s %s is %s, want %s: %s", op.Type, op.ID, op.State, want, op.Error.Detail)
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
	if e != nil {
		e.gets(t, &m)
		m.keeps(t, s)
	}
	for name, want := range map[string]string{"one": "INSTANTIATED", "two": "INSTANTIATED", "three": "NOT_INSTANTIATED", "fails": "INSTANTIATED", "back": "INSTANTIATED", "runs": "INSTANTIATED"} {
		if m.Instances[name] == "" {
			continue // the data are of a version before there were such instances
		}
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

// doneLater says whether another repair of the same instance, which isn't older, has completed.
func doneLater(ops []process.Operation, op process.Operation) bool {
	return slices.ContainsFunc(ops, func(o process.Operation) bool {
		return o.ID != op.ID && o.Instance == op.Instance && o.Automatic && o.Started >= op.Started && o.State == string(lcm.Completed)
	})
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
