package gitrepo

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/jibe-vnfm/jibe/desired/gitrepo/message"
	"github.com/jibe-vnfm/jibe/desired/gitrepo/objects"
	"github.com/jibe-vnfm/jibe/internal/git"
)

// maxNotes bounds the notes that wait while git can't be written; the oldest give way.
const maxNotes = 1_000_000

// A note that is large is written anew only when as much has come as it holds, or when what
// came has waited for long: else the notes of one commit that began very many operations would
// be written again with each of them.
const (
	largeNote = 64 << 10        // bytes from which a note is large
	largeWait = 5 * time.Second // for each MiB of the note
)

// notesPause is after how long notes that could not be written are tried again; it doubles up
// to maxNotesPause.
const (
	notesPause    = time.Second
	maxNotesPause = time.Minute
)

type note struct{ commit, line string }

// noteQueue holds the notes until the writer takes them along.
type noteQueue struct {
	mu     sync.Mutex
	queue  []note
	since  time.Time // the oldest waits
	behind bool      // some of late wait
	taken  time.Time // when take was called last
	signal chan struct{}

	// Under Repo.move:

	late    map[string]*lateNote // by commit
	sizes   map[string]int       // of the large notes, in bytes, by commit
	journal noteJournal
	pause   time.Duration // after an error
	retry   time.Time     // nothing is written before

	folder git.Folders // of the notes' tree, the writer's own
}

// lateNote are the lines that wait for a note of one commit, each once.
type lateNote struct {
	lines []string
	has   map[string]bool
	bytes int // of lines
	since time.Time
}

func (q *noteQueue) init(journal string) {
	q.signal = make(chan struct{}, 1)
	q.late, q.sizes, q.journal = map[string]*lateNote{}, map[string]int{}, noteJournal{name: journal}
}

func (q *noteQueue) added() <-chan struct{} { return q.signal }

func (q *noteQueue) waiting() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.queue) > 0 || q.behind
}

// ripe says whether the notes have waited long enough to travel with a batch. Under load
// batches follow each other closely. A second ref to move and sync in each would make all
// writes wait for notes, which are best effort.
func (q *noteQueue) ripe() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.queue) > 0 && time.Since(q.since) >= noteDelay || q.behind && time.Since(q.taken) >= noteDelay
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

// take moves what has come to late, and returns the notes whose turn it is by commit; all of
// them where they can't wait any longer. What stays is in the journal afterwards.
func (q *noteQueue) take(all bool) (map[string][]string, error) {
	q.mu.Lock()
	came := q.queue
	q.queue, q.taken = nil, time.Now()
	q.mu.Unlock()
	now := time.Now()
	came = slices.DeleteFunc(came, func(n note) bool { return q.wait(n.commit, now, n.line) == nil })
	out := map[string][]string{}
	if all || !now.Before(q.retry) {
		for commit, l := range q.late {
			if size := q.sizes[commit]; all || l.bytes >= size || now.Sub(l.since) >= largeWait*time.Duration(size)>>20 {
				out[commit] = l.lines
				delete(q.late, commit)
			}
		}
	}
	q.mark()
	return out, q.journal.add(slices.DeleteFunc(came, func(n note) bool { return q.late[n.commit] == nil }))
}

// wait lets lines wait for a note of the commit, and returns those that didn't yet.
func (q *noteQueue) wait(commit string, since time.Time, lines ...string) (more []string) {
	l := q.late[commit]
	if l == nil {
		l = &lateNote{since: since, has: map[string]bool{}}
		q.late[commit] = l
	}
	for _, line := range lines {
		if l.has[line] {
			continue
		}
		l.has[line] = true
		l.lines, l.bytes = append(l.lines, line), l.bytes+len(line)+1
		more = append(more, line)
	}
	return more
}

func (q *noteQueue) mark() {
	q.mu.Lock()
	q.behind = len(q.late) > 0
	q.mu.Unlock()
}

// again takes notes whose batch began anew.
func (q *noteQueue) again(notes map[string][]string) {
	for commit, lines := range notes {
		for _, line := range lines {
			q.put(note{commit, line})
		}
	}
}

// back takes notes that could not be written. They are tried again after a pause. The journal is
// written anew with all that waits: however often it is tried, it grows by none.
func (q *noteQueue) back(notes map[string][]string) error {
	now := time.Now()
	for commit, lines := range notes {
		q.wait(commit, now, lines...)
	}
	q.pause = min(max(2*q.pause, notesPause), maxNotesPause)
	q.retry = now.Add(q.pause)
	q.mark()
	var all []note
	for commit, l := range q.late {
		for _, line := range l.lines {
			all = append(all, note{commit, line})
		}
	}
	return q.journal.replace(all)
}

// written forgets the journal once nothing waits any more.
func (q *noteQueue) written() error {
	q.pause, q.retry = 0, time.Time{}
	if len(q.late) > 0 {
		return nil
	}
	return q.journal.clear()
}

// Note appends a line to a commit's note, best effort: it waits a moment for
// a batch to travel with, and then goes alone. A line that is there already isn't repeated.
func (r *Repo) Note(commit, line string) {
	r.noteOneLine(commit, message.Line(line))
}

func (r *Repo) noteOneLine(commit, line string) {
	if git.IsHash(commit) && line != "" {
		r.notes.put(note{commit, line})
	}
}

// Attest implements [desired.Repo]: it is Note of a line with facts, which [Repo.Evidence] reads again.
func (r *Repo) Attest(commit, line string, facts []byte) {
	r.noteOneLine(commit, r.noteLine(commit, line, facts))
}

