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

// said is what the message of a commit, as git keeps it, says: its subject, and its trailers, which
// are its last paragraph. What stands before that may be a person's words.
func said(commit []byte) (subject string, trailers map[string]string) {
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
