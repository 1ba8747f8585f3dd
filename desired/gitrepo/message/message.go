// Package message writes and reads the messages of commits.
package message

import (
	"strings"

	"github.com/jibe-vnfm/jibe/desired"
)

// Of is the commit message of a write.
func Of(w desired.Write) string {
	var b strings.Builder
	b.WriteString(Line(w.Subject))
	b.WriteString("\n")
	if body := strings.TrimSpace(strings.ReplaceAll(w.Body, "\x00", "")); body != "" {
		b.WriteString("\n" + body + "\n")
	}
	if len(w.Trailers) > 0 {
		b.WriteString("\n")
	}
	for _, t := range w.Trailers {
		b.WriteString(Line(t.Key) + ": " + Line(t.Value) + "\n")
	}
	return b.String()
}

// Line keeps a subject or trailer from becoming several.
func Line(s string) string {
	return strings.Join(strings.Fields(strings.ReplaceAll(s, "\x00", "")), " ")
}

// Clip keeps a name from outside short enough for a message.
func Clip(s string) string {
	if len(s) > 60 {
		return s[:60] + "…"
	}
	return s
}

// Said is what the message of a commit, as git keeps it, says: its subject, and its trailers, which
// are its last paragraph. What stands before that may be a person's words.
func Said(commit []byte) (subject string, trailers map[string]string) {
	_, message, _ := strings.Cut(string(commit), "\n\n")
	message = strings.TrimRight(message, "\n")
	subject, _, _ = strings.Cut(message, "\n")
	trailers = map[string]string{}
	for line := range strings.Lines(message[strings.LastIndex(message, "\n\n")+1:]) {
		if key, value, found := strings.Cut(strings.TrimRight(line, "\n"), ": "); found {
			trailers[key] = value
		}
	}
	return subject, trailers
}
