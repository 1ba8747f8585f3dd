package vnfpkgm

import (
	"encoding/json"
	"net/http"

	"github.com/jibe-vnfm/jibe/auth"
	"github.com/jibe-vnfm/jibe/desired/packages"
	"github.com/jibe-vnfm/jibe/lcm/oplog"
	"github.com/jibe-vnfm/jibe/sol/access"
	"github.com/jibe-vnfm/jibe/sol/rest"
)

// permit says whether the caller may do to the package what the request is. What changes a
// package is written into the repository that takes uploads, so that it needs the role there,
// too. Its errors are those of [access.Scope.CheckRepository].
func (s *Service) permit(r *http.Request, o *packages.Onboarded) error {
	scope, err := s.scope(r)
	if err != nil {
		return err
	}
	role := rest.Role(r.Context())
	if o.Entry != nil {
		if err := scope.CheckRepository(role, o.Entry.Repository); err != nil || role == auth.Viewer {
			return err
		}
	}
	return scope.CheckRepository(role, s.Home())
}

// sees says whether the caller sees the package.
func (s *Service) sees(scope *access.Scope, o *packages.Onboarded) bool {
	if o.Entry != nil {
		return scope.SeesRepository(o.Entry.Repository)
	}
	return scope.SeesRepository(s.Home())
}

// Home is the name of the repository that takes uploads, "" where none does.
func (s *Service) Home() string {
	home, err := packages.Onboarding(s.Catalogue.Repositories())
	if err != nil {
		return "" // where there is nothing to be written, as the write says
	}
	return home.Name
}

// scope is what the caller of the request may see and change.
func (s *Service) scope(r *http.Request) (*access.Scope, error) {
	return access.NewScope(rest.Caller(r.Context()), s.Settings)
}

// SeesEvent says whether who has the scope sees the package that the event is about. One that is
// gone was seen by who sees all packages.
func (s *Service) SeesEvent(scope *access.Scope, e oplog.Event) bool {
	if scope.Everything() {
		return true
	}
	var about told
	if err := json.Unmarshal(e.Content, &about); err != nil {
		return false
	}
	o, err := s.Catalogue.Onboard(about.ID)
	return err == nil && s.sees(scope, &o)
}
