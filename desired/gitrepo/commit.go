package gitrepo

import (
	"fmt"
	"strings"
	"time"

	"github.com/jibe-vnfm/jibe/desired"
)

// commitInfo is what of a commit matters here.
type commitInfo struct {
	tree    string
	parents []string
}

func parseCommit(data []byte) (commitInfo, error) {
	var c commitInfo
	for line := range strings.Lines(string(data)) {
		key, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		switch {
		case key == "tree" && isHash(value):
			c.tree = value
		case key == "parent" && isHash(value):
			c.parents = append(c.parents, value)
		case key == "":
			if c.tree != "" {
				return c, nil
			}
		}
	}
	if c.tree == "" {
		return c, fmt.Errorf("malformed commit: no tree")
	}
	return c, nil
}

// encodeCommit makes a commit object. by is the author, committer Jibe.
func encodeCommit(tree, parent, by, committer string, at time.Time, message string) []byte {
	var b strings.Builder
	fmt.Fprintf(&b, "tree %s\n", tree)
	if parent != "" {
		fmt.Fprintf(&b, "parent %s\n", parent)
	}
	_, zone := at.Zone()
	sign := '+'
	if zone < 0 {
		sign, zone = '-', -zone
	}
	when := fmt.Sprintf("%d %c%02d%02d", at.Unix(), sign, zone/3600, zone/60%60)
	fmt.Fprintf(&b, "author %s %s\ncommitter %s %s\n\n%s", ident(by, committer), when, ident(committer, committer), when, message)
	return []byte(b.String())
}

// ident makes "name <mail>" out of what a caller gave; git refuses a commit
// without both, or with line ends in them.
func ident(by, fallback string) string {
	clean := strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, by)
	name, mail, found := strings.Cut(clean, "<")
	mail, _, _ = strings.Cut(mail, ">")
	name = strings.TrimSpace(strings.Map(func(r rune) rune {
		if r == '<' || r == '>' {
			return -1
		}
		return r
	}, name))
	if name == "" && !found {
		return fallback
	}
	if name == "" {
		name = strings.TrimSpace(mail)
	}
	return name + " <" + strings.ReplaceAll(strings.TrimSpace(mail), " ", "") + ">"
}

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
