package hooks_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"

	"github.com/jibe-vnfm/jibe/hooks"
	"github.com/jibe-vnfm/jibe/hooks/confine"
	"github.com/jibe-vnfm/jibe/test/testenv"
)

func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == confine.Command { // this program is the launcher, too, as jibe is
		os.Exit(confine.Main())
	}

	if filepath.Base(os.Args[0]) == hostileName { // and a program of a package
		hostile()
		os.Exit(0)
	}

	os.Exit(m.Run())
}

// confinedByItself has hooks confined by this test program, as jibe confines them by itself.
func confinedByItself() hooks.Confinement {
	return hooks.Confinement{Launcher: []string{os.Args[0], confine.Command}}
}

// confined has hooks confined by a program that starts sooner, testdata/launcher.
func confined(t testing.TB) hooks.Confinement {
	t.Helper()

	path, err := launcher()
	if err != nil {
		t.Fatal(err)
	}

	return hooks.Confinement{Launcher: []string{path, confine.Command}}
}

// envLauncher names the environment variable with the launcher's path, for tests that start this test
// program again.
const envLauncher = "JIBE_TEST_HOOK_LAUNCHER"

// launcher builds testdata/launcher once, and returns its path. It is kept in the tree's .cache, so
// that one that is up to date isn't linked again.
var launcher = sync.OnceValues(func() (_ string, err error) {
	if path := os.Getenv(envLauncher); path != "" {
		return path, nil
	}

	path := filepath.Join(testenv.Root(), ".cache", "test", "hook-launcher")
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return "", err
	}

	lock, err := os.OpenFile(path+".lock", os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return "", err
	}

	cmd := exec.Command("go", "build", "-buildvcs=false", "-o", path, "./testdata/launcher")
	cmd.Dir = filepath.Join(testenv.Root(), "hooks")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the launcher of hooks: %w: %s", err, out)
	}

	return path, os.Setenv(envLauncher, path)
})

// ability is what this machine can confine hooks by, which is asked once.
var ability = sync.OnceValues(func() (*hooks.Runner, error) {
	path, err := launcher()
	if err != nil {
		return nil, err
	}

	r := &hooks.Runner{Confinement: hooks.Confinement{Launcher: []string{path, confine.Command}}}

	return r, hooks.Probe(r)
})
