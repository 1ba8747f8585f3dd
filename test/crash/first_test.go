package crash_test

import (
	"errors"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/jibe-vnfm/jibe/test/process"
)

// TestFirstStartMayBeKilled kills the very first start when each of the things that it
// makes appears, and proves that the next start makes the rest: the API and pushes work.
func TestFirstStartMayBeKilled(t *testing.T) {
	binary := process.Binary(t)
	points := []string{
		"packages/.new-packages.git/HEAD", "packages/.new-packages.git/refs", "packages/packages.git", "identity.age",
		"desired.git", "desired.git/refs/heads/main", "store.db", "hook.sock",
	}
	if testing.Short() {
		points = []string{"desired.git"} // between the two repositories; make test-all has all
	}

	for _, made := range points {
		t.Run(filepath.Base(made), func(t *testing.T) {
			t.Parallel()
			data := killedWhen(t, binary, made)
			s := process.Start(t, data)
			s.PushPackages(t, []string{process.SmallVnfd}, process.SmallPackage())
			s.PushFiles(t, map[string]string{"vims/sim.yaml": "type: sim\ndefault: true\n"})
			instance := s.Want(t, http.StatusCreated, http.MethodPost, process.Instances, map[string]string{"vnfdId": process.SmallVnfd}, nil)
			op := s.Want(t, http.StatusAccepted, http.MethodPost, process.Instances+"/"+instance.ID()+"/instantiate",
				map[string]any{"flavourId": "simple", "additionalParams": map[string]any{"lcm-kubernetes-def-files": process.SmallManifests()}}, nil)
			s.AwaitWithin(t, settleWait, op.ID(), "COMPLETED")
			process.NewClone(t, s.DesiredURL())
			if err := process.Fsck(t.Context(), s.Desired()); err != nil {
				t.Error(err)
			}
		})
	}
}

// mostStarts is how often a first start is tried whose file isn't seen.
const mostStarts = 20

// killedWhen is the data directory of a first start that was killed, with all that it had started, as soon
// as there was the file. Some files are there for a moment alone, which a machine that is busy may let
// pass: then it is another first start's turn.
func killedWhen(t *testing.T, binary, made string) (data string) {
	t.Helper()
	for range mostStarts {
		data = filepath.Join(process.ShortTempDir(t), "data")
		s, err := process.Spawn(binary, data)
		if err != nil {
			t.Fatal(err)
		}
		serves := make(chan error, 1)
		go func() { serves <- s.Ready() }()
		if seen := killWhen(t, s, filepath.Join(data, made), serves); seen {
			return data
		}
	}
	t.Fatalf("%s was never seen", made)
	return ""
}

// killWhen kills the process, and what it has started, as soon as there is a file, or once it serves.
func killWhen(t *testing.T, s *process.Server, file string, serves <-chan error) (seen bool) {
	t.Helper()
	defer s.KillGroup()
	for over := false; ; {
		_, err := os.Lstat(file)
		if err == nil {
			return true
		}
		if !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
		if over {
			return false
		}
		select {
		case err := <-serves: // all that it makes is made
			if err != nil {
				t.Fatalf("%v:\n%s", err, s.Log())
			}
			over = true // it is looked for once more
		case <-time.After(100 * time.Microsecond):
		}
	}
}
