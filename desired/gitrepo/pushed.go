package gitrepo

import (
	"bytes"
	"context"
	"crypto/hmac"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/desired/gitrepo/message"
	"github.com/jibe-vnfm/jibe/desired/gitrepo/objects"
	"github.com/jibe-vnfm/jibe/desired/gitrepo/read"
	"github.com/jibe-vnfm/jibe/internal/git"
)

// maxPushes bounds the pushes that are remembered: those that git has a note of are read there.
const maxPushes = 1000

// unlanded is after how long a push is forgotten that git never took.
const unlanded = time.Hour

// pushLog knows the pushes that git was told to take. They are in a file before git is told,
// so that a crash loses no pusher: the notes follow when the branch has moved.
type pushLog struct {
	mu      sync.Mutex
	name    string               // of the file
	pending map[string]read.Push // by New; not seen at the branch yet
	landed  map[string]read.Push // by New; of this process
	// recalled are those of a former process, by New, while the repository opens. Git may have taken them.
	recalled map[string]read.Push
	lines    int // in the file
}

// Pushers keeps who pushed through mirrors, where every process that has one finds it: a commit comes
// to the others before the note that says so.
type Pushers interface {
	// Keep makes durable what is known of the push of a commit.
	Keep(ctx context.Context, commit string, push []byte) error
	// Find returns it, nil where nothing is known.
	Find(ctx context.Context, commit string) (push []byte, err error)
}

// pushersWithin bounds a question to [Pushers].
const pushersWithin = 5 * time.Second

// keptPush is a push through the mirror of any process, nil where there was none.
func (r *Repo) keptPush(ctx context.Context, commit string) (*read.Push, error) {
	if r.opt.Pushers == nil {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, pushersWithin)
	defer cancel()
	text, err := r.opt.Pushers.Find(ctx, commit)
	if err != nil || text == nil {
		return nil, err
	}
	var p read.Push
	if err := json.Unmarshal(text, &p); err != nil {
		return nil, fmt.Errorf("who pushed %s: %w", commit, err)
	}
	return &p, nil
}

// keepPush has the other processes know of a push.
func (r *Repo) keepPush(p read.Push) error {
	if r.opt.Pushers == nil {
		return nil
	}
	text, err := json.Marshal(p)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(r.ctx, pushersWithin)
	defer cancel()
	if err := r.opt.Pushers.Keep(ctx, p.New, text); err != nil {
		return fmt.Errorf("%w: write down who pushes: %w", desired.ErrUnavailable, err)
	}
	return nil
}

// Pushing makes durable who pushes, before git is told to take the push.
func (r *Repo) Pushing(p read.Push) error {
	p.At = r.opt.Now().UTC().Truncate(time.Second)
	if err := r.keepPush(p); err != nil {
		return err
	}
	l := &r.pushes
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.lines >= maxPushes {
		if err := r.compactPushes(); err != nil {
			return fmt.Errorf("%w: write down who pushes: %w", desired.ErrUnavailable, err)
		}
	}
	line, err := json.Marshal(p)
	if err == nil {
		err = appendSynced(l.name, append(line, '\n'), l.lines == 0)
	}
	if err != nil {
		return fmt.Errorf("%w: write down who pushes: %w", desired.ErrUnavailable, err)
	}
	l.lines++
	l.pending[p.New] = p
	return nil
}

// appendSynced makes data durable at the end of a file; made says that the file is new.
func appendSynced(name string, data []byte, made bool) error {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil && made {
		err = git.SyncDir(filepath.Dir(name))
	}
	return err
}

// recallPushes reads the pushes that a former process wrote down and git may have taken: before the branch is read, as what
// was pushed isn't judged again ([Repo.judgeSteps]).
func (r *Repo) recallPushes() error {
	l := &r.pushes
	l.name = filepath.Join(objects.OwnDir(r.opt.Dir), "pushes")
	l.pending, l.landed, l.recalled = map[string]read.Push{}, map[string]read.Push{}, map[string]read.Push{}
	data, err := l.read()
	if err != nil {
		return err
	}
	for line := range bytes.Lines(data) {
		var p read.Push
		if json.Unmarshal(line, &p) == nil && line[len(line)-1] == '\n' && git.IsHash(p.New) {
			l.recalled[p.New] = p
		}
	}
	return nil
}

// read returns the file, nil if there is none.
func (l *pushLog) read() ([]byte, error) {
	data, err := os.ReadFile(l.name)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("read who pushed: %w", err)
	}
	return data, nil
}

// recoverPushes notes those of the recalled pushes that git took. A push that git took without an answer is noted like any
// other.
func (r *Repo) recoverPushes(ctx context.Context) error {
	l := &r.pushes
	data, err := l.read()
	if err != nil {
		return err
	}
	l.mu.Lock()
	l.recalled = nil // below are those that git took; the others went with their pusher
	l.mu.Unlock()
	head := r.Head()
	for line := range bytes.Lines(data) {
		l.lines++
		var p read.Push
		// A line without its end was being written when the process died: git wasn't told to take
		// that push.
		if json.Unmarshal(line, &p) != nil || line[len(line)-1] != '\n' || !git.IsHash(p.New) || head == "" {
			continue
		}
		if noted, err := r.notedPush(ctx, p.New); err == nil && noted != nil {
			continue
		}
		if _, err := r.read.Commit(ctx, p.New); err != nil {
			continue // its objects went with the push
		}
		took, err := r.read.IsAncestor(ctx, p.New, head)
		if err != nil {
			return fmt.Errorf("look for a push that was accepted: %w", err)
		}
		if took {
			r.noteLanded(p)
		}
	}
	if len(data) > 0 && data[len(data)-1] != '\n' {
		if err := r.compactPushes(); err != nil { // else the next line would be the end of this one
			return fmt.Errorf("read who pushed: %w", err)
		}
	}
	return nil
}

