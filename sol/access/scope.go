package access

import (
	"errors"
	"fmt"
	"slices"

	"github.com/jibe-vnfm/jibe/auth"
	"github.com/jibe-vnfm/jibe/desired"
)

// ErrHidden is returned for what the caller may not see. The API answers as for what doesn't
// exist.
var ErrHidden = errors.New("not visible to the caller")

// DeniedError refuses what the caller sees and may not do. The API answers 403.
type DeniedError struct {
	Who  auth.Identity
	Role auth.Role
	// Project is the one in which Role is missing, "" for all of them.
	Project string
}

func (e *DeniedError) Error() string {
	where := "in all projects"
	if e.Project != "" {
		where = "in project " + e.Project
	}
	return fmt.Sprintf("%s may do: %s; this needs the role %s %s", e.Who, e.Who.Describe(), e.Role, where)
}

// Scope is what one caller may see and change, by the settings as they are at one moment. It is
// for one request, and not safe for concurrent use.
type Scope struct {
	who auth.Identity
	// settings are nil where no permission is confined, so that nothing depends on them.
	settings *desired.Settings
	// seen remembers of each project whether the caller sees what is in it.
	seen map[string]bool
}

// NewScope returns what the caller may see and change. settings is asked only where that depends
// on it; its error is returned, as nobody can tell then what belongs to whom.
func NewScope(who auth.Identity, settings func() (*desired.Settings, error)) (*Scope, error) {
	s := &Scope{who: who, seen: map[string]bool{}}
	if !slices.ContainsFunc(who.Permissions, func(p auth.Permission) bool { return !p.Unconfined() }) {
		return s, nil
	}
	var err error
	if s.settings, err = settings(); err != nil {
		return nil, fmt.Errorf("%w: what belongs to which project can't be read: %w", desired.ErrUnavailable, err)
	}
	return s, nil
}

// Everything says whether the caller sees all instances.
func (s *Scope) Everything() bool { return s.who.May(auth.Viewer, "") && s.who.EM == "" }

// Instance is what of an instance says who may see it.
type Instance struct {
	// Dir is its directory in the desired repository, and EM the element manager that its file
	// names; "" where there is none.
	Dir, EM string
}

// Sees says whether the caller sees the instance.
func (s *Scope) Sees(i Instance) bool {
	if s.who.EM != "" && s.who.EM != i.EM {
		return false
	}
	if s.who.May(auth.Viewer, "") {
		return true
	}
	project := s.Project(i.Dir)
	sees, known := s.seen[project]
	if !known {
		sees = s.who.May(auth.Viewer, project)
		s.seen[project] = sees
	}
	return sees
}

// Check says whether the caller may do to the instance what needs the role: [ErrHidden] where
// it isn't seen at all, a [*DeniedError] where it is.
func (s *Scope) Check(role auth.Role, i Instance) error {
	if !s.Sees(i) {
		return ErrHidden
	}
	project := s.Project(i.Dir)
	if !s.who.May(role, project) {
		return &DeniedError{s.who, role, project}
	}
	return nil
}

// Project is the name of the project that the directory belongs to, "" where no permission of
// the caller depends on it.
func (s *Scope) Project(dir string) string {
	if s.settings == nil {
		return ""
	}
	return s.settings.ProjectNameOf(dir)
}

// SeesRepository says whether the caller sees what is in the package repository: one of the
// projects that may use it is one of theirs.
func (s *Scope) SeesRepository(name string) bool {
	if s.settings == nil || s.who.May(auth.Viewer, "") {
		return s.who.May(auth.Viewer, "")
	}
	return slices.ContainsFunc(s.settings.ProjectNames(), func(project string) bool {
		return s.who.May(auth.Viewer, project) && s.settings.Project(project).MayUseRepository(name)
	})
}

// CheckRepository is [Scope.Check] for what is in a package repository.
func (s *Scope) CheckRepository(role auth.Role, name string) error {
	if !s.SeesRepository(name) {
		return ErrHidden
	}
	if role == auth.Viewer {
		return nil
	}
	project := ""
	if s.settings != nil {
		project = s.settings.ProjectOfRepository(name).Name
	}
	if !s.who.May(role, project) {
		return &DeniedError{s.who, role, project}
	}
	return nil
}

// Folder returns the directory in which the caller makes the instance of that id: the usual one
// where they may, else one in the only project in which they may, below the first of its folders
// that is no pattern. A [*DeniedError] says that there is none.
func (s *Scope) Folder(id string) (string, error) {
	dir := desired.APIDir(id)
	own := s.Project(dir)
	if s.who.EM != "" {
		return "", fmt.Errorf("%w: %s sees only instances that name %s as their element manager, which a new one doesn't", ErrHidden, s.who, s.who.EM)
	}
	if s.who.May(auth.Operator, own) {
		return dir, nil
	}
	if s.settings == nil {
		return "", &DeniedError{s.who, auth.Operator, own}
	}
	var folders []string
	for _, name := range s.settings.ProjectNames() {
		if !s.who.May(auth.Operator, name) {
			continue
		}
		for _, folder := range s.settings.Project(name).Instances {
			below := desired.APIDirBelow(folder, id)
			if !desired.IsPattern(folder) && s.settings.ProjectNameOf(below) == name {
				folders = append(folders, below)
				break
			}
		}
	}
	if len(folders) != 1 {
		return "", &DeniedError{s.who, auth.Operator, own}
	}
	return folders[0], nil
}