// notesMove is a move of the notes' ref whose objects are in the batch's pack.
type notesMove struct {
	notes    map[string][]string
	from, to string
	editor   *git.TreeEditor
	sizes    map[string]int // of the notes that are written, in bytes
}

// buildNotes adds the notes whose turn it is to a pack, all of them or only those that needn't
// wait. nil is none.
func (r *Repo) buildNotes(ctx context.Context, pack *git.Pack, all bool) *notesMove {
	due, err := r.notes.take(all)
	if err != nil {
		r.log.Warn("notes that wait would not outlive a crash", "error", err)
	}
	if len(due) == 0 {
		return nil
	}
	m := &notesMove{notes: due, sizes: map[string]int{}}
	err = func() error {
		var err error
		if m.from, err = git.ReadRef(r.opt.Dir, objects.NotesRef); err != nil {
			return err
		}
		root, err := r.read.RootOf(ctx, m.from)
		if err != nil {
			return err
		}
		m.editor = r.read.EditTrees(ctx, root, r.notes.folder, pack)
		r.notes.folder = nil
		for _, commit := range slices.Sorted(maps.Keys(due)) {
			size, err := r.appendNote(ctx, m.editor, commit, due[commit])
			if errors.Is(err, git.ErrTooLarge) {
				r.log.Warn("the note of a commit is full", "revision", commit, "error", err)
				continue // the notes of others are written nevertheless
			}
			if err != nil {
				return err
			}
			m.sizes[commit] = size
		}
		if m.to = m.from; m.editor.Root() != root {
			m.to = pack.Add(git.KindCommit, git.EncodeCommit(m.editor.Root(), m.from, "", r.opt.Author, r.opt.Now(), "Note the outcome of operations\n"))
		}
		return nil
	}()
	if err != nil {
		r.notesBack(m, err)
		return nil
	}
	return m
}

// notesBack lets notes wait that could not be written.
func (r *Repo) notesBack(m *notesMove, err error) {
	r.log.Warn("notes not written, they are tried again", "ref", objects.NotesRef, "error", errors.Join(err, r.notes.back(m.notes)))
}

// appendNote adds lines to the note of one commit, wherever in git's fan-out it is, and returns
// its size in bytes.
func (r *Repo) appendNote(ctx context.Context, ed *git.TreeEditor, commit string, lines []string) (size int, err error) {
	at := commit[:2] + "/" + commit[2:4] + "/" + commit[4:]
	var text []byte
	for _, p := range []string{at, commit[:2] + "/" + commit[2:], commit} {
		e, ok, err := ed.EntryAt(p)
		if err != nil {
			return 0, err
		}
		if !ok || !e.IsFile() {
			continue
		}
		// A note isn't kept in memory: it is read only to be replaced.
		if text, err = r.readNote(ctx, e.Hash); err != nil {
			return 0, fmt.Errorf("read note: %w", err)
		}
		at = p
		break
	}
	more := missingLines(text, lines)
	if len(more) == 0 {
		return len(text), nil
	}
	text = joinLines(text, more)
	return len(text), ed.Set(at, git.Entry{Mode: git.ModeFile, Hash: ed.Pack.Add(git.KindBlob, text)})
}

// missingLines returns those of the lines that the text lacks, each once, in order.
func missingLines(text []byte, lines []string) []string {
	lacks := make(map[string]bool, len(lines))
	for _, l := range lines {
		lacks[l] = true
	}
	for l := range bytes.SplitSeq(text, []byte("\n")) {
		delete(lacks, string(l))
	}
	out := make([]string, 0, len(lacks))
	for _, l := range lines {
		if lacks[l] {
			delete(lacks, l)
			out = append(out, l)
		}
	}
	return out
}

// joinLines returns the text with lines at its end.
func joinLines(text []byte, lines []string) []byte {
	size := len(text) + 1
	for _, l := range lines {
		size += len(l) + 1
	}
	out := append(make([]byte, 0, size), text...)
	if len(out) > 0 && out[len(out)-1] != '\n' {
		out = append(out, '\n')
	}
	for _, l := range lines {
		out = append(append(out, l...), '\n')
	}
	return out
}

// moveNotes moves the notes' ref; notes that lose a race are tried again.
func (r *Repo) moveNotes(ctx context.Context, m *notesMove) {
	if m == nil {
		return
	}
	if m.to != m.from {
		if err := r.refs.Move(ctx, objects.NotesRef, m.to, m.from); err != nil {
			if errors.Is(err, git.ErrRefLocked) { // by a git that a crash ended, perhaps
				err = errors.Join(err, r.breakLocks())
			}
			r.notesBack(m, err)
			return
		}
	}
	r.notes.folder = m.editor.Folders()
	for commit, size := range m.sizes {
		if delete(r.notes.sizes, commit); size >= largeNote {
			r.notes.sizes[commit] = size
		}
	}
	if err := r.notes.written(); err != nil {
		r.log.Warn("notes that are written would be looked at again after a restart", "error", err)
	}
}

// flushNotes writes the notes that wait without a batch, all of them or only those whose turn
// it is. After all of them are written, so are those that somebody else was writing already.
func (r *Repo) flushNotes(ctx context.Context, all bool) {
	if !all && !r.notes.waiting() {
		return
	}
	r.move.Lock()
	defer r.move.Unlock()
	if !r.notes.waiting() {
		return
	}
	pack := git.NewPack()
	m := r.buildNotes(ctx, pack, all)
	if m == nil {
		return
	}
	if m.to != m.from {
		if err := pack.Write(r.opt.Dir, objects.OwnDir(r.opt.Dir)); err != nil {
			r.notesBack(m, err)
			return
		}
		r.maint.packs.Add(1)
	}
	r.moveNotes(ctx, m)
}
