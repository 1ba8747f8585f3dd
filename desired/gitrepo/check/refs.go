package check

import (
	"context"
	"slices"
	"strings"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/desired/gitrepo/message"
	"github.com/jibe-vnfm/jibe/internal/git"
)

// CheckRefs returns the reasons for which updates of refs are refused, whatever their commits
// hold: nothing that a branch or a tag has ever led to may get lost, and refs beside branches
// and tags are Jibe's and git's own. (By refs/replace/ a client could have git read other
// objects than those that were checked.) Nor may a name mislead who has fetched it: [MisleadingRef]. An error means that the push must be refused too.
func (r *Checker) CheckRefs(ctx context.Context, updates ...RefUpdate) ([]*desired.Problem, error) {
	return r.checkRefs(ctx, false, updates...)
}

// checkRefs is CheckRefs. With drafts, it is of the desired repository, in which branches next to the desired one may be deleted and
// rewritten by who owns them: that is the server's to judge ([Checker.Rewrites]).
func (r *Checker) checkRefs(ctx context.Context, drafts bool, updates ...RefUpdate) ([]*desired.Problem, error) {
	var out []*desired.Problem
	refuse := func(u RefUpdate, text, remedy string) {
		out = append(out, &desired.Problem{File: message.Clip(u.Ref), Message: text, Remedy: remedy})
	}
	for _, u := range updates {
		branch := strings.HasPrefix(u.Ref, "refs/heads/")
		switch {
		case strings.HasPrefix(u.Ref, "refs/jibe/"), strings.HasPrefix(u.Ref, "refs/notes/"):
			refuse(u, "this ref is Jibe's own", "push branches and tags only")
		case !branch && !strings.HasPrefix(u.Ref, "refs/tags/"):
			refuse(u, "this is neither a branch nor a tag", "push branches and tags only")
		case drafts && u.New == "" && r.IsDraft(u.Ref):
		case u.New == "":
			refuse(u, "branches and tags can't be deleted", "leave it; who administers the server's host can delete it there")
		case MisleadingRef(u.Ref, r.Branch) != "":
			refuse(u, "git could take this name for something else: "+MisleadingRef(u.Ref, r.Branch), "choose another name")
		case u.Old == "" || u.Old == u.New:
		case drafts && r.IsDraft(u.Ref):
		case !branch:
			refuse(u, "a tag can't be moved: what it named would be another from now on", "give the new commit a tag of its own")
		default:
			forward, err := r.forward(ctx, u)
			if err != nil {
				return nil, err
			}
			if !forward {
				refuse(u, "its history can't be rewritten: it has commits that this push lacks", "fetch first, and push what follows it")
			}
		}
	}
	return out, nil
}

// forward says whether the new commit follows the old one.
func (r *Checker) forward(ctx context.Context, u RefUpdate) (bool, error) {
	// Most pushes are one commit on top of what is there, which needs no process of git to see.
	if data, err := r.Objects.Get(ctx, git.KindCommit, u.New); err == nil {
		if c, err := git.ParseCommit(data); err == nil && slices.Contains(c.Parents, u.Old) {
			return true, nil
		}
	}
	return r.IsAncestor(ctx, u.Old, u.New)
}
