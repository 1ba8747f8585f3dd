package gitrepo

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/desired/gitrepo/check"
	"github.com/jibe-vnfm/jibe/desired/gitrepo/message"
	"github.com/jibe-vnfm/jibe/desired/gitrepo/objects"
	"github.com/jibe-vnfm/jibe/internal/git"
)

// WriteMany makes one commit on the directories of many instances and on files below rollouts/, and
// returns when it is durable. Each instance is compared and swapped by itself: its Change sees the
// directory where the branch stands, and one that refuses drops out. Else it is as [Repo.Write].
func (r *Repo) WriteMany(ctx context.Context, w desired.WriteMany) (desired.Written, error) {
	if w.Change == nil || message.Line(w.Subject) == "" {
		return desired.Written{}, errors.New("write many instances: a change of the files and a subject are needed")
	}
	if err := ctx.Err(); err != nil {
		return desired.Written{}, err
	}
	p := &pending{many: &w, since: time.Now(), done: make(chan struct{})}
	if err := r.await(ctx, p); err != nil {
		return desired.Written{}, err
	}
	return p.wrote, p.err
}

// applyMany runs one write of many and adds its commit. An error refuses all of it.
func (b *batch) applyMany(w *desired.WriteMany) (desired.Written, error) {
	out := desired.Written{Refused: map[string]error{}}
	var ready []prepared
	for _, c := range w.Instances {
		p, err := b.prepare(desired.Write{Instance: c.Instance, Change: c.Change})
		switch {
		case errors.Is(err, desired.ErrUnavailable):
			return desired.Written{}, err
		case err != nil:
			out.Refused[c.Instance] = err
			continue
		case p.next.Tree == "":
			out.Refused[c.Instance] = fmt.Errorf("write instance %s: a commit on many instances removes none", c.Instance)
			continue
		}
		ready = append(ready, p)
		out.Done = append(out.Done, desired.Revised{Before: p.at, After: p.next})
	}
	files, err := b.changeFiles(w, out.Done)
	if err != nil {
		return desired.Written{}, err
	}
	// Nothing refuses the write any more.
	before := b.Root()
	for _, p := range ready {
		if p.next.Tree == p.at.Tree {
			continue
		}
		if err := b.Set(p.at.Dir, git.Entry{Mode: git.ModeDir, Hash: p.next.Tree}); err != nil {
			return desired.Written{}, fmt.Errorf("%w: %w", desired.ErrUnavailable, err)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if err := b.Set(name, files[name]); err != nil {
			return desired.Written{}, fmt.Errorf("%w: %w", desired.ErrUnavailable, err)
		}
	}
	if b.Root() == before {
		return out, nil
	}
	out.Commit = b.commit(b.r.encode(b.Root(), b.parent, desired.Write{Subject: w.Subject, Body: w.Body, Trailers: w.Trailers, By: w.By}))
	for i, p := range ready {
		if p.next.Tree == p.at.Tree {
			continue
		}
		p.next.Commit = out.Commit
		out.Done[i].After = p.next
		p.slot.Rev = p.next
		b.record(p.next.Instance, p.slot)
	}
	return out, nil
}

// changeFiles are the entries of the files that the write changes, which are read where the batch
// leaves them so far.
func (b *batch) changeFiles(w *desired.WriteMany, done []desired.Revised) (map[string]git.Entry, error) {
	now, entries := map[string][]byte{}, map[string]git.Entry{}
	for _, name := range w.Files {
		if path.Clean(name) != name || !strings.HasPrefix(name, desired.RolloutDir+"/") || check.CheckPath(name) != nil {
			return nil, fmt.Errorf("%q is no file below %s/", message.Clip(name), desired.RolloutDir)
		}
		e, found, err := b.EntryAt(name)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", desired.ErrUnavailable, err)
		}
		if entries[name] = (git.Entry{Mode: git.ModeFile}); !found {
			continue
		}
		if !e.IsFile() {
			return nil, fmt.Errorf("%s is a folder", name)
		}
		if now[name], err = b.blob(e.Hash); err != nil {
			return nil, fmt.Errorf("%w: %w", desired.ErrUnavailable, b.r.read.Damaged(name, err))
		}
		entries[name] = git.Entry{Mode: e.Mode, Hash: e.Hash}
	}
	next, err := w.Change(now, done)
	if err != nil {
		return nil, err
	}
	out := map[string]git.Entry{}
	for name, data := range next {
		e, known := entries[name]
		switch old, had := now[name]; {
		case !known:
			return nil, fmt.Errorf("%s isn't one of the files that the write said it changes", name)
		case data == nil && had:
			out[name] = git.Entry{}
		case data == nil || had && bytes.Equal(old, data):
		case len(data) > objects.MaxObject:
			return nil, fmt.Errorf("write %s: %w: %d bytes", name, git.ErrTooLarge, len(data))
		default:
			e.Hash = b.Pack.Add(git.KindBlob, data)
			b.fresh = append(b.fresh, freshObject{e.Hash, git.Object{Kind: git.KindBlob, Data: bytes.Clone(data)}})
			out[name] = e
		}
	}
	return out, nil
}

// blob is a file's content, also of one that this batch has made.
func (b *batch) blob(hash string) ([]byte, error) {
	for _, o := range b.fresh {
		if o.hash == hash {
			return o.Data, nil
		}
	}
	return b.r.read.Objects.Get(b.ctx, git.KindBlob, hash)
}

// Moved returns a channel that is closed when head moves on from where it is now.
func (r *Repo) Moved() <-chan struct{} {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.moved
}

// RolloutFiles are the files of rollouts and their ledgers at head, by path, with the hashes of
// their contents ([read.Reader.Content]).
func (r *Repo) RolloutFiles(ctx context.Context) (map[string]string, error) {
	r.mu.RLock()
	root := r.root
	r.mu.RUnlock()
	return r.read.RolloutFiles(ctx, root)
}
