package vnfpkgm

import (
	"context"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	"github.com/jibe-vnfm/jibe/audit"
	"github.com/jibe-vnfm/jibe/sol/rest"
)

// asked is who sends a request, as the archive's further way has to remember it.
func asked(r *http.Request) request {
	who := rest.Caller(r.Context())
	return request{By: author(r), Identity: who.Name, Issuer: who.Issuer, Source: audit.Source(r.Context())}
}

// record has the audit log know what came of an archive, long after it was sent.
func (s *Service) record(ctx context.Context, id string, ask request, err error) {
	r := audit.Record{Identity: ask.Identity, Issuer: ask.Issuer, Source: ask.Source, Action: "onboard", Object: "/vnfpkgm/v2/vnf_packages/" + id, Outcome: audit.Done}
	var invalid *rest.InvalidError
	switch {
	case err == nil:
	case errors.As(err, &invalid):
		r.Outcome, r.Status, r.Reason = audit.Refused, invalid.Status, invalid.Detail
	case status(err) != 0 && status(err) < http.StatusInternalServerError:
		r.Outcome, r.Status, r.Reason = audit.Refused, status(err), err.Error()
	default:
		r.Outcome, r.Reason = audit.Failed, brief(err)
	}
	if err := s.Audit.Record(ctx, r); err != nil {
		s.Log.ErrorContext(ctx, "what came of an archive isn't on record", "package", id, "error", err)
	}
}

// mostWaiting is how many archives of the largest size one caller may have waiting on the disk.
const mostWaiting = 3

// roomFor refuses an archive of a caller who has so much on the disk already that isn't in git.
func (s *Service) roomFor(by string) error {
	requests, err := filepath.Glob(filepath.Join(s.Dir, "*.request"))
	if err != nil {
		return err
	}
	var used int64
	for _, name := range requests {
		p := s.spool(strings.TrimSuffix(filepath.Base(name), ".request"))
		if ask, err := p.begun(); err != nil || ask.By != by { // one may end meanwhile
			continue
		}
		for _, kind := range []string{"part", "csar"} {
			if st, err := os.Stat(p.path(kind)); err == nil {
				used += st.Size()
			}
		}
	}
	if most := mostWaiting * s.limits().MaxTotal; used >= most {
		return rest.Problem(http.StatusServiceUnavailable, "archives of yours with %d bytes wait already, and may have %d: try again when they are done", used, most)
	}
	return nil
}
