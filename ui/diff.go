package ui

import (
	"bytes"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/desired/gitrepo/read"
)

// Bounds on the difference of two files: more lines are shown as replaced in whole, and cut.
const (
	mostCompared  = 4 << 20 // pairs of lines
	mostDiffShown = 1000    // lines
)

// diffFiles is how the files of one directory differ. hide takes secrets out of the lines of a file.
func diffFiles(dir string, old, now desired.Files, hide func([]read.DiffLine)) []read.FileDiff {
	names := slices.Collect(maps.Keys(old))
	for name := range now {
		if _, ok := old[name]; !ok {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	var list []read.FileDiff
	for _, name := range names {
		if a, b := old[name], now[name]; !bytes.Equal(a, b) {
			f := read.FileDiff{Path: path.Join(dir, name)}
			if bytes.IndexByte(a, 0) >= 0 || bytes.IndexByte(b, 0) >= 0 {
				f.Binary = true
			} else {
				f.Lines = diffLines(linesOf(a), linesOf(b))
				hide(f.Lines)
				f.Lines = read.Hunks(f.Lines)
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

// diffLines is the shortest difference of two texts, with all lines of both.
func diffLines(a, b []string) []read.DiffLine {
	head := 0
	for head < len(a) && head < len(b) && a[head] == b[head] {
		head++
	}
	tail := 0
	for tail < len(a)-head && tail < len(b)-head && a[len(a)-1-tail] == b[len(b)-1-tail] {
		tail++
	}
	var all []read.DiffLine
	for _, l := range a[:head] {
		all = append(all, read.DiffLine{Op: ' ', Text: l})
	}
	all = append(all, changedLines(a[head:len(a)-tail], b[head:len(b)-tail])...)
	for _, l := range a[len(a)-tail:] {
		all = append(all, read.DiffLine{Op: ' ', Text: l})
	}
	return all
}

// changedLines compares by the longest common subsequence.
func changedLines(a, b []string) []read.DiffLine {
	var out []read.DiffLine
	if len(a)*len(b) > mostCompared {
		for _, l := range a {
			out = append(out, read.DiffLine{Op: '-', Text: l})
		}
		for _, l := range b {
			out = append(out, read.DiffLine{Op: '+', Text: l})
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
			out = append(out, read.DiffLine{Op: ' ', Text: a[i]})
			i, j = i+1, j+1
		case i < len(a) && (j == len(b) || most[(i+1)*width+j] >= most[i*width+j+1]):
			out = append(out, read.DiffLine{Op: '-', Text: a[i]})
			i++
		default:
			out = append(out, read.DiffLine{Op: '+', Text: b[j]})
			j++
		}
	}
	return out
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
