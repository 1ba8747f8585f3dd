package confine

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

func TestTheCgroupOfAProcessIsFound(t *testing.T) {
	t.Parallel()
	const (
		service   = "29 23 0:26 / /sys/fs/cgroup rw,nosuid,nodev,noexec,relatime shared:9 - cgroup2 cgroup2 rw,nsdelegate\n"
		hybrid    = "30 29 0:27 / /sys/fs/cgroup/memory rw shared:10 - cgroup cgroup rw,memory\n31 29 0:28 / /sys/fs/cgroup/unified rw shared:11 - cgroup2 cgroup2 rw\n"
		container = "612 600 0:26 /kubepods/pod1 /sys/fs/cgroup ro - cgroup2 cgroup rw\n"
	)
	for name, x := range map[string]struct{ own, mounts, want string }{
		"service":            {"0::/system.slice/jibe.service\n", service, "/sys/fs/cgroup/system.slice/jibe.service"},
		"machine's":          {"0::/\n", service, "/sys/fs/cgroup"},
		"both versions":      {"4:memory:/x\n0::/y\n", hybrid, "/sys/fs/cgroup/unified/y"},
		"container's":        {"0::/kubepods/pod1/jibe\n", container, "/sys/fs/cgroup/jibe"},
		"namespace's":        {"0::/\n", strings.Replace(service, " / ", " /.. ", 1), ""},
		"beside it":          {"0::/../x\n", strings.Replace(service, " / ", " /.. ", 1), "/sys/fs/cgroup/x"},
		"out of a mount":     {"0::/../x\n", service, ""},
		"another's name":     {"0::/kubepods/pod10\n", container, ""},
		"outside of a mount": {"0::/kubepods/pod2\n", container, ""},
		"older version":      {"4:memory:/x\n", hybrid, ""},
		"not mounted":        {"0::/\n", "", ""},
	} {
		got, err := cgroupDir([]byte(x.own), []byte(x.mounts))
		if got != x.want || (err == nil) != (x.want != "") {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
}

func TestARunsCgroupHasItsLimits(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, name := range []string{"memory.max", "memory.oom.group", "pids.max", "cpu.weight"} { // there is no swap
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}

	c := &Cgroups{Controllers: []string{"memory", "pids"}}
	if err := c.bound(dir, 1<<20, 64); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"memory.max": "1048576", "memory.oom.group": "1", "pids.max": "64", "cpu.weight": ""} {
		if got, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(got) != want {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}

	if err := os.Remove(filepath.Join(dir, "pids.max")); err != nil {
		t.Fatal(err)
	}
	if err := c.bound(dir, 1<<20, 64); err == nil {
		t.Error("a limit that can't be written is left out")
	}
}

func TestARunThatTheKernelEndsForItsMemoryIsKnown(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		"low 0\nhigh 0\nmax 12\noom 1\noom_kill 1\noom_group_kill 1\n": true,
		"low 0\nhigh 0\nmax 12\noom 0\noom_kill 0\noom_group_kill 0\n": false,
		"": false,
	} {
		path := t.TempDir()
		if err := os.WriteFile(filepath.Join(path, "memory.events"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		dir, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		if got := (&cgroup{dir}).outOfMemory(); got != want {
			t.Errorf("%q: %v", text, got)
		}
		_ = dir.Close()
	}
	if (*cgroup)(nil).outOfMemory() {
		t.Error("without a cgroup")
	}
}

func TestTheKernelEndsWhatExceedsTheMemoryOfItsCgroup(t *testing.T) {
	t.Parallel()
	const env = "JIBE_TEST_MEMORY_HOG"
	if os.Getenv(env) != "" {
		for range 32 { // 256 MiB of the 64 that there are
			b := make([]byte, 8<<20)
			for i := range b {
				b[i] = 1
			}
			hoard = append(hoard, b)
		}

		return
	}

	c, err := FindCgroups()
	if err == nil {
		err = c.Prepare()
	}
	if err != nil {
		t.Skip(err)
	}
	if !slices.Contains(c.Controllers, "memory") {
		t.Skip("this machine's cgroups of version 2 have no memory")
	}
	dir := t.TempDir()
	at, err := c.Make(filepath.Base(dir), &Limits{Memory: 64 << 20, Processes: 64}, "/proc")
	if err != nil {
		t.Fatal(err)
	}
	defer at.Close()

	cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$")
	cmd.Env = append(os.Environ(), env+"=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: int(at.Fd())}
	out, err := cmd.CombinedOutput()
	if how, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); err == nil || !ok || how.Signal() != syscall.SIGKILL {
		t.Errorf("it ended with %v: %s", err, out)
	}
	if !(&cgroup{at}).outOfMemory() {
		t.Error("why isn't known")
	}
	if err := c.Remove(filepath.Base(dir)); err != nil {
		t.Error(err)
	}
}

// hoard keeps the memory of a hog.
var hoard [][]byte
