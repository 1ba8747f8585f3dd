package gitrepo

import (
	"context"
	"strings"
	"sync"

	"github.com/jibe-vnfm/jibe/internal/git"
)

// maxNote bounds a note that is read, in bytes: it has a line for each operation that its commit began, of some 350 bytes.
const maxNote = 64 << 20

// noteOf is the note of a commit, "" where it has none.
func (r *Repo) noteOf(ctx context.Context, commit string) (string, error) {
	blob, err := r.noteBlob(ctx, commit)
	if err != nil || blob == "" {
		return "", err
	}
	text, err := r.objects.PeekUpTo(ctx, git.KindBlob, blob, maxNote)
	return string(text), err
}

// noteBlob is the object that holds the note of a commit, "" where it has none.
func (r *Repo) noteBlob(ctx context.Context, commit string) (string, error) {
	at, err := git.ReadRef(r.opt.Dir, notesRef)
	if err != nil || at == "" {
		return "", err
	}
	root, err := r.rootOf(ctx, at)
	if err != nil {
		return "", err
	}

	for _, p := range []string{commit[:2] + "/" + commit[2:4] + "/" + commit[4:], commit[:2] + "/" + commit[2:], commit} {
		e, ok, err := r.lookupPath(ctx, root, p)
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
// may come after those of operations.
type cachedPush struct {
	note string // the object
	push *Push
}

// maxCachedPushes bounds the entries of a pushCache.
const maxCachedPushes = 1000

// notedPush reads who pushed up to the commit in its note.
func (r *Repo) notedPush(ctx context.Context, commit string) (*Push, error) {
	if len(r.opt.Key) == 0 {
		return nil, nil
	}
	note, err := r.noteBlob(ctx, commit)
	if err != nil || note == "" {
		return nil, err
	}

	n := &r.noted
	n.mu.Lock()
	defer n.mu.Unlock()
	known, ok := n.entries[commit]
	if !ok || known.push == nil && known.note != note {
		text, err := r.objects.PeekUpTo(ctx, git.KindBlob, note, maxNote)
		if err != nil {
			return nil, err
		}
		if n.entries == nil || len(n.entries) >= maxCachedPushes {
			n.entries = map[string]cachedPush{}
		}
		known = cachedPush{note, r.pushIn(commit, string(text))}
		n.entries[commit] = known
	}
	if known.push == nil {
		return nil, nil
	}

	p := *known.push
	return &p, nil
}

// pushIn is the push that a note of the commit tells of, nil where none is sealed.
func (r *Repo) pushIn(commit, note string) *Push {
	for line := range strings.Lines(note) {
		if p, ok := r.parsePush(commit, strings.TrimSuffix(line, "\n")); ok {
			return &p
		}
	}
	return nil
}
