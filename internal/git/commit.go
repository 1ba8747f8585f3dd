package git

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/go-git/go-git/v5/plumbing"
	gitobject "github.com/go-git/go-git/v5/plumbing/object"
)

// Commit is what of a commit is read.
type Commit struct {
	Tree    string
	Parents []string
	Author  string // "name <mail>", or the name alone where the commit has no mail
	// Committed is when the committer made it, zero where the commit doesn't say, and Message the
	// whole text.
	Committed time.Time
	Message   string
}

// ParseCommit decodes a commit object.
func ParseCommit(data []byte) (Commit, error) {
	raw := new(plumbing.MemoryObject)
	raw.SetType(plumbing.CommitObject)
	_, _ = raw.Write(data) // memory doesn't fail
	var c gitobject.Commit
	if err := c.Decode(raw); err != nil {
		return Commit{}, fmt.Errorf("malformed commit: %w", err)
	}
	if c.TreeHash.IsZero() {
		return Commit{}, fmt.Errorf("malformed commit: no tree")
	}
	info := Commit{Tree: c.TreeHash.String(), Author: c.Author.Name, Message: c.Message}
	if !c.Committer.When.IsZero() {
		info.Committed = c.Committer.When.UTC()
	}
	if c.Author.Email != "" {
		info.Author = fmt.Sprintf("%s <%s>", c.Author.Name, c.Author.Email)
	}
	for _, parent := range c.ParentHashes {
		info.Parents = append(info.Parents, parent.String())
	}
	return info, nil
}

// EncodeCommit makes a commit object on top of parent, "" for none, that merges others into it. by is
// the author and may be "": then it is the committer, "name <mail>".
func EncodeCommit(tree, parent, by, committer string, at time.Time, message string, others ...string) []byte {
	c := gitobject.Commit{
		TreeHash:  plumbing.NewHash(tree),
		Author:    signature(Ident(by, committer), at),
		Committer: signature(Ident(committer, committer), at),
		Message:   message,
	}
	if parent != "" {
		c.ParentHashes = []plumbing.Hash{plumbing.NewHash(parent)}
	}
	for _, other := range others {
		c.ParentHashes = append(c.ParentHashes, plumbing.NewHash(other))
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

// Ident makes "name <mail>" out of what a caller gave; git refuses a commit
// without both, or with line ends in them.
func Ident(by, fallback string) string {
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
