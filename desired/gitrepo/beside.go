package gitrepo

import (
	"fmt"
	"slices"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/internal/git"
)

// applyBeside is apply for a write that leaves alone what waits at head: it adds two commits. An error
// refuses both, unless it is desired.ErrUnavailable.
func (b *batch) applyBeside(w desired.Write) (desired.Revision, error) {
	beside := *w.Beside
	at, err := b.locate(w)
	if err != nil {
		return at, err
	}
	if w.Beside = nil; at.Tree == beside.From.Tree {
		return b.apply(w) // nothing waits any more
	}
	waits, standing, err := b.readDir(at.Tree)
	if err != nil {
		return at, fmt.Errorf("%w: %w", desired.ErrUnavailable, b.r.read.Damaged(at.Dir, err))
	}
	from, entries, err := b.readDir(beside.From.Tree)
	if err != nil {
		return at, fmt.Errorf("%w: %w", desired.ErrUnavailable, b.r.read.Damaged(at.Dir+" (tree "+beside.From.Tree+")", err))
	}
	made, err := w.Change(at, from)
	if err != nil {
		return at, err
	}
	next, err := beside.Change(waits, made)
	if err != nil {
		return at, err
	}
	first, err := b.content(at, made, from, entries)
	if err != nil {
		return at, err
	}
	second, err := b.content(at, next, waits, standing)
	switch {
	case err != nil:
		return at, err
	case first.next.Tree == "":
		return at, fmt.Errorf("write instance %s beside what waits: no %s is left", w.Instance, desired.InstanceFile)
	case first.next.Tree == beside.From.Tree && second.next.Tree == at.Tree:
		return beside.From, nil
	}
	if asks(w) && len(b.r.opt.Key) > 0 {
		w.Trailers = append(slices.Clip(w.Trailers), revisionOf(beside.From, first.next))
	}
	if err := b.Set(at.Dir, git.Entry{Mode: git.ModeDir, Hash: first.next.Tree}); err != nil {
		return at, err
	}
	first.next.Commit = b.commit(b.r.encode(b.Root(), b.parent, w))
	if err := b.Set(at.Dir, git.Entry{Mode: git.ModeDir, Hash: second.next.Tree}); err != nil {
		return at, fmt.Errorf("%w: %w", desired.ErrUnavailable, err) // the first can't be without it
	}
	second.next.Commit = b.commit(b.r.encode(b.Root(), b.parent,
		desired.Write{Subject: beside.Subject, Body: beside.Body, Trailers: beside.Trailers, By: beside.By}))
	if second.next.Tree != at.Tree {
		second.slot.Rev = second.next
		b.record(w.Instance, second.slot)
	}
	return first.next, nil
}
