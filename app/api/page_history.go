package api

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/jibe-vnfm/jibe/admission"
	"github.com/jibe-vnfm/jibe/auth"
	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/desired/gitrepo"
	"github.com/jibe-vnfm/jibe/desired/gitrepo/check"
	"github.com/jibe-vnfm/jibe/desired/gitrepo/read"
	"github.com/jibe-vnfm/jibe/internal/git"
	"github.com/jibe-vnfm/jibe/lcm"
	"github.com/jibe-vnfm/jibe/lcm/oplog"
	"github.com/jibe-vnfm/jibe/sol"
	"github.com/jibe-vnfm/jibe/sol/access"
	"github.com/jibe-vnfm/jibe/ui"
)

// Bounds on what one page of the history may cost.
const (
	mostScanned   = 300 // commits that are looked at for one page of a log
	mostReviewed  = 50  // instances of a branch that are planned
	mostAhead     = 50  // commits of a branch that are shown
	mostOfCommit  = 20  // operations of a commit that are shown
	mostTouched   = 200 // directories of a commit in which its operations are looked for
	reviewsAtOnce = 2
	historyTime   = 20 * time.Second
	mostAsking    = 10 // commits among which a person's is looked for
	askingTime    = 3 * time.Second
)

// pageHistory is the desired repository for the page. Whoever sees only some projects is shown what
// commits say and change there.
type pageHistory struct {
	s     *API
	turns chan struct{} // of reviews
}

func newPageHistory(s *API) *pageHistory {
	return &pageHistory{s: s, turns: make(chan struct{}, reviewsAtOnce)}
}

// Log implements [ui.History].
func (h *pageHistory) Log(ctx context.Context, scope *access.Scope, from string, most int, dir string) ([]*gitrepo.Logged, string, error) {
	ctx, cancel := context.WithTimeout(ctx, historyTime)
	defer cancel()
	var paths []string
	if dir != "" {
		paths = []string{dir}
	}
	if scope.Everything() {
		return h.s.Repo.Log(ctx, from, most, paths...)
	}
	var shown []*gitrepo.Logged
	for scanned := 0; scanned < mostScanned; scanned += most {
		list, next, err := h.s.Repo.Log(ctx, from, most, paths...)
		if err != nil {
			return nil, "", err
		}
		for i, l := range list {
			if len(shown) == most {
				return shown, list[i].Commit, nil
			}
			t, err := h.s.Repo.Reader().Touched(ctx, firstParent(l), l.Commit)
			if err != nil {
				return nil, "", err
			}
			if h.confineLogged(scope, l, t) {
				shown = append(shown, l)
			}
		}
		if from = next; from == "" {
			break
		}
	}
	return shown, from, nil
}

func firstParent(l *gitrepo.Logged) string {
	if len(l.Parents) == 0 {
		return ""
	}
	return l.Parents[0]
}

// confineLogged takes out of a commit what isn't the caller's to see; it is false where nothing is.
func (h *pageHistory) confineLogged(scope *access.Scope, l *gitrepo.Logged, t *read.Touched) bool {
	if scope.Everything() {
		return true
	}
	sees := func(dir string) bool { return scope.Sees(access.Instance{Dir: dir}) }
	if !slices.ContainsFunc(t.Dirs, sees) {
		return false
	}
	if len(t.Outside) > 0 || slices.ContainsFunc(t.Dirs, func(dir string) bool { return !sees(dir) }) {
		l.Subject, l.Body = "A commit that also changes what isn't yours to see", ""
	}
	l.Outcomes = slices.DeleteFunc(l.Outcomes, func(line string) bool {
		f := strings.Fields(line)
		if len(f) < 2 {
			return true
		}
		head, ok := h.s.Repo.LookupHead(f[1])
		return !ok || !sees(head.Dir)
	})
	return true
}

// sees says of which files the caller is told.
func (h *pageHistory) sees(scope *access.Scope) func(string) bool {
	if scope.Everything() {
		return nil
	}
	return func(file string) bool { return seesFile(scope, file) }
}

// hide takes secrets out of what differs between two commits: also those whose names the packages of
// the instances declare.
func (h *pageHistory) hide(ctx context.Context, r *read.Reader, from, to string) func([]read.DiffLine) {
	var names desired.SecretNames
	changes, _, err := r.Diff(ctx, from, to)
	if err != nil {
		return ui.Hide(names) // a file that can't be read has no package
	}
	for _, c := range changes[:min(len(changes), mostReviewed)] {
		for _, rev := range []desired.Revision{c.Before, c.After} {
			if rev.Tree == "" {
				continue
			}
			in, err := r.Read(ctx, rev)
			if err != nil {
				continue
			}
			if pkg, err := h.s.View.Package(ctx, in); err == nil {
				names = names.With(pkg.VNFD.SecretParams...)
			}
		}
	}
	return ui.Hide(names)
}

