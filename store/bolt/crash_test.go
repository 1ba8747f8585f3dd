package bolt_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/jibe-vnfm/jibe/store"
	"github.com/jibe-vnfm/jibe/store/bolt"
)

// The environment that makes the test binary a child with a part to play.
const (
	childPart = "JIBE_STORE_CHILD"
	childPath = "JIBE_STORE_PATH"
)

func TestMain(m *testing.M) {
	path := os.Getenv(childPath)
	switch os.Getenv(childPart) {
	case "write":
		writeUntilKilled(path)
	case "compact":
		compactUntilKilled(path)
	case "compact-full":
		compactOnAFullDisk(path)
	case "full":
		fillTheDisk(path)
	default:
		os.Exit(m.Run())
	}
}

func child(t *testing.T, part, path string) *exec.Cmd {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), exe)
	cmd.Env = append(os.Environ(), childPart+"="+part, childPath+"="+path)
	cmd.Stderr = os.Stderr
	return cmd
}

// writeUntilKilled writes from several goroutines and prints each number once
// its Put has returned.
func writeUntilKilled(path string) {
	s, err := bolt.Open(path)
	if err != nil {
		fmt.Println("error", err)
		os.Exit(1)
	}
	numbers := make(chan int)
	for range 8 {
		go func() {
			for i := range numbers {
				a := store.Record{Key: fmt.Sprintf("a/x%d", i), Value: make([]byte, 500)}
				b := store.Record{Key: fmt.Sprintf("b/x%d", i), Value: make([]byte, 500)}
				if _, err := s.Put(context.Background(), a, b); err != nil {
					fmt.Println("error", err)
					os.Exit(1)
				}
				fmt.Println(i)
			}
		}()
	}
	for i := 0; ; i++ {
		numbers <- i
	}
}

func TestAnAnsweredWriteOutlivesAKill(t *testing.T) {
	path := filepath.Join(t.TempDir(), "jibe.db")
	for _, after := range []int{1, 40, 300} {
		if err := os.RemoveAll(path); err != nil {
			t.Fatal(err)
		}
		cmd := child(t, "write", path)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		var answered []string
		lines := bufio.NewScanner(out)
		for lines.Scan() {
			answered = append(answered, lines.Text())
			if len(answered) == after {
				if err := cmd.Process.Kill(); err != nil {
					t.Fatal(err)
				}
			}
		}
		_ = cmd.Wait() // it was killed
		if len(answered) < after {
			t.Fatalf("the child ended by itself after %q", answered)
		}
		s := open(t, path)
		for _, i := range answered {
			if _, err := s.Get(t.Context(), "a/x"+i); err != nil {
				t.Errorf("what was answered is lost: %v", err)
			}
		}
		a, err := s.List(t.Context(), "a/", "", 0)
		if err != nil {
			t.Fatal(err)
		}
		b, err := s.List(t.Context(), "b/", "", 0)
		if err != nil || len(a) != len(b) {
			t.Errorf("half a Put: %d and %d records, %v", len(a), len(b), err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// fillTheDisk stands for a full disk by a limit on the size of files, writes until
// that is met, and then says what is left.
func fillTheDisk(path string) {
	signal.Ignore(syscall.SIGXFSZ)
	s, err := bolt.Open(path)
	if err != nil {
		fmt.Println("open:", err)
		os.Exit(1)
	}
	var was syscall.Rlimit
	if err := errors.Join(syscall.Getrlimit(syscall.RLIMIT_FSIZE, &was),
		syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: 4 << 20, Max: was.Max})); err != nil {
		fmt.Println("limit:", err)
		os.Exit(1)
	}
	n := 0
	for ; ; n++ {
		_, err = s.Put(context.Background(), store.Record{Key: fmt.Sprintf("a/x%d", n), Value: make([]byte, 100_000)}, store.Record{Key: "log/"})
		if err != nil {
			break
		}
	}
	fmt.Println("error:", err)
	_, last := s.LastWrite()
	fmt.Println("known:", last != nil, s.Probe(context.Background(), 1<<20) != nil)
	a, errA := s.List(context.Background(), "a/", "", 0)
	log, errLog := s.List(context.Background(), "log/", "", 0)
	fmt.Println("kept:", len(a) == n && len(log) == n && n > 0, errA, errLog)
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &was); err != nil {
		fmt.Println("limit:", err)
	}
	_, last = s.LastWrite()
	fmt.Println("still known:", last != nil)
	err = s.Probe(context.Background(), 1<<20)
	_, last = s.LastWrite()
	fmt.Println("known to be over:", err, last)
	out, err := s.Put(context.Background(), store.Record{Key: "after", Value: make([]byte, 100_000)}, store.Record{Key: "log/"})
	fmt.Println("with room again:", err)
	fmt.Println("number:", err == nil && out[1].Key == fmt.Sprintf("log/%020d", n+1))
	fmt.Println("close:", s.Close())
}

func TestAFullDiskIsAClearErrorAndNothingIsHalfWritten(t *testing.T) {
	path := filepath.Join(t.TempDir(), "jibe.db")
	text, err := child(t, "full", path).Output()
	if err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	for _, want := range []string{"error: put \"a/x", "disk is full", "nothing was written", filepath.Dir(path),
		"known: true true", "still known: true", "known to be over: <nil> <nil>", "kept: true <nil> <nil>", "with room again: <nil>", "number: true", "close: <nil>"} {
		if !strings.Contains(string(text), want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	s := open(t, path)
	if _, err := s.Get(t.Context(), "after"); err != nil {
		t.Error(err)
	}
}
