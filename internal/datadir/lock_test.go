package datadir

import (
	"errors"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// held has another process lock the directory, as a child that a killed server was just
// starting would, and names process in the lock.
func held(t *testing.T, process string) (dir string, end func()) {
	t.Helper()
	dir = t.TempDir()
	lock := filepath.Join(dir, "lock")
	if err := os.WriteFile(lock, []byte(process+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("flock", lock, "sh", "-c", "echo held; read end")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := out.Read(make([]byte, 4)); err != nil {
		t.Fatal(err)
	}
	return dir, func() {
		in.Close()
		_ = cmd.Wait() // its read ends without a line
	}
}

func TestTheLockOfADeadServerIsWaitedFor(t *testing.T) {
	dead := exec.Command("true")
	if err := dead.Run(); err != nil {
		t.Fatal(err)
	}
	dir, end := held(t, strconv.Itoa(dead.Process.Pid))
	done := make(chan error)
	go func() {
		d, err := Open(dir, slog.New(slog.DiscardHandler))
		if err == nil {
			err = d.Close()
		}
		done <- err
	}()
	end()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestTheLockOfALivingServerIsRefusedNamingIt(t *testing.T) {
	me := strconv.Itoa(os.Getpid())
	dir, end := held(t, me)
	defer end()
	if _, err := Open(dir, slog.New(slog.DiscardHandler)); err == nil || !strings.Contains(err.Error(), "process "+me) {
		t.Errorf("Open = %v", err)
	}
}

func TestTheLockOfAServerThatIsAZombieIsWaitedFor(t *testing.T) {
	dead := exec.Command("true")
	if err := dead.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = dead.Wait() }() // until then it is a zombie, as under a shell that hasn't looked
	for alive(dead.Process.Pid) {
		runtime.Gosched()
	}
	dir, end := held(t, strconv.Itoa(dead.Process.Pid))
	done := make(chan error)
	go func() {
		d, err := Open(dir, slog.New(slog.DiscardHandler))
		if err == nil {
			err = d.Close()
		}
		done <- err
	}()
	end()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestAnAddressIsWaitedForOnlyAfterAnEndWithoutOrder(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	address := l.Addr().String()
	log := slog.New(slog.DiscardHandler)
	dir := t.TempDir()
	d, err := Open(dir, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.Listen(address, log); !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("listen = %v", err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	if d, err = Open(dir, slog.New(slog.DiscardHandler)); err != nil || d.crashed {
		t.Fatalf("after an end in order, crashed is %v (%v)", d.crashed, err)
	}
	if err := d.lock.Close(); err != nil { // as a kill does
		t.Fatal(err)
	}
	if d, err = Open(dir, slog.New(slog.DiscardHandler)); err != nil || !d.crashed {
		t.Fatalf("after an end without order, crashed is %v (%v)", d.crashed, err)
	}
	defer d.Close()
	waiting := make(chan struct{})
	seen := slog.New(slog.NewTextHandler(closer{waiting}, nil))
	got := make(chan error)
	go func() {
		l, err := d.Listen(address, seen)
		if err == nil {
			err = l.Close()
		}
		got <- err
	}()
	<-waiting
	l.Close()
	if err := <-got; err != nil {
		t.Errorf("the address that became free isn't taken: %v", err)
	}
}

// closer closes a channel at the first thing that is written.
type closer struct{ c chan struct{} }

func (c closer) Write(p []byte) (int, error) {
	close(c.c)
	return len(p), nil
}

func TestTwoProcessesNeverShareADataDirectory(t *testing.T) {
	dir := t.TempDir()
	first, err := Open(dir, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Open(dir, slog.New(slog.DiscardHandler)); err == nil {
		t.Fatal("the second was let in")
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	again, err := Open(dir, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatalf("after the first has ended: %v", err)
	}
	_ = again.Close()
}
