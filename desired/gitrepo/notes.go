package gitrepo

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
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
	folder map[string]*workTree // of the notes' tree, the writer's own
	pushed string               // what the remote has, the fetch loop's own
}

func (q *noteQueue) init() { q.signal = make(chan struct{}, 1) }

func (q *noteQueue) added() <-chan struct{} { return q.signal }

func (q *noteQueue) waiting() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.queue) > 0
}

// ripe says whether the notes have waited long enough to travel with a batch. Under
// load batches follow each other closely, and a second ref to move and sync in each
// would make all writes wait for what is best effort.
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
	if line = oneLine(line); isHash(commit) && line != "" {
		r.notes.put(note{commit, line})
	}
}

// notesMove is a move of the notes' ref whose objects are in the batch's pack.
type notesMove struct {
	notes    []note
	from, to string
	editor   *treeEditor
}

// buildNotes adds the notes that wait to a pack.
func (r *Repo) buildNotes(ctx context.Context, pack *packBuilder) *notesMove {
	m := &notesMove{notes: r.notes.take()}
	if len(m.notes) == 0 {
		return nil
	}
	err := func() error {
		var err error
		if m.from, err = readRef(r.opt.Dir, notesRef); err != nil {
			return err
		}
		root, err := r.rootOf(ctx, m.from)
		if err != nil {
			return err
		}
		m.editor = newTreeEditor(ctx, r.Reader, root, r.notes.folder, pack)
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
			if errors.Is(err, errTooLarge) {
				r.log.Warn("the note of a commit is full", "revision", commit, "error", err)
				continue // the others' are written all the same
			}
			if err != nil {
				return err
			}
		}
		if m.to = m.from; m.editor.root != root {
			m.to = pack.add(kindCommit, encodeCommit(m.editor.root, m.from, "", r.opt.Author, r.opt.Now(), "Note the outcome of operations\n"))
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
func (r *Repo) appendNote(ctx context.Context, ed *treeEditor, commit string, lines []string) error {
	at := commit[:2] + "/" + commit[2:4] + "/" + commit[4:]
	var text string
	for _, p := range []string{at, commit[:2] + "/" + commit[2:], commit} {
		e, ok, err := ed.entryAt(p)
		if err != nil {
			return err
		}
		if !ok || !e.isFile() {
			continue
		}
		data, err := r.objects.get(ctx, kindBlob, e.hash)
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
	hash := ed.pack.add(kindBlob, []byte(text))
	r.objects.cache.add(hash, object{kindBlob, []byte(text)}, len(text))
	if e, ok, err := ed.entryAt(at); err == nil && ok && e.hash == hash {
		return nil
	}
	return ed.splice(at, entry{mode: modeFile, hash: hash})
}

// moveNotes moves the notes' ref; notes that lose a race wait for the next batch.
func (r *Repo) moveNotes(ctx context.Context, m *notesMove) {
	if m == nil {
		return
	}
	if m.to != m.from {
		if err := r.refs.move(ctx, notesRef, m.to, m.from); err != nil {
			if errors.Is(err, errRefMoved) || errors.Is(err, errRefLocked) {
				r.notes.put(m.notes...)
			}
			r.log.Warn("notes not written", "ref", notesRef, "error", err)
			return
		}
	}
	r.notes.folder = m.editor.folder
}

// flushNotes writes the notes that wait without a batch.
func (r *Repo) flushNotes(ctx context.Context) {
	if !r.notes.waiting() {
		return
	}
	r.move.Lock()
	defer r.move.Unlock()
	pack := newPackBuilder()
	m := r.buildNotes(ctx, pack)
	if m == nil {
		return
	}
	if m.to != m.from {
		if err := pack.writePack(r.opt.Dir); err != nil {
			r.log.Warn("notes not written", "ref", notesRef, "error", err)
			return
		}
		r.maint.packs.Add(1)
	}
	r.moveNotes(ctx, m)
}
