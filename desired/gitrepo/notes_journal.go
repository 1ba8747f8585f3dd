package gitrepo

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/jibe-vnfm/jibe/internal/git"
)

// noteJournal is the file of the notes that wait for their turn, so that a crash loses none of
// them: one a line, "<commit> <line>". Notes that are in git already may stand in it.
type noteJournal struct {
	name  string
	holds bool // the file exists
}

// journalBuffer is how much of the journal is written at once, in bytes.
const journalBuffer = 64 << 10

// add makes notes durable.
func (j *noteJournal) add(notes []note) error {
	if len(notes) == 0 {
		return nil
	}
	f, err := os.OpenFile(j.name, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return fmt.Errorf("keep notes: %w", err)
	}
	w := bufio.NewWriterSize(f, journalBuffer)
	for _, n := range notes {
		for _, s := range [...]string{n.commit, " ", n.line, "\n"} {
			_, _ = w.WriteString(s) // Flush says what went wrong
		}
	}
	if err = w.Flush(); err == nil {
		err = f.Sync()
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err == nil && !j.holds {
		err = git.SyncDir(filepath.Dir(j.name))
	}
	if err != nil {
		return fmt.Errorf("keep notes: %w", err)
	}
	j.holds = true
	return nil
}

// replace makes the notes all that the journal holds.
func (j *noteJournal) replace(notes []note) error {
	tmp := noteJournal{name: j.name + ".new"}
	if err := os.Remove(tmp.name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("keep notes: %w", err)
	}
	if len(notes) == 0 {
		return j.clear()
	}
	if err := tmp.add(notes); err != nil {
		return err
	}
	if err := os.Rename(tmp.name, j.name); err != nil {
		return fmt.Errorf("keep notes: %w", err)
	}
	j.holds = true
	return git.SyncDir(filepath.Dir(j.name))
}

// read returns the notes that a former process left, each once.
func (j *noteJournal) read() ([]note, error) {
	f, err := os.Open(j.name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the notes that wait: %w", err)
	}
	defer f.Close()
	j.holds = true
	var out []note
	seen := map[note]bool{}
	for r := bufio.NewReader(f); ; {
		line, err := r.ReadString('\n')
		if errors.Is(err, io.EOF) { // a line without its end was being written when the process died
			return out, nil
		}
		if err != nil {
			return nil, fmt.Errorf("read the notes that wait: %w", err)
		}
		commit, text, ok := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		if n := (note{commit, text}); ok && git.IsHash(commit) && text != "" && !seen[n] {
			seen[n] = true
			out = append(out, n)
		}
	}
}

// clear forgets all notes: they are in git.
func (j *noteJournal) clear() error {
	if !j.holds {
		return nil
	}
	if err := os.Remove(j.name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("forget the notes that waited: %w", err)
	}
	j.holds = false
	return nil
}
