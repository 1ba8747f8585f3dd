package confine

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Names of cgroups below that of Jibe: its own processes are in serverCgroup, as processes and limits
// of others can't be in one cgroup, and each run is in one that begins with runCgroup.
const (
	serverCgroup = "jibe-server"
	runCgroup    = "jibe-hook-"
)

// controllers are those that bound runs, where the cgroup has them.
var controllers = []string{"memory", "pids", "cpu"}

// runWeight is the share of the processor that a run has beside Jibe's 100, where it is short.
const runWeight = "33"

// Cgroups makes a cgroup (cgroups(7), version 2) for each run: the kernel itself then counts what the
// run uses, the kernel's own memory too, and ends all of its processes at once.
type Cgroups struct {
	dir string // of Jibe's cgroup, below which those of runs are
	top bool   // it is the machine's, in which processes may stay
	// Controllers are those that bound runs.
	Controllers []string
}

// FindCgroups returns the cgroups that this process may make, and changes nothing. The error says why it
// may make none.
func FindCgroups() (*Cgroups, error) {
	own, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return nil, err
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	dir, err := cgroupDir(own, mounts)
	if err != nil {
		return nil, err
	}
	has := "cgroup.controllers"
	if filepath.Base(dir) == serverCgroup { // Prepare has been here
		dir, has = filepath.Dir(dir), "cgroup.subtree_control"
	}

	c := &Cgroups{dir: dir}
	if _, err := os.Stat(filepath.Join(dir, "cgroup.type")); errors.Is(err, fs.ErrNotExist) {
		c.top = true
	}
	for _, name := range []string{"", "cgroup.procs"} {
		if err := unix.Access(filepath.Join(dir, name), unix.W_OK); err != nil {
			return nil, fmt.Errorf("its cgroup isn't its own to change (Delegate=yes of systemd makes it so): %w", err)
		}
	}
	if os.Geteuid() == 0 && !c.top && !delegated(dir, own) {
		return nil, errors.New("its cgroup belongs to systemd, or whatever else made it (Delegate=yes of systemd gives it away)")
	}
	return c, c.readControllers(has)
}

// cgroupDir is where the cgroup of version 2 that /proc/self/cgroup names is mounted, by
// /proc/self/mountinfo.
func cgroupDir(own, mounts []byte) (string, error) {
	path := ""
	for line := range bytes.Lines(own) {
		if rest, ok := strings.CutPrefix(string(line), "0::"); ok {
			path = strings.TrimSuffix(rest, "\n")
		}
	}
	if path == "" {
		return "", errors.New("there are no cgroups of version 2")
	}
	for line := range bytes.Lines(mounts) {
		at, what, _ := strings.Cut(string(line), " - ")
		f := strings.Fields(at)
		if !strings.HasPrefix(what, "cgroup2 ") || len(f) < 5 {
			continue
		}
		if rel, ok := below(f[3], path); ok {
			return filepath.Join(f[4], rel), nil
		}
	}
	return "", errors.New("its cgroup isn't mounted")
}

// below is the path from the root of a mount to the cgroup, which must be below it. Both may begin with
// "/..", which stands for the parent of a namespace's own root: what follows it is compared as text.
func below(root, path string) (rel string, ok bool) {
	rel, ok = strings.CutPrefix(path, strings.TrimSuffix(root, "/"))
	if !ok || rel != "" && rel[0] != '/' {
		return "", false
	}
	rel = strings.TrimPrefix(rel, "/")
	return rel, rel == "" || filepath.IsLocal(rel)
}

// delegated reports whether the cgroup was given to this process by what made it: by the mark of
// systemd, or as it is the root of a container's.
func delegated(dir string, own []byte) bool {
	if bytes.Contains(own, []byte("0::/\n")) || bytes.Contains(own, []byte("0::/"+serverCgroup+"\n")) {
		return true
	}
	mark := make([]byte, 8)
	for _, name := range []string{"user.delegate", "trusted.delegate"} {
		if n, err := unix.Getxattr(dir, name, mark); err == nil && string(mark[:n]) == "1" {
			return true
		}
	}
	return false
}

// readControllers reads from the file which of the controllers runs can have.
func (c *Cgroups) readControllers(file string) error {
	has, err := os.ReadFile(filepath.Join(c.dir, file))
	if err != nil {
		return err
	}
	for _, name := range controllers {
		if slices.Contains(strings.Fields(string(has)), name) {
			c.Controllers = append(c.Controllers, name)
		}
	}
	return nil
}

// Prepare moves this process, and those that it started, into a cgroup of their own, and lets the
// controllers bound those of runs. Controllers that can't are left out.
func (c *Cgroups) Prepare() error {
	if !c.top {
		if err := c.settle(); err != nil {
			return fmt.Errorf("make room for cgroups of runs: %w", err)
		}
	}

	var on []string
	for _, name := range c.Controllers {
		if err := writeFile(filepath.Join(c.dir, "cgroup.subtree_control"), "+"+name); err == nil {
			on = append(on, name)
		}
	}
	c.Controllers = on
	if c.top || !slices.Contains(on, "memory") {
		return nil
	}
	return c.keepMemory()
}

