package ui

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/jibe-vnfm/jibe/auth"
	"github.com/jibe-vnfm/jibe/desired/gitrepo"
	"github.com/jibe-vnfm/jibe/desired/gitrepo/read"
	"github.com/jibe-vnfm/jibe/lcm"
)

// Bounds on the pages of git.
const (
	commitsPerPage = 40
	gitTime        = 25 * time.Second
)

// gitPage is the log.
type gitPage struct {
	Followed, Head string
	Dir, From      string
	Commits        []commitRow
	Next           string
	Branches       []gitrepo.Branch
	MoreBranches   bool
	// BranchesWhy is why no branches are listed.
	BranchesWhy string
	MayPlan     bool
}

// commitRow is a commit in the log.
type commitRow struct {
	*gitrepo.Logged
	Who      string
	Vouched  bool
	Outcomes []outcomeRow
	More     int
}

// outcomeRow is how an operation that a commit began stands.
type outcomeRow struct {
	Operation, Instance string
	Type                string
	State               string
	Kind                string
	Detail              string
	// By and Filled are those of [Begun].
	By     string
	Filled bool
}

// mostOutcomesShown is how many outcomes a commit's row has.
const mostOutcomesShown = 5

// showGit is GET /ui/git.
func (s *Service) showGit(w http.ResponseWriter, r *http.Request) error {
	ctx, cancel := context.WithTimeout(r.Context(), gitTime)
	defer cancel()
	who := auth.From(ctx)
	scope, err := s.scope(r)
	if err != nil {
		return err
	}
	q := r.URL.Query()
	p := &gitPage{Followed: s.History.Followed(), Head: s.Repo.Head(), Dir: strings.Trim(q.Get("dir"), "/"), From: q.Get("from"), MayPlan: who.MayAnywhere(auth.Planner)}
	if p.From != "" && !isHash(p.From) {
		return &Failure{Status: http.StatusNotFound, Title: "No such commit", Detail: "The log can't begin at " + clipped(p.From) + ".", Remedy: "Begin with the newest commit."}
	}
	list, next, err := s.History.Log(ctx, scope, p.From, commitsPerPage, p.Dir)
	if err != nil {
		return slow(ctx, err)
	}
	for _, l := range list {
		p.Commits = append(p.Commits, s.commitRow(ctx, l, mostOutcomesShown))
	}
	if next != "" {
		v := url.Values{"from": {next}}
		if p.Dir != "" {
			v.Set("dir", p.Dir)
		}
		p.Next = Root + "/git?" + v.Encode()
	}
	if !scope.Everything() {
		p.BranchesWhy = "Branches are listed for who sees all projects; open one by its name."
	} else if p.Branches, p.MoreBranches, err = s.History.Branches(ctx); err != nil {
		p.BranchesWhy = err.Error()
	}
	return s.render(w, r, "git", p)
}

// slow explains an answer that took too long.
func slow(ctx context.Context, err error) error {
	if ctx.Err() == nil {
		return err
	}
	return &Failure{Status: http.StatusServiceUnavailable, Title: "It took too long", Detail: err.Error(), Remedy: "The history is long, or the forge is slow: look at it in a clone (git log -- DIRECTORY)."}
}

func isHash(s string) bool {
	return len(s) == 40 && strings.Trim(s, "0123456789abcdef") == ""
}

// commitRow is a commit with what came of it.
func (s *Service) commitRow(ctx context.Context, l *gitrepo.Logged, most int) commitRow {
	row := commitRow{Logged: l, More: l.MoreOutcomes}
	row.Who, row.Vouched = l.Person()
	for _, line := range l.Outcomes {
		if o, ok := parseOutcome(line); ok {
			row.Outcomes = append(row.Outcomes, o)
		}
	}
	if len(row.Outcomes) == 0 && l.Operation != "" {
		if op, err := s.Operations.Operation(ctx, l.Operation); err == nil {
			row.Outcomes = append(row.Outcomes, outcomeOf(op))
		}
	}
	if more := len(row.Outcomes) - most; more > 0 {
		row.Outcomes, row.More = row.Outcomes[more:], row.More+more
	}
	return row
}

