package gitrepo

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/test/kit"
)

// hangingForge is a forge behind an ssh that stops answering for one of git's services when it
// is told to.
type hangingForge struct {
	dir, url string
	room     string // with a file for each service that hangs, and the process that waits
}

// hangingSSH is what git runs in place of ssh. Git names the host, then the command with the repository's path.
const hangingSSH = `#!/bin/sh
for last; do :; done
dir=${last#*\'}
room=${dir%/*}
if [ -e "$room/hang-${last%% *}" ]; then
	echo $$ >"$room/hung.new" && mv "$room/hung.new" "$room/hung"
	exec sleep 3600
fi
exec sh -c "$last"
`

func newHangingForge(t *testing.T) *hangingForge {
	t.Helper()

	dir := bareRemote(t)
	return &hangingForge{dir: dir, url: "forge.invalid:" + dir, room: filepath.Dir(dir)}
}

// hang makes a service ("git-upload-pack" for reading) not answer.
func (f *hangingForge) hang(t *testing.T, service string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(f.room, "hang-"+service), nil, 0o600); err != nil {
		t.Fatal(err)
	}
}

func (f *hangingForge) answer(t *testing.T, service string) {
	t.Helper()
	if err := os.Remove(filepath.Join(f.room, "hang-"+service)); err != nil {
		t.Fatal(err)
	}
}

// waiting is nil while somebody waits for an answer.
func (f *hangingForge) waiting() error {
	text, err := os.ReadFile(filepath.Join(f.room, "hung"))
	if err != nil {
		return err
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		return err
	}
	if err := syscall.Kill(pid, 0); err != nil {
		return fmt.Errorf("nobody waits: %w", err)
	}
	return nil
}

func TestWritesGoOnWhileTheRemoteIsAskedAndDoesNotAnswer(t *testing.T) {
	kit.Long(t)
	t.Parallel()

	forge := newHangingForge(t)
	r := openRepo(t, Options{Remote: forge.url, PollInterval: time.Hour})
	mustWrite(t, r, testID(1), shardDir(testID(1)), 1)
	forge.hang(t, "git-upload-pack")
	r.Poke()
	kit.Eventually(t, forge.waiting)
	rev := mustWrite(t, r, testID(1), "", 2)
	if err := r.Refresh(t.Context()); err != nil {
		t.Error(err)
	}
	if err := forge.waiting(); err != nil {
		t.Errorf("the write waited until the remote was given up: %v", err)
	}
	if got := tipOf(t, forge.dir); got != rev.Commit {
		t.Errorf("the remote is at %s, want %s", got, rev.Commit)
	}
}

func TestAWriteToARemoteThatHangsIsRefusedInTimeAndSucceedsLater(t *testing.T) {
	kit.Long(t)
	t.Parallel()

	forge := newHangingForge(t)
	r := openRepo(t, Options{Remote: forge.url, PollInterval: time.Hour})
	within := func(d time.Duration) {
		r.move.Lock()
		defer r.move.Unlock()
		r.opt.remoteTimeout = d
	}
	mustWrite(t, r, testID(1), shardDir(testID(1)), 1)
	head := r.Head()
	within(5 * time.Second) // only where it hangs: the machine may take that long for what it answers
	for _, service := range []string{"git-upload-pack", "git-receive-pack"} {
		forge.hang(t, service)
	}
	_, err := r.Write(t.Context(), desired.Write{Instance: testID(1), Subject: "s", Change: setLevel(testID(1), 2)})
	if !errors.Is(err, desired.ErrUnavailable) || r.Head() != head || r.Health() == nil {
		t.Errorf("write = %v, head %s, health %v", err, r.Head(), r.Health())
	}
	for _, service := range []string{"git-upload-pack", "git-receive-pack"} {
		forge.answer(t, service)
	}
	within(defaultRemoteTimeout)
	rev := mustWrite(t, r, testID(1), "", 2)
	if got := tipOf(t, forge.dir); got != rev.Commit {
		t.Errorf("the remote is at %s, want %s", got, rev.Commit)
	}
}

func TestAPullThatOverlapsWithWritesIsNotTakenForARewrittenHistory(t *testing.T) {
	kit.Long(t)
	t.Parallel()

	forge := newHangingForge(t)
	r := openRepo(t, Options{Remote: forge.url, PollInterval: time.Hour})
	mustWrite(t, r, testID(1), shardDir(testID(1)), 1)
	asked := r.Head()
	foreign := func() string {
		dir := filepath.Join(t.TempDir(), "clone")
		runGit(t, "", "clone", "-q", forge.dir, dir)
		put(t, dir, shardDir(testID(2))+"/vnf.yaml", vnfFile(testID(2), 1))
		commitPush(t, dir, "By a person")
		return tipOf(t, forge.dir)
	}()
	hash, head, err := r.transfer(t.Context(), true)
	if err != nil || hash != foreign || head != asked {
		t.Fatalf("transferred %s beside %s, %v", hash, head, err)
	}
	rev := mustWrite(t, r, testID(1), "", 2) // on top of the foreign commit
	r.move.Lock()
	err = r.takeTransferred(t.Context(), hash, head)
	r.move.Unlock()
	if err != nil || r.Head() != rev.Commit {
		t.Errorf("after that head is %s, want %s: %v", r.Head(), rev.Commit, err)
	}
	if err := r.pull(t.Context()); err != nil || r.Health() != nil {
		t.Errorf("pull = %v, health %v", err, r.Health())
	}
}
