package gitrepo

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/desired/gitrepo/message"
	"github.com/jibe-vnfm/jibe/internal/git"
	"github.com/jibe-vnfm/jibe/internal/natural"
)

// Branch is a branch of the desired repository beside the one that is followed.
type Branch struct{ Name, Commit string }

// mostBranches bounds how many branches are listed.
const mostBranches = 500

// Branches returns the branches beside the followed one, by name, with a remote those of the remote;
// more says that there are more.
func (r *Repo) Branches(ctx context.Context) (list []Branch, more bool, err error) {
	var out string
	if r.opt.Remote == "" {
		out, err = r.read.Git.Run(ctx, "for-each-ref", fmt.Sprintf("--count=%d", mostBranches+2), "--format=%(objectname) %(refname)", "refs/heads/")
	} else {
		ctx, cancel := context.WithTimeout(ctx, r.opt.remoteTimeout)
		defer cancel()
		out, err = r.read.Git.Run(ctx, "ls-remote", "--heads", "--", r.opt.Remote)
	}
	if err != nil {
		return nil, false, fmt.Errorf("%w: branches: %w", desired.ErrUnavailable, err)
	}
	for line := range strings.Lines(out) {
		f := strings.Fields(line)
		if len(f) != 2 || f[1] == r.read.Ref() || !git.IsHash(f[0]) {
			continue
		}
		if len(list) == mostBranches {
			return list, true, nil
		}
		list = append(list, Branch{Name: strings.TrimPrefix(f[1], "refs/heads/"), Commit: f[0]})
	}
	slices.SortFunc(list, func(a, b Branch) int { return natural.Compare(a.Name, b.Name) })
	return list, false, nil
}

// Branch returns the commit of a branch, which this repository has then, or [desired.ErrNotFound].
func (r *Repo) Branch(ctx context.Context, name string) (string, error) {
	ref := "refs/heads/" + name
	if ok, err := r.canBe(ctx, ref); err != nil {
		return "", fmt.Errorf("branch %q: %w", message.Clip(name), err)
	} else if !ok {
		return "", fmt.Errorf("%w: branch %q", desired.ErrNotFound, message.Clip(name))
	}
	var tip string
	var err error
	if r.opt.Remote == "" {
		tip, err = git.ReadRef(r.opt.Dir, ref)
	} else {
		r.move.Lock()
		defer r.move.Unlock()
		if tip, err = r.remoteRef(ctx, ref); tip != "" && err == nil {
			tip, err = r.fetch(ctx, ref, fetchedProposal, r.opt.remoteTimeout)
		}
	}
	if err == nil && tip == "" {
		err = fmt.Errorf("%w: branch %q", desired.ErrNotFound, message.Clip(name))
	}
	return tip, err
}

// DraftOf is what a branch or commit would be if it were merged now, as [NewDraft] makes it of a
// clone. [Draft.Close] removes it.
func (r *Repo) DraftOf(ctx context.Context, commit string) (*Draft, error) {
	if !git.IsHash(commit) {
		return nil, fmt.Errorf("%w: commit %q", desired.ErrNotFound, message.Clip(commit))
	}
	return newDraft(ctx, r.opt.Dir, r.Head(), "", commit, r.sealed)
}
