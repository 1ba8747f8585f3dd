package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/jibe-vnfm/jibe/admission"
	"github.com/jibe-vnfm/jibe/app/api"
	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/desired/gitrepo"
	"github.com/jibe-vnfm/jibe/desired/gitrepo/check"
	"github.com/jibe-vnfm/jibe/desired/gitrepo/read"
)

// draft is a push that somebody considers: of a clone, or of a plain folder with the files
// of a desired repository, of which less is known.
type draft struct {
	root  string
	clone *gitrepo.Draft // nil for a plain folder
	plain read.Snapshot
	// now is what the server has, by instance.
	now []desired.Revision
}

// newDraft makes the draft of the desired repository in which dir is. base is the branch or
// commit that it would be pushed to, "" means where the server stands; commit is a branch or
// commit of it, "" means its files. Offline, no server is needed.
func newDraft(ctx context.Context, c *client, dir, base, commit string, offline bool) (*draft, error) {
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
		head = about.Get(api.HeadHeader)
	}
	switch {
	case clone:
		d.clone, err = gitrepo.NewDraft(ctx, root, head, base, commit)
	case cmp.Or(commit, base) != "":
		err = fmt.Errorf("%s is no clone of the desired repository, and has no branch or commit %q", root, cmp.Or(commit, base))
	default:
		d.plain, err = read.WorkingCopy(root)
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

// check holds the push against the rules ([admission.CheckPush]); review has the server
// answer to what would change.
func (d *draft) check(ctx context.Context, options []string, review func(*admission.Proposal) (*admission.Verdict, error)) (*admission.Verdict, error) {
	if d.clone != nil {
		u := d.clone.Update
		return admission.CheckPush(ctx, check.New(d.clone.Reader), u.Ref, []check.RefUpdate{u}, options, func(u check.RefUpdate) (*admission.Verdict, error) {
			p, err := d.proposal(ctx, u)
			if err != nil {
				return nil, err
			}
			return review(p)
		})
	}
	if problems := admission.FileProblems(d.plain); len(problems) > 0 {
		return &admission.Verdict{Problems: problems}, nil
	}
	p, err := admission.FromSnapshot(ctx, d.now, d.plain)
	if err != nil {
		return nil, err
	}
	return review(p)
}

// proposal is what the update would change: everything that differs from what the server
// has, where the clone doesn't have the commits that it is based on.
func (d *draft) proposal(ctx context.Context, u check.RefUpdate) (*admission.Proposal, error) {
	if u.Old != "" {
		return admission.FromUpdate(ctx, d.clone.Reader, u)
	}
	s, err := d.clone.At(ctx, u.New)
	if err != nil {
		return nil, err
	}
	return admission.FromSnapshot(ctx, d.now, s)
}

// contents returns the number of instances, the problems of all files, and the secrets that
// are in them in clear. A push is refused only for the problems that it brings; the branch
// may have others already, as no hook of ours runs on a forge.
func (d *draft) contents(ctx context.Context) (instances int, problems, exposed []*desired.Problem, err error) {
	s := d.plain
	if d.clone != nil {
		if s, err = d.clone.At(ctx, d.clone.Update.New); err != nil {
			return 0, nil, nil, err
		}
	}
	return len(s.List()), admission.FileProblems(s), s.Exposed(), nil
}

// hint says what the verdict doesn't cover.
func (d *draft) hint(w io.Writer) {
	switch {
	case d.clone == nil:
		fmt.Fprintf(w, "%s is no git clone: which directories a push would move, and how many instances it would end, can't be known\n", d.root)
	case d.clone.Update.Old == "":
		fmt.Fprintf(w, "this clone doesn't have the commits that it is based on: which directories a push would move, and how many instances it would end, can't be known (git fetch --unshallow)\n")
	case d.clone.Behind:
		fmt.Fprintf(w, "the branch has commits that this clone isn't based on: %s\n", fetchFirst("", strings.TrimPrefix(d.clone.Update.Ref, "refs/heads/")))
	}
}
