package api

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"path"
	"strconv"
	"strings"
	"sync"

	"github.com/jibe-vnfm/jibe/admission"
	"github.com/jibe-vnfm/jibe/audit"
	"github.com/jibe-vnfm/jibe/auth"
	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/desired/gitrepo/check"
	"github.com/jibe-vnfm/jibe/desired/gitrepo/read"
	"github.com/jibe-vnfm/jibe/sol"
	"github.com/jibe-vnfm/jibe/sol/access"
	"github.com/jibe-vnfm/jibe/ui"
)

// pageWriter makes the commits of the page that no request of the API makes: what is judged as a push
// is, and branches for somebody to merge. Whoever asks for one is recorded as for any request.
type pageWriter struct {
	s *API
	// repo writes within the quotas of projects, and notes commits for the audit log.
	repo desired.Repo

	mu sync.Mutex // while a new branch is looked for and made
}

// Judge implements [ui.Writer].
func (w *pageWriter) Judge(ctx context.Context, who auth.Identity, d *sol.Draft) (*ui.Verdict, error) {
	ctx, hold, err := w.s.beginPlan(ctx, who)
	if err != nil {
		return nil, unplanned(err)
	}
	defer hold.End()

	v, err := w.s.Reviewer.Review(ctx, proposalOf(d, who), true)
	if err != nil {
		return nil, unplanned(err)
	}
	return shownVerdict(v), nil
}

// unplanned returns how the page shows that a plan can't be made now. Other errors stay as they are.
func unplanned(err error) error {
	const title, remedy = "No plan can be made now", "Nothing was changed. Try again in a moment."

	var large *admission.TooLargeError
	switch {
	case errors.As(err, &large):
		return &ui.Failure{Status: http.StatusRequestEntityTooLarge, Title: "The change is too large for a plan", Detail: err.Error(), Remedy: "Nothing was changed. Push it in several commits."}
	case errors.Is(err, admission.ErrMemoryInUse):
		return &ui.Failure{Status: http.StatusServiceUnavailable, Title: title, Detail: err.Error(), Remedy: remedy}
	case errors.Is(err, admission.ErrTooManyPlans):
		return &ui.Failure{Status: http.StatusTooManyRequests, Title: title, Detail: err.Error(), Remedy: remedy}
	}
	return err
}

func proposalOf(d *sol.Draft, who auth.Identity) *admission.Proposal {
	return &admission.Proposal{Instances: []admission.Candidate{{Dir: d.At.Dir, Instance: d.Instance, File: d.Text()}}, Admin: who.May(auth.Admin, "")}
}

// DraftEdit implements [ui.Writer].
func (w *pageWriter) DraftEdit(ctx context.Context, who auth.Identity, instance string, e ui.Edit) (*sol.Draft, error) {
	if err := w.s.Repo.Refresh(ctx); err != nil {
		return nil, err
	}
	scope, err := access.NewScope(who, w.s.Repo.Settings)
	if err != nil {
		return nil, err
	}
	head, ok := w.s.Repo.LookupHead(instance)
	if !ok {
		return nil, ui.Missing("VNF instance", instance)
	}
	if err := scope.Check(auth.Planner, access.Instance{Dir: head.Dir, EM: head.EM}); err != nil {
		return nil, err
	}
	old, err := w.s.Repo.Files(ctx, head.Revision)
	if err != nil {
		return nil, err
	}
	file := path.Join(head.Dir, desired.InstanceFile)
	// The id is written into every file that Jibe edits, so that the VNF stays the same when its
	// directory is moved.
	changes := append([]desired.KeyValue{{Path: []string{"id"}, Value: instance}}, e.Changes...)
	text, err := desired.Edit(file, old[desired.InstanceFile], changes...)
	if err != nil {
		return nil, err
	}
	files := maps.Clone(old)
	files[desired.InstanceFile] = text
	return &sol.Draft{Instance: instance, At: head.Revision, Subject: e.Subject + " " + head.Dir, By: sol.Author(who), Old: old, Files: files,
		Trailers: []desired.Trailer{{Key: desired.TrailerRequestedBy, Value: who.String()}}}, nil
}

