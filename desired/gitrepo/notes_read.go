package gitrepo

import (
	"bytes"
	"context"
	"errors"
	"sync"

	"github.com/jibe-vnfm/jibe/desired/gitrepo/objects"
	"github.com/jibe-vnfm/jibe/desired/gitrepo/read"
	"github.com/jibe-vnfm/jibe/internal/git"
)

// maxNote bounds a note that is read, in bytes. A note has two lines of some 900 bytes each for every operation that its
// commit starts: this is enough for a commit that changes 250,000 instances.
const maxNote = 512 << 20

// noteOf is the note of a commit, "" where it has none.
func (r *Repo) noteOf(ctx context.Context, commit string) (string, error) {
	blob, err := r.noteBlob(ctx, commit)
	if err != nil || blob == "" {
		return "", err
	}
	text, err := r.readNote(ctx, blob)
	return string(text), err
}

// readNote reads the object of a note. The error is [git.ErrTooLarge] for one beyond the limit.
func (r *Repo) readNote(ctx context.Context, blob string) ([]byte, error) {
	return r.read.Objects.PeekUpTo(ctx, git.KindBlob, blob, r.opt.maxNote)
}

// noteBlob is the object that holds the note of a commit, "" where it has none.
func (r *Repo) noteBlob(ctx context.Context, commit string) (string, error) {
	at, err := git.ReadRef(r.opt.Dir, objects.NotesRef)
	if err != nil || at == "" {
		return "", err
	}
	root, err := r.read.RootOf(ctx, at)
	if err != nil {
		return "", err
	}

	for _, p := range []string{commit[:2] + "/" + commit[2:4] + "/" + commit[4:], commit[:2] + "/" + commit[2:], commit} {
		e, ok, err := r.read.LookupPath(ctx, root, p)
		if err != nil {
			return "", err
		}
		if ok && e.IsFile() {
			return e.Hash, nil
		}
	}

	return "", nil
}

// pushCache caches the pushes that notes record, by commit. Every instance that a commit changes looks up its push, and the
// note has a line per instance: without the cache, the lookups of one commit take quadratic time. The zero value is ready
// for use.
type pushCache struct {
	mu      sync.Mutex // held while a note is read, so that concurrent lookups read it once
	entries map[string]cachedPush
}

// cachedPush is the push that a commit's note records. nil is valid for this version of the note alone: the line of a push
// may come after those of operations. A note that is too large to be read records none.
type cachedPush struct {
	note string // the object
	push *read.Push
}

// maxCachedPushes bounds the entries of a pushCache.
const maxCachedPushes = 1000

// notedPush reads who pushed up to the commit in its note.
func (r *Repo) notedPush(ctx context.Context, commit string) (*read.Push, error) {
	if len(r.opt.Key) == 0 {
		return nil, nil
	}

	n := &r.noted
	n.mu.Lock()
	defer n.mu.Unlock()
	known, ok := n.entries[commit]
	if known.push != nil {
		p := *known.push
		return &p, nil
	}
	note, err := r.noteBlob(ctx, commit)
	if err != nil || note == "" {
		return nil, err
	}
	if !ok || known.note != note {
		text, err := r.readNote(ctx, note)
		switch {
		case errors.Is(err, git.ErrTooLarge):
			r.log.Warn("who pushed a commit can't be read from its note", "revision", commit, "error", err)
		case err != nil:
			return nil, err
		}
		if n.entries == nil || len(n.entries) >= maxCachedPushes {
			n.entries = map[string]cachedPush{}
		}
		known = cachedPush{note, r.pushIn(commit, text)}
		n.entries[commit] = known
	}
	if known.push == nil {
		return nil, nil
	}

	p := *known.push
	return &p, nil
}

// pushIn is the push that a note of the commit tells of, nil where none is sealed.
func (r *Repo) pushIn(commit string, note []byte) *read.Push {
	for line := range bytes.Lines(note) {
		if !bytes.HasPrefix(line, []byte(pushMark)) {
			continue // the line of an operation
		}
		if p, ok := r.parsePush(commit, string(bytes.TrimSuffix(line, []byte("\n")))); ok {
			return &p
		}
	}

	return nil
}
