package hooks

import (
	"bytes"
	"fmt"
	"strings"
	"unicode"
)

const (
	maxOutput = 1 << 20  // of standard output
	maxStderr = 8 << 10  // of standard error that is kept
	maxLine   = 8 << 10  // of a line for the log
	maxLines  = 1000     // for the log, a run
	maxKept   = 64 << 10 // of what is kept: hand-over, metadata, extensions
)

// tooMuch is why a hook failed that wrote more than [maxOutput].
var tooMuch = fmt.Sprintf("wrote more than %d bytes to standard output", maxOutput)

// head keeps the first [maxOutput] bytes that are written to it, and drops the rest.
type head struct {
	data []byte
	over chan struct{} // closed when there is a rest
	full bool
}

func newHead() *head { return &head{over: make(chan struct{})} }

func (h *head) Write(p []byte) (int, error) {
	if len(p) > maxOutput-len(h.data) && !h.full {
		h.full = true
		close(h.over)
	}
	h.data = append(h.data, p[:min(len(p), maxOutput-len(h.data))]...)
	return len(p), nil
}

// tail keeps the last [maxStderr] bytes that are written to it, and passes lines on.
type tail struct {
	redactor *redactor
	log      func(line string) // may be nil

	data   []byte
	cut    bool // data has lost its beginning
	broken bool // data may have lost its end
	line   []byte
	over   bool // line has lost its end
	lines  int
}

func (t *tail) Write(p []byte) (int, error) {
	t.keep(p)
	if t.log != nil {
		t.split(p)
	}
	return len(p), nil
}

func (t *tail) keep(p []byte) {
	if len(p) > maxStderr {
		p, t.cut = p[len(p)-maxStderr:], true
	}
	t.data = append(t.data, p...)
	if len(t.data) > 4*maxStderr {
		t.data, t.cut = append(t.data[:0], t.data[len(t.data)-maxStderr:]...), true
	}
}

func (t *tail) split(p []byte) {
	for len(p) > 0 && t.lines <= maxLines {
		part, rest, whole := bytes.Cut(p, []byte{'\n'})
		fits := min(len(part), maxLine-len(t.line))
		t.line, t.over = append(t.line, part[:fits]...), t.over || fits < len(part)
		if p = rest; whole {
			t.flush()
		}
	}
}

// flush passes the line on.
func (t *tail) flush() {
	line := strings.TrimSpace(printable(t.redactor.redact(string(t.line), false, t.over)))
	t.line, t.over = t.line[:0], false
	if line == "" {
		return
	}
	if t.lines++; t.lines > maxLines {
		line = "(what else it writes is not logged)"
	}
	t.log(line)
}

// close passes on what isn't a whole line; killed says that the writer was cut short.
func (t *tail) close(killed bool) {
	t.broken = killed
	if t.log != nil && len(t.line) > 0 && t.lines <= maxLines {
		t.over = t.over || killed
		t.flush()
	}
}

// text returns the end of what was written, as it may be shown.
func (t *tail) text() string {
	data, cut := t.data, t.cut
	if len(data) > maxStderr {
		data, cut = data[len(data)-maxStderr:], true
	}
	text := strings.TrimSpace(printable(t.redactor.redact(string(data), cut, t.broken)))
	if cut {
		text = "…" + text
	}
	return text
}

// printable returns s without control characters, which a terminal would obey.
func printable(s string) string {
	return strings.Map(func(c rune) rune {
		if unicode.IsControl(c) && c != '\n' && c != '\t' {
			return -1
		}
		return c
	}, strings.ToValidUTF8(s, "�"))
}
