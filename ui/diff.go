package ui

import (
	"bytes"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/desired/gitrepo"
)

// Bounds on the difference of two files: more lines are shown as replaced in whole, and cut.
const (
	mostCompared  = 4 << 20 // pairs of lines
	mostDiffShown = 1000    // lines
	diffContext   = 3       // lines around a change
)

// diffFiles is how the files of one directory differ.
func diffFiles(dir string, old, now desired.Files) []gitrepo.FileDiff {
	names := slices.Collect(maps.Keys(old))
	for name := range now {
		if _, ok := old[name]; !ok {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	var list []gitrepo.FileDiff
	for _, name := range names {
		if a, b := old[name], now[name]; !bytes.Equal(a, b) {
			f := gitrepo.FileDiff{Path: path.Join(dir, name)}
			if bytes.IndexByte(a, 0) >= 0 || bytes.IndexByte(b, 0) >= 0 {
				f.Binary = true
			} else {
				f.Lines = diffLines(linesOf(a), linesOf(b))
			}
			if len(f.Lines) > mostDiffShown {
				f.Lines, f.Cut = f.Lines[:mostDiffShown], true
			}
			list = append(list, f)
		}
	}
	return list
}

func linesOf(b []byte) []string {
	text := strings.TrimSuffix(strings.ToValidUTF8(string(b), "�"), "\n")
	if text == "" {
		return nil
	}
	return strings.Split(text, "\n")
}

// diffLines is the shortest difference of two texts, with what stands around each change.
func diffLines(a, b []string) []gitrepo.DiffLine {
	head := 0
	for head < len(a) && head < len(b) && a[head] == b[head] {
		head++
	}
	tail := 0
	for tail < len(a)-head && tail < len(b)-head && a[len(a)-1-tail] == b[len(b)-1-tail] {
		tail++
	}
	var all []gitrepo.DiffLine
	for _, l := range a[:head] {
		all = append(all, gitrepo.DiffLine{Op: ' ', Text: l})
	}
	all = append(all, changedLines(a[head:len(a)-tail], b[head:len(b)-tail])...)
	for _, l := range a[len(a)-tail:] {
		all = append(all, gitrepo.DiffLine{Op: ' ', Text: l})
	}
	return hunks(all)
}

// changedLines compares by the longest common subsequence.
func changedLines(a, b []string) []gitrepo.DiffLine {
	var out []gitrepo.DiffLine
	if len(a)*len(b) > mostCompared {
		for _, l := range a {
			out = append(out, gitrepo.DiffLine{Op: '-', Text: l})
		}
		for _, l := range b {
			out = append(out, gitrepo.DiffLine{Op: '+', Text: l})
		}
		return out
	}
	width := len(b) + 1
	most := make([]int32, (len(a)+1)*width) // of a[i:] and b[j:]
	for i := len(a) - 1; i >= 0; i-- {
		for j := len(b) - 1; j >= 0; j-- {
			if a[i] == b[j] {
				most[i*width+j] = most[(i+1)*width+j+1] + 1
			} else {
				most[i*width+j] = max(most[(i+1)*width+j], most[i*width+j+1])
			}
		}
	}
	i, j := 0, 0
	for i < len(a) || j < len(b) {
		switch {
		case i < len(a) && j < len(b) && a[i] == b[j]:
			out = append(out, gitrepo.DiffLine{Op: ' ', Text: a[i]})
			i, j = i+1, j+1
		case i < len(a) && (j == len(b) || most[(i+1)*width+j] >= most[i*width+j+1]):
			out = append(out, gitrepo.DiffLine{Op: '-', Text: a[i]})
			i++
		default:
			out = append(out, gitrepo.DiffLine{Op: '+', Text: b[j]})
			j++
		}
	}
	return out
}

// hunks leaves out what is far from any change, and says where in the files the rest is.
func hunks(all []gitrepo.DiffLine) []gitrepo.DiffLine {
	near := make([]bool, len(all))
	for i, l := range all {
		if l.Op != ' ' {
			for j := max(0, i-diffContext); j <= min(len(all)-1, i+diffContext); j++ {
				near[j] = true
			}
		}
	}
	var out []gitrepo.DiffLine
	oldLine, newLine, gap := 1, 1, true
	for i, l := range all {
		switch {
		case near[i] && gap:
			out = append(out, gitrepo.DiffLine{Op: '@', Text: fmt.Sprintf("@@ -%d +%d @@", oldLine, newLine)}, l)
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

// hiddenValue stands for the value of a secret.
const hiddenValue = "(hidden)"

// hideSecrets takes values of secrets that stand in clear out of a difference: a repository may have
// them from before Jibe refused them. References to secrets stay.
func hideSecrets(files []gitrepo.FileDiff, names desired.SecretNames) []gitrepo.FileDiff {
	for i := range files {
		files[i].Lines = slices.Clone(files[i].Lines)
		below := map[byte]int{} // by side, the indentation of a secret's key whose value follows
		for j, l := range files[i].Lines {
			if l.Op == '@' {
				clear(below)
				continue
			}
			indent := len(l.Text) - len(strings.TrimLeft(l.Text, " "))
			if at, in := below[l.Op]; in {
				if strings.TrimSpace(l.Text) == "" || indent > at {
					files[i].Lines[j].Text = l.Text[:indent] + hiddenValue
					continue
				}
				delete(below, l.Op)
			}
			text, open := hideLine(l.Text, names)
			files[i].Lines[j].Text = text
			if open {
				below[l.Op] = indent
			}
		}
	}
	return files
}

// hideLine hides what follows each name of a secret in a line of YAML; open says that its value stands
// in the lines that follow.
func hideLine(line string, names desired.SecretNames) (text string, open bool) {
	for at := 0; ; {
		i := strings.IndexByte(line[at:], ':')
		if i < 0 {
			return line, false
		}
		i += at
		start := strings.LastIndexAny(line[:i], " ,{[\t") + 1
		name := strings.Trim(line[start:i], `"'- `)
		value := strings.TrimSpace(line[i+1:])
		at = i + 1
		if name == "" || !names.Match(name) {
			continue
		}
		bare := strings.Trim(strings.TrimRight(value, ",}] "), `"'`)
		switch {
		case value == "", strings.HasPrefix(value, "|"), strings.HasPrefix(value, ">"):
			return line, true
		case desired.IsRef(bare):
			continue
		}
		return line[:i+1] + " " + hiddenValue, false
	}
}

// diffClass is the class of a line of a diff.
func diffClass(op byte) string {
	switch op {
	case '+':
		return "added"
	case '-':
		return "removed"
	case '@':
		return "place"
	}
	return "same"
}