// CommitEdit implements [ui.Writer]. The commit is held against the rights of who makes it and the
// rules, as the push hook has it.
func (w *pageWriter) CommitEdit(ctx context.Context, who auth.Identity, instance string, e ui.Edit, digest string) (string, error) {
	d, err := w.DraftEdit(ctx, who, instance, e)
	if err != nil {
		return "", err
	}
	if d.Digest() != digest {
		return "", sol.ErrMoved
	}
	settings, err := w.s.Repo.Settings()
	if err != nil {
		return "", err
	}
	if lacking := admission.Lacking(who, settings, read.Touched{Dirs: []string{d.At.Dir}}); len(lacking) > 0 {
		return "", &ui.Failure{Status: http.StatusForbidden, Title: "You may not commit this", Detail: lacking[0].Message, Remedy: "Propose it as a branch, and have somebody with that role merge it."}
	}
	v, err := w.s.Reviewer.Review(ctx, proposalOf(d, who), false)
	if err != nil {
		return "", err
	}
	if len(v.Problems) > 0 {
		return "", &ui.Failure{Status: http.StatusUnprocessableEntity, Title: "The commit is refused", Detail: v.Problems[0].Error(), Remedy: v.Problems[0].Remedy}
	}
	rev, err := w.repo.Write(ctx, d.Write())
	return rev.Commit, err
}

// The branches that the page makes: how many one caller may have that aren't merged, and how long
// the part of their names is that tells callers apart.
const (
	branchesEach   = 50
	branchNameSize = 40
)

// Propose implements [ui.Writer].
func (w *pageWriter) Propose(ctx context.Context, who auth.Identity, d *sol.Draft) (branch, commit string, err error) {
	scope, err := access.NewScope(who, w.s.Repo.Settings)
	if err != nil {
		return "", "", err
	}
	head, ok := w.s.Repo.LookupHead(d.Instance)
	if !ok {
		return "", "", ui.Missing("VNF instance", d.Instance)
	}
	if err := scope.Check(auth.Planner, access.Instance{Dir: head.Dir, EM: head.EM}); err != nil {
		return "", "", err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if branch, err = w.free(ctx, who); err != nil {
		return "", "", err
	}
	rev, err := w.s.Repo.Propose(ctx, branch, d.Write())
	if err != nil {
		return "", "", err
	}
	if w.s.Remote == "" {
		if err := w.s.Repo.DraftMoved(check.RefUpdate{Ref: "refs/heads/" + branch, New: rev.Commit}, who.String(), false); err != nil {
			w.s.Log.WarnContext(ctx, "who proposed a branch isn't noted: administrators alone can delete it", "branch", branch, "error", err)
		}
	}
	audit.Note(ctx, func(r *audit.Record) {
		r.Action, r.Object, r.Commit, r.Project = "propose", admission.DesiredRepository+" refs/heads/"+branch, rev.Commit, scope.Project(head.Dir)
	})
	return branch, rev.Commit, nil
}

// free is the first branch of the caller's that doesn't exist.
func (w *pageWriter) free(ctx context.Context, who auth.Identity) (string, error) {
	list, more, err := w.s.Repo.Branches(ctx)
	if err != nil {
		return "", err
	}
	prefix := "ui/" + branchOwner(who) + "/"
	taken := map[string]bool{}
	for _, b := range list {
		if strings.HasPrefix(b.Name, prefix) {
			taken[b.Name] = true
		}
	}
	if len(taken) >= branchesEach || more {
		return "", &ui.Failure{Status: http.StatusConflict, Title: "There are too many branches", Detail: fmt.Sprintf("%d branches begin with %s.", len(taken), prefix),
			Remedy: "Merge or delete some: git push origin --delete refs/heads/BRANCH."}
	}
	for n := 1; ; n++ {
		if name := prefix + strconv.Itoa(n); !taken[name] {
			return name, nil
		}
	}
}

// branchOwner is the caller in the name of a branch: readable, and of nobody else.
func branchOwner(who auth.Identity) string {
	name := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9':
			return r
		case r >= 'A' && r <= 'Z':
			return r - 'A' + 'a'
		}
		return '-'
	}, who.Name)
	name = strings.Trim(name[:min(len(name), branchNameSize)], "-")
	sum := sha256.Sum256([]byte(who.Issuer + "\x00" + who.Name))
	if tag := hex.EncodeToString(sum[:3]); name != "" {
		return name + "-" + tag
	} else {
		return tag
	}
}

var _ ui.Writer = (*pageWriter)(nil)
