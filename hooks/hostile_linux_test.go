package hooks_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"testing/fstest"
	"time"

	"github.com/jibe-vnfm/jibe/hooks"
	"github.com/jibe-vnfm/jibe/hooks/confine"
	"github.com/jibe-vnfm/jibe/test/kit"
	"github.com/jibe-vnfm/jibe/vnfd"
	"golang.org/x/sys/unix"
)

// hostileGuide has the table of what the hostile package tries and what comes of it, in three
// columns: where Jibe is root, where it is an ordinary user, and where it is one that may make
// no namespaces.
const hostileGuide = "../docs/guide/hooks-confinement.md"

// envHostile makes this test a Jibe of an ordinary user, which writes what came of all attempts
// to the file.
const envHostile = "JIBE_TEST_HOSTILE"

// hostileUsers are whom the hostile package runs as where Jibe is root: no other run, whose processes the kernel
// would count with its own.
const hostileUsers = "1900000200-1900000299"

// attacked is a Jibe on whose machine the hostile package runs.
type attacked struct {
	*testing.T
	runner *hooks.Runner
	victim victim
	files  fstest.MapFS
	// besides is closed when the run beside the hostile one has ended.
	besides <-chan struct{}
}

func newAttacked(t *testing.T) *attacked {
	t.Helper()
	dir, err := os.MkdirTemp("", "jibe-hostile-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o711); err != nil {
		t.Fatal(err)
	}
	a := &attacked{T: t, runner: &hooks.Runner{Dir: filepath.Join(dir, "runs"), Confinement: confinedByItself(), User: hostileUsers}}
	a.runner.Confinement.Limits = confine.Limits{Memory: 256 << 20, Scratch: 64 << 20, Processes: 64, Files: 256, Entries: 2000}
	a.victim = victim{Data: filepath.Join(dir, "data"), Runs: a.runner.Dir, Jibe: os.Getpid()}
	for name, text := range map[string]string{
		"identity.age": "key", "tokens.yaml": "token", "secrets/password": "password", "store.db": "store", "desired.git/HEAD": "ref: refs/heads/main",
	} {
		path := filepath.Join(a.victim.Data, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	if err := a.runner.Confinement.Check(); err != nil {
		t.Fatal(err)
	}
	listen := func(network, address string) {
		l, err := net.Listen(network, address)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { l.Close() })
		if at, ok := l.Addr().(*net.TCPAddr); ok {
			a.victim.Port = at.Port
		}
	}
	a.victim.Abstract = fmt.Sprintf("jibe-hostile-%09d", time.Now().UnixNano()%1e9)
	listen("unix", filepath.Join(a.victim.Data, "hook.sock"))
	listen("unix", "@"+a.victim.Abstract)
	listen("tcp", "127.0.0.1:0")
	a.share(dir)
	self, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	a.files = fstest.MapFS{"Scripts/" + hostileName: {Data: self, Mode: 0o755}}
	return a
}

// share makes what processes of the machine share without a file of Jibe's.
func (a *attacked) share(dir string) {
	a.Helper()

	a.victim.Log = filepath.Join(dir, "log.sock")
	log, err := net.ListenPacket("unixgram", a.victim.Log)
	if err == nil {
		a.Cleanup(func() { log.Close() })
		err = os.Chmod(a.victim.Log, 0o777)
	}
	if err != nil {
		a.Fatal(err)
	}

	a.victim.Segment, err = unix.SysvShmGet(unix.IPC_PRIVATE, 4096, unix.IPC_CREAT|0o666)
	if err != nil {
		a.Fatal(err)
	}
	a.Cleanup(func() { _, _ = unix.SysvShmCtl(a.victim.Segment, unix.IPC_RMID, nil) })

	a.victim.Queue = a.victim.Abstract
	fd, _, errno := unix.Syscall6(unix.SYS_MQ_OPEN, pointer(a.victim.Queue), unix.O_CREAT|unix.O_RDWR|unix.O_CLOEXEC, 0o600, 0, 0, 0)
	if errno != 0 {
		a.Fatal(errno)
	}
	a.Cleanup(func() {
		_ = unix.Close(int(fd))
		_, _, _ = unix.Syscall(unix.SYS_MQ_UNLINK, pointer(a.victim.Queue), 0, 0)
	})
}

// run runs the hostile package.
func (a *attacked) run(hook string, timeout time.Duration) (hooks.Output, error) {
	a.Helper()
	var params map[string]any
	data, err := json.Marshal(a.victim)
	if err == nil {
		err = json.Unmarshal(data, &params)
	}
	if err != nil {
		a.Fatal(err)
	}
	return a.runner.Run(a.Context(), hooks.Call{
		Package: &vnfd.Package{Tree: "hostile", Files: a.files}, Path: "Scripts/" + hostileName,
		Input: hooks.Input{Hook: hook, Params: params}, Timeout: timeout,
	})
}

// beside has another run under way, of which the hostile one knows where it is.
func (a *attacked) beside() {
	a.Helper()
	at := make(chan string, 1)
	c := shell("exec sleep 3600")
	c.Timeout = time.Hour // it ends with the test, however slow the machine is
	c.Package.Files.(fstest.MapFS)["secret"] = &fstest.MapFile{Data: []byte("x")}
	c.Files = map[string][]byte{"KUBECONFIG": []byte("x")}
	c.Started = func(p hooks.Process) error { at <- p.Dir; return nil }
	ctx, done := a.Context(), make(chan struct{})
	go func() { defer close(done); _, _ = a.runner.Run(ctx, c) }()
	a.Cleanup(func() { <-done })
	a.besides = done
	select {
	case a.victim.Other = <-at:
	case <-done:
		a.Fatal("the other run has ended")
	}
}

// attempted is what came of what the hostile package tries in one run.
func (a *attacked) attempted() map[string]string {
	a.Helper()
	a.beside()
	out, err := a.run("instantiate_start", time.Minute)
	if err != nil {
		a.Fatal(err)
	}
	var got map[string]string
	if err := json.Unmarshal(out.HandOver, &got); err != nil {
		a.Fatal(err)
	}
	store, err := os.ReadFile(filepath.Join(a.victim.Data, "store.db"))
	info, statErr := os.Stat(a.victim.Data)
	if err != nil || statErr != nil || string(store) != "store" || info.Mode().Perm() != 0o700 {
		a.Errorf("the data directory isn't what it was: %q %v %v %v", store, info, err, statErr)
	}

	return got
}

// outcomes are what came of all that the hostile package tries.
func (a *attacked) outcomes() map[string]string {
	a.Helper()
	got := a.attempted()
	for hook, tries := range bombRows {
		got[tries] = a.bomb(hook)
	}
	select {
	case <-a.besides:
		a.Error("another run was ended")
	default:
	}
	got["leave a process that outlives it"] = a.left("outlive", time.Minute)
	got["be deaf to its end when its time is up"] = a.left("deaf", 500*time.Millisecond)
	return got
}

// bombRows are what the hostile program tries in runs of their own.
var bombRows = map[string]string{
	"bomb_processes": "start processes without end", "bomb_memory": "take all memory", "bomb_disk": "fill the disk",
	"bomb_hidden_disk": "fill the disk with files that have no name", "bomb_files": "make files without end",
	"bomb_file": "make one file larger than the disk", "bomb_output": "write output without end",
	"bomb_deep": "hide files deeper than a path can name", "bomb_sockets": "fill the kernel's memory by sockets",
	"bomb_descriptors":  "open files without end, in many processes",
	"bomb_first_thread": "take memory when its first thread has ended", "bomb_unseen": "fill the disk where the watch may not look",
}

// bombReasons are those for which runs are ended that get past a simpler watch.
var bombReasons = map[string]string{
	"bomb_deep": "it can't be watched: it has directories deeper than a path can name", "bomb_sockets": "its processes use more than",
	"bomb_descriptors": "it has more than 2048 files open", "bomb_first_thread": "its processes use more than",
}

// bomb is what came of a run that uses more than it may.
func (a *attacked) bomb(hook string) string {
	a.Helper()
	_, err := a.run(hook, 2*time.Minute)
	var failed *hooks.FailedError
	switch {
	case !errors.As(err, &failed):
		return "DONE"
	case strings.HasPrefix(failed.Reason, "not done within"), strings.HasPrefix(failed.Reason, "its launcher"):
		return failed.Reason
	case hook == "bomb_file" && strings.Contains(failed.Stderr, "file too large"):
		return "file too large"
	case hook == "bomb_output" && strings.HasPrefix(failed.Reason, "wrote more than"):
		return "it is ended"
	case bombReasons[hook] != "":
		if strings.HasPrefix(failed.Reason, bombReasons[hook]) {
			return "it is ended"
		}
		return failed.Error()
	}
	for _, exceeded := range []string{"its processes use more than", "it has more than", "its files have more than", "it can't be watched"} {
		if strings.HasPrefix(failed.Reason, exceeded) {
			return "refused, or it is ended"
		}
	}
	for _, refused := range []string{"resource temporarily unavailable", "out of memory", "cannot allocate memory"} {
		if strings.Contains(failed.Stderr, refused) {
			return "refused, or it is ended"
		}
	}
	return failed.Error()
}

// order are the outcomes in the order of the table.
func order(outcomes map[string]string) []string {
	var list []string
	for _, a := range attempts {
		list = append(list, a.tries)
	}
	return append(list, slices.Sorted(maps.Keys(mapsWithout(outcomes, list)))...)
}

func mapsWithout(m map[string]string, keys []string) map[string]string {
	m = maps.Clone(m)
	for _, key := range keys {
		delete(m, key)
	}
	return m
}

// left says whether the hook leaves a process.
func (a *attacked) left(hook string, timeout time.Duration) string {
	a.Helper()
	_, err := a.run(hook, timeout)
	if hook == "deaf" && (err == nil || !strings.Contains(err.Error(), "not done within")) {
		a.Errorf("%s: %v", hook, err)
	}
	names, _ := filepath.Glob("/proc/[1-9]*/cmdline")
	for _, name := range names {
		if text, err := os.ReadFile(name); err == nil && strings.Contains(string(text), "86399."+a.victim.Abstract[len(a.victim.Abstract)-9:]) && !strings.Contains(string(text), "jibe-hostile") {
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(name)))
			_ = syscall.Kill(pid, syscall.SIGKILL)
			return "DONE"
		}
	}
	return "it ends"
}

