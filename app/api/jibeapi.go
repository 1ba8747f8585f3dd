package api

import (
	"cmp"
	"errors"
	"net/http"
	"slices"

	"github.com/jibe-vnfm/jibe/admission"
	"github.com/jibe-vnfm/jibe/app/answer"
	"github.com/jibe-vnfm/jibe/auth"
	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/lcm"
	"github.com/jibe-vnfm/jibe/reconciler"
	"github.com/jibe-vnfm/jibe/sol"
	"github.com/jibe-vnfm/jibe/sol/access"
	"github.com/jibe-vnfm/jibe/store"
)

// Accepted is the answer to POST /jibe/v1/accept: what was held back, and is obeyed now.
type Accepted struct {
	Taken []*desired.Problem `json:"taken"`
}

// HeadHeader is the header of GET /jibe/v1/instances that names the commit of the desired
// repository at which the server stands.
const HeadHeader = "Jibe-Head"

// jibeAPI is Jibe's own API, for its push hook and its CLI: what ETSI has no words for.
func (s *API) jibeAPI() *http.ServeMux {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /jibe/v1/packages", func(w http.ResponseWriter, r *http.Request) {
		if scope := s.scope(w, r); scope != nil {
			answer.JSON(w, http.StatusOK, slices.DeleteFunc(s.listPackages(), func(p packageRow) bool {
				return !scope.SeesRepository(cmp.Or(p.Repository, s.pkgm.Home()))
			}))
		}
	})
	mux.HandleFunc("GET /jibe/v1/instances", func(w http.ResponseWriter, r *http.Request) {
		scope := s.scope(w, r)
		if scope == nil {
			return
		}
		w.Header().Set(HeadHeader, s.Repo.Head())
		list := s.Repo.List()
		if !scope.Everything() {
			list = slices.DeleteFunc(slices.Clone(list), func(rev desired.Revision) bool { return !scope.Sees(access.Instance{Dir: rev.Dir}) })
		}
		answer.JSON(w, http.StatusOK, list)
	})
	mux.HandleFunc("GET /jibe/v1/drift", s.listDrift)
	mux.HandleFunc("GET /jibe/v1/problems", s.listProblems)
	mux.HandleFunc("GET /jibe/v1/orphans", s.listOrphans)
	mux.HandleFunc("POST /jibe/v1/orphans/delete", s.deleteOrphans)
	mux.HandleFunc("GET /jibe/v1/projects", s.listProjects)
	mux.HandleFunc("GET /jibe/v1/rollouts", s.listRollouts)
	mux.HandleFunc("POST /jibe/v1/rollouts/{name}/{action}", s.askRollout)
	mux.HandleFunc("GET /jibe/v1/members", s.listMembers)
	mux.HandleFunc("GET /jibe/v1/subscriptions", s.listSubscriptions)
	mux.HandleFunc("GET /jibe/v1/subscriptions/{id}", s.showSubscription)
	mux.HandleFunc("GET /jibe/v1/operations/{id}/story", s.getStory)
	mux.HandleFunc("GET /jibe/v1/accept", func(w http.ResponseWriter, r *http.Request) {
		held, err := s.Repo.Held(r.Context())
		if err != nil {
			answer.Problem(w, http.StatusServiceUnavailable, err.Error())
			return
		}
		answer.JSON(w, http.StatusOK, held)
	})
	mux.HandleFunc("POST /jibe/v1/accept", func(w http.ResponseWriter, r *http.Request) {
		taken, err := s.Repo.Accept(r.Context(), r.URL.Query().Get("commit"))
		if err != nil {
			answer.Problem(w, http.StatusConflict, err.Error())
			return
		}
		answer.JSON(w, http.StatusOK, Accepted{Taken: append([]*desired.Problem{}, taken...)})
	})
	mux.HandleFunc("GET /jibe/v1/vims/{name}/former", s.showFormerVIM)
	mux.HandleFunc("POST /jibe/v1/vims/{name}/forget", s.forgetVIM)
	mux.HandleFunc("POST /jibe/v1/backup", s.Backups.Take)
	mux.HandleFunc("POST /jibe/v1/backup/kept", s.Backups.Kept)
	mux.HandleFunc("POST /jibe/v1/ui-links", s.makeLink)
	mux.Handle("GET /jibe/v1/doctor", s.Doctor)
	mux.HandleFunc("POST /jibe/v1/check", s.review(false))
	mux.HandleFunc("POST /jibe/v1/plan", s.review(true))
	return mux
}