// pushLanded is told of each commit that the branch was seen at.
func (r *Repo) pushLanded(head string) {
	l := &r.pushes
	l.mu.Lock()
	defer l.mu.Unlock()
	for p, ok := l.pending[head]; ok; p, ok = l.pending[p.Old] { // of several that came at once, the last is seen
		delete(l.pending, p.New)
		r.noteLanded(p)
	}
}

func (r *Repo) noteLanded(p read.Push) {
	if len(r.pushes.landed) >= maxPushes {
		clear(r.pushes.landed)
	}
	r.pushes.landed[p.New] = p
	r.Note(p.New, r.pushLine(p))
}

// compactPushes drops from the file what is in git, and what git never took.
func (r *Repo) compactPushes() error {
	l := &r.pushes
	data, err := os.ReadFile(l.name)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	var keep bytes.Buffer
	lines := 0
	for line := range bytes.Lines(data) {
		var p read.Push
		if json.Unmarshal(line, &p) != nil || line[len(line)-1] != '\n' {
			continue
		}
		_, waits := l.pending[p.New]
		if waits && r.opt.Now().Sub(p.At) > unlanded {
			delete(l.pending, p.New)
			continue
		}
		if noted, err := r.notedPush(r.ctx, p.New); err == nil && noted != nil {
			continue
		}
		keep.Write(line)
		lines++
	}
	tmp := filepath.Join(filepath.Dir(l.name), git.TmpPrefix+"pushes")
	if err := git.WriteSynced(tmp, keep.Bytes()); err != nil {
		return err
	}
	if err := os.Rename(tmp, l.name); err != nil {
		return err
	}
	l.lines = lines
	return git.SyncDir(filepath.Dir(l.name))
}

// pushedBy says who pushed up to the commit: nil where that isn't known, or nobody did.
func (r *Repo) pushedBy(ctx context.Context, commit string) (*read.Push, error) {
	r.pushes.mu.Lock()
	p, ok := r.pushes.landed[commit]
	if !ok {
		p, ok = r.pushes.pending[commit]
	}
	if !ok {
		p, ok = r.pushes.recalled[commit]
	}
	r.pushes.mu.Unlock()
	if ok {
		return &p, nil
	}
	if noted, err := r.notedPush(ctx, commit); err != nil || noted != nil {
		return noted, err
	}
	return r.keptPush(ctx, commit)
}

// pushMark begins the line of a push; asAdmin ends that of one by an administrator.
const (
	pushMark = "pushed by "
	asAdmin  = " as admin"
)

// pushLine is what a note says of a push. The seal authenticates it: whoever else writes the
// same words can't seal them, and those of one commit don't hold for another.
func (r *Repo) pushLine(p read.Push) string {
	old := p.Old
	if old == "" {
		old = git.ZeroHash
	}
	line := message.Line(fmt.Sprintf(pushMark+"%q from %q at %s after %s", p.Pusher, p.From, p.At.Format(time.RFC3339), old))
	if p.Admin {
		line += asAdmin
	}
	if len(r.opt.Key) == 0 {
		return line
	}
	return line + " seal " + r.seal("push", p.New, line)
}

// parsePush reads a line that pushLine has written of the commit; ok is false for any other
// line, and one that isn't sealed.
func (r *Repo) parsePush(commit, line string) (p read.Push, ok bool) {
	if !strings.HasPrefix(line, pushMark) {
		return read.Push{}, false // the line of an operation, which most are
	}
	text, seal, found := strings.Cut(line, " seal ")
	for rest := seal; found && strings.Contains(rest, " seal "); { // in a name
		more, last, _ := strings.Cut(rest, " seal ")
		text, seal, rest = text+" seal "+more, last, last
	}
	if !found || len(r.opt.Key) == 0 || !hmac.Equal([]byte(seal), []byte(r.seal("push", commit, text))) {
		return read.Push{}, false
	}
	rest := strings.TrimPrefix(text, pushMark)
	for _, field := range []struct {
		to    *string
		after string
	}{{&p.Pusher, " from "}, {&p.From, " at "}} {
		quoted, err := strconv.QuotedPrefix(rest)
		if err != nil {
			return read.Push{}, false
		}
		if *field.to, err = strconv.Unquote(quoted); err != nil {
			return read.Push{}, false
		}
		if rest, ok = strings.CutPrefix(rest[len(quoted):], field.after); !ok {
			return read.Push{}, false
		}
	}
	rest, p.Admin = strings.CutSuffix(rest, asAdmin)
	at, old, ok := strings.Cut(rest, " after ")
	var err error
	if p.At, err = time.Parse(time.RFC3339, at); err != nil || !ok || !git.IsHash(old) {
		return read.Push{}, false
	}
	if p.New = commit; old != git.ZeroHash {
		p.Old = old
	}
	return p, true
}
