package sol

import (
	"context"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/jibe-vnfm/jibe/audit"
	"github.com/jibe-vnfm/jibe/auth"
	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/lcm"
	"github.com/jibe-vnfm/jibe/sol/rest"
)

// OverrideHeader has the reason for which an administrator's request begins its operation outside of
// maintenance windows, and in freezes.
const OverrideHeader = "Jibe-Override"

// maxReason bounds the reason, bytes: it stands in the commit, the operation and the audit log.
const maxReason = 400

// start says whether an operation may begin on the instance now, by its maintenance windows. It is asked
// before anything is written, and again when the commit is made.
type start struct {
	api *api
	typ lcm.Type
	w   http.ResponseWriter
	// reason is an administrator's for passing nevertheless, "" for none; passed says that it was needed.
	reason string
	passed bool
}

// start reads the request's reason for passing. Who has no right to give one is refused, whether it is needed
// or not.
func (a *api) start(ctx context.Context, w http.ResponseWriter, r *http.Request, t lcm.Type) (*start, error) {
	s := &start{api: a, typ: t, w: w, reason: strings.TrimSpace(r.Header.Get(OverrideHeader))}
	switch {
	case s.reason == "" && len(r.Header.Values(OverrideHeader)) == 0:
		return s, nil
	case s.reason == "" || len(s.reason) > maxReason || strings.ContainsFunc(s.reason, unicode.IsControl):
		return nil, rest.Problem(http.StatusBadRequest, "%s must say why, in 1 to %d bytes", OverrideHeader, maxReason)
	case !rest.Caller(ctx).May(auth.Admin, ""):
		return nil, rest.Problem(http.StatusForbidden, "%s: only who is %s of everything may pass maintenance windows; leave it out, and ask again when they are open", OverrideHeader, auth.Admin)
	}
	return s, nil
}

// may refuses an operation on an instance in a directory that has to wait.
func (s *start) may(ctx context.Context, instance, dir string) error {
	why, until, err := s.api.View.MayBegin(ctx, instance, dir, s.typ)
	if err != nil || why == "" {
		return err
	}
	if s.reason != "" {
		s.passed = true
		return nil
	}
	if !until.IsZero() {
		s.w.Header().Set("Retry-After", strconv.Itoa(max(1, int(time.Until(until).Seconds()+1))))
	}
	return rest.Problem(http.StatusConflict, "%s of VNF instance %s can't begin now: %s", s.typ, instance, why)
}

// note takes down, where it was needed, why the operation passes: in its story, its commit and the audit log.
func (s *start) note(ctx context.Context, op *lcm.Operation, d *Draft) {
	how := "begun"
	if op.Proposal != nil && op.Proposal.Anytime { // whether it is needed shows when somebody has merged it
		how = "may begin"
	} else if !s.passed {
		return
	}
	by := rest.Caller(ctx).String()
	op.AddToStory(s.api.Now(), how+" outside of its maintenance windows, as "+by+" overrides them: "+s.reason)
	d.override = s.reason
	audit.Note(ctx, func(r *audit.Record) { r.Reason = "overrides maintenance windows: " + s.reason })
	s.api.Log.WarnContext(ctx, "windows are overridden", "instance", op.Instance, "operation", op.ID, "by", by, "reason", s.reason)
}

// guarded is the write that asks again.
func (s *start) guarded(ctx context.Context, k known, w desired.Write) desired.Write {
	change := w.Change
	w.Change = func(at desired.Revision, old desired.Files) (desired.Files, error) {
		if err := s.may(ctx, k.id, k.head.Dir); err != nil {
			return nil, err
		}
		if err := s.api.stands(ctx, k); err != nil {
			return nil, err
		}
		return change(at, old)
	}
	return w
}
