package hooks_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jibe-vnfm/jibe/hooks"
	"github.com/jibe-vnfm/jibe/hooks/confine"
	"github.com/jibe-vnfm/jibe/test/kit"
	"golang.org/x/sys/unix"
)

// newDelegated is a cgroup that belongs to the user, as systemd's Delegate=yes makes one. Tests skip
// where this machine can have none.
func newDelegated(t *testing.T, user int) (path string) {
	t.Helper()

	if os.Geteuid() != 0 {
		t.Skip("only root can make a cgroup for another user")
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	top := ""
	for line := range strings.Lines(string(mounts)) {
		if f := strings.Fields(line); strings.Contains(line, " - cgroup2 ") && f[3] == "/" {
			top = f[4]
		}
	}
	path = filepath.Join(top, fmt.Sprintf("jibe-test-%09d", time.Now().UnixNano()%1e9))
	if top == "" || os.Mkdir(path, 0o755) != nil {
		t.Skip("no cgroup can be made here")
	}
	t.Cleanup(func() {
		kit.Until(t, "the cgroup is empty", func() bool {
			dirs, _ := filepath.Glob(filepath.Join(path, "*", "cgroup.procs"))
			for _, dir := range dirs {
				_ = unix.Rmdir(filepath.Dir(dir))
			}
			err := unix.Rmdir(path)
			return err == nil || errors.Is(err, unix.ENOENT)
		})
	})
	for _, name := range []string{"", "cgroup.procs", "cgroup.subtree_control"} {
		if err := os.Chown(filepath.Join(path, name), user, user); err != nil {
			t.Fatal(err)
		}
	}

	return path
}

// whileRunning calls f while the hook runs, once it has written a line, and then ends it.
func whileRunning(t *testing.T, r *hooks.Runner, script string, f func(line string)) {
	t.Helper()

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	r.Log = func(_ hooks.Input, _, line string) { f(line); cancel() }
	if _, err := r.Run(ctx, shell(script)); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

func TestARunHasACgroupOfItsOwn(t *testing.T) {
	const envDir, envBare = "JIBE_TEST_CGROUP_IN", "JIBE_TEST_CGROUP_BARE"
	if dir := os.Getenv(envDir); dir != "" { // a Jibe of an ordinary user, to which a cgroup was delegated
		at := os.Getenv(envDir + "_CGROUP")
		r := &hooks.Runner{Dir: filepath.Join(dir, "runs"), Confinement: confinedByItself(), Cgroups: true}
		if how, err := r.Confined(t.Context()); err != nil || !strings.Contains(how, "a cgroup for each run") {
			t.Errorf("%s, %v", how, err)
		}
		if os.Getenv(envBare) != "" {
			hooks.KeepFromNamespaces(r)
		}
		script := `if echo $$ >` + at + `/cgroup.procs; then echo left >&3; else echo stayed >&3; fi 3>&2 2>/dev/null
			(setsid env -i sh -c 'trap "" HUP TERM; sleep 86397.5 & sleep 86397.5' </dev/null >/dev/null 2>&1 &)
			sleep 600`
		whileRunning(t, r, script, func(line string) {
			procs, _ := filepath.Glob(filepath.Join(at, "jibe-hook-run-*", "cgroup.procs"))
			if line != "stayed" || len(procs) != 1 {
				t.Errorf("%s: cgroups %v", line, procs)
				return
			}
			if pids, err := os.ReadFile(procs[0]); err != nil || len(pids) == 0 {
				t.Errorf("processes %q, %v", pids, err)
			}
		})
		own, err := os.ReadFile("/proc/self/cgroup")
		if err != nil || !strings.Contains(string(own), "0::/"+filepath.Base(at)+"/jibe-server\n") {
			t.Errorf("Jibe's own: %s, %v", own, err)
		}
		if left, _ := filepath.Glob(filepath.Join(at, "jibe-hook-*")); len(left) > 0 {
			t.Errorf("%v is left", left)
		}

		return
	}
	if kit.RaceDetector {
		t.Skip("the race detector, which is in the launcher too, takes more memory than a hook is given")
	}

	for _, bare := range []string{"", "1"} {
		const user = 65531
		at := newDelegated(t, user)
		dir := ordinaryDir(t)
		cgroup, err := os.Open(at)
		if err != nil {
			t.Fatal(err)
		}
		defer cgroup.Close()

		cmd := exec.Command(copyOfSelf(t, dir), "-test.run=^"+t.Name()+"$")
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), envDir+"="+dir, envDir+"_CGROUP="+at, envBare+"="+bare, "HOME="+dir, "TMPDIR="+dir)
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: user, Gid: user}, UseCgroupFD: true, CgroupFD: int(cgroup.Fd())}
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("without namespaces %q: %v: %s", bare, err, out)
		}
	}
}

func TestWhatIsLeftInTheCgroupOfARunEnds(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root can make cgroups here")
	}
	c, err := confine.FindCgroups()
	if err != nil {
		t.Skip(err)
	}
	r := newRunner(t)
	r.Cgroups = true
	dir := filepath.Join(r.Dir, "run-"+strconv.FormatInt(time.Now().UnixNano(), 36))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	limits := hooks.UsualLimits()
	cgroup, err := c.Make(filepath.Base(dir), &limits, dir)
	if err != nil {
		t.Fatal(err)
	}
	defer cgroup.Close()

	// What a former Jibe left, which has changed all that would tell whose it is.
	cmd := exec.Command("/bin/sh", "-c", `trap "" TERM HUP; while :; do sleep 1; done`)
	cmd.Env = []string{}
	cmd.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: int(cgroup.Fd()), Setsid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()

	if err := r.Sweep(); err != nil {
		t.Error(err)
	}
	<-ended
	if err := c.Remove(filepath.Base(dir)); err != nil {
		t.Errorf("what isn't there any more: %v", err)
	}
}