// parseOutcome reads a line of a commit's note: time, instance, type, state, operation and why.
func parseOutcome(line string) (outcomeRow, bool) {
	f := strings.SplitN(line, " ", 6)
	if len(f) < 5 {
		return outcomeRow{}, false
	}
	if _, err := time.Parse(time.RFC3339, f[0]); err != nil {
		return outcomeRow{}, false
	}
	o := outcomeRow{Instance: f[1], Type: f[2], State: f[3], Operation: strings.TrimSuffix(f[4], ":"), Kind: stateKind(lcm.State(f[3]))}
	if len(f) > 5 {
		o.Detail = f[5]
	}
	return o, true
}

func outcomeOf(op *lcm.Operation) outcomeRow {
	o := outcomeRow{Operation: op.ID, Instance: op.Instance, Type: string(op.Type), State: string(op.State), Kind: stateKind(op.State)}
	if op.Error != nil {
		o.Detail = op.Error.Detail
	}
	return o
}

// commitPage is one commit.
type commitPage struct {
	commitRow
	Diffs      *read.Diffs
	Operations []outcomeRow
}

// showCommit is GET /ui/git/commits/{sha}.
func (s *Service) showCommit(w http.ResponseWriter, r *http.Request) error {
	ctx, cancel := context.WithTimeout(r.Context(), gitTime)
	defer cancel()
	scope, err := s.scope(r)
	if err != nil {
		return err
	}
	sha := r.PathValue("sha")
	if !isHash(sha) {
		return Missing("commit", clipped(sha))
	}
	l, diffs, err := s.History.Commit(ctx, scope, sha)
	if err != nil {
		return slow(ctx, err)
	}
	p := &commitPage{commitRow: s.commitRow(ctx, l, mostListed), Diffs: diffs}
	for _, b := range s.History.Operations(ctx, scope, l) {
		o := outcomeOf(b.Operation)
		o.By, o.Filled = b.By, b.Filled
		p.Operations = append(p.Operations, o)
	}
	return s.render(w, r, "commit", p)
}

// branchPage is a branch as a reviewer reads it.
type branchPage struct {
	*Review
	Followed string
	Rows     []commitRow
	// Own says that the caller has made it here.
	Own bool
}

// showBranch is GET /ui/git/branches/{name...}.
func (s *Service) showBranch(w http.ResponseWriter, r *http.Request) error {
	ctx, cancel := context.WithTimeout(r.Context(), gitTime)
	defer cancel()
	name := r.PathValue("name")
	v, err := s.History.Review(ctx, auth.From(ctx), name)
	if err != nil {
		if f := failureOf(err); f != nil && f.Status == http.StatusNotFound {
			return &Failure{Status: http.StatusNotFound, Title: "No such branch", Detail: "The desired repository has no branch " + clipped(name) + ", or it isn't yours to see.", Remedy: "It may have been merged and deleted: look at the log."}
		}
		if errors.Is(err, gitrepo.ErrConflict) {
			return &Failure{Status: http.StatusConflict, Title: "The branch conflicts", Detail: clipped(name) + " and " + s.History.Followed() + " change the same lines, so nobody can say yet what the branch would do.",
				Remedy: "Rebase the branch, and push it again: git pull --rebase origin refs/heads/" + s.History.Followed() + "."}
		}
		return slow(ctx, err)
	}
	p := &branchPage{Review: v, Followed: s.History.Followed()}
	for _, l := range v.Commits {
		p.Rows = append(p.Rows, s.commitRow(ctx, l, mostOutcomesShown))
	}
	return s.render(w, r, "branch", p)
}

// toBranch is GET /ui/git/branch: it leads to the branch that a form names.
func (s *Service) toBranch(w http.ResponseWriter, r *http.Request) error {
	name := strings.TrimSpace(r.URL.Query().Get("name"))
	if name == "" {
		http.Redirect(w, r, Root+"/git", http.StatusSeeOther)
		return nil
	}
	http.Redirect(w, r, branchLink(name), http.StatusSeeOther)
	return nil
}

// branchLink is the page of a branch.
func branchLink(name string) string {
	parts := strings.Split(name, "/")
	for i := range parts {
		parts[i] = url.PathEscape(parts[i])
	}
	return Root + "/git/branches/" + strings.Join(parts, "/")
}
