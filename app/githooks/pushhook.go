package githooks

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/jibe-vnfm/jibe/admission"
	"github.com/jibe-vnfm/jibe/app/answer"
	"github.com/jibe-vnfm/jibe/audit"
	"github.com/jibe-vnfm/jibe/auth"
	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/desired/gitrepo/check"
	"github.com/jibe-vnfm/jibe/desired/gitrepo/read"
	"github.com/jibe-vnfm/jibe/internal/git"
)

// push answers a push hook: who pushes, whether they may, and what of it would be refused.
func (s *Service) push(w http.ResponseWriter, r *http.Request) {
	var p admission.Push
	began := time.Now()
	if !decodeProposal(w, r, &p) {
		return
	}
	var by pusher
	var err error
	if p.ID != "" {
		by, err = s.pushes.claim(p.ID, p.Repository)
	} else {
		by, err = localPusher(r.Context())
	}
	if err != nil {
		answer.Problem(w, http.StatusForbidden, err.Error())
		return
	}
	mirrored := s.Remote != "" && p.Repository == admission.DesiredRepository
	v := &admission.Verdict{}
	if mirrored {
		v.Problems, err = s.checkMirrored(r.Context(), &p)
	}
	if err == nil && len(v.Problems) == 0 {
		v, err = s.judgePush(r.Context(), by, &p)
	}
	switch {
	case err != nil:
	case len(v.Problems) == 0 && mirrored:
		err = s.acceptMirrored(&p)
	case len(v.Problems) == 0:
		err = s.acceptPush(r.Context(), by, &p)
	default:
		s.Rejected(v.Forbidden, v.Problems)
		s.auditRefusedPush(r.Context(), by, &p, v.Problems)
	}
	if err != nil {
		answer.Unreviewed(w, err)
		return
	}
	if p.Repository == admission.DesiredRepository && len(v.Problems) == 0 && !mirrored {
		s.Arrived(s.branchRef(), p.Updates, began)
	}
	answer.JSON(w, http.StatusOK, v)
}

// judgePush holds a push against the rights of who makes it, and then against the rules.
func (s *Service) judgePush(ctx context.Context, by pusher, p *admission.Push) (*admission.Verdict, error) {
	if p.Repository != admission.DesiredRepository {
		projects, err := s.projectsOfPackages(p.Repository)
		if err != nil {
			return nil, err
		}
		return forbidden(admission.LackingRefs(by.who, auth.Packager, projects, p.Updates), p.Problems), nil
	}
	// What head says of projects counts. Where it moves after this, git refuses the push: its
	// branch must stand where the pusher's commits begin.
	if err := s.Repo.Refresh(ctx); err != nil {
		return nil, err
	}
	settings, err := s.Repo.Settings()
	if err != nil {
		return nil, err
	}
	main := func(u check.RefUpdate) bool { return u.Ref == s.branchRef() }
	others := slices.DeleteFunc(slices.Clone(p.Updates), main)
	lacking := admission.LackingDrafts(by.who, others)
	if p.Touched != nil {
		lacking = append(lacking, admission.Lacking(by.who, settings, *p.Touched)...)
	}
	lacking = append(lacking, s.notTheirs(by, p)...)
	drafts, err := s.notTheirDrafts(ctx, by, p)
	if err != nil {
		return nil, err
	}
	lacking = append(lacking, drafts...)
	if v := forbidden(lacking, p.Problems); len(v.Problems) > 0 {
		return v, nil
	}
	i := slices.IndexFunc(p.Updates, main)
	switch {
	case i < 0:
		return &admission.Verdict{}, nil
	case p.Touched == nil || p.Proposal == nil:
		return nil, errors.New("the push hook doesn't say what the push changes: it is that of another version of jibe, which the next start of the server replaces")
	case p.Updates[i].Old != s.Repo.Head():
		return &admission.Verdict{Problems: []*desired.Problem{{File: p.Updates[i].Ref, Message: "another commit was faster than this push", Remedy: "fetch first, then push again; or have it merged: " + check.LandingCommand(p.Updates[i].New, s.Branch)}}}, nil
	}
	p.Proposal.Admin = by.who.May(auth.Admin, "")
	return s.Reviewer.Review(ctx, p.Proposal, false)
}

// forbidden is the verdict on somebody who lacks rights; who lacks none is told the problems.
func forbidden(lacking, problems []*desired.Problem) *admission.Verdict {
	if len(lacking) > 0 {
		return &admission.Verdict{Problems: lacking, Forbidden: true}
	}
	return &admission.Verdict{Problems: problems}
}

func (s *Service) branchRef() string { return "refs/heads/" + s.Branch }

// landingRef is what is pushed to so that it lands on the desired branch.
func (s *Service) landingRef() string { return check.LandingRef(s.Branch) }

