package archive

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/desired/gitrepo/objects"
	"github.com/jibe-vnfm/jibe/internal/git"
)

// KeptRef has the directories of instances that the store still names, and that the kept
// history may not have.
const KeptRef = "refs/jibe/kept"

// Report says what a cut left.
type Report struct {
	// First is the commit at which history now begins, "" where nothing was to be cut.
	First string
	// FirstDate is its date.
	FirstDate time.Time
	// Held is the commit of an operation that hasn't ended, and because of which more history
	// stays than was asked for; "" for none.
	Held string
	// Kept and Removed count commits.
	Kept, Removed int
	// Freed is by how much the packs became smaller, bytes.
	Freed int64
}

// CutOptions say what is cut, and how much history stays.
type CutOptions struct {
	// Dir is the repository, and Branch that of the desired state.
	Dir, Branch string
	// Author makes the commits that keep what must stay readable, and Now gives them their dates.
	Author string
	Now    func() time.Time
	// Archive is the path of an archive that has just been brought up to date.
	Archive string
	// Since keeps the commits of the branch that are not older; the zero time goes by Commits alone.
	Since time.Time
	// Commits is the least number of commits that stay, along the first parents. It is at least 1.
	Commits int
	// Moving are the revisions that operations which haven't ended go by. History stays that begins no later than each.
	Moving []desired.Revision
	// Named are the revisions whose directories must stay readable, besides.
	Named []desired.Revision
	// Problems returns what is not in effect at head. Nothing is cut where there is any.
	Problems func(ctx context.Context) ([]*desired.Problem, error)
	// Step is called before each step ("choose", "graft", "drop"): an error ends the cut there. nil listens to none.
	Step func(name string) error
}

// Cut removes the history before a commit, which the archive has.
func Cut(ctx context.Context, opt CutOptions) (Report, error) {
	c := &cutter{opt: opt, git: git.Runner{Dir: opt.Dir}}
	left, err := c.run(ctx)
	if err != nil {
		return left, fmt.Errorf("cut the history of %s: %w", opt.Dir, err)
	}
	return left, nil
}

type cutter struct {
	opt  CutOptions
	git  git.Runner
	tips []tip
}

func (c *cutter) run(ctx context.Context) (left Report, err error) {
	if err := c.nothingHeld(ctx); err != nil {
		return left, err
	}
	open, err := c.refusePushes()
	if err != nil {
		return left, err
	}
	defer func() { err = errors.Join(err, open()) }()
	if c.tips, err = tips(ctx, c.git); err != nil {
		return left, err
	}
	if err := complete(ctx, git.Runner{Dir: c.opt.Archive}, c.tips); err != nil {
		return left, fmt.Errorf("archive %s: %w", c.opt.Archive, err)
	}
	if err := c.step("choose"); err != nil {
		return left, err
	}
	first, held, err := c.first(ctx)
	if err != nil {
		return left, err
	}
	was, err := objects.ReadShallow(c.opt.Dir)
	if err != nil {
		return left, err
	}
	before, size, err := c.measure(ctx)
	if err != nil {
		return left, err
	}
	if !first.root && !was[first.hash] {
		kept, shallow, err := c.boundary(ctx, first, was)
		if err != nil {
			return left, err
		}
		if shallow, err = c.keep(ctx, kept, shallow); err != nil {
			return left, err
		}
		if err := c.step("graft"); err != nil {
			return left, err
		}
		if err := c.graft(ctx, was, shallow); err != nil {
			return left, err
		}
	}
	if first.root && len(was) == 0 {
		return left, nil // the history is no longer than that
	}
	if err := c.step("drop"); err != nil {
		return left, err
	}
	if err := c.drop(ctx); err != nil {
		return left, err
	}
	after, smaller, err := c.measure(ctx)
	if err != nil {
		return left, err
	}
	return Report{First: first.hash, FirstDate: first.date, Held: held, Kept: after, Removed: before - after, Freed: size - smaller}, nil
}

// nothingHeld refuses a repository with files at head that aren't obeyed: after a restart, what
// stands instead is found in the history.
func (c *cutter) nothingHeld(ctx context.Context) error {
	problems, err := c.opt.Problems(ctx)
	if err != nil {
		return err
	}
	if len(problems) > 0 {
		return fmt.Errorf("%w (%d such: see jibe get problems; what stands instead is known by the history, so repair them first)", problems[0], len(problems))
	}
	return nil
}

// step tells that a step comes.
func (c *cutter) step(name string) error {
	if c.opt.Step == nil {
		return nil
	}
	return c.opt.Step(name)
}