// Commit implements [ui.History].
func (h *pageHistory) Commit(ctx context.Context, scope *access.Scope, sha string) (*gitrepo.Logged, *read.Diffs, error) {
	ctx, cancel := context.WithTimeout(ctx, historyTime)
	defer cancel()
	l, err := h.s.Repo.Show(ctx, sha)
	if err != nil {
		return nil, nil, err
	}
	if !scope.Everything() {
		t, err := h.s.Repo.Reader().Touched(ctx, firstParent(l), l.Commit)
		if err != nil {
			return nil, nil, err
		}
		if !h.confineLogged(scope, l, t) {
			return nil, nil, fmt.Errorf("%w: commit %s", desired.ErrNotFound, l.Commit)
		}
	}
	d, err := h.s.Repo.Reader().Patch(ctx, firstParent(l), l.Commit, h.sees(scope), h.hide(ctx, h.s.Repo.Reader(), firstParent(l), l.Commit))
	return l, d, err
}

// Operations implements [ui.History].
func (h *pageHistory) Operations(ctx context.Context, scope *access.Scope, l *gitrepo.Logged) []ui.Begun {
	var ids, instances []string
	if l.Operation != "" {
		ids = append(ids, l.Operation)
	}
	for _, line := range l.Outcomes {
		if f := strings.Fields(line); len(f) > 4 {
			ids = append(ids, strings.TrimSuffix(f[4], ":"))
		}
	}
	if t, err := h.s.Repo.Reader().Touched(ctx, firstParent(l), l.Commit); err == nil && len(t.Dirs) <= mostTouched {
		if changes, _, err := h.s.Repo.Reader().Diff(ctx, firstParent(l), l.Commit); err == nil {
			for _, c := range changes {
				instance := cmp.Or(c.After.Instance, c.Before.Instance)
				instances = append(instances, instance)
				ids = append(ids, lcm.OperationID(l.Commit, instance))
			}
		}
	}
	var list []ui.Begun
	seen, began := map[string]bool{}, map[string]bool{}
	add := func(b ui.Begun) {
		if !seen[b.ID] && len(list) < mostOfCommit && scope.Sees(sol.PlaceOf(h.s.Repo, b.Operation)) {
			list = append(list, b)
		}
		seen[b.ID], began[b.Instance] = true, true
	}
	for _, id := range ids {
		if op, err := h.s.Oplog.Operation(ctx, id); err == nil {
			add(ui.Begun{Operation: op})
		}
	}
	ctx, cancel := context.WithTimeout(ctx, askingTime)
	defer cancel()
	for _, instance := range instances {
		if began[instance] || len(list) == mostOfCommit {
			continue
		}
		if op := h.firstWith(ctx, l.Commit, instance); op != nil {
			add(ui.Begun{Operation: op, By: op.After.Commit, Filled: h.Asking(ctx, op.After) == l.Commit})
		}
	}
	return list
}

// firstWith is the first operation on the instance whose revision has the commit in its history, and
// the revision before it doesn't; nil where there is none, or git can't say in time. Jibe may have
// filled in what the commit left open, or more commits may have been pushed at once.
func (h *pageHistory) firstWith(ctx context.Context, commit, instance string) *lcm.Operation {
	var ids []string // in the order of their starts, and so of their revisions
	for e := range h.s.Oplog.OperationEntries(oplog.OperationQuery{Instance: instance}) {
		ids = append(ids, e.ID)
	}
	has := func(rev desired.Revision) bool {
		ok, err := h.s.Repo.Has(ctx, rev.Commit, commit)
		return err == nil && ok
	}
	at := sort.Search(len(ids), func(i int) bool {
		op, err := h.s.Oplog.Operation(ctx, ids[i])
		return err == nil && has(op.After)
	})
	for left := false; at < len(ids); at++ {
		op, err := h.s.Oplog.Operation(ctx, ids[at])
		switch {
		case err != nil:
			return nil
		case op.LeavesOut(commit):
			left = true // and the next one begins at a revision that has the commit in its history
		case !left && has(op.Before):
			return nil
		default:
			return op
		}
	}
	return nil
}

// Branches implements [ui.History].
func (h *pageHistory) Branches(ctx context.Context) ([]gitrepo.Branch, bool, error) {
	return h.s.Repo.Branches(ctx)
}

// Asking implements [ui.History]. It looks at few commits, and not for long.
func (h *pageHistory) Asking(ctx context.Context, rev desired.Revision) string {
	ctx, cancel := context.WithTimeout(ctx, askingTime)
	defer cancel()
	if rev.Commit == "" {
		return ""
	}
	byItself := func(l *gitrepo.Logged) bool { return l.Own && l.RequestedBy == "" }
	l, err := h.s.Repo.Show(ctx, rev.Commit)
	if err != nil || !byItself(l) {
		return rev.Commit
	}
	list, _, err := h.s.Repo.Log(ctx, rev.Commit, mostAsking, rev.Dir)
	if i := slices.IndexFunc(list, func(l *gitrepo.Logged) bool { return !byItself(l) }); err == nil && i >= 0 {
		return list[i].Commit
	}
	return rev.Commit
}

