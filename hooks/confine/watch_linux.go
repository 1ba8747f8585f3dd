package confine

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// process is what /proc says of one.
type process struct {
	pid, parent int
	threads     uint64
	memory      uint64 // of its own or shared without a file, in bytes
	uid         int
}

// processes are those of the run: all but the launcher in a namespace of its own, else all that
// descend from it.
func (r *run) processes() []int {
	var pids []int
	for _, p := range r.list() {
		pids = append(pids, p.pid)
	}
	return pids
}

func (r *run) list() []process {
	all := everyProcess()
	self := os.Getpid()
	if r.spec.Namespaces {
		delete(all, self)
	}
	var list []process
	for _, p := range all {
		if r.spec.Namespaces || descends(all, p, self) {
			list = append(list, p)
		}
	}
	return list
}

// descends says whether the process is one of the launcher's descendants.
func descends(all map[int]process, p process, launcher int) bool {
	for range len(all) {
		if p.parent == launcher {
			return true
		}
		next, ok := all[p.parent]
		if !ok {
			return false
		}
		p = next
	}
	return false
}

// everyProcess is what /proc shows.
func everyProcess() map[int]process {
	all := map[int]process{}
	dir, err := os.Open("/proc")
	if err != nil {
		return all
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return all
	}
	for _, name := range names {
		if pid, err := strconv.Atoi(name); err == nil {
			if p, err := readProcess(pid); err == nil {
				all[pid] = p
			}
		}
	}
	return all
}

// readProcess reads /proc/PID/status (proc(5)).
func readProcess(pid int) (process, error) {
	p := process{pid: pid}
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return p, err
	}
	for line := range bytes.Lines(data) {
		name, rest, _ := strings.Cut(string(line), ":")
		f := strings.Fields(rest)
		if len(f) == 0 {
			continue
		}
		n, err := strconv.ParseUint(f[0], 10, 64)
		if err != nil {
			continue
		}
		switch name {
		case "PPid":
			p.parent = int(n)
		case "Uid":
			p.uid = int(n)
		case "Threads":
			p.threads = n
		case "RssAnon", "RssShmem", "VmSwap":
			p.memory += n << 10
		}
	}
	return p, nil
}

// othersOf counts the threads that the run's user has beside the run's: the kernel's limit on
// processes is one for the user.
func othersOf(s *Spec) uint64 {
	uid, n := s.UID, uint64(0)
	if uid < 0 {
		uid = os.Getuid()
	}
	for _, p := range everyProcess() {
		if p.uid == uid {
			n += p.threads
		}
	}
	return n
}

// look says which limit the run exceeds, "" where it exceeds none.
func (r *run) look() string {
	l := r.spec.Limits
	var memory, threads, held uint64
	for _, p := range r.list() {
		memory, threads, held = memory+p.memory, threads+p.threads, held+unlinked(p.pid)
	}
	switch {
	case memory > l.Memory:
		return fmt.Sprintf("its processes use more than %d MiB of memory together", l.Memory>>20)
	case threads > l.Processes:
		return fmt.Sprintf("it has more than %d processes and threads", l.Processes)
	}
	size, entries := held, uint64(0)
	for _, dir := range r.spec.Write {
		n, files, hidden := used(dir, l.Entries)
		if hidden != "" {
			return fmt.Sprintf("it has a directory that can't be looked into, %s", filepath.Base(hidden))
		}
		size, entries = size+n, entries+files
	}
	switch {
	case size > l.Scratch:
		return fmt.Sprintf("its files have more than %d MiB together", l.Scratch>>20)
	case entries > l.Entries:
		return fmt.Sprintf("it has more than %d files and directories", l.Entries)
	}
	return ""
}

// unlinked are the bytes on disk of files that the process holds open and that have no name.
func unlinked(pid int) (size uint64) {
	dir := fmt.Sprintf("/proc/%d/fd", pid)
	entries, err := os.ReadDir(dir)
	if err != nil {
		return 0 // it ended meanwhile, or hides them
	}
	for _, e := range entries {
		info, err := os.Stat(filepath.Join(dir, e.Name()))
		if err != nil {
			continue
		}
		if st, ok := info.Sys().(*syscall.Stat_t); ok && info.Mode().IsRegular() && st.Nlink == 0 {
			size += uint64(st.Blocks) * 512
		}
	}
	return size
}

// used are the bytes on disk below the directory, and how many files and directories there are;
// after most of them it has seen enough. hidden is a directory that this process may not look
// into, "" where there is none: its files would not be counted.
func used(dir string, most uint64) (size, entries uint64, hidden string) {
	_ = filepath.WalkDir(dir, func(name string, entry fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrPermission) {
			hidden = name
			return fs.SkipAll
		}
		if err != nil {
			return nil // it went meanwhile
		}
		if entries++; entries > most {
			return fs.SkipAll
		}
		info, err := entry.Info()
		if err != nil {
			return nil
		}
		if st, ok := info.Sys().(*syscall.Stat_t); ok {
			size += uint64(st.Blocks) * 512
		}
		return nil
	})
	return size, entries, hidden
}
