package read

import (
	"cmp"
	"maps"
	"slices"

	"github.com/jibe-vnfm/jibe/desired"
)

// joinProjects adds the projects that stand and those that are fresh. Of two that claim the
// same, the one counts that had it before, and the other as it last was.
func (s *SettingsState) joinProjects(was SettingsState, fresh map[string]InForce) {
	for _, name := range slices.Sorted(maps.Keys(s.Files)) {
		if p := s.Files[name].project; p != nil {
			s.Good.AddProject(p)
		}
	}
	var coming []string
	for name, f := range fresh {
		if f.project != nil {
			coming = append(coming, name)
		}
	}
	slices.SortFunc(coming, func(a, b string) int {
		return cmp.Or(cmp.Compare(claimsOthers(was, fresh, a), claimsOthers(was, fresh, b)), cmp.Compare(a, b))
	})
	for _, name := range coming {
		f := fresh[name]
		if ps := s.Good.ClaimedTwice(f.project); len(ps) > 0 {
			s.Problems, s.Clash = append(s.Problems, ps...), true
			old, known := was.Files[name]
			if !known || old.project == nil || len(s.Good.ClaimedTwice(old.project)) > 0 {
				continue
			}
			f = InForce{project: old.project}
		}
		s.Files[name] = f
		s.Good.AddProject(f.project)
	}
}

// claimsOthers returns 1 where the fresh project claims what another had before and still
// claims, else 0. Files are sorted by it.
func claimsOthers(was SettingsState, fresh map[string]InForce, name string) int {
	still := &desired.Settings{}
	for other, old := range was.Files {
		if now, ok := fresh[other]; ok && other != name && old.project != nil && now.project != nil &&
			len((&desired.Settings{Projects: map[string]*desired.Project{"": old.project}}).ClaimedTwice(fresh[name].project)) > 0 {
			still.AddProject(now.project)
		}
	}
	if len(still.ClaimedTwice(fresh[name].project)) > 0 {
		return 1
	}
	return 0
}
