package app

import (
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/jibe-vnfm/jibe/hooks"
	"github.com/jibe-vnfm/jibe/internal/datadir"
	"github.com/jibe-vnfm/jibe/vnfd"
)

func TestHooksReachNothingOfTheDataDirectory(t *testing.T) {
	t.Parallel()

	data, err := datadir.Open(t.TempDir(), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer data.Close()
	if err := os.Chmod(data.Path, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(data.Path, "identity.age"), []byte("key"), 0o644); err != nil {
		t.Fatal(err)
	}
	// A former process left this.
	left := filepath.Join(data.Hooks(), "run-1", "files")
	if err := os.MkdirAll(left, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(data.Hooks()) })
	var logged strings.Builder
	s := &host{data: data, Options: Options{Log: slog.New(slog.NewTextHandler(&logged, nil))}}
	r := s.hookRunner(t.Context(), 0)
	if _, err := os.Stat(left); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("what a former process left: %v", err)
	}
	script := "#!/bin/sh\n[ \"$(id -u)\" != 0 ] && [ -z \"$JIBE_DATA\" ] || exit 2\ncat " + filepath.Join(data.Path, "identity.age") + " && exit 3\necho checked >&2\n"
	if os.Geteuid() != 0 { // then it is Jibe's own user, who may
		script = "#!/bin/sh\necho checked >&2\n"
	}
	_, err = r.Run(t.Context(), hooks.Call{
		Package: &vnfd.Package{Files: fstest.MapFS{"run": {Data: []byte(script)}}}, Path: "run",
		Input: hooks.Input{Hook: "coordinate_new", Instance: hooks.Instance{ID: "i-1"}, Operation: hooks.Operation{ID: "op-1"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(logged.String(), `msg="hook wrote" instance=i-1 operation=op-1 hook=coordinate_new program=run line=checked`) {
		t.Errorf("logged %s", logged.String())
	}
}
