package gitrepo

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strings"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/desired/gitrepo/message"
	"github.com/jibe-vnfm/jibe/internal/git"
)

// settling finds out what becomes of files that both sides of a merge have changed.
type settling struct {
	*merger
	ours, theirs, fork string // commits
	theirsRoot         string
	pack               *git.Pack

	edits     map[string][]fileEdit // by file: what was done to it on our side, the newest first
	moved     map[string]string     // directories that theirs has moved, and where to
	entries   map[string]git.Entry
	conflicts []*desired.Problem
}

// fileEdit is a commit that changed a file.
type fileEdit struct {
	commit, subject string
	who             string
	// filled says that Jibe only filled in what was left to it, or tidied up: nobody asked for it.
	filled bool
}

func (e fileEdit) String() string {
	return fmt.Sprintf("%s (%.10s %q)", e.who, e.commit, message.Clip(e.subject))
}

// mostConflicts is how many conflicts are told one by one.
const mostConflicts = 50

func (s *settling) settle(ctx context.Context, twice []changedTwice) error {
	s.entries = map[string]git.Entry{}
	if err := s.findEdits(ctx, twice); err != nil {
		return err
	}
	for _, f := range twice {
		conflict, err := s.file(ctx, f)
		if err != nil {
			return err
		}
		if conflict != "" {
			s.conflicts = append(s.conflicts, &desired.Problem{File: f.path, Message: conflict, Remedy: s.rebase()})
		}
		if len(s.conflicts) == mostConflicts {
			break
		}
	}
	return nil
}

// file settles one file, or says what is in conflict.
func (s *settling) file(ctx context.Context, f changedTwice) (conflict string, err error) {
	asked, found := s.asked(f.path)
	if !found {
		return "was changed on " + s.onto + " too, with what it stands in", nil
	}
	if asked != nil {
		return s.theirsToo(ctx, f, *asked)
	}
	by := s.edits[f.path][0]
	switch {
	case f.theirs.Hash == "" && f.base.IsFile():
		return s.removed(ctx, f, by)
	case path.Base(f.path) != desired.InstanceFile || !f.base.IsFile() || !f.ours.IsFile() || !f.theirs.IsFile():
		return "was changed on " + s.onto + " too, by " + by.String(), nil
	}
	texts, err := s.texts(ctx, f)
	if err != nil {
		return "", err
	}
	text, keys, err := desired.MergeInstance(f.path, texts[0], texts[1], texts[2])
	if invalid, ok := errors.AsType[*desired.InvalidError](err); ok {
		return "can't be merged with what " + s.onto + " has, by " + by.String() + ": " + invalid.Error(), nil
	}
	if err != nil {
		return "", err
	}
	if len(keys) > 0 {
		return fmt.Sprintf("%s: set to other values on %s, by %s", strings.Join(keys, ", "), s.onto, by), nil
	}
	s.entries[f.path] = git.Entry{Mode: f.theirs.Mode, Hash: s.pack.Add(git.KindBlob, text)}
	return "", nil
}

// asked is the newest edit of a file on our side that somebody has asked for, nil where all were
// filled in; found says that there is any edit.
func (s *settling) asked(file string) (e *fileEdit, found bool) {
	for i := range s.edits[file] {
		if !s.edits[file][i].filled {
			return &s.edits[file][i], true
		}
	}
	return nil, len(s.edits[file]) > 0
}

// theirsToo says what is in conflict where somebody has asked for a change of the file on our side.
func (s *settling) theirsToo(ctx context.Context, f changedTwice, by fileEdit) (string, error) {
	what := "was changed"
	if f.ours.Hash == "" {
		what = "was removed"
	}
	if path.Base(f.path) == desired.InstanceFile && f.base.IsFile() && f.ours.IsFile() {
		texts, err := s.texts(ctx, f)
		if err != nil {
			return "", err
		}
		if keys, err := desired.ChangedKeys(f.path, texts[0], texts[1]); err == nil && len(keys) > 0 {
			what = fmt.Sprintf("%s: %s", strings.Join(keys, ", "), "changed")
		}
	}
	return fmt.Sprintf("%s on %s too, by %s", what, s.onto, by), nil
}

