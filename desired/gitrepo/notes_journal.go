package gitrepo

import (
	"bytes"
	"errors"
	"fmt"
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

// add makes notes durable.
func (j *noteJournal) add(notes []note) error {
	if len(notes) == 0 {
		return nil
	}
	f, err := os.OpenFile(j.name, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return fmt.Errorf("keep notes: %w", err)
	}
	var b bytes.Buffer
	for _, n := range notes {
		b.WriteString(n.commit + " " + n.line + "\n")
	}
	_, err = f.Write(b.Bytes())
	if err == nil {
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

// read returns the notes that a former process left.
func (j *noteJournal) read() ([]note, error) {
	data, err := os.ReadFile(j.name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the notes that wait: %w", err)
	}
	j.holds = true
	var out []note
	for line := range strings.Lines(string(data)) {
		commit, text, ok := strings.Cut(line, " ")
		// A line without its end was being written when the process died.
		if text, whole := strings.CutSuffix(text, "\n"); ok && whole && git.IsHash(commit) && text != "" {
			out = append(out, note{commit, text})
		}
	}
	return out, nil
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
