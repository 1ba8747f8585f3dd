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
	for _, made := range []string{
		"packages/.new-packages.git/HEAD", "packages/.new-packages.git/refs", "packages/packages.git", "identity.age",
		"desired.git", "desired.git/refs/heads/main", "store.db", "hook.sock",
	} {
		t.Run(filepath.Base(made), func(t *testing.T) {
			data := filepath.Join(process.ShortTempDir(t), "data")
			s, err := process.Spawn(binary, data)
			if err != nil {
				t.Fatal(err)
			}
			killWhen(t, s, filepath.Join(data, made))
			s = process.Start(t, data)
			s.PushPackages(t, []string{process.SmallVnfd}, process.SmallPackage())
			s.PushFiles(t, map[string]string{"vims/sim.yaml": "type: sim\ndefault: true\n"})
			instance := s.Want(t, http.StatusCreated, http.MethodPost, process.Instances, map[string]string{"vnfdId": process.SmallVnfd}, nil)
			op := s.Want(t, http.StatusAccepted, http.MethodPost, process.Instances+"/"+instance.ID()+"/instantiate",
				map[string]any{"flavourId": "simple", "additionalParams": map[string]any{"lcm-kubernetes-def-files": process.SmallManifests()}}, nil)
			s.AwaitWithin(t, settleWait, op.ID(), "COMPLETED")
			process.NewClone(t, s.DesiredURL())
			if out, err := process.Git(t.Context(), s.Desired(), "fsck", "--strict", "--no-dangling", "--no-progress"); err != nil || out != "" {
				t.Errorf("git fsck: %v\n%s", err, out)
			}
		})
	}
}

// killWhen kills the process, and what it has started, as soon as there is a file.
func killWhen(t *testing.T, s *process.Server, file string) {
	t.Helper()
	until := time.Now().Add(time.Minute)
	for time.Now().Before(until) {
		_, err := os.Lstat(file)
		if err == nil {
			s.KillGroup()
			return
		}
		if !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
		select {
		case <-s.Exited():
			t.Fatalf("the process ended by itself:\n%s", s.Log())
		case <-time.After(100 * time.Microsecond):
		}
	}
	s.Kill()
	t.Fatalf("%s never appeared", file)
}