// ordinaryDir is a directory that other users may write to.
func ordinaryDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "jibe-ordinary-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}

	return dir
}

// copyOfSelf is a copy of this test program that other users may run.
func copyOfSelf(t *testing.T, dir string) string {
	t.Helper()
	self := filepath.Join(dir, "jibe.test")
	from, err := os.Open("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	defer from.Close()
	// No process that is forked meanwhile may hold it open for writing.
	syscall.ForkLock.RLock()
	to, err := os.OpenFile(self, os.O_CREATE|os.O_WRONLY, 0o755)
	if err == nil {
		_, err = io.Copy(to, from)
		err = errors.Join(err, to.Close())
	}
	syscall.ForkLock.RUnlock()
	if err := errors.Join(err, os.Chmod(self, 0o755)); err != nil {
		t.Fatal(err)
	}

	return self
}

// ordinary are the outcomes where Jibe is an ordinary user: this test is run again as one. all is "" where
// the runs that use up what they may are left out.
func ordinary(t *testing.T, how, all string) map[string]string {
	t.Helper()
	dir := ordinaryDir(t)
	self := copyOfSelf(t, dir)
	out := filepath.Join(dir, "outcomes")
	cmd := exec.Command(self, "-test.run=^TestAHostilePackageDoesNoHarm$")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), envHostile+"="+out, envHostile+"_HOW="+how, envHostile+"_ALL="+all, "HOME="+dir, "TMPDIR="+dir)
	if os.Geteuid() == 0 {
		// One user for each: the kernel counts the processes of a user, not of a test.
		user := uint32(65533)
		if how == "bare" {
			user = 65532
		}
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: user, Gid: user}}
	}
	if text, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v: %s", how, err, text)
	}
	data, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	var got map[string]string
	if err := json.Unmarshal(data, &got); err != nil {
		t.Fatal(err)
	}
	return got
}

