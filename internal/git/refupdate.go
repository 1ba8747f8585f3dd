package git

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// ErrRefMoved is returned when someone else moved the ref meanwhile.
var ErrRefMoved = errors.New("the branch moved")

// ErrRefLocked is returned when another process holds the ref's lock.
var ErrRefLocked = errors.New("the branch is locked")

// RefUpdater moves refs by compare-and-swap through one long-lived
// "git update-ref --stdin", so that git's own locks exclude a concurrent push.
// One goroutine uses it.
type RefUpdater struct {
	git    Runner
	cmd    *exec.Cmd
	in     io.WriteCloser
	out    *bufio.Reader
	stderr *tailBuffer
	moves  int // of this child
	most   int // of any, see maxMoves
}

// maxMoves is how many refs one child moves. It maps each pack that it reads of, and never
// gives one back, not even one that was repacked: after some ten thousand moves, each with a
// pack of its own, the system would let it map no more (vm.max_map_count of Linux).
const maxMoves = 1000

// NewRefUpdater moves the refs of a repository. [RefUpdater.Close] ends its child.
func NewRefUpdater(runner Runner) *RefUpdater { return &RefUpdater{git: runner, most: maxMoves} }

// Move sets ref from old to new ("" is none) and returns when that is durable.
// After any other error than [ErrRefMoved] and [ErrRefLocked] the ref may still have
// moved; the caller reads it.
func (u *RefUpdater) Move(ctx context.Context, ref, newHash, oldHash string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if oldHash == "" {
		oldHash = ZeroHash
	}
	for again := true; ; again = false {
		err := u.transact(ref, newHash, oldHash)
		if err == nil {
			break
		}
		said := u.Close()
		now, rerr := ReadRef(u.git.Dir, ref)
		if rerr != nil {
			return errors.Join(err, rerr)
		}
		if now == newHash {
			break // committed; only the answer was lost
		}
		if now != oldHash && (now != "" || oldHash != ZeroHash) {
			return fmt.Errorf("%w: %s is at %s", ErrRefMoved, ref, now)
		}
		if strings.Contains(said, ".lock': File exists") {
			return fmt.Errorf("%w: %s", ErrRefLocked, said)
		}
		if said != "" || !again { // a child that says nothing was killed: another is tried once
			return fmt.Errorf("move %s: %w: %s", ref, err, said)
		}
	}
	if u.moves++; u.moves >= u.most {
		u.Close()
	}
	// git syncs the file; its name is durable when the directory is.
	return SyncDir(filepath.Dir(filepath.Join(u.git.Dir, filepath.FromSlash(ref))))
}

func (u *RefUpdater) transact(ref, newHash, oldHash string) error {
	if u.cmd == nil {
		if err := u.start(); err != nil {
			return err
		}
	}
	if _, err := fmt.Fprintf(u.in, "start\nupdate %s %s %s\nprepare\ncommit\n", ref, newHash, oldHash); err != nil {
		return err
	}
	for _, want := range []string{"start: ok", "prepare: ok", "commit: ok"} {
		line, err := u.out.ReadString('\n')
		if err != nil {
			return fmt.Errorf("git update-ref: %w", err)
		}
		if strings.TrimSpace(line) != want {
			return fmt.Errorf("git update-ref: unexpected answer %q", strings.TrimSpace(line))
		}
	}
	return nil
}

func (u *RefUpdater) start() error {
	cmd := u.git.child("update-ref", "--stdin")
	u.stderr = &tailBuffer{}
	cmd.Stderr = u.stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return fmt.Errorf("start git update-ref: %w", err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return fmt.Errorf("start git update-ref: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start git update-ref: %w", err)
	}
	u.cmd, u.in, u.out, u.moves = cmd, in, bufio.NewReader(out), 0
	return nil
}

// Close ends the child, which drops a transaction that isn't committed, and
// returns what it said.
func (u *RefUpdater) Close() string {
	if u.cmd == nil {
		return ""
	}
	_ = u.in.Close()
	_ = u.cmd.Wait()
	u.cmd = nil
	return u.stderr.String()
}

// StaleLock is the age from which a lock is held by nobody: git holds one for
// milliseconds, and only a crash leaves it.
const StaleLock = 10 * time.Second

// BreakStaleLocks removes lock files that a crash left in the way of moving the ref,
// and returns their names. Besides the ref, git locks HEAD, where that stands for it,
// and the packed refs.
func BreakStaleLocks(gitDir, ref string) (broken []string, err error) {
	for _, locked := range []string{ref, "HEAD", "packed-refs"} {
		name := filepath.Join(gitDir, filepath.FromSlash(locked)+".lock")
		st, err := os.Stat(name)
		if err != nil || time.Since(st.ModTime()) < StaleLock {
			continue
		}
		if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return broken, fmt.Errorf("remove stale lock: %w", err)
		}
		broken = append(broken, locked)
	}
	return broken, nil
}
