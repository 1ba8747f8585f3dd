package ui

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/jibe-vnfm/jibe/audit"
	"github.com/jibe-vnfm/jibe/auth"
	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/desired/gitrepo/read"
	"github.com/jibe-vnfm/jibe/lcm"
	"github.com/jibe-vnfm/jibe/sol"
	"github.com/jibe-vnfm/jibe/sol/access"
)

// proposeTime bounds how long a preview may take.
const proposeTime = 30 * time.Second

// proposePage shows the commit that a button is about to make.
type proposePage struct {
	Asked *asked
	// Instance is the one that it concerns, Operation the operation whose task it is.
	Instance, Name, Dir string
	Operation           *lcm.Operation
	Draft               *sol.Draft
	Message             []string
	Author              string
	Diffs               []read.FileDiff
	Verdict             *Verdict
	// Digest and Head fix what was shown; ETag fixes an operation.
	Digest, Head, ETag string
	// Refusal is why nothing can be committed.
	Refusal *Failure
	// Moved says that what is shown isn't what was shown before.
	Moved bool
	// NoCommit and NoBranch are why the caller may not, "" where they may.
	NoCommit, NoBranch string
	// MayNot is why the caller may never commit it; then no button for that is shown.
	MayNot   string
	Followed string
	// Effect says what happens where no commit is made at once.
	Effect string
}

// propose is POST /ui/propose: it changes nothing.
func (s *Service) propose(w http.ResponseWriter, r *http.Request) error {
	a, err := askedOf(r.PostForm, auth.From(r.Context()))
	if err != nil {
		return err
	}
	return s.preview(w, r, a, http.StatusOK, false)
}

// preview answers with what would be committed now. moved says that it was asked for to be committed, and
// isn't what was shown.
func (s *Service) preview(w http.ResponseWriter, r *http.Request, a *asked, status int, moved bool) error {
	ctx, cancel := context.WithTimeout(r.Context(), proposeTime)
	defer cancel()
	p, err := s.proposal(ctx, auth.From(ctx), a)
	if err != nil {
		return err
	}
	p.Moved = moved
	if p.Refusal != nil {
		status = p.Refusal.Status
		refuse(r, p.Refusal.Error())
	}
	return s.renderStatus(w, r, status, "propose", p)
}

// proposal is what would be committed now.
func (s *Service) proposal(ctx context.Context, who auth.Identity, a *asked) (*proposePage, error) {
	p := &proposePage{Asked: a, Instance: a.instance(), Followed: s.History.Followed(), Head: s.Repo.Head()}
	if a.OfOperation {
		return p, s.decide(ctx, who, p)
	}
	head, ok := s.Repo.LookupHead(p.Instance)
	if !ok {
		return nil, Missing("VNF instance", p.Instance)
	}
	scope, err := access.NewScope(who, s.Repo.Settings)
	if err != nil {
		return nil, err
	}
	at := access.Instance{Dir: head.Dir, EM: head.EM}
	if !scope.Sees(at) {
		return nil, Missing("VNF instance", p.Instance)
	}
	p.Dir, p.Name = head.Dir, firstOf(head.Name, strings.TrimPrefix(head.Dir, "instances/"))
	rights := s.rightsOf(who, head.Dir, head.EM)
	p.NoBranch, p.NoCommit, p.MayNot = rights.plan, rights.operate, rights.operate
	if p.Draft, err = s.draft(ctx, who, a); err != nil {
		if p.Refusal, err = s.refusal(err, p.Instance); err != nil {
			return nil, err
		}
		return p, nil
	}
	p.describe(s.secretNames(ctx, head.Revision))
	if p.Verdict, err = s.Writer.Judge(ctx, who, p.Draft); err != nil {
		return nil, err
	}
	if len(p.Diffs) == 0 {
		p.NoCommit = "nothing would change"
		p.NoBranch = p.NoCommit
	} else if len(p.Verdict.Problems) > 0 && p.NoCommit == "" {
		p.NoCommit = "the commit would be refused"
	}
	return p, nil
}

// draft is the commit that would be made.
func (s *Service) draft(ctx context.Context, who auth.Identity, a *asked) (*sol.Draft, error) {
	if a.Edit != nil {
		return s.Writer.DraftEdit(ctx, who, a.instance(), *a.Edit)
	}
	return s.Lifecycle.Draft(ctx, *a.Task)
}

// refusal is an error as the page of a proposal shows it; an error that is the server's stays one.
func (s *Service) refusal(err error, id string) (*Failure, error) {
	f := failureOf(s.explained(err, "VNF instance", id))
	if f == nil {
		return nil, err
	}
	return f, nil
}

// describe fills in what of the draft is shown.
func (p *proposePage) describe(names desired.SecretNames) {
	d := p.Draft
	p.Digest, p.Author = d.Digest(), d.By
	p.Message = []string{d.Subject}
	if body := strings.TrimSpace(d.Body); body != "" {
		p.Message = append(p.Message, "")
		p.Message = append(p.Message, strings.Split(body, "\n")...)
	}
	if len(d.Trailers) > 0 {
		p.Message = append(p.Message, "")
	}
	for _, t := range d.Trailers {
		p.Message = append(p.Message, t.Key+": "+t.Value)
	}
	p.Diffs = diffFiles(d.At.Dir, d.Old, d.Files, Hide(names))
}

