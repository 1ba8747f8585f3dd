package gitrepo

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/jibe-vnfm/jibe/internal/git"
)

// notesRef holds the outcome of operations as notes on their commits:
// git log --notes=jibe.
const notesRef = "refs/notes/jibe"

// maxNotes bounds the notes that wait; the oldest give way.
const maxNotes = 100_000

type note struct{ commit, line string }

// noteQueue holds the notes until the writer takes them along.
type noteQueue struct {
	mu     sync.Mutex
	queue  []note
	since  time.Time // the oldest waits
	signal chan struct{}
	folder git.Folders // of the notes' tree, the writer's own
	pushed string      // what the remote has, the fetch loop's own
}

func (q *noteQueue) init() { q.signal = make(chan struct{}, 1) }

func (q *noteQueue) added() <-chan struct{} { return q.signal }

func (q *noteQueue) waiting() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.queue) > 0
}

// ripe says whether the notes have waited long enough to travel with a batch. Under load
// batches follow each other closely. A second ref to move and sync in each would make all
// writes wait for notes, which are best effort.
func (q *noteQueue) ripe() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.queue) > 0 && time.Since(q.since) >= noteDelay
}

func (q *noteQueue) put(ns ...note) {
	q.mu.Lock()
	if len(q.queue) == 0 {
		q.since = time.Now()
	}
	q.queue = append(q.queue, ns...)
	if over := len(q.queue) - maxNotes; over > 0 {
		q.queue = slices.Delete(q.queue, 0, over)
	}
	q.mu.Unlock()
	select {
	case q.signal <- struct{}{}:
	default:
	}
}

func (q *noteQueue) take() []note {
	q.mu.Lock()
	defer q.mu.Unlock()
	ns := q.queue
	q.queue = nil
	return ns
}

// Note appends a line to a commit's note, best effort: it waits a moment for
// a batch to travel with, and then goes alone. A line that is there already isn't repeated.
func (r *Repo) Note(commit, line string) {
	if line = oneLine(line); git.IsHash(commit) && line != "" {
		r.notes.put(note{commit, line})
	}
}

// notesMove is a move of the notes' ref whose objects are in the batch's pack.
type notesMove struct {
	notes    []note
	from, to string
	editor   *git.TreeEditor
}

// buildNotes adds the notes that wait to a pack.
func (r *Repo) buildNotes(ctx context.Context, pack *git.Pack) *notesMove {
	m := &notesMove{notes: r.notes.take()}
	if len(m.notes) == 0 {
		return nil
	}
	err := func() error {
		var err error
		if m.from, err = git.ReadRef(r.opt.Dir, notesRef); err != nil {
			return err
		}
		root, err := r.rootOf(ctx, m.from)
		if err != nil {
			return err
		}
		m.editor = r.editTrees(ctx, root, r.notes.folder, pack)
		r.notes.folder = nil
		lines := map[string][]string{}
		var order []string
		for _, n := range m.notes {
			if lines[n.commit] == nil {
				order = append(order, n.commit)
			}
			lines[n.commit] = append(lines[n.commit], n.line)
		}
		for _, commit := range order {
			err := r.appendNote(ctx, m.editor, commit, lines[commit])
			if errors.Is(err, git.ErrTooLarge) {
				r.log.Warn("the note of a commit is full", "revision", commit, "error", err)
				continue // the notes of others are written nevertheless
			}
			if err != nil {
				return err
			}
		}
		if m.to = m.from; m.editor.Root() != root {
			m.to = pack.Add(git.KindCommit, git.EncodeCommit(m.editor.Root(), m.from, "", r.opt.Author, r.opt.Now(), "Note the outcome of operations\n"))
		}
		return nil
	}()
	if err != nil {
		r.log.Warn("notes not written", "ref", notesRef, "error", err)
		return nil
	}
	return m
}

// appendNote adds lines to the note of one commit, wherever in git's fan-out it is.
func (r *Repo) appendNote(ctx context.Context, ed *git.TreeEditor, commit string, lines []string) error {
	at := commit[:2] + "/" + commit[2:4] + "/" + commit[4:]
	var text string
	for _, p := range []string{at, commit[:2] + "/" + commit[2:], commit} {
		e, ok, err := ed.EntryAt(p)
		if err != nil {
			return err
		}
		if !ok || !e.IsFile() {
			continue
		}
		data, err := r.objects.Get(ctx, git.KindBlob, e.Hash)
		if err != nil {
			return fmt.Errorf("read note: %w", err)
		}
		at, text = p, string(data)
		break
	}
	if text != "" && !strings.HasSuffix(text, "\n") {
		text += "\n"
	}
	// One commit may have changed very many instances, each with its line.
	have := map[string]bool{}
	for l := range strings.SplitSeq(text, "\n") {
		have[l] = true
	}
	var more strings.Builder
	for _, l := range lines {
		if !have[l] {
			have[l] = true
			more.WriteString(l + "\n")
		}
	}
	text += more.String()
	hash := ed.Pack.Add(git.KindBlob, []byte(text))
	r.objects.Keep(hash, git.Object{Kind: git.KindBlob, Data: []byte(text)})
	if e, ok, err := ed.EntryAt(at); err == nil && ok && e.Hash == hash {
		return nil
	}
	return ed.Set(at, git.Entry{Mode: git.ModeFile, Hash: hash})
}

// moveNotes moves the notes' ref; notes that lose a race wait for the next batch.
func (r *Repo) moveNotes(ctx context.Context, m *notesMove) {
	if m == nil {
		return
	}
	if m.to != m.from {
		if err := r.refs.Move(ctx, notesRef, m.to, m.from); err != nil {
			if errors.Is(err, git.ErrRefMoved) || errors.Is(err, git.ErrRefLocked) {
				r.notes.put(m.notes...)
			}
			r.log.Warn("notes not written", "ref", notesRef, "error", err)
			return
		}
	}
	r.notes.folder = m.editor.Folders()
}

// flushNotes writes the notes that wait without a batch.
func (r *Repo) flushNotes(ctx context.Context) {
	if !r.notes.waiting() {
		return
	}
	r.move.Lock()
	defer r.move.Unlock()
	pack := git.NewPack()
	m := r.buildNotes(ctx, pack)
	if m == nil {
		return
	}
	if m.to != m.from {
		if err := pack.Write(r.opt.Dir, ownDir(r.opt.Dir)); err != nil {
			r.log.Warn("notes not written", "ref", notesRef, "error", err)
			return
		}
		r.maint.packs.Add(1)
	}
	r.moveNotes(ctx, m)
}
