package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/jibe-vnfm/jibe/app"
	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/desired/gitrepo"
)

// draft is a push that somebody considers: of a clone, or of a plain folder with the files
// of a desired repository, of which less can be told.
type draft struct {
	root  string
	clone *gitrepo.Draft // nil for a plain folder
	plain gitrepo.Snapshot
	// now is what the server has, by instance.
	now []desired.Revision
}

// considered makes the draft of the desired repository in which dir stands. commit is a
// branch or commit of it, "" its files. offline asks no server.
func considered(ctx context.Context, c *client, dir, commit string, offline bool) (*draft, error) {
	root, clone, err := gitrepo.FindRoot(ctx, dir)
	if err != nil {
		return nil, err
	}
	d := &draft{root: root}
	head := ""
	if !offline {
		about, err := c.do(ctx, http.MethodGet, "/jibe/v1/instances", nil, &d.now)
		if err != nil {
			return nil, err
		}
		head = about.Get(app.HeadHeader)
	}
	switch {
	case clone:
		d.clone, err = gitrepo.NewDraft(ctx, root, head, commit)
	case commit != "":
		err = fmt.Errorf("%s is no clone of the desired repository, and has no branch or commit %q", root, commit)
	default:
		d.plain, err = gitrepo.WorkingCopy(root)
	}
	if err != nil {
		return nil, err
	}
	return d, nil
}

func (d *draft) close() {
	if d.clone != nil {
		_ = d.clone.Close()
	}
}

// held is what the push is held against ([heldAgainst]); answer asks the server about what
// would change.
func (d *draft) held(ctx context.Context, options []string, answer func(*app.Proposal) (*app.Verdict, error)) (*app.Verdict, error) {
	if d.clone != nil {
		u := d.clone.Update
		return heldAgainst(ctx, d.clone.Reader, u.Ref, []gitrepo.RefUpdate{u}, options, func(u gitrepo.RefUpdate) (*app.Verdict, error) {
			p, err := d.proposal(ctx, u)
			if err != nil {
				return nil, err
			}
			return answer(p)
		})
	}
	problems := d.plain.Problems()
	if _, err := d.plain.Settings(); err != nil {
		problems = append(problems, unfold(err)...)
	}
	if len(problems) > 0 {
		return &app.Verdict{Problems: problems}, nil
	}
	p, err := whole(ctx, d.now, d.plain)
	if err != nil {
		return nil, err
	}
	return answer(p)
}

// proposal is what the update would change: all that differs from what the server has,
// where the clone doesn't tell what it is based on.
func (d *draft) proposal(ctx context.Context, u gitrepo.RefUpdate) (*app.Proposal, error) {
	if u.Old != "" {
		return proposalOf(ctx, d.clone.Reader, u)
	}
	s, err := d.clone.At(ctx, u.New)
	if err != nil {
		return nil, err
	}
	return whole(ctx, d.now, s)
}

// whole is the proposal of everything that differs from now.
func whole(ctx context.Context, now []desired.Revision, s gitrepo.Snapshot) (*app.Proposal, error) {
	p, err := app.ProposalOf(ctx, now, s)
	if err != nil {
		return nil, err
	}
	p.Settings, err = s.Settings()
	return p, err
}

// standing is the number of instances, what can't be obeyed of the files although no push
// would be refused for it (the branch has it already, as one on a forge may, where no hook
// asks), and which secrets stand in them in clear.
func (d *draft) standing(ctx context.Context) (instances int, problems, exposed []*desired.Problem, err error) {
	s := d.plain
	if d.clone != nil {
		if s, err = d.clone.At(ctx, d.clone.Update.New); err != nil {
			return 0, nil, nil, err
		}
	}
	problems = s.Problems()
	if _, err := s.Settings(); err != nil {
		problems = append(problems, unfold(err)...)
	}
	return len(s.List()), problems, s.Exposed(), nil
}

// hint says what the answer can't tell.
func (d *draft) hint(w io.Writer) {
	switch {
	case d.clone == nil:
		fmt.Fprintf(w, "%s is no git clone: which directories a push would move, and how many instances it would end, can't be told\n", d.root)
	case d.clone.Update.Old == "":
		fmt.Fprintf(w, "this clone doesn't have the commits that it is based on: which directories a push would move, and how many instances it would end, can't be told (git fetch --unshallow)\n")
	case d.clone.Behind:
		fmt.Fprintf(w, "the branch has commits that this clone isn't based on: %s\n", fetchFirst)
	}
}

func unfold(err error) []*desired.Problem {
	var invalid *desired.InvalidError
	if errors.As(err, &invalid) {
		return invalid.Problems
	}
	return []*desired.Problem{{File: desired.RepositoriesFile, Message: err.Error()}}
}
