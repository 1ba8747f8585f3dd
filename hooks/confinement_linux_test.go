package hooks_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jibe-vnfm/jibe/hooks"
	"github.com/jibe-vnfm/jibe/hooks/confine"
	"github.com/jibe-vnfm/jibe/test/kit"
)

func TestWhereTheKernelCanNotConfineHooksTheyDoNotRun(t *testing.T) {
	t.Parallel()
	for abi, says := range map[int]string{0: "no Landlock", confine.NeededABI - 1: "version 2"} {
		r := newRunner(t)
		hooks.WithoutNamespaces(r, abi)
		_, err := r.Run(t.Context(), shell(`exit 0`))
		if err == nil || !strings.Contains(err.Error(), says) || !strings.Contains(err.Error(), "--unconfined-hooks") {
			t.Errorf("Landlock %d: %v", abi, err)
		}
		r.Confinement.Unconfined = true
		if _, err := r.Run(t.Context(), shell(`exit 0`)); err != nil {
			t.Errorf("unconfined: %v", err)
		}
	}
}

func TestARunnerThatKnowsNoLauncherRunsNothing(t *testing.T) {
	t.Parallel()
	r := newUnasked(t, confined(t))
	for _, launcher := range [][]string{nil, {"/bin/true"}, {"/no/such/launcher"}} {
		r.Confinement.Launcher = launcher
		if out, err := r.Run(t.Context(), shell(`echo '{"message": "ran"}'`)); err == nil {
			t.Errorf("launcher %q: %v", launcher, out)
		}
	}
}

func TestWhatMustBeKeptFromHooksMayNotLieWhereTheyMayRead(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	link := filepath.Join(dir, "link")
	if err := os.Symlink("/usr/share", link); err != nil {
		t.Fatal(err)
	}
	for secret, ok := range map[string]bool{dir: true, "/usr/local/jibe": false, filepath.Join(link, "jibe"): false, "/": false, filepath.Join(dir, "tools", "data"): false} {
		c := hooks.Confinement{Secret: []string{secret}}
		if secret != dir {
			c.Paths = []string{filepath.Join(dir, "tools")}
		}
		if err := c.Check(); (err == nil) != ok {
			t.Errorf("%s: %v", secret, err)
		}
		c.Unconfined = true
		if err := c.Check(); err != nil {
			t.Error(err)
		}
	}
	if err := (&hooks.Confinement{Paths: []string{"tools"}}).Check(); err == nil {
		t.Error("a relative path")
	}
}

func TestRunsAtOnceHaveUsersOfTheirOwn(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root can give them")
	}
	r := newRunner(t)
	r.User = "1900000100-1900000101"
	var both sync.WaitGroup
	var mu sync.Mutex
	users := map[string]bool{}
	r.Log = func(_ hooks.Input, _, line string) { mu.Lock(); defer mu.Unlock(); users[line] = true }
	both.Add(2)
	c := shell(`id -u >&2; id -un >&2`)
	c.Started = func(hooks.Process) error { both.Done(); both.Wait(); return nil } // both have their user by now
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			if _, err := r.Run(t.Context(), c); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if want := map[string]bool{"1900000100": true, "1900000101": true, "hook": true}; fmt.Sprint(users) != fmt.Sprint(want) {
		t.Errorf("they ran as %v", users)
	}
	r.User = "5-3"
	if _, err := r.Run(t.Context(), shell(``)); err == nil || !strings.Contains(err.Error(), "FIRST-LAST") {
		t.Error(err)
	}
}

func TestAConfinedHookEndsWithAJibeThatIsKilled(t *testing.T) {
	t.Parallel()
	const envDir, envMark, envBare = "JIBE_TEST_CONFINED_IN", "JIBE_TEST_CONFINED_MARK", "JIBE_TEST_CONFINED_BARE"
	if dir := os.Getenv(envDir); dir != "" {
		r := &hooks.Runner{Dir: dir, Confinement: confined(t)}
		if os.Getenv(envBare) != "" {
			hooks.WithoutNamespaces(r, confine.ScopedABI)
		}
		_, err := r.Run(t.Context(), shell(`trap "" TERM; (setsid env -i sleep 86398.`+os.Getenv(envMark)+` &); sleep 86398.`+os.Getenv(envMark)))
		t.Fatal(err)
	}
	for _, bare := range []string{"", "1"} {
		r := newRunner(t)
		mark := fmt.Sprintf("%09d", time.Now().UnixNano()%1e9)
		cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$")
		cmd.Env = append(os.Environ(), envDir+"="+r.Dir, envMark+"="+mark, envBare+"="+bare)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		running := func() (n int) {
			names, _ := filepath.Glob("/proc/[1-9]*/cmdline")
			for _, name := range names {
				if text, err := os.ReadFile(name); err == nil && string(text) == "sleep\x0086398."+mark+"\x00" {
					n++
				}
			}
			return n
		}
		kit.Until(t, "both processes of the hook run", func() bool { return running() == 2 })
		if err := cmd.Process.Signal(syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait()
		kit.Until(t, "nothing of the hook runs any more", func() bool { return running() == 0 })
		if err := r.Sweep(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestAnInterpreterThatHooksMayNotReachIsNamed(t *testing.T) {
	t.Parallel()
	r := newRunner(t)
	dir, err := os.MkdirTemp("", "jibe-tools-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	sh, err := os.ReadFile("/bin/sh")
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "sh"), sh, 0o755)
	}
	if err == nil {
		err = os.Chmod(dir, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	c := shell("")
	c.Package = pack(map[string]string{"Scripts/run": "#!" + dir + "/sh\necho '{\"message\": \"done\"}'\n"})
	if got := fails(t, r, c); !strings.Contains(got.Reason, dir+"/sh") || !strings.Contains(got.Reason, "--hook-path") {
		t.Error(got)
	}
	r.Confinement.Paths = []string{dir}
	if got := run(t, r, c); got != "done" {
		t.Error(got)
	}
}
