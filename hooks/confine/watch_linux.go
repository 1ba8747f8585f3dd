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
	// at is where /proc tells of its memory and files: those of its first thread, or of another
	// one where that has ended.
	at      string
	threads uint64
	memory  uint64 // of its own or shared without a file, and what maps it, in bytes
	uid     int
}

// gone reports whether the error of a read of /proc is that of a process that has ended.
func gone(err error) bool { return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESRCH) }

// processes are those of the run: all but the launcher in a namespace of its own, else all that
// descend from it.
func (r *run) processes() []int {
	list, _ := r.list() // what can be seen of them
	var pids []int
	for _, p := range list {
		pids = append(pids, p.pid)
	}
	return pids
}

func (r *run) list() ([]process, error) {
	all, err := everyProcess()
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
	return list, err
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

// everyProcess is what /proc shows. An error says that there are some of which it can't be read.
func everyProcess() (map[int]process, error) {
	all := map[int]process{}
	dir, err := os.Open("/proc")
	if err != nil {
		return all, err
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return all, err
	}
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue // no process
		}
		p, err := readProcess(pid)
		switch {
		case err == nil:
			all[pid] = p
		case !gone(err) && !errors.Is(err, fs.ErrPermission): // /proc may keep those of other users to itself
			return all, err
		}
	}
	return all, nil
}

// readProcess reads /proc/PID/status (proc(5)). That of a process whose first thread alone has ended
// tells nothing of the memory that the others have.
func readProcess(pid int) (process, error) {
	p := process{pid: pid, at: fmt.Sprintf("/proc/%d", pid)}
	ended, err := p.read()
	if err != nil || !ended || p.threads < 2 {
		return p, err
	}

	threads, err := os.ReadDir(p.at + "/task")
	if err != nil {
		return p, err
	}
	for _, t := range threads {
		other := process{pid: pid, at: fmt.Sprintf("/proc/%d/task/%s", pid, t.Name())}
		if ended, err := other.read(); err == nil && !ended {
			other.parent, other.threads = p.parent, p.threads
			return other, nil
		}
	}

	return p, nil // they have ended meanwhile
}

// read reads the status, and reports whether the thread has ended: it has no memory then.
func (p *process) read() (ended bool, err error) {
	ended = true
	data, err := os.ReadFile(p.at + "/status")
	if err != nil {
		return false, err
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
		case "VmSize":
			ended = false
		case "RssAnon", "RssShmem", "VmSwap", "VmPTE":
			p.memory += n << 10
		}
	}
	return ended, nil
}

// othersOf counts the threads that the run's user has beside the run's: the kernel's limit on
// processes is one for the user.
func othersOf(s *Spec) (uint64, error) {
	uid, n := s.UID, uint64(0)
	if uid < 0 {
		uid = os.Getuid()
	}
	all, err := everyProcess()
	for _, p := range all {
		if p.uid == uid {
			n += p.threads
		}
	}
	return n, err
}

// openTogether is how many times the open files that one process may have all of a run may have:
// without it the kernel's two limits, on files and processes, allow the product of both.
const openTogether = 8

// What a socket and a pipe are taken to hold of the kernel's memory, which nothing tells to a program
// without rights: what fits into them, full. The filter keeps them from being made larger.
const (
	socketMemory = 256 << 10
	pipeMemory   = 64 << 10
)

// unwatched is the limit that a run exceeds whose watch fails: it could use anything then, and may
// itself be why.
func unwatched(err error) string { return Unwatched + ": " + err.Error() }

