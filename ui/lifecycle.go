package ui

import (
	"context"
	"time"

	"github.com/jibe-vnfm/jibe/auth"
	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/desired/gitrepo"
	"github.com/jibe-vnfm/jibe/desired/gitrepo/read"
	"github.com/jibe-vnfm/jibe/lcm"
	"github.com/jibe-vnfm/jibe/plan"
	"github.com/jibe-vnfm/jibe/sol"
	"github.com/jibe-vnfm/jibe/sol/access"
	"github.com/jibe-vnfm/jibe/vnfd"
)

// Lifecycle shows and carries out what clients of the API ask for, by the same handlers;
// [*sol.Service] is one.
type Lifecycle interface {
	Instance(ctx context.Context, caller auth.Identity, id string) (*sol.VnfInstance, error)
	Operation(ctx context.Context, caller auth.Identity, id string) (op *lcm.Operation, etag string, err error)
	OperationBody(op *lcm.Operation) *sol.VnfLcmOpOcc
	Draft(ctx context.Context, t sol.Task) (*sol.Draft, error)
	Do(ctx context.Context, t sol.Task, digest string) (operation string, err error)
	Status(err error) int
}

// Facts are what pages of one instance show beside what the API shows of it. It is safe for
// concurrent use.
type Facts interface {
	// Running returns what exists of the instance; fresh is false where the VIM can't be seen.
	Running(ctx context.Context, instance string) (seen plan.Observed, fresh bool)
	// Package returns the package that the instance runs, or would run.
	Package(ctx context.Context, in *desired.Instance) (*vnfd.Package, error)
	// Choices are the packages that the caller sees.
	Choices(scope *access.Scope) []Choice
	// Drift is what of the instance differs from git, nil where nothing does.
	Drift(instance string) *Drift
	// Problems are why the instance's file at head isn't obeyed.
	Problems(instance string) []desired.Problem
}

// Choice is a package that an instance may be brought to.
type Choice struct{ VnfdID, Version, Product, Repository string }

// Drift is what of an instance differs from what git says, and what is done about it.
type Drift struct {
	// State is what is done about it, in a word.
	State       string
	Since, Next time.Time
	// Refused is why no repair begins, Operation the repair that is open.
	Refused, Operation string
	Deviations         []Deviation
}

// Deviation is one field or object that differs, as the VIM and the rendering have it. Values are
// shortened, and none is a secret's.
type Deviation struct {
	Object, Field, Want, Have, By string
	At                            time.Time
}

// Verdict is what would come of a change of the desired repository. It is admitted where there are
// no problems.
type Verdict struct {
	Problems, Warnings []*desired.Problem
	Previews           []Preview
	// Effect is how many VNFs end, begin and change, "" if that isn't known.
	Effect string
	// More is how many previews are left out.
	More int
}

// Preview is what a change would cause on one instance: steps, and in what they differ from what
// exists.
type Preview struct {
	Instance, Dir string
	Type          lcm.Type
	Steps         []plan.Step
	// Filled is what Jibe fills in beside the change.
	Filled []string
	Diff   []Deviation
	// Error says why nothing can be said.
	Error string
	// More is how many steps are left out.
	More int
}

// Edit is a change of vnf.yaml for which the API has no request: what somebody would push.
type Edit struct {
	// Subject is the first word of the commit's subject.
	Subject string
	Changes []desired.KeyValue
}

// Writer makes the commits that the API's handlers don't: those that are judged as a push is. Its
// errors are [*Failure]s where a person can do something.
type Writer interface {
	// Judge holds the draft against the rules and plans it, as "jibe plan" does. Nothing changes.
	Judge(ctx context.Context, who auth.Identity, d *sol.Draft) (*Verdict, error)
	// DraftEdit is the commit that would make the edit.
	DraftEdit(ctx context.Context, who auth.Identity, instance string, e Edit) (*sol.Draft, error)
	// CommitEdit makes such a commit, if it still is the one with the digest, and it may be pushed;
	// else its error is [sol.ErrMoved].
	CommitEdit(ctx context.Context, who auth.Identity, instance string, e Edit, digest string) (commit string, err error)
	// Propose puts the draft on a new branch of the caller's, for somebody to merge.
	Propose(ctx context.Context, who auth.Identity, d *sol.Draft) (branch, commit string, err error)
}

// History is the desired repository as git has it, as far as the caller sees it.
type History interface {
	// Log returns commits, the newest first, from a commit on ("" is head); dir "" is all
	// directories. next is where the following page begins.
	Log(ctx context.Context, scope *access.Scope, from string, most int, dir string) (list []*gitrepo.Logged, next string, err error)
	// Commit returns one commit and what it changed.
	Commit(ctx context.Context, scope *access.Scope, sha string) (*gitrepo.Logged, *read.Diffs, error)
	// Operations are those that the commit began on instances, the few first of them. Where it began
	// none on an instance that it changed, it is the first one whose revision has the commit in it.
	Operations(ctx context.Context, scope *access.Scope, l *gitrepo.Logged) []Begun
	// Branches are the branches beside the one that is followed.
	Branches(ctx context.Context) (list []gitrepo.Branch, more bool, err error)
	// Review plans what a branch would change if it were merged now.
	Review(ctx context.Context, who auth.Identity, branch string) (*Review, error)
	// Asking is the commit by which a person brought the directory to its state at rev: where rev's own
	// only fills in what Jibe adds, an earlier one.
	Asking(ctx context.Context, rev desired.Revision) string
	// Moved says whether, since head was at the commit, the directory or what belongs to no instance (VIMs,
	// projects, repositories) has changed. An unknown commit has.
	Moved(ctx context.Context, commit, dir string) (bool, error)
	// Followed is the name of the branch that is followed.
	Followed() string
}

// Begun is an operation that came of a commit.
type Begun struct {
	*lcm.Operation
	// By is the later commit that it began with, "" where it was the commit itself. Filled says that
	// this one only has what Jibe filled in.
	By     string
	Filled bool
}

// Review is a branch as a reviewer reads it.
type Review struct {
	Branch, Commit string
	Commits        []*gitrepo.Logged
	More           bool // commits are left out
	Diffs          *read.Diffs
	Verdict        *Verdict
	// Merged says that the branch has nothing that head lacks.
	Merged bool
}
