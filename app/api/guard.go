package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"path"
	"reflect"
	"slices"
	"strings"

	"github.com/jibe-vnfm/jibe/admission"
	"github.com/jibe-vnfm/jibe/app/answer"
	"github.com/jibe-vnfm/jibe/auth"
	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/sol/access"
)

// guardJibeAPI lets in who may use a route of Jibe's own API in some project at least. The
// handlers find the caller with [auth.From], and answer with what is theirs.
func (s *API) guardJibeAPI(next *http.ServeMux) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		who, err := s.Auth.Authenticate(r)
		switch {
		case errors.Is(err, auth.ErrUnavailable):
			answer.Problem(w, http.StatusServiceUnavailable, err.Error())
			return
		case err != nil:
			w.Header().Set("WWW-Authenticate", `Bearer realm="jibe"`)
			answer.Problem(w, http.StatusUnauthorized, "a valid bearer token is needed")
			return
		}
		if need, known := needOf(next, r); known {
			if err := need.Denied(who); err != nil {
				answer.Problem(w, http.StatusForbidden, err.Error())
				return
			}
		} else if !who.MayAnywhere(auth.Viewer) { // there is no such route, which not everybody is told
			answer.Problem(w, http.StatusForbidden, fmt.Sprintf("%s may do: %s", who, who.Describe()))
			return
		}
		next.ServeHTTP(w, r.WithContext(auth.With(r.Context(), who)))
	})
}

// needOf is what the request's route needs; known is false where there is no such route. A
// route that the table doesn't know is an admin's.
func needOf(mux *http.ServeMux, r *http.Request) (need access.Need, known bool) {
	_, pattern := mux.Handler(r)
	method, path, ok := strings.Cut(pattern, " ")
	if !ok {
		return need, false
	}
	if need, known = access.Needs(method, path); !known {
		need = access.Need{Role: auth.Admin, Everywhere: true}
	}
	return need, true
}

// scope is what the caller of the request may see and change. Where it can't be told, it
// answers and returns nil.
func (s *API) scope(w http.ResponseWriter, r *http.Request) *access.Scope {
	scope, err := access.NewScope(auth.From(r.Context()), s.Repo.Settings)
	if err != nil {
		answer.Problem(w, http.StatusServiceUnavailable, err.Error())
		return nil
	}
	return scope
}

// seesFile says whether the caller sees what is said of a file of the desired repository: of
// what is no instance's, only who sees everything is told.
func seesFile(scope *access.Scope, file string) bool {
	return scope.Everything() || strings.HasPrefix(file, "instances/") && scope.Sees(access.Instance{Dir: path.Dir(file)})
}

// errForeign is returned for a proposal that concerns what isn't the caller's.
var errForeign = errors.New("the proposal concerns what you may not have planned")

// confine takes out of a proposal what differs in nothing from head and isn't the caller's to
// plan: who sees only some projects has a clone of all of them. Whatever else isn't theirs
// refuses the proposal.
func (s *API) confine(ctx context.Context, who auth.Identity, p *admission.Proposal) error {
	if who.May(auth.Planner, "") {
		return nil
	}
	// What was pushed a moment ago counts: its ids are somebody's already.
	if err := s.Repo.Refresh(ctx); err != nil {
		return err
	}
	settings, err := s.Repo.Settings()
	if err != nil {
		return fmt.Errorf("%w: what belongs to which project can't be read: %w", desired.ErrUnavailable, err)
	}
	if p.Settings != nil {
		same, err := sameSettings(p.Settings, settings)
		if err != nil {
			return err
		}
		if !same {
			return fmt.Errorf("%w: %w", errForeign, &access.DeniedError{Who: who, Role: auth.Planner})
		}
		p.Settings = nil
	}
	p.Rollouts = nil // a rollout may select instances of any project
	may := func(dir string) error {
		if project := settings.ProjectNameOf(dir); !who.May(auth.Planner, project) {
			return fmt.Errorf("%w: %s: %w", errForeign, dir, &access.DeniedError{Who: who, Role: auth.Planner, Project: project})
		}
		return nil
	}
	var refused error
	p.Instances = slices.DeleteFunc(p.Instances, func(c admission.Candidate) bool {
		err := may(c.Dir)
		// An id that is given, in the file or beside it, is that of whoever has it at head.
		id := c.Instance
		if c.File != "" {
			in, perr := desired.ParseInstance(path.Join(c.Dir, desired.InstanceFile), []byte(c.File))
			if perr == nil {
				id = in.ID
			}
		}
		head, known := s.Repo.LookupHead(id)
		if err == nil && known {
			err = may(head.Dir)
		}
		if err == nil {
			return false
		}
		if known && c.File != "" && head.Dir == c.Dir {
			files, ferr := s.Repo.Files(ctx, head.Revision)
			if ferr == nil && string(files[desired.InstanceFile]) == c.File {
				return true
			}
		}
		if refused == nil {
			refused = err
		}
		return false
	})
	return refused
}

// sameSettings says whether a proposal's settings are those at head, which come by the same way.
func sameSettings(proposed, head *desired.Settings) (bool, error) {
	a, err := json.Marshal(proposed)
	if err != nil {
		return false, err
	}
	b, err := json.Marshal(head)
	if err != nil {
		return false, err
	}
	var x, y any
	if err := errors.Join(json.Unmarshal(a, &x), json.Unmarshal(b, &y)); err != nil {
		return false, err
	}
	return reflect.DeepEqual(x, y), nil
}
