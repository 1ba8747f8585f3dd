package app

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// held locks the directory's lock in a program of its own, as what a killed server
// was just starting would, and names process in it.
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
		d, err := OpenData(dir)
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
	if _, err := OpenData(dir); err == nil || !strings.Contains(err.Error(), "process "+me) {
		t.Errorf("OpenData = %v", err)
	}
}
