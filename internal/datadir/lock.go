package datadir

import (
	"errors"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// EndPatience is how long to wait for the files and addresses of a process that was
// killed: it holds them until the last of its threads has ended, and a child that it was
// just starting holds them until it runs.
const EndPatience = 10 * time.Second

// lock takes the lock. It waits where the holder is dead or dying, and not where the holder
// lives.
func lock(f *os.File, log *slog.Logger) error {
	logged := false
	for until := time.Now().Add(EndPatience); ; time.Sleep(10 * time.Millisecond) {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil || runs(holder(f)) || time.Now().After(until) {
			return err
		}
		if !logged {
			log.Info("the data directory's lock is that of a process that has just ended, waiting for it", "process", holder(f), "most", EndPatience)
			logged = true
		}
	}
}

// holder is the process that wrote itself into the lock.
func holder(f *os.File) string {
	text, err := os.ReadFile(f.Name())
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(text))
}

func writeAt(f *os.File, s string) error {
	_, err := f.WriteAt([]byte(s), 0)
	return err
}

// Listen is [net.Listen] for TCP, but waits for an address that a process which was killed may
// still hold.
func (d *Dir) Listen(address string, log *slog.Logger) (net.Listener, error) {
	logged := false
	for until := time.Now().Add(EndPatience); ; time.Sleep(10 * time.Millisecond) {
		l, err := net.Listen("tcp", address)
		if err == nil || !d.crashed || !errors.Is(err, syscall.EADDRINUSE) || time.Now().After(until) {
			return l, err
		}
		if !logged {
			log.Info("the address is in use, maybe by the process that has just ended, waiting for it", "address", address, "most", EndPatience)
			logged = true
		}
	}
}

// InUse says whether a process has the data directory. It waits for nothing and changes nothing.
func InUse(dir string) bool {
	f, err := os.Open(filepath.Join(dir, "lock"))
	if err != nil {
		return false
	}
	defer f.Close()
	// It is free at once again, as f is closed.
	return errors.Is(syscall.Flock(int(f.Fd()), syscall.LOCK_SH|syscall.LOCK_NB), syscall.EWOULDBLOCK)
}