// look says which limit the processes of the run exceed, "" where they exceed none, and how many
// bytes of files that have no name they hold.
func (r *run) look() (exceeded string, held uint64) {
	l := r.spec.Limits
	list, err := r.list()
	if err != nil {
		return unwatched(err), 0
	}
	var memory, threads, open uint64
	for _, p := range list {
		memory, threads, open = memory+p.memory, threads+p.threads, open+p.open()
	}
	switch {
	case memory > l.Memory:
		return tooMuchMemory(l), 0
	case threads > l.Processes:
		return fmt.Sprintf("it has more than %d processes and threads", l.Processes), 0
	case open > openTogether*l.Files:
		return fmt.Sprintf("it has more than %d files open in all of its processes", openTogether*l.Files), 0
	}
	files := opened{}
	for _, p := range list {
		if err := files.add(p); err != nil {
			return unwatched(err), 0
		}
	}
	kernel, held := files.sizes()
	if memory+kernel > l.Memory {
		return tooMuchMemory(l), 0
	}
	return "", held
}

func tooMuchMemory(l Limits) string {
	return fmt.Sprintf("its processes use more than %d MiB of memory together", l.Memory>>20)
}

// open is how many files the process has open, which Linux tells as the size of their directory from
// the version on that Landlock needs.
func (p *process) open() uint64 {
	info, err := os.Stat(p.at + "/fd")
	if err != nil {
		return 0 // it has ended; where it hasn't, the look at each tells
	}
	return uint64(info.Size())
}

// opened are files that processes have open, each once.
type opened map[inode]syscall.Stat_t

type inode struct{ dev, ino uint64 }

// add adds those of the process.
func (o opened) add(p process) error {
	dir := filepath.Join(p.at, "fd")
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrPermission) { // as for one that ends, which has none any more
		now := process{at: p.at}
		if ended, err := now.read(); ended && (err == nil || gone(err)) {
			return nil
		}
	}
	if gone(err) {
		return nil
	}
	if err != nil {
		return err // one that hides them, too
	}
	for _, e := range entries {
		var st syscall.Stat_t
		switch err := syscall.Stat(filepath.Join(dir, e.Name()), &st); {
		case err == nil:
			o[inode{st.Dev, st.Ino}] = st
		case !gone(err) && !errors.Is(err, syscall.ESTALE):
			return &fs.PathError{Op: "stat", Path: dir, Err: err}
		}
	}
	return nil
}

// sizes are the bytes that they hold: of the kernel's memory, and on disk without a name.
func (o opened) sizes() (kernel, unlinked uint64) {
	for _, st := range o {
		switch st.Mode & syscall.S_IFMT {
		case syscall.S_IFSOCK:
			kernel += socketMemory
		case syscall.S_IFIFO:
			kernel += pipeMemory
		case syscall.S_IFREG:
			if st.Nlink == 0 {
				unlinked += uint64(st.Blocks) * 512
			}
		}
	}
	return kernel, unlinked
}

// lookAtFiles says which limit the run's files exceed, "" where they exceed none. held are the bytes
// of those that have no name.
func (r *run) lookAtFiles(held uint64) string {
	l := r.spec.Limits
	size, entries := held, uint64(0)
	for _, dir := range r.spec.Write {
		n, files, err := used(dir, l.Entries)
		var path *fs.PathError
		switch {
		case errors.Is(err, fs.ErrPermission) && errors.As(err, &path):
			return Unwatched + ": it has a directory that can't be looked into, " + filepath.Base(path.Path)
		case errors.Is(err, syscall.ENAMETOOLONG):
			return Unwatched + ": it has directories deeper than a path can name"
		case err != nil:
			return unwatched(err)
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

// used are the bytes on disk below the directory, and how many files and directories there are;
// after most of them it has seen enough. An error is that of one that this process can't look into:
// its files would not be counted.
func used(dir string, most uint64) (size, entries uint64, err error) {
	err = filepath.WalkDir(dir, func(name string, entry fs.DirEntry, err error) error {
		if gone(err) {
			return nil
		}
		if err != nil {
			return err
		}
		if entries++; entries > most {
			return fs.SkipAll
		}
		info, err := entry.Info()
		if gone(err) {
			return nil
		}
		if err != nil {
			return err
		}
		if st, ok := info.Sys().(*syscall.Stat_t); ok {
			size += uint64(st.Blocks) * 512
		}
		return nil
	})
	return size, entries, err
}
