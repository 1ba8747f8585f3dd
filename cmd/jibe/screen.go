package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"
	"unicode"

	"golang.org/x/term"

	"github.com/jibe-vnfm/jibe/admission/plantext"
)

// screen is what a command writes to. Its zero value is a file or a pipe, which gets plain
// text: no colours, no redrawing, nothing cut.
type screen struct {
	live          bool // a terminal
	width, height int  // in characters, 0 where there is no end
	color         bool
}

// screenOf looks at what w is. $NO_COLOR, where it isn't empty, and TERM=dumb turn colours off.
func screenOf(w io.Writer) screen {
	f, ok := w.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return screen{}
	}
	s := screen{live: true, color: os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"}
	if width, height, err := term.GetSize(int(f.Fd())); err == nil {
		s.width, s.height = width, height
	}
	return s
}

// tone is the colour of a text, as the number of ANSI's SGR.
type tone string

const (
	plain  tone = ""
	bold   tone = "1"
	faint  tone = "2"
	red    tone = "31"
	green  tone = "32"
	yellow tone = "33"
)

// paint colours a text, where there are colours.
func (s screen) paint(t tone, text string) string {
	if !s.color || t == plain || text == "" {
		return text
	}
	return "\x1b[" + string(t) + "m" + text + "\x1b[0m"
}

// toneOf is the tone of a word that says how something is.
func toneOf(word string) tone {
	switch strings.ToUpper(word) {
	case "FAILED_TEMP", "FAILED", "FAILING", "FIGHT", "REFUSED", "ERROR":
		return red
	case "STARTING", "PROCESSING", "ROLLING_BACK", "MENDING", "UPLOADING", "ROLLED_BACK", "REPORTED", "HELD":
		return yellow
	case "COMPLETED":
		return green
	case "NOT_INSTANTIATED", "SUSPENDED", "DISABLED":
		return faint
	}
	return plain
}

// printable is a text that others may have written as it can stand in a table: in one line, and
// with nothing that a terminal obeys.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return unicode.ReplacementChar
		}
		return r
	}, plantext.OneLine(text))
}

// column is one column of a table.
type column struct {
	title string
	wide  bool // shown with -o wide alone
	cell  func(o object, s *sheet) string
	// state says that the cell is one word of how something is, which has a colour.
	state bool
}

// sheet is what cells are made for.
type sheet struct {
	screen
	wide bool
	// now is what ages are counted from. It is zero where a text is shown again when it has
	// changed: ages would differ every second, and nothing else.
	now time.Time
	// names are those of instances, by id.
	names map[string]string
}

// shown are the columns of the sheet.
func (s *sheet) shown(all []column) []column {
	var out []column
	for _, c := range all {
		if !c.wide || s.wide {
			out = append(out, c)
		}
	}
	return out
}

// ago is the age of a time, or the time itself where there are no ages.
func (s *sheet) ago(stamp string) string {
	t, err := time.Parse(time.RFC3339, stamp)
	switch {
	case err != nil:
		return stamp
	case s.now.IsZero():
		return t.Format(time.RFC3339)
	}
	return shortAge(s.now.Sub(t))
}

// shortAge is a duration in one word: "40s", "3m5s", "2h10m", "9d3h". It is never negative.
func shortAge(d time.Duration) string {
	return strings.NewReplacer(" ", "", "min", "m").Replace(age(d))
}

// tooNarrow is the width below which no column is cut.
const tooNarrow = 8

// write writes the rows as a table, cut to the width of the screen.
func (s *sheet) write(w io.Writer, columns []column, rows [][]string) {
	widths := make([]int, len(columns))
	for i, c := range columns {
		widths[i] = len([]rune(c.title))
	}
	for _, row := range rows {
		for i, cell := range row {
			row[i] = printable(cell)
			widths[i] = max(widths[i], len([]rune(row[i])))
		}
	}
	s.fit(widths)
	titles := make([]string, len(columns))
	for i, c := range columns {
		titles[i] = c.title
	}
	s.line(w, widths, titles, func(int) tone { return bold })
	for _, row := range rows {
		s.line(w, widths, row, func(i int) tone {
			if columns[i].state {
				return toneOf(row[i])
			}
			return plain
		})
	}
}

// fit cuts the widest columns until all have room, or none can be cut any more.
func (s *sheet) fit(widths []int) {
	if s.width == 0 {
		return
	}
	total := 2 * (len(widths) - 1)
	for _, n := range widths {
		total += n
	}
	for total > s.width {
		widest := 0
		for i, n := range widths {
			if n > widths[widest] {
				widest = i
			}
		}
		if widths[widest] <= tooNarrow {
			return
		}
		widths[widest]--
		total--
	}
}

// line writes one row.
func (s *sheet) line(w io.Writer, widths []int, cells []string, toned func(i int) tone) {
	var b strings.Builder
	room := s.width
	for i, cell := range cells {
		cell = clipTo(cell, widths[i])
		if s.width > 0 {
			if room <= 0 {
				break
			}
			cell = clipTo(cell, room)
		}
		b.WriteString(s.paint(toned(i), cell))
		if i < len(cells)-1 {
			b.WriteString(strings.Repeat(" ", widths[i]-len([]rune(cell))+2))
		}
		room -= widths[i] + 2
	}
	fmt.Fprintln(w, strings.TrimRight(b.String(), " "))
}

// redraw is a text as it takes the place of the former one on a terminal. Lines beyond its
// height are left out.
func (s screen) redraw(text string, first bool) string {
	var b strings.Builder
	if first {
		b.WriteString("\x1b[2J")
	}
	b.WriteString("\x1b[H")
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	if room := s.height - 2; room > 2 && len(lines) > room {
		lines = append(lines[:room-1], fmt.Sprintf("… %d more lines", len(lines)-room+1))
	}
	for _, line := range lines {
		b.WriteString(line + "\x1b[K\n")
	}
	b.WriteString("\x1b[J")
	return b.String()
}
