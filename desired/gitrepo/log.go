package gitrepo

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/desired/gitrepo/objects"
	"github.com/jibe-vnfm/jibe/desired/gitrepo/read"
	"github.com/jibe-vnfm/jibe/internal/git"
)

// Logged is a commit as the log of the desired repository shows it.
type Logged struct {
	Commit  string
	Parents []string
	// Author is who the commit names, with a mail address; nobody vouches for that. At is when it
	// was committed.
	Author        string
	At            time.Time
	Subject, Body string
	// Own says that Jibe made the commit, by its seal; the trailers of any other prove nothing.
	Own bool
	// RequestedBy and Operation are what the trailers of a commit of Jibe's own say, "" where they
	// say nothing.
	RequestedBy, Operation string
	// Push is the push that brought the commit, nil where none is known.
	Push *read.Push
	// Outcomes are the lines of its note: how operations ended that it began.
	Outcomes []string
	// MoreOutcomes is how many lines are left out.
	MoreOutcomes int
}

// Person is who is behind the commit: who pushed it, or asked for it; else the author that it names,
// for whom nobody vouches.
func (l *Logged) Person() (name string, vouched bool) {
	switch {
	case l.Push != nil:
		return l.Push.Pusher, true
	case l.Own && l.RequestedBy != "":
		return l.RequestedBy, true
	case l.Own:
		return "Jibe", true
	}
	return l.Author, false
}

// The most of a commit that its entry in a log has.
const (
	mostOutcomes    = 50
	mostOutcomeLine = 500     // bytes
	mostNote        = 1 << 20 // bytes of a note that are looked at
	mostLogMessage  = 16 << 10
)

// Log returns up to most commits of the line of first parents from a commit on, the newest first, and
// the one at which the next page begins, "" for the end. from "" is head; paths are those that a commit
// must have changed, none means all.
func (r *Repo) Log(ctx context.Context, from string, most int, paths ...string) (list []*Logged, next string, err error) {
	if from == "" {
		from = r.Head()
	}
	if from == "" {
		return nil, "", nil
	}
	if from, err = r.read.Resolve(ctx, from); err != nil {
		return nil, "", err
	}
	return r.logged(ctx, most, []string{from}, paths)
}

// Ahead returns up to most of the commits that the commit has and head lacks, the newest first; more
// says that there are more.
func (r *Repo) Ahead(ctx context.Context, commit string, most int) (list []*Logged, more bool, err error) {
	revs := []string{commit}
	if head := r.Head(); head != "" {
		revs = append(revs, "^"+head)
	}
	list, next, err := r.logged(ctx, most, revs, nil)
	return list, next != "", err
}

// Has says whether the history that ends at tip has the commit in it; a commit has itself. Where tip
// is "" it has none.
func (r *Repo) Has(ctx context.Context, tip, commit string) (bool, error) {
	if !git.IsHash(tip) || !git.IsHash(commit) {
		return false, nil
	}
	return r.read.IsAncestor(ctx, commit, tip)
}

func (r *Repo) logged(ctx context.Context, most int, revs, paths []string) (list []*Logged, next string, err error) {
	args := slices.Concat([]string{"--literal-pathspecs", "log", "--first-parent", fmt.Sprintf("-n%d", most+1), "--format=%H"}, revs, []string{"--"}, paths)
	out, err := r.read.Git.Run(ctx, args...)
	if err != nil {
		return nil, "", fmt.Errorf("%w: log: %w", desired.ErrUnavailable, err)
	}
	hashes := strings.Fields(out)
	if len(hashes) > most {
		hashes, next = hashes[:most], hashes[most]
	}
	for _, hash := range hashes {
		l, err := r.Show(ctx, hash)
		if err != nil {
			return nil, "", err
		}
		list = append(list, l)
	}
	return list, next, nil
}

// Show returns one commit, named as git names them, or [desired.ErrNotFound].
func (r *Repo) Show(ctx context.Context, commit string) (*Logged, error) {
	hash, err := r.read.Resolve(ctx, commit)
	if err != nil {
		return nil, err
	}
	data, err := r.read.Objects.Get(ctx, git.KindCommit, hash)
	if err != nil {
		return nil, objects.NotFound(r.read.Damaged("commit "+hash, err))
	}
	c, err := r.read.Commit(ctx, hash)
	if err != nil {
		return nil, objects.NotFound(err)
	}
	l := &Logged{Commit: hash, Parents: c.Parents, Author: c.Author, Own: len(r.opt.Key) > 0 && r.sealed(data)}
	l.At = c.Committed
	message := c.Message
	if len(message) > mostLogMessage {
		message = message[:mostLogMessage] + "…"
	}
	l.Subject, l.Body, _ = strings.Cut(strings.ToValidUTF8(message, "�"), "\n")
	l.Body = strings.TrimSpace(l.Body)
	if l.Own {
		body := []string{}
		for line := range strings.Lines(l.Body) {
			key, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
			switch key + ": " {
			case desired.TrailerOperation + ": ":
				l.Operation = value
			case desired.TrailerRequestedBy + ": ":
				l.RequestedBy = value
			case sealTrailer, revisionTrailer + ": ", desired.TrailerParams + ": ":
				continue // they are for Jibe itself
			}
			body = append(body, strings.TrimRight(line, "\n"))
		}
		l.Body = strings.TrimSpace(strings.Join(body, "\n"))
	}
	if !l.Own {
		if l.Push, err = r.pushedBy(ctx, hash); err != nil {
			return nil, err
		}
	}
	return l, r.outcomes(ctx, l)
}

// outcomes reads the note of the commit, but for the lines that say who pushed.
func (r *Repo) outcomes(ctx context.Context, l *Logged) error {
	text, err := r.noteOf(ctx, l.Commit)
	if err != nil {
		return err
	}
	if len(text) > mostNote {
		text = text[len(text)-mostNote:]
	}
	lines := slices.DeleteFunc(strings.Split(strings.TrimSpace(text), "\n"), func(line string) bool {
		return line == "" || strings.HasPrefix(line, pushMark)
	})
	if n := len(lines) - mostOutcomes; n > 0 {
		lines, l.MoreOutcomes = lines[n:], n
	}
	for _, line := range lines {
		line = r.plainNote(l.Commit, line)
		if len(line) > mostOutcomeLine {
			line = strings.ToValidUTF8(line[:mostOutcomeLine], "") + "…"
		}
		l.Outcomes = append(l.Outcomes, line)
	}
	return nil
}
