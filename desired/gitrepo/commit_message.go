package gitrepo

import (
	"strings"

	"github.com/jibe-vnfm/jibe/desired"
)

// message is the commit message of a write.
func message(w desired.Write) string {
	var b strings.Builder
	b.WriteString(oneLine(w.Subject))
	b.WriteString("\n")
	if body := strings.TrimSpace(strings.ReplaceAll(w.Body, "\x00", "")); body != "" {
		b.WriteString("\n" + body + "\n")
	}
	if len(w.Trailers) > 0 {
		b.WriteString("\n")
	}
	for _, t := range w.Trailers {
		b.WriteString(oneLine(t.Key) + ": " + oneLine(t.Value) + "\n")
	}
	return b.String()
}

// oneLine keeps a subject or trailer from becoming several.
func oneLine(s string) string {
	return strings.Join(strings.Fields(strings.ReplaceAll(s, "\x00", "")), " ")
}

// clip keeps a name that somebody else gave short enough for a message.
func clip(s string) string {
	if len(s) > 60 {
		return s[:60] + "…"
	}
	return s
}
