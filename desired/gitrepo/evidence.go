package gitrepo

import (
	"bytes"
	"context"
	"crypto/hmac"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/desired/gitrepo/message"
	"github.com/jibe-vnfm/jibe/desired/gitrepo/objects"
	"github.com/jibe-vnfm/jibe/internal/git"
)

// revisionTrailer is what a commit of an operation says of itself: the instance, the tree of its
// directory before and after ([git.ZeroHash] for none), and the directory. To find that out by comparing
// trees would read two trees of the whole fleet for each commit.
const revisionTrailer = "Jibe-Revision"

// revisionOf is the trailer of a commit that leads from one revision to another.
func revisionOf(before, after desired.Revision) desired.Trailer {
	tree := func(hash string) string {
		if hash == "" {
			return git.ZeroHash
		}
		return hash
	}
	return desired.Trailer{Key: revisionTrailer, Value: fmt.Sprintf("%s %s %s %s", after.Instance, tree(before.Tree), tree(after.Tree), after.Dir)}
}

// revisions reads what revisionOf has written.
func revisions(text, commit, parent string) (before, after desired.Revision, ok bool) {
	f := strings.SplitN(text, " ", 4)
	if len(f) != 4 || !git.IsHash(f[1]) || !git.IsHash(f[2]) {
		return before, after, false
	}
	tree := func(hash string) string {
		if hash == git.ZeroHash {
			return ""
		}
		return hash
	}
	before = desired.Revision{Instance: f[0], Dir: f[3], Commit: parent, Tree: tree(f[1])}
	after = desired.Revision{Instance: f[0], Dir: f[3], Commit: commit, Tree: tree(f[2])}
	return before, after, true
}

// asks says whether the write is one that an operation makes, or a request that creates an instance.
func asks(w desired.Write) bool {
	return slices.ContainsFunc(w.Trailers, func(t desired.Trailer) bool {
		return t.Key == desired.TrailerOperation || t.Key == desired.TrailerType && t.Value == desired.TypeCreate
	})
}

// OwnCommit is a commit of an operation, or the one that created an instance, as this installation has
// sealed it.
type OwnCommit struct {
	// Place grows from each commit of head's history to those that follow it.
	Place         int
	At            time.Time
	Before, After desired.Revision // of the instance's directory; After's commit is this one
	Trailers      map[string]string
	// Proposed says that it is the tip of a branch on which a request is proposed, and Place is 0.
	Proposed bool
}

// OwnNote is a line of a commit's note with its facts, as this installation has sealed it.
type OwnNote struct {
	// Place is the commit's, as that of an [OwnCommit], 0 for one that isn't in head's history.
	Place        int
	Commit, Line string
	Facts        []byte // JSON
}

// Evidence is what git says of operations and this installation's key proves.
type Evidence struct {
	Commits []OwnCommit // those in head's history, the oldest first, and then those that are proposed
	Notes   []OwnNote   // those of a commit are in the order in which they came
}

// Evidence reads what the whole history says of operations; where there is a remote, what that has,
// too, and an error where it is away. What anybody else has written isn't in it, whatever words
// they used. It is for the rare moment when records are lost: it reads all commits of operations and
// all notes.
//
// proposals begins the names of the branches of the remote on which requests are proposed; each ends with its
// operation's id.
func (r *Repo) Evidence(ctx context.Context, proposals string) (*Evidence, error) {
	if err := r.freshen(ctx); err != nil {
		return nil, fmt.Errorf("%w: %w", desired.ErrUnavailable, err)
	}
	e := &Evidence{}
	if err := r.ownCommits(ctx, e); err != nil {
		return nil, fmt.Errorf("commits of operations: %w", err)
	}
	if err := r.proposedCommits(ctx, e, proposals); err != nil {
		return nil, fmt.Errorf("branches of operations: %w", err)
	}
	if err := r.ownNotes(ctx, e); err != nil {
		return nil, fmt.Errorf("notes of operations: %w", err)
	}
	if err := r.places(ctx, e); err != nil {
		return nil, fmt.Errorf("order of the commits: %w", err)
	}
	return e, nil
}

// places says where in the history each commit stands.
func (r *Repo) places(ctx context.Context, e *Evidence) error {
	head := r.Head()
	if head == "" || len(e.Commits)+len(e.Notes) == 0 {
		return nil
	}
	out, err := r.read.Git.Run(ctx, "rev-list", "--topo-order", "--reverse", head, "--")
	if err != nil {
		return err
	}
	at, n := map[string]int{}, 0
	for commit := range strings.FieldsSeq(out) {
		n++
		at[commit] = n
	}
	for i := range e.Commits {
		e.Commits[i].Place = at[e.Commits[i].After.Commit]
	}
	for i := range e.Notes {
		e.Notes[i].Place = at[e.Notes[i].Commit]
	}
	return nil
}