func TestAHostilePackageDoesNoHarm(t *testing.T) {
	if out := os.Getenv(envHostile); out != "" {
		a := newAttacked(t)
		if os.Getenv(envHostile+"_HOW") == "bare" {
			hooks.WithoutNamespaces(a.runner, 7)
		}
		got := a.attempted
		if os.Getenv(envHostile+"_ALL") != "" {
			got = a.outcomes
		}
		data, err := json.Marshal(got())
		if err == nil {
			err = os.WriteFile(out, data, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
		return
	}
	if kit.RaceDetector {
		t.Skip("the race detector, which is in the launcher too, takes more memory than a hook is given")
	}
	if os.Geteuid() != 0 {
		t.Skip("its table has what comes of it where Jibe is root, too")
	}
	guide, err := os.ReadFile(hostileGuide)
	if err != nil {
		t.Fatal(err)
	}
	if kit.Quick(t) { // all but the runs that use up what they may, where most and least holds them
		a := newAttacked(t)
		root, bare := a.attempted(), ordinary(t, "bare", "")
		for tries, outcome := range bare {
			row := regexp.MustCompile(`\n\| ` + regexp.QuoteMeta(tries+" | "+root[tries]) + ` \| [^|\n]+ \| ` + regexp.QuoteMeta(outcome) + ` \|\n`)
			if root[tries] == "DONE" || outcome == "DONE" || !row.Match(guide) {
				t.Errorf("%s has no row of %s: %s as root, %s without namespaces", hostileGuide, tries, root[tries], outcome)
			}
		}
		bombs := map[string]string{"leave a process that outlives it": a.left("outlive", time.Minute)}
		for _, hook := range []string{"bomb_file", "bomb_files", "bomb_descriptors", "bomb_sockets"} {
			bombs[bombRows[hook]] = a.bomb(hook)
		}
		for tries, outcome := range bombs {
			if !strings.Contains(string(guide), fmt.Sprintf("\n| %s | %s | ", tries, outcome)) {
				t.Errorf("%s has no row of %s: %s", hostileGuide, tries, outcome)
			}
		}

		return
	}

	var root, user, bare map[string]string
	t.Run("together", func(t *testing.T) {
		for name, f := range map[string]func(t *testing.T){
			"root":               func(t *testing.T) { root = newAttacked(t).outcomes() },
			"ordinary user":      func(t *testing.T) { user = ordinary(t, "namespaces", "all") },
			"without namespaces": func(t *testing.T) { bare = ordinary(t, "bare", "all") },
		} {
			t.Run(name, func(t *testing.T) { t.Parallel(); f(t) })
		}
	})
	var rows []string
	for _, tries := range order(root) {
		rows = append(rows, fmt.Sprintf("| %s | %s | %s | %s |", tries, root[tries], user[tries], bare[tries]))
	}
	table := strings.Join(rows, "\n")
	if strings.Contains(table, "DONE") {
		t.Error("something could be done")
	}
	if !strings.Contains(string(guide), "\n"+table+"\n\n") {
		t.Errorf("%s hasn't this table:\n%s", hostileGuide, table)
	}
}
