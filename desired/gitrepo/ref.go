package gitrepo

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
	"syscall"
	"time"
)

// ownGroup keeps the terminal's Ctrl-C from the long-lived children: they end
// when their input closes, after the last write.
func ownGroup() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// readRef returns the commit that a ref names, "" where there is no such ref.
// Content that is no hash is an error: a half-written ref isn't an unborn one.
func readRef(gitDir, ref string) (string, error) {
	for range 3 {
		data, err := os.ReadFile(filepath.Join(gitDir, filepath.FromSlash(ref)))
		if err == nil {
			s := strings.TrimSpace(string(data))
			if !isHash(s) {
				return "", fmt.Errorf("%s in %s holds %q where a commit's hash should be: the file is damaged; set it with: git -C %s update-ref %s <commit>",
					ref, gitDir, clip(s), gitDir, ref)
			}
			return s, nil
		}
		if !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.EISDIR) {
			return "", fmt.Errorf("read %s: %w", ref, err)
		}
		packed, err := readPackedRef(gitDir, ref)
		if err != nil || packed != "" {
			return packed, err
		}
		// The ref may have moved from packed to loose between the two looks.
		if _, err := os.Lstat(filepath.Join(gitDir, filepath.FromSlash(ref))); err != nil {
			return "", nil
		}
	}
	return "", fmt.Errorf("read %s in %s: it changes faster than it can be read", ref, gitDir)
}

func readPackedRef(gitDir, ref string) (string, error) {
	data, err := os.ReadFile(filepath.Join(gitDir, "packed-refs"))
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("read packed refs: %w", err)
	}
	for line := range strings.Lines(string(data)) {
		if hash, name, ok := strings.Cut(strings.TrimSpace(line), " "); ok && name == ref && isHash(hash) {
			return hash, nil
		}
	}
	return "", nil
}

func clip(s string) string {
	if len(s) > 60 {
		return s[:60] + "…"
	}
	return s
}

// errRefMoved is returned when someone else moved the ref meanwhile.
var errRefMoved = errors.New("the branch moved")

// errRefLocked is returned when another process holds the ref's lock.
var errRefLocked = errors.New("the branch is locked")

// refUpdater moves refs by compare-and-swap through one long-lived
// "git update-ref --stdin", so that git's own locks exclude a concurrent push.
// One goroutine uses it.
type refUpdater struct {
	git    gitCLI
	cmd    *exec.Cmd
	in     io.WriteCloser
	out    *bufio.Reader
	stderr *tailBuffer
}

// move sets ref from old to new ("" is none) and returns when that is durable.
// After any other error than errRefMoved and errRefLocked the ref may still have
// moved; the caller reads it.
func (u *refUpdater) move(ctx context.Context, ref, newHash, oldHash string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if oldHash == "" {
		oldHash = zeroHash
	}
	for again := true; ; again = false {
		err := u.transact(ref, newHash, oldHash)
		if err == nil {
			break
		}
		said := u.stop()
		now, rerr := readRef(u.git.dir, ref)
		if rerr != nil {
			return errors.Join(err, rerr)
		}
		if now == newHash {
			break // committed; only the answer was lost
		}
		if now != oldHash && (now != "" || oldHash != zeroHash) {
			return fmt.Errorf("%w: %s is at %s", errRefMoved, ref, now)
		}
		if strings.Contains(said, ".lock': File exists") {
			return fmt.Errorf("%w: %s", errRefLocked, said)
		}
		if said != "" || !again { // a child that says nothing was killed: another is tried once
			return fmt.Errorf("move %s: %w: %s", ref, err, said)
		}
	}
	// git syncs the file; its name is durable when the directory is.
	return syncDir(filepath.Dir(filepath.Join(u.git.dir, filepath.FromSlash(ref))))
}

func (u *refUpdater) transact(ref, newHash, oldHash string) error {
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

func (u *refUpdater) start() error {
	cmd := exec.Command("git", "--git-dir="+u.git.dir, "update-ref", "--stdin")
	cmd.Dir, cmd.Env, cmd.SysProcAttr = u.git.dir, u.git.environ(), ownGroup()
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
	u.cmd, u.in, u.out = cmd, in, bufio.NewReader(out)
	return nil
}

// stop ends the child, which drops a transaction that isn't committed, and
// returns what it said.
func (u *refUpdater) stop() string {
	if u.cmd == nil {
		return ""
	}
	_ = u.in.Close()
	_ = u.cmd.Wait()
	u.cmd = nil
	return u.stderr.String()
}

// staleLock is the age from which a lock is held by nobody: git holds one for
// milliseconds, and only a crash leaves it.
const staleLock = 10 * time.Second

// breakStaleLocks removes lock files that a crash left in the way of moving the ref,
// and returns their names. Besides the ref, git locks HEAD, where that stands for it,
// and the packed refs.
func breakStaleLocks(gitDir, ref string) (broken []string, err error) {
	for _, locked := range []string{ref, "HEAD", "packed-refs"} {
		name := filepath.Join(gitDir, filepath.FromSlash(locked)+".lock")
		st, err := os.Stat(name)
		if err != nil || time.Since(st.ModTime()) < staleLock {
			continue
		}
		if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return broken, fmt.Errorf("remove stale lock: %w", err)
		}
		broken = append(broken, locked)
	}
	return broken, nil
}

// breakLocks is breakStaleLocks for the branch, telling of it.
func (r *Repo) breakLocks() error {
	broken, err := breakStaleLocks(r.opt.Dir, r.ref())
	if len(broken) > 0 {
		r.log.Warn("removed locks that a crash left", "locks", broken)
	}
	return err
}

// keepUnlocked looks for such locks as long as the repository is open: a push meets
// them as well as a write, and has no way to break them.
func (r *Repo) keepUnlocked() {
	for wait(r.ctx, staleLock) == nil {
		if err := r.breakLocks(); err != nil {
			r.log.Warn("a lock that a crash left stands in the way of pushes", "error", err)
		}
	}
}