// freshen brings all that waits, and all that the remote has, to where it is read.
func (r *Repo) freshen(ctx context.Context) error {
	r.flushNotes(ctx, true)
	if r.opt.Remote == "" {
		return r.Refresh(ctx)
	}
	if err := r.pull(ctx); err != nil {
		return err
	}
	theirs, err := r.remoteRef(ctx, objects.NotesRef)
	if err != nil {
		return err
	}
	ours, err := git.ReadRef(r.opt.Dir, objects.NotesRef)
	if err != nil || theirs == "" || theirs == ours {
		return err
	}
	return r.joinNotes(ctx)
}

// fetchedProposals is where the branches are fetched to on which requests are proposed.
const fetchedProposals = "refs/jibe/remote/op/"

// proposedCommits reads what is proposed on the remote. A branch that somebody has put a commit on still tells of its
// operation, by Jibe's own commit beneath.
func (r *Repo) proposedCommits(ctx context.Context, e *Evidence, branches string) error {
	if r.opt.Remote == "" || len(r.opt.Key) == 0 {
		return nil
	}
	fetching, cancel := context.WithTimeout(ctx, transferTimeout)
	defer cancel()
	if _, err := r.read.Git.Run(fetching, "fetch", "--quiet", "--prune", "--no-tags", "--no-write-fetch-head", "--no-auto-maintenance",
		"--", r.opt.Remote, "+refs/heads/"+branches+"*:"+fetchedProposals+"*"); err != nil {
		return fmt.Errorf("%w: fetch: %w", desired.ErrUnavailable, err)
	}
	out, err := r.read.Git.Run(ctx, "for-each-ref", "--format=%(objectname) %(refname)", fetchedProposals)
	if err != nil {
		return err
	}
	for line := range strings.Lines(out) {
		at, ref, _ := strings.Cut(strings.TrimSpace(line), " ")
		id := strings.TrimPrefix(ref, fetchedProposals)
		c, ok, err := r.ownBeneath(ctx, at)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil: // whoever may push a branch must not keep everything else from coming back
			r.log.WarnContext(ctx, "a branch on which a request was proposed can't be read: its operation doesn't come back, and a merge of the branch begins one of its own",
				"branch", branches+id, "commit", at, "error", err)
		case ok && c.Trailers[desired.TrailerOperation] == id:
			c.Proposed = true
			e.Commits = append(e.Commits, c)
		}
	}
	return nil
}

// ownBeneath is the newest commit of Jibe's own at the tip of a branch, or a few commits beneath.
func (r *Repo) ownBeneath(ctx context.Context, at string) (c OwnCommit, ok bool, err error) {
	for range maxRequestSearch {
		data, err := r.read.Objects.Get(ctx, git.KindCommit, at)
		if err != nil {
			return c, false, err
		}
		if c, ok = r.ownCommit(at, data); ok {
			return c, true, nil
		}
		parsed, err := git.ParseCommit(data)
		if err != nil || len(parsed.Parents) == 0 {
			return c, false, err
		}
		at = parsed.Parents[0]
	}
	return c, false, nil
}

// evidencePage is how many objects are read at once.
const evidencePage = 256

func (r *Repo) ownCommits(ctx context.Context, e *Evidence) error {
	head := r.Head()
	if head == "" || len(r.opt.Key) == 0 {
		return nil
	}
	out, err := r.read.Git.Run(ctx, "log", "--topo-order", "--reverse", "--fixed-strings", "--grep="+revisionTrailer+": ", "--format=%H", head, "--")
	if err != nil {
		return err
	}
	for hashes := range slices.Chunk(strings.Fields(out), evidencePage) {
		found, err := r.read.Objects.GetMany(ctx, git.KindCommit, hashes)
		if err != nil {
			return err
		}
		for i, data := range found {
			if c, ok := r.ownCommit(hashes[i], data); ok {
				e.Commits = append(e.Commits, c)
			}
		}
	}
	return nil
}

func (r *Repo) ownCommit(hash string, data []byte) (c OwnCommit, ok bool) {
	if !r.sealed(data) {
		return c, false
	}
	parsed, err := git.ParseCommit(data)
	if err != nil {
		return c, false
	}
	c = OwnCommit{At: parsed.Committed}
	_, c.Trailers = message.Said(data)
	parent := ""
	if len(parsed.Parents) > 0 {
		parent = parsed.Parents[0]
	}
	c.Before, c.After, ok = revisions(c.Trailers[revisionTrailer], hash, parent)
	return c, ok
}