// removed settles a file that theirs has removed, and where Jibe only filled something in: it goes
// with its instance, unless the instance was moved, whose pins would be lost.
func (s *settling) removed(ctx context.Context, f changedTwice, by fileEdit) (string, error) {
	dir := path.Dir(f.path)
	if _, stays, err := s.LookupPath(ctx, s.theirsRoot, path.Join(dir, desired.InstanceFile)); err != nil {
		return "", err
	} else if stays {
		return "was changed on " + s.onto + ", by " + by.String() + ", and is removed here", nil
	}
	if s.moved == nil {
		changes, _, err := s.Diff(ctx, s.fork, s.theirs)
		if err != nil {
			return "", err
		}
		s.moved = map[string]string{}
		for _, c := range changes {
			if c.Before.Tree != "" && c.After.Tree != "" && c.Before.Dir != c.After.Dir {
				s.moved[c.Before.Dir] = c.After.Dir
			}
		}
	}
	if to := s.moved[dir]; to != "" {
		return "was changed on " + s.onto + ", by " + by.String() + ", and is moved to " + to + " here", nil
	}
	s.entries[f.path] = git.Entry{}
	return "", nil
}

// texts are the three versions of a file, each of which is one.
func (s *settling) texts(ctx context.Context, f changedTwice) (texts [3][]byte, err error) {
	for i, e := range []git.Entry{f.base, f.ours, f.theirs} {
		if !e.IsFile() {
			continue
		}
		if texts[i], err = s.Objects.Get(ctx, git.KindBlob, e.Hash); err != nil {
			return texts, s.Damaged(f.path, err)
		}
	}
	return texts, nil
}

// mostPaths is of how many files git is asked by name.
const mostPaths = 100

// findEdits finds the commits of our side that theirs hasn't and that changed one of the files, by
// one walk for all of them.
func (s *settling) findEdits(ctx context.Context, twice []changedTwice) error {
	wanted := map[string]bool{}
	args := []string{"log", "-z", "-c", "--name-only", "--no-renames", "--topo-order", "--format=%x01%H", s.ours, "^" + s.theirs, "--"}
	for _, f := range twice {
		wanted[f.path] = true
		if len(twice) <= mostPaths {
			args = append(args, ":(top,literal)"+f.path)
		}
	}
	out, err := s.git.Run(ctx, args...)
	if err != nil {
		return fmt.Errorf("%w: who changed what: %w", desired.ErrUnavailable, err)
	}
	s.edits = map[string][]fileEdit{}
	for _, one := range strings.Split(out, "\x01")[1:] {
		names := strings.FieldsFunc(one, func(c rune) bool { return c == 0 || c == '\n' })
		if len(names) == 0 || !git.IsHash(names[0]) {
			return fmt.Errorf("who changed what: git log says %q", message.Clip(one))
		}
		var edit *fileEdit
		for _, name := range names[1:] {
			if !wanted[name] {
				continue
			}
			if edit == nil {
				if edit, err = s.editOf(ctx, names[0]); err != nil {
					return err
				}
			}
			s.edits[name] = append(s.edits[name], *edit)
		}
	}
	return nil
}

// editOf says who is behind a commit.
func (s *settling) editOf(ctx context.Context, hash string) (*fileEdit, error) {
	data, err := s.Objects.Get(ctx, git.KindCommit, hash)
	if err != nil {
		return nil, s.Damaged("commit "+hash, err)
	}
	c, err := git.ParseCommit(data)
	if err != nil {
		return nil, s.Damaged("commit "+hash, err)
	}
	subject, trailers := message.Said(data)
	e := &fileEdit{commit: hash, subject: subject, who: c.Author}
	switch {
	case !s.own(data):
		if s.Pushed != nil {
			if p, err := s.Pushed(ctx, hash); err != nil {
				return nil, err
			} else if p != nil {
				e.who = p.Pusher
			}
		}
	case len(c.Parents) > 1:
		// It has landed what others asked for, whose commits are told by themselves.
		e.who, e.filled = "Jibe", true
	case trailers[desired.TrailerRequestedBy] != "":
		e.who = trailers[desired.TrailerRequestedBy]
	default:
		e.who, e.filled = "Jibe", fillsIn(trailers)
	}
	return e, nil
}

// fillsIn says whether a commit of Jibe's own completes what another asks for. What a request asked for
// by nobody's name, and what takes a change back, does not.
func fillsIn(trailers map[string]string) bool {
	if trailers[desired.TrailerRequestedBy] != "" {
		return false
	}
	return trailers[desired.TrailerType] == "" || trailers[desired.TrailerGrant] != "" || trailers[desired.TrailerOutcome] == keptOutcome
}

// keptOutcome is the outcome of an operation that took nothing back: what its hooks found is kept.
const keptOutcome = "COMPLETED"