// keepMemory writes the limit on memory that Jibe's cgroup has to the one that this process is in now:
// Jibe sizes its heap by that.
func (c *Cgroups) keepMemory() error {
	most, err := os.ReadFile(filepath.Join(c.dir, "memory.max"))
	if err != nil {
		return err
	}
	return writeFile(filepath.Join(c.dir, serverCgroup, "memory.max"), strings.TrimSpace(string(most)))
}

// settle moves this process and its descendants from the cgroup into serverCgroup.
func (c *Cgroups) settle() error {
	to := filepath.Join(c.dir, serverCgroup)
	if err := os.Mkdir(to, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	pids, err := os.ReadFile(filepath.Join(c.dir, "cgroup.procs"))
	if err != nil {
		return err
	}
	all, err := everyProcess()
	if err != nil {
		return err
	}

	self := os.Getpid()
	for text := range strings.FieldsSeq(string(pids)) {
		pid, err := strconv.Atoi(text)
		if err != nil || pid != self && !descends(all, all[pid], self) {
			continue // another's, which keeps the controllers from runs
		}
		if err := writeFile(filepath.Join(to, "cgroup.procs"), text); err != nil && !errors.Is(err, unix.ESRCH) {
			return err
		}
	}
	return nil
}

// Make makes the cgroup of the run with the name, which l bounds: what it writes to dir, the run's
// scratch folder, is memory too where that is kept in memory. The file is its directory, for the
// launcher.
func (c *Cgroups) Make(name string, l *Limits, dir string) (*os.File, error) {
	path := filepath.Join(c.dir, runCgroup+name)
	if err := os.Mkdir(path, 0o755); err != nil {
		return nil, fmt.Errorf("make a cgroup for the run: %w", err)
	}
	memory := l.Memory
	var disk unix.Statfs_t
	if err := unix.Statfs(dir, &disk); err == nil && disk.Type == unix.TMPFS_MAGIC {
		memory += l.Scratch
	}
	f, err := os.Open(path)
	if err == nil {
		err = c.bound(path, memory, l.Processes)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("bound the cgroup of the run: %w", err), c.Remove(name))
	}
	return f, nil
}

// bound writes the limits of a run.
func (c *Cgroups) bound(path string, memory, processes uint64) error {
	for _, x := range []struct{ controller, file, value string }{
		{"memory", "memory.max", strconv.FormatUint(memory, 10)},
		{"memory", "memory.swap.max", "0"},
		{"memory", "memory.oom.group", "1"},
		{"pids", "pids.max", strconv.FormatUint(processes, 10)},
		{"cpu", "cpu.weight", runWeight},
	} {
		if !slices.Contains(c.Controllers, x.controller) {
			continue
		}
		err := writeFile(filepath.Join(path, x.file), x.value)
		if errors.Is(err, fs.ErrNotExist) && x.file == "memory.swap.max" {
			continue // there is no swap
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// writeFile writes to a file that is there.
func writeFile(path, text string) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}

// Remove ends what is left in the cgroup of the run, and removes it. That there is none is no error.
func (c *Cgroups) Remove(name string) error {
	path := filepath.Join(c.dir, runCgroup+name)
	for until := time.Now().Add(endPatience); ; time.Sleep(5 * time.Millisecond) {
		// Where the kernel has no such file, the launcher has ended the run's processes.
		_ = writeFile(filepath.Join(path, "cgroup.kill"), "1")
		err := unix.Rmdir(path)
		if err == nil || errors.Is(err, unix.ENOENT) {
			return nil
		}
		if !errors.Is(err, unix.EBUSY) || time.Now().After(until) {
			return &fs.PathError{Op: "remove", Path: path, Err: err}
		}
	}
}

// cgroup is that of one run, as its launcher has it; nil is none.
type cgroup struct{ dir *os.File }

// open opens a file of it. The mount of the directory is that of the process that started the launcher, so
// that what the launcher has mounted since is of no matter.
func (g *cgroup) open(name string, flags int) (*os.File, error) {
	fd, err := unix.Openat(int(g.dir.Fd()), name, flags|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	return os.NewFile(uintptr(fd), name), nil
}

func (g *cgroup) write(name, text string) error {
	f, err := g.open(name, unix.O_WRONLY)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}

// enter moves the process into it.
func (g *cgroup) enter(pid int) error {
	if g == nil {
		return nil
	}
	if err := g.write("cgroup.procs", strconv.Itoa(pid)); err != nil {
		return fmt.Errorf("move the run into its cgroup: %w", err)
	}
	return nil
}

// kill kills all that is in it, at once.
func (g *cgroup) kill() {
	if g != nil {
		_ = g.write("cgroup.kill", "1") // the kernel may be older; killAll does it one by one then
	}
}

// outOfMemory reports whether the kernel has killed something in it for the memory that it used.
func (g *cgroup) outOfMemory() bool {
	if g == nil {
		return false
	}
	f, err := g.open("memory.events", unix.O_RDONLY)
	if err != nil {
		return false // memory isn't bounded by it
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if n, ok := strings.CutPrefix(lines.Text(), "oom_kill "); ok && n != "0" {
			return true
		}
	}
	return false
}