// maxRequestSearch bounds how many commits are looked at for the one that a request made. A mirror
// gets as many at once as others have pushed in the meantime.
const maxRequestSearch = 16

// Requested implements [desired.Repo].
func (r *Repo) Requested(ctx context.Context, rev desired.Revision) (map[string]string, error) {
	if len(r.opt.Key) == 0 || rev.Tree == "" {
		return nil, nil
	}
	at := rev.Commit
	for range maxRequestSearch {
		data, err := r.read.Objects.Get(ctx, git.KindCommit, at)
		if err != nil {
			return nil, r.read.Damaged("commit "+at, err)
		}
		if c, ok := r.ownCommit(at, data); ok && c.After.Instance == rev.Instance {
			_, settles := c.Trailers[desired.TrailerOutcome]
			_, granted := c.Trailers[desired.TrailerGrant]
			if c.After.Tree != rev.Tree || c.Trailers[desired.TrailerOperation] == "" || settles || granted {
				return nil, nil
			}
			return c.Trailers, nil
		}
		parsed, err := r.read.Commit(ctx, at)
		if err != nil || len(parsed.Parents) == 0 {
			return nil, err
		}
		at = parsed.Parents[0]
		if same, err := r.hasTree(ctx, at, rev); !same || err != nil {
			return nil, err // somebody has changed the directory since whatever request there was
		}
	}
	return nil, nil
}

// hasTree says whether a commit has the revision's directory with its content.
func (r *Repo) hasTree(ctx context.Context, commit string, rev desired.Revision) (bool, error) {
	root, err := r.read.RootOf(ctx, commit)
	if err != nil {
		return false, err
	}
	e, ok, err := r.read.LookupPath(ctx, root, rev.Dir)
	return ok && e.Hash == rev.Tree, err
}

func (r *Repo) ownNotes(ctx context.Context, e *Evidence) error {
	at, err := git.ReadRef(r.opt.Dir, objects.NotesRef)
	if err != nil || at == "" || len(r.opt.Key) == 0 {
		return err
	}
	root, err := r.read.RootOf(ctx, at)
	if err != nil {
		return err
	}
	files, err := r.read.ListFiles(ctx, root)
	if err != nil {
		return err
	}
	for _, f := range files {
		commit := strings.ReplaceAll(f.Path, "/", "")
		if !git.IsHash(commit) || !f.IsFile() {
			continue
		}
		text, err := r.readNote(ctx, f.Hash)
		switch {
		case errors.Is(err, git.ErrTooLarge):
			r.log.Warn("what the note of a commit proves can't be read", "revision", commit, "error", err)
			continue // the notes of others prove what they prove nevertheless
		case err != nil:
			return err
		}

		for line := range bytes.Lines(text) {
			if n, ok := r.parseNote(commit, strings.TrimRight(string(line), "\n")); ok && n.Facts != nil {
				e.Notes = append(e.Notes, n)
			}
		}
	}
	return nil
}

// factsMark stands before the facts of a line, and sealMark before its seal. Within JSON neither can
// stand: a quotation mark is escaped there.
const (
	factsMark = ` of {"`
	sealMark  = ` seal `
)

// noteLine is a line of a note with its facts, sealed where there is a key: whoever else writes the
// same can't seal it, and the line of one commit doesn't hold for another.
func (r *Repo) noteLine(commit, line string, facts []byte) string {
	line = message.Line(line)
	if line == "" || facts == nil {
		return line
	}
	line += " of " + desired.OneLine(facts)
	if len(r.opt.Key) == 0 {
		return line
	}
	return line + sealMark + r.seal("note", commit, line)
}

// parseNote reads what noteLine has written of the commit; ok is false where the seal isn't ours.
func (r *Repo) parseNote(commit, text string) (n OwnNote, ok bool) {
	i := strings.LastIndex(text, sealMark)
	if i < 0 || len(r.opt.Key) == 0 || !hmac.Equal([]byte(text[i+len(sealMark):]), []byte(r.seal("note", commit, text[:i]))) {
		return n, false
	}
	n = OwnNote{Commit: commit, Line: text[:i]}
	if i := strings.LastIndex(n.Line, factsMark); i >= 0 {
		n.Line, n.Facts = n.Line[:i], []byte(n.Line[i+len(" of "):])
	}
	return n, true
}

// plainNote is the line of a note as people read it.
func (r *Repo) plainNote(commit, text string) string {
	if n, ok := r.parseNote(commit, text); ok {
		return n.Line
	}
	return text
}