// listDrift answers with all drift, or that of the instance that the query names.
func (s *API) listDrift(w http.ResponseWriter, r *http.Request) {
	scope := s.scope(w, r)
	if scope == nil {
		return
	}
	list := slices.DeleteFunc(s.View.Drift(), func(d reconciler.Drift) bool { return !scope.Sees(access.Instance{Dir: d.Dir}) })
	if id := r.URL.Query().Get("instance"); id != "" {
		if rev, known := s.Repo.Lookup(id); !known || !scope.Sees(access.Instance{Dir: rev.Dir}) {
			answer.Missing(w, r, "no VNF instance has the id "+id+" (see: jibe get instances)")
			return
		}
		list = slices.DeleteFunc(list, func(d reconciler.Drift) bool { return d.Instance != id })
	}
	answer.JSON(w, http.StatusOK, list)
}

// getStory answers with what an operation has done so far: [lcm.StoryLine], the oldest first.
func (s *API) getStory(w http.ResponseWriter, r *http.Request) {
	scope := s.scope(w, r)
	if scope == nil {
		return
	}
	op, err := s.Oplog.Operation(r.Context(), r.PathValue("id"))
	switch {
	case errors.Is(err, store.ErrNotFound), err == nil && !scope.Sees(sol.PlaceOf(s.Repo, op)):
		answer.Missing(w, r, "no operation has the id "+r.PathValue("id")+" (see: jibe get operations)")
	case errors.Is(err, store.ErrUnavailable):
		answer.Problem(w, http.StatusServiceUnavailable, err.Error())
	case err != nil:
		answer.Problem(w, http.StatusInternalServerError, err.Error())
	case op.Story == nil:
		answer.JSON(w, http.StatusOK, []lcm.StoryLine{})
	default:
		answer.JSON(w, http.StatusOK, op.Story)
	}
}

// review answers a proposal ([admission.Reviewer.Review]); with steps, also with what
// would be done.
func (s *API) review(steps bool) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		who := auth.From(r.Context())
		ctx, hold, err := s.beginPlan(r.Context(), who)
		if err != nil {
			respondUnplanned(w, err)
			return
		}
		defer hold.End()

		p, ok := readPlan(w, r, hold)
		if !ok {
			return
		}
		if err := s.confine(ctx, who, p); err != nil {
			status := http.StatusInternalServerError
			switch {
			case errors.Is(err, errForeign):
				status = http.StatusForbidden
			case errors.Is(err, desired.ErrUnavailable):
				status = http.StatusServiceUnavailable
			}
			answer.Problem(w, status, err.Error())
			return
		}

		p.Admin = who.May(auth.Admin, "")
		v, err := s.Reviewer.Review(ctx, p, steps)
		if err == nil && p.Touched != nil {
			// Somebody else may push it.
			err = s.warnOfRights(who, p, v)
		}
		if err != nil {
			answer.Unreviewed(w, err)
			return
		}
		answer.JSON(w, http.StatusOK, v)
	}
}

// warnOfRights adds to the verdict on a proposal what of it the caller may not push.
func (s *API) warnOfRights(who auth.Identity, p *admission.Proposal, v *admission.Verdict) error {
	settings, err := s.Repo.Settings()
	if err != nil {
		return err
	}
	v.Warnings = append(v.Warnings, admission.Lacking(who, settings, *p.Touched)...)
	return nil
}

// listMembers answers with the replicas that serve: [replicas.Member].
func (s *API) listMembers(w http.ResponseWriter, r *http.Request) {
	list, err := s.Members(r.Context(), func(yield func(string) bool) {
		for e := range s.Oplog.InstanceEntries("") {
			if !yield(e.ID) {
				return
			}
		}
	})
	if err != nil {
		answer.Problem(w, http.StatusServiceUnavailable, err.Error())
		return
	}
	answer.JSON(w, http.StatusOK, list)
}