// Moved implements [ui.History].
func (h *pageHistory) Moved(ctx context.Context, commit, dir string) (bool, error) {
	if err := h.s.Repo.Refresh(ctx); err != nil {
		return false, err
	}
	head := h.s.Repo.Head()
	switch {
	case commit == head:
		return false, nil
	case !git.IsHash(commit):
		return true, nil
	}
	t, err := h.s.Repo.Reader().Touched(ctx, commit, head)
	if err != nil {
		return true, nil //nolint:nilerr // a commit that this repository never had
	}
	return len(t.Outside) > 0 || slices.Contains(t.Dirs, dir), nil
}

// Followed implements [ui.History].
func (h *pageHistory) Followed() string { return h.s.Branch }

// Review implements [ui.History].
func (h *pageHistory) Review(ctx context.Context, who auth.Identity, branch string) (*ui.Review, error) {
	ctx, cancel := context.WithTimeout(ctx, historyTime)
	defer cancel()
	select {
	case h.turns <- struct{}{}:
		defer func() { <-h.turns }()
	case <-ctx.Done():
		return nil, fmt.Errorf("%w: too many branches are being planned: try again", desired.ErrUnavailable)
	}
	scope, err := access.NewScope(who, h.s.Repo.Settings)
	if err != nil {
		return nil, err
	}
	if err := h.s.Repo.Refresh(ctx); err != nil {
		return nil, err
	}
	tip, err := h.s.Repo.Branch(ctx, branch)
	if err != nil {
		return nil, err
	}
	out := &ui.Review{Branch: branch, Commit: tip}
	if out.Commits, out.More, err = h.s.Repo.Ahead(ctx, tip, mostAhead); err != nil {
		return nil, err
	}
	out.Merged = len(out.Commits) == 0
	if !scope.Everything() {
		if err := h.confineReview(ctx, scope, out); err != nil {
			return nil, err
		}
	}
	d, err := h.s.Repo.DraftOf(ctx, tip)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	if out.Diffs, err = d.Patch(ctx, d.Update.Old, d.Update.New, h.sees(scope), h.hide(ctx, d.Reader, d.Update.Old, d.Update.New)); err != nil {
		return nil, err
	}
	if out.Merged {
		out.Verdict = &ui.Verdict{}
		return out, nil
	}
	out.Verdict, err = h.judge(ctx, who, d)
	return out, err
}

// confineReview takes out of a branch's commits what isn't the caller's to see.
func (h *pageHistory) confineReview(ctx context.Context, scope *access.Scope, v *ui.Review) error {
	var shown []*gitrepo.Logged
	for _, l := range v.Commits {
		t, err := h.s.Repo.Reader().Touched(ctx, firstParent(l), l.Commit)
		if err != nil {
			return err
		}
		if h.confineLogged(scope, l, t) {
			shown = append(shown, l)
		}
	}
	if len(shown) == 0 && len(v.Commits) > 0 {
		return ui.Missing("branch", v.Branch)
	}
	v.Commits = shown
	return nil
}

// judge plans the draft of a branch, as "jibe plan --commit" does, for so many instances.
func (h *pageHistory) judge(ctx context.Context, who auth.Identity, d *gitrepo.Draft) (*ui.Verdict, error) {
	ctx, hold, err := h.s.beginPlan(ctx, who)
	if err != nil {
		return nil, err
	}
	defer hold.End()

	more := 0
	v, err := admission.CheckPush(ctx, check.New(d.Reader), d.Update.Ref, []check.RefUpdate{d.Update}, nil, func(u check.RefUpdate) (*admission.Verdict, error) {
		p, err := admission.FromUpdate(ctx, d.Reader, u)
		if err != nil {
			return nil, err
		}
		if err := h.s.confine(ctx, who, p); err != nil {
			if errors.Is(err, errForeign) {
				return &admission.Verdict{Problems: []*desired.Problem{{File: path.Clean(u.Ref), Message: err.Error(), Remedy: "have it planned by somebody who may plan all that the branch changes"}}}, nil
			}
			return nil, err
		}
		if more = max(0, len(p.Instances)-mostReviewed); more > 0 {
			p.Instances = p.Instances[:mostReviewed]
		}
		p.Admin = who.May(auth.Admin, "")
		v, err := h.s.Reviewer.Review(ctx, p, true)
		if err != nil {
			return nil, err
		}
		return v, h.s.warnOfRights(who, p, v)
	})
	if err != nil {
		return nil, err
	}
	out := shownVerdict(v)
	out.More = more
	return out, nil
}

var _ ui.History = (*pageHistory)(nil)