// acceptedPush is a push that git was told to take.
type acceptedPush struct {
	pusher
	repository string
	updates    []check.RefUpdate
	rewrites   []string
}

// acceptPush writes down who pushed before git is told to take the push.
func (s *Service) acceptPush(ctx context.Context, by pusher, p *admission.Push) error {
	if err := s.Audit.Health(); err != nil {
		return err
	}
	if p.Repository == admission.DesiredRepository && check.Lands(p.Updates) {
		// What becomes of the branch is judged, and written down, when it lands.
		if p.ID != "" && !s.pushes.lands(p.ID) {
			return errNoPush
		}
		return nil
	}
	if p.Repository == admission.DesiredRepository {
		for _, u := range p.Updates {
			if u.Ref != s.branchRef() {
				continue
			}
			if err := s.Repo.Pushing(read.Push{Pusher: by.who.String(), From: by.from, Admin: by.who.May(auth.Admin, ""), Old: u.Old, New: u.New}); err != nil {
				return err
			}
		}
	}
	if p.ID != "" && !s.pushes.accept(p.ID, &acceptedPush{pusher: by, repository: p.Repository, updates: p.Updates, rewrites: p.Rewrites}) {
		return errNoPush
	}
	if err := s.auditPush(ctx, by, p.Repository, p.Updates, audit.Done, "", p.Rewrites...); err != nil && !s.Audit.Unaudited() {
		return err
	}
	return nil
}

// auditRefusedPush records that a push was refused. Of one caller's only so many are kept.
func (s *Service) auditRefusedPush(ctx context.Context, by pusher, p *admission.Push, problems []*desired.Problem) {
	reason := problems[0].Error()
	if n := len(problems) - 1; n > 0 {
		reason += fmt.Sprintf(", and %d more", n)
	}
	r := audit.Record{Identity: by.who.Name, Issuer: by.who.Issuer, Source: by.from, Action: "push", Object: p.Repository, Outcome: audit.Refused, Reason: reason}
	if len(p.Updates) > 0 {
		r.Object, r.Commit = p.Repository+" "+p.Updates[0].Ref, p.Updates[0].New
	}
	s.Audit.Refused(ctx, r)
}

// pushEnded tells the audit log of what git didn't take although it was told to.
func (s *Service) pushEnded(ctx context.Context, dir string, a *acceptedPush) {
	if a == nil {
		return
	}
	var lost []check.RefUpdate
	for _, u := range a.updates {
		if now, err := git.ReadRef(dir, u.Ref); err != nil || now != u.New {
			// It may have been taken, and followed by another since.
			if _, err := (git.Runner{Dir: dir}).Run(ctx, "merge-base", "--is-ancestor", u.New, u.Ref); err != nil {
				lost = append(lost, u)
			}
		}
	}
	s.noteDrafts(ctx, a, lost)
	if len(lost) == 0 {
		return
	}
	if err := s.auditPush(ctx, a.pusher, a.repository, lost, audit.Failed, "git didn't take it: another commit was faster"); err != nil {
		s.Log.ErrorContext(ctx, "push not recorded", "error", err)
	}
}

// auditPush records one push: a record for each ref. rewrites are the drafts that it deletes or rewrites.
func (s *Service) auditPush(ctx context.Context, by pusher, repository string, updates []check.RefUpdate, outcome audit.Outcome, reason string, rewrites ...string) error {
	for n, u := range updates {
		r := audit.Record{Identity: by.who.Name, Issuer: by.who.Issuer, Source: by.from, Action: "push", Object: repository + " " + u.Ref,
			Outcome: outcome, Reason: reason, Commit: u.New}
		if slices.Contains(rewrites, u.Ref) {
			r.Reason = lostDraft(u)
		}
		if n == mostRecorded {
			r.Object, r.Commit = fmt.Sprintf("%s and %d refs more", repository, len(updates)-n), ""
		}
		if err := s.Audit.Record(ctx, r); err != nil {
			return err
		}
		if n == mostRecorded {
			break
		}
	}
	return nil
}

// mostRecorded is how many refs of one push have a record of their own.
const mostRecorded = 20

// decodeProposal reads the body of a request that proposes something; where it can't, it
// answers.
func decodeProposal(w http.ResponseWriter, r *http.Request, into any) bool {
	d := json.NewDecoder(http.MaxBytesReader(w, r.Body, admission.MostSent))
	d.DisallowUnknownFields()
	err := d.Decode(into)
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		answer.Problem(w, http.StatusRequestEntityTooLarge, fmt.Sprintf("the proposal is larger than %d bytes", admission.MostSent))
	case err != nil:
		answer.Problem(w, http.StatusBadRequest, err.Error())
	}
	return err == nil
}