// firstCommit is the commit at which the kept history begins.
type firstCommit struct {
	hash string
	date time.Time
	root bool // it has no parents anyway
}

// first finds it, along the branch's first parents.
func (c *cutter) first(ctx context.Context) (first firstCommit, held string, err error) {
	ref := "refs/heads/" + c.opt.Branch
	out, err := c.git.Run(ctx, "rev-list", "--first-parent", "--timestamp", ref, "--")
	if err != nil {
		return first, "", err
	}
	type link struct {
		hash string
		at   int64
	}
	var chain []link
	index := map[string]int{}
	for line := range strings.Lines(out) {
		stamp, hash, _ := strings.Cut(strings.TrimSpace(line), " ")
		at, err := strconv.ParseInt(stamp, 10, 64)
		if err != nil || !git.IsHash(hash) {
			return first, "", fmt.Errorf("git rev-list: unexpected answer %.80q", line)
		}
		index[hash] = len(chain)
		chain = append(chain, link{hash, at})
	}
	if len(chain) == 0 {
		return first, "", errors.New("the branch has no commit")
	}
	n := min(max(c.opt.Commits, 1), len(chain)) - 1
	if !c.opt.Since.IsZero() {
		old := slices.IndexFunc(chain, func(l link) bool { return l.at < c.opt.Since.Unix() })
		if old < 0 {
			old = len(chain) - 1
		}
		n = max(n, old)
	}
	for _, rev := range c.opt.Moving {
		at, onBranch := index[rev.Commit]
		if !onBranch {
			// It came with a merge: history begins before that.
			merged, err := c.mergedAt(ctx, rev.Commit, len(chain), func(i int) string { return chain[i].hash })
			if err != nil {
				return first, "", err
			}
			at = min(merged+1, len(chain)-1)
		}
		if at > n {
			n, held = at, rev.Commit
		}
	}
	first = firstCommit{hash: chain[n].hash, date: time.Unix(chain[n].at, 0), root: n == len(chain)-1}
	return first, held, nil
}

// mergedAt returns the place of the oldest commit of the first parents, counted from head, that
// has the commit in its history; -1 where head hasn't.
func (c *cutter) mergedAt(ctx context.Context, commit string, n int, at func(i int) string) (int, error) {
	if have, err := present(ctx, c.git, []string{commit}); err != nil || !have[commit] {
		return -1, err // the history of before a former cut
	}
	low, high := -1, n // what is at low has it, what is at high hasn't
	for high-low > 1 {
		i := (low + high) / 2
		_, err := c.git.Run(ctx, "merge-base", "--is-ancestor", commit, at(i))
		switch {
		case err == nil:
			low = i
		case git.ExitCode(err) == 1:
			high = i
		default:
			return 0, err
		}
	}
	return low, nil
}

// boundary returns the commits that stay, and those of them that lose their parents: what the
// refs lead to and first's parents don't. A commit that loses some of its parents would lose all,
// so that each of those stays instead, without parents. So does a commit that a ref names in
// what is removed.
func (c *cutter) boundary(ctx context.Context, first firstCommit, was map[string]bool) (kept, shallow map[string]bool, err error) {
	parents, err := c.git.Run(ctx, "rev-list", "--no-walk", "--parents", first.hash)
	if err != nil {
		return nil, nil, err
	}
	var ask strings.Builder
	for _, t := range c.tips {
		if t.commit != "" && t.ref != objects.NotesRef && t.ref != KeptRef {
			ask.WriteString(t.commit + "\n")
		}
	}
	for _, p := range strings.Fields(parents)[1:] {
		ask.WriteString("^" + p + "\n")
	}
	out, err := c.git.RunInput(ctx, ask.String(), "rev-list", "--parents", "--stdin")
	if err != nil {
		return nil, nil, err
	}
	kept, shallow = map[string]bool{}, map[string]bool{}
	for line := range strings.Lines(out) {
		kept[line[:40]] = true
	}
	added := map[string]bool{}
	for line := range strings.Lines(out) {
		f := strings.Fields(line)
		gone := slices.DeleteFunc(slices.Clone(f[1:]), func(p string) bool { return kept[p] })
		switch {
		case len(gone) == 0:
			if was[f[0]] {
				shallow[f[0]] = true
			}
		case len(gone) == len(f)-1:
			shallow[f[0]] = true
		default:
			for _, p := range gone {
				added[p] = true
			}
		}
	}
	for _, t := range c.tips {
		if t.commit != "" && t.ref != objects.NotesRef && t.ref != KeptRef && !kept[t.commit] {
			added[t.commit] = true
		}
	}
	for p := range added {
		kept[p], shallow[p] = true, true
	}
	return kept, shallow, nil
}
