package gitrepo

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/go-git/go-git/v5/plumbing"
	gitobject "github.com/go-git/go-git/v5/plumbing/object"

	"github.com/jibe-vnfm/jibe/desired"
)

// commitInfo is what of a commit matters here.
type commitInfo struct {
	tree    string
	parents []string
	author  string // "name <mail>"
}

func parseCommit(data []byte) (commitInfo, error) {
	raw := new(plumbing.MemoryObject)
	raw.SetType(plumbing.CommitObject)
	_, _ = raw.Write(data) // memory doesn't fail
	var c gitobject.Commit
	if err := c.Decode(raw); err != nil {
		return commitInfo{}, fmt.Errorf("malformed commit: %w", err)
	}
	if c.TreeHash.IsZero() {
		return commitInfo{}, fmt.Errorf("malformed commit: no tree")
	}
	info := commitInfo{tree: c.TreeHash.String(), author: fmt.Sprintf("%s <%s>", c.Author.Name, c.Author.Email)}
	for _, parent := range c.ParentHashes {
		info.parents = append(info.parents, parent.String())
	}
	return info, nil
}

// encodeCommit makes a commit object. by is the author, committer Jibe.
func encodeCommit(tree, parent, by, committer string, at time.Time, message string) []byte {
	c := gitobject.Commit{
		TreeHash:  plumbing.NewHash(tree),
		Author:    signature(ident(by, committer), at),
		Committer: signature(ident(committer, committer), at),
		Message:   message,
	}
	if parent != "" {
		c.ParentHashes = []plumbing.Hash{plumbing.NewHash(parent)}
	}
	raw := new(memoryObject)
	if err := c.Encode(raw); err != nil {
		panic(err) // memory doesn't fail
	}
	return raw.data
}

// memoryObject is a [plumbing.MemoryObject] whose content can be had without a copy.
type memoryObject struct {
	plumbing.MemoryObject
	data []byte
}

func (m *memoryObject) Writer() (io.WriteCloser, error) { return m, nil }

func (m *memoryObject) Write(p []byte) (int, error) {
	m.data = append(m.data, p...)
	return len(p), nil
}

func signature(by string, at time.Time) gitobject.Signature {
	name, mail, _ := strings.Cut(strings.TrimSuffix(by, ">"), " <")
	return gitobject.Signature{Name: name, Email: mail, When: at}
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