// secretNames are the names of secrets in the files of an instance.
func (s *Service) secretNames(ctx context.Context, rev desired.Revision) desired.SecretNames {
	var names desired.SecretNames
	in, err := s.Repo.Read(ctx, rev)
	if err != nil {
		return names
	}
	if pkg, err := s.Facts.Package(ctx, in); err == nil {
		names = names.With(pkg.VNFD.SecretParams...)
	}
	return names
}

// decide fills in the page of a task of an operation.
func (s *Service) decide(ctx context.Context, who auth.Identity, p *proposePage) error {
	op, etag, err := s.Lifecycle.Operation(ctx, who, p.Asked.Task.ID)
	if err != nil {
		return s.explained(err, "operation", p.Asked.Task.ID)
	}
	shown := s.operation(who, op)
	p.Operation, p.ETag, p.Instance, p.Name, p.Dir, p.MayNot = op, etag, op.Instance, shown.Name, shown.Dir, shown.MayNot
	for _, b := range shown.Buttons {
		if b.Action == p.Asked.Action {
			p.NoCommit = b.Why
		}
	}
	fails := "Jibe commits the directory as it was before the operation, with held: "
	if op.Type == lcm.Instantiate {
		fails = "Jibe commits that the VNF isn't to run, with held: "
	}
	p.NoBranch = "what is asked of an operation is no change of a file alone"
	p.Effect = map[string]string{
		"retry":    "No commit is made: the operation goes on with the same revision, from what is there now.",
		"cancel":   "No commit is made now. An operation that hasn't begun is rolled back, which commits the directory as it was before; any other goes to FAILED_TEMP.",
		"rollback": "The operation takes back what it did. Then Jibe commits the directory as it was before the operation:",
		"fail":     "The operation ends as FAILED. " + fails + op.ID + ", so that nothing is done until the next request or commit:",
	}[p.Asked.Action]
	if p.Asked.Action != "rollback" && p.Asked.Action != "fail" {
		return nil
	}
	head, ok := s.Repo.LookupHead(op.Instance)
	if !ok {
		return nil
	}
	now, err := s.Repo.Files(ctx, head.Revision)
	if err != nil {
		return err
	}
	then := desired.Files{}
	if op.Before.Tree != "" {
		if then, err = s.Repo.Files(ctx, op.Before); err != nil {
			return err
		}
	}
	if p.Asked.Action == "fail" && op.Type == lcm.Instantiate { // it keeps what it was asked for, until its objects have ended
		then = maps.Clone(now)
		text, err := desired.Edit(head.Dir+"/"+desired.InstanceFile, now[desired.InstanceFile], desired.KeyValue{Path: []string{"state"}, Value: desired.NotInstantiated})
		if err != nil {
			return err
		}
		then[desired.InstanceFile] = text
	}
	p.Diffs = diffFiles(head.Dir, now, then, Hide(s.secretNames(ctx, head.Revision)))
	return nil
}

// commit is POST /ui/commit: what a client of the API would ask for, or a branch of its commit. What isn't
// as it was shown is shown anew, and nothing is written.
func (s *Service) commit(w http.ResponseWriter, r *http.Request) error {
	who := auth.From(r.Context())
	a, err := askedOf(r.PostForm, who)
	if err != nil {
		return err
	}
	digest, etag := r.PostForm.Get("digest"), r.PostForm.Get("etag")
	audit.Note(r.Context(), func(rec *audit.Record) {
		rec.Action, rec.Object = a.Action, firstOf(a.instance(), r.PostForm.Get("operation"))
	})
	if a.OfOperation {
		if etag == "" {
			return badField("etag", "")
		}
		a.Task.IfMatch = etag
		id, err := s.Lifecycle.Do(r.Context(), *a.Task, "")
		return s.committed(w, r, a, Root+"/operations/"+url.PathEscape(id), err)
	}
	if digest == "" {
		return badField("digest", "")
	}
	moved, err := s.History.Moved(r.Context(), r.PostForm.Get("head"), s.dirOf(a.instance()))
	if err != nil {
		return err
	}
	if moved {
		return s.committed(w, r, a, "", sol.ErrMoved)
	}
	switch {
	case r.PostForm.Get("as") == "branch":
		d, err := s.draft(r.Context(), who, a)
		if err == nil && d.Digest() != digest {
			err = sol.ErrMoved
		}
		var branch string
		if err == nil {
			branch, _, err = s.Writer.Propose(r.Context(), who, d)
		}
		return s.committed(w, r, a, branchLink(branch), err)
	case a.Edit != nil:
		sha, err := s.Writer.CommitEdit(r.Context(), who, a.instance(), *a.Edit, digest)
		return s.committed(w, r, a, Root+"/git/commits/"+sha, err)
	}
	id, err := s.Lifecycle.Do(r.Context(), *a.Task, digest)
	return s.committed(w, r, a, Root+"/operations/"+url.PathEscape(id), err)
}

func (s *Service) dirOf(instance string) string {
	head, _ := s.Repo.LookupHead(instance)
	return head.Dir
}

// committed leads to what was made. What couldn't be is explained beside what could be now.
func (s *Service) committed(w http.ResponseWriter, r *http.Request, a *asked, to string, err error) error {
	if err == nil {
		http.Redirect(w, r, to, http.StatusSeeOther)
		return nil
	}
	if errors.Is(err, sol.ErrMoved) || a.OfOperation && s.Lifecycle.Status(err) == http.StatusPreconditionFailed {
		refuse(r, "what the commit would be has changed since it was shown")
		return s.preview(w, r, a, http.StatusConflict, true)
	}
	return s.explained(err, "VNF instance", a.instance())
}
