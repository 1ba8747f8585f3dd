package read

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/desired/gitrepo/message"
	"github.com/jibe-vnfm/jibe/internal/git"
)

// FileDiff is what a change does to one file, as people read it.
type FileDiff struct {
	// Path is the file's, after the change where it has one then; Was is its former path where that
	// is another one.
	Path, Was string
	Lines     []DiffLine
	// Cut says that lines at the end are left out; Binary that the file is no text.
	Cut, Binary bool
}

// DiffLine is a line of a diff. Op is '+', '-', ' ' or, for a line that says where in the file the next
// ones are, '@'.
type DiffLine struct {
	Op   byte
	Text string
}

// Diffs is what differs between two commits.
type Diffs struct {
	Files []FileDiff
	// Cut says that more files or lines differ than are told.
	Cut bool
}

// Patch returns what differs from one commit to another; from "" is the empty repository. keep says
// of which files the caller is told; nil is all. hide is called with all lines of each file, of both
// sides and those that don't differ too, and alters the texts that nobody is shown. What is much is cut.
func (r *Reader) Patch(ctx context.Context, from, to string, keep func(path string) bool, hide func([]DiffLine)) (*Diffs, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if from == "" {
		from = emptyTree
	}
	for _, hash := range []string{from, to} {
		if !git.IsHash(hash) {
			return nil, fmt.Errorf("%w: commit %q", desired.ErrNotFound, message.Clip(hash))
		}
	}
	cmd := r.Git.Command(ctx, "-c", "core.quotePath=false", "diff-tree", "-r", "-p", "--no-ext-diff", "--no-textconv", "--no-color", "--no-renames", fmt.Sprintf("--unified=%d", mostFileRead),
		"--src-prefix=a/", "--dst-prefix=b/", from, to, "--")
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("%w: git diff-tree: %w", desired.ErrUnavailable, err)
	}
	d, err := readPatch(out, keep, hide)
	if err == nil && d.Cut {
		cancel() // the rest isn't told
		_ = cmd.Wait()
		return d, nil
	}
	return d, errors.Join(err, cmd.Wait())
}

// emptyTree is git's name of a tree without entries.
const emptyTree = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"

// readPatch reads git's form of a diff that has whole files.
func readPatch(r io.Reader, keep func(string) bool, hide func([]DiffLine)) (*Diffs, error) {
	d := &Diffs{}
	in := bufio.NewReaderSize(r, 64<<10)
	var f *FileDiff
	skip, read, total, hunk := false, 0, 0, false
	end := func() {
		if f == nil {
			return
		}
		hide(f.Lines)
		f.Lines = Hunks(f.Lines)
		if most := min(mostFileLines, mostDiffLines-total); len(f.Lines) > most {
			f.Lines, f.Cut = f.Lines[:most], true
		}
		total += len(f.Lines)
	}
	for {
		line, err := in.ReadSlice('\n')
		text := strings.TrimRight(string(line), "\n")
		for errors.Is(err, bufio.ErrBufferFull) { // the rest of a very long line
			_, err = in.ReadSlice('\n')
		}
		if err != nil && !errors.Is(err, io.EOF) {
			return nil, err
		}
		last := err != nil
		switch {
		case strings.HasPrefix(text, "diff --git "):
			end()
			name := patchPath(text)
			f, hunk = nil, false
			if skip = keep != nil && !keep(name); skip {
				break
			}
			if len(d.Files) == mostDiffFiles || total >= mostDiffLines || read >= mostDiffRead {
				d.Cut = true
				return d, nil
			}
			d.Files = append(d.Files, FileDiff{Path: name})
			f = &d.Files[len(d.Files)-1]
		case skip || f == nil:
		case strings.HasPrefix(text, "Binary files ") && !hunk:
			f.Binary = true
		case strings.HasPrefix(text, "@@ "):
			// A part of a file alone doesn't tell what its lines belong to.
			hunk = strings.HasPrefix(text, "@@ -1 ") || strings.HasPrefix(text, "@@ -1,") || strings.HasPrefix(text, "@@ -0,0 ")
			f.Cut = f.Cut || !hunk
		case hunk && text != "" && strings.ContainsRune("+- ", rune(text[0])):
			if len(f.Lines) == mostFileRead || read == mostDiffRead {
				f.Cut, hunk = true, false
				break
			}
			f.Lines = append(f.Lines, diffLine(text))
			read++
		}
		if last {
			end()
			return d, nil
		}
	}
}

// patchPath is the path in "diff --git a/PATH b/PATH". Without renames both are the same.
func patchPath(line string) string {
	rest := strings.TrimPrefix(line, "diff --git ")
	if half := (len(rest) - 1) / 2; len(rest) > 4 && !strings.HasPrefix(rest, `"`) {
		return strings.TrimPrefix(rest[half+1:], "b/")
	}
	_, second, _ := strings.Cut(rest, `" "`)
	name, err := strconv.Unquote(`"` + second) // git quotes as C does, and so does Go
	if err != nil {
		name = strings.TrimSuffix(second, `"`)
	}
	return strings.TrimPrefix(name, "b/")
}

func diffLine(text string) DiffLine {
	l := DiffLine{Op: text[0], Text: text[1:]}
	if len(l.Text) > mostDiffLine {
		l.Text = l.Text[:mostDiffLine] + "…"
	}
	l.Text = strings.ToValidUTF8(l.Text, "�")
	return l
}

// Hunks leaves out of the lines of two whole files what is far from any change, and says where in
// the files the rest is.
func Hunks(all []DiffLine) []DiffLine {
	near := make([]bool, len(all))
	for i, l := range all {
		if l.Op != ' ' {
			for j := max(0, i-diffContext); j <= min(len(all)-1, i+diffContext); j++ {
				near[j] = true
			}
		}
	}
	var out []DiffLine
	oldLine, newLine, gap := 1, 1, true
	for i, l := range all {
		switch {
		case near[i] && gap:
			out = append(out, DiffLine{Op: '@', Text: fmt.Sprintf("@@ -%d +%d @@", oldLine, newLine)}, l)
		case near[i]:
			out = append(out, l)
		}
		gap = !near[i]
		if l.Op != '+' {
			oldLine++
		}
		if l.Op != '-' {
			newLine++
		}
	}
	return out
}

// Bounds on a diff for people.
const (
	mostDiffFiles = 200
	mostDiffLines = 4000 // of all files
	mostFileLines = 1000
	mostDiffLine  = 1000 // bytes
	diffContext   = 3    // lines around a change
	// How many lines are read of one file, and of all, to tell what the changed ones belong to.
	mostFileRead = 10_000
	mostDiffRead = 100_000
)
