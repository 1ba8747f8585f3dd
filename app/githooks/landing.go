package githooks

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/jibe-vnfm/jibe/admission"
	"github.com/jibe-vnfm/jibe/app/answer"
	"github.com/jibe-vnfm/jibe/audit"
	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/desired/gitrepo"
	"github.com/jibe-vnfm/jibe/desired/gitrepo/check"
	"github.com/jibe-vnfm/jibe/internal/git"
)

// landing is one that is under way.
type landing struct {
	admission.Landing
	s  *Service
	by pusher
	// verdict is what was made of it last, and push what of.
	verdict *admission.Verdict
	push    *admission.Push
	// accepted is set once git was to take it.
	accepted *check.RefUpdate
}

// errRefused is returned for a landing that the verdict refuses.
var errRefused = errors.New("the landing is refused")

// land answers the hook: what was pushed is on the branch then, or why it can't be.
func (s *Service) land(w http.ResponseWriter, r *http.Request) {
	var asked admission.Landing
	began := time.Now()
	if !decodeProposal(w, r, &asked) {
		return
	}
	var by pusher
	var err error
	if asked.ID != "" {
		by, err = s.pushes.claimLanding(asked.ID)
	} else {
		by, err = localPusher(r.Context())
	}
	if err == nil && !git.IsHash(asked.Commit) {
		err = fmt.Errorf("%q is no commit", asked.Commit)
	}
	if err != nil {
		answer.Problem(w, http.StatusForbidden, err.Error())
		return
	}
	l := &landing{Landing: asked, s: s, by: by, verdict: &admission.Verdict{}}
	u, err := s.Repo.Land(r.Context(), gitrepo.Landing{Commit: asked.Commit, Plain: asked.Ref == s.branchRef(), Judge: l.judge, Accept: l.accept})
	if err != nil {
		l.lost(r.Context())
	}
	if invalid, ok := errors.AsType[*desired.InvalidError](err); ok {
		l.verdict, err = &admission.Verdict{Problems: invalid.Problems}, errRefused
	}
	switch {
	case errors.Is(err, errRefused):
		s.Rejected(l.verdict.Forbidden, l.verdict.Problems)
		s.auditRefusedPush(r.Context(), by, &admission.Push{Repository: admission.DesiredRepository,
			Updates: []check.RefUpdate{{Ref: s.branchRef(), New: asked.Commit}}}, l.verdict.Problems)
		answer.JSON(w, http.StatusOK, admission.Landed{Verdict: *l.verdict})
	case err != nil:
		answer.Unreviewed(w, err)
	default:
		if u.Old != u.New {
			s.Arrived(u.Ref, []check.RefUpdate{u}, began)
		}
		answer.JSON(w, http.StatusOK, admission.Landed{Verdict: *l.verdict, Update: u})
	}
}

// judge holds what the branch would become against all that a push of it is held against.
func (l *landing) judge(ctx context.Context, u check.RefUpdate) error {
	p, err := l.s.Describe(ctx, l.Landing, u, l.s.Signers)
	if err != nil {
		return err
	}
	v, err := l.s.judgePush(ctx, l.by, p)
	if now := l.s.Repo.Head(); now != u.Old { // it may have been held against that
		return fmt.Errorf("%w: it is at %s", git.ErrRefMoved, now)
	}
	if err != nil {
		return err
	}
	if l.verdict, l.push = v, p; len(v.Problems) > 0 {
		return errRefused
	}
	return nil
}

// accept writes down who lands it, before git is told to.
func (l *landing) accept(ctx context.Context, u check.RefUpdate) error {
	l.lost(ctx)
	if err := l.s.acceptPush(ctx, l.by, l.push); err != nil {
		return err
	}
	l.accepted = &u
	return nil
}

// lost tells the audit log of what git didn't take although it was to. Where the landing came over
// HTTP, [Service.pushEnded] does so for what was accepted last.
func (l *landing) lost(ctx context.Context) {
	if l.accepted == nil {
		return
	}
	s, updates := l.s, []check.RefUpdate{*l.accepted}
	if l.accepted = nil; l.ID != "" {
		s.pushes.accept(l.ID, nil)
	}
	if err := s.auditPush(context.WithoutCancel(ctx), l.by, admission.DesiredRepository, updates, audit.Failed, "git didn't take it: another commit was faster"); err != nil {
		s.Log.ErrorContext(ctx, "push not recorded", "error", err)
	}
}
