package desired

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// VIMsOf names the files under vims/ at which the instance runs, or would: the VIM that it
// names, else the default, and those at which its VDUs are placed. A connection in its own
// vimConnectionInfo needs no file. Names that s doesn't have are included.
func (s *Settings) VIMsOf(in *Instance) []string {
	in = in.WithGrant()
	var names []string
	add := func(name string) {
		if _, own := in.VIMConnections[name]; !own && name != "" && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	switch {
	case in.VIM != "":
		names = append(names, in.VIM)
	case len(in.VIMConnections) == 0:
		add(s.DefaultVIM())
	}
	for _, vdu := range slices.Sorted(maps.Keys(in.Placement)) {
		add(in.Placement[vdu])
	}
	return names
}

// DefaultVIM is the name of the VIM of instances that name none, "" where there is none.
func (s *Settings) DefaultVIM() string {
	for _, name := range slices.Sorted(maps.Keys(s.VIMs)) {
		if s.VIMs[name].Default {
			return name
		}
	}
	return ""
}

// Without returns the VIMs and package repositories, by name and in order, that s has and next
// lacks.
func (s *Settings) Without(next *Settings) (vims []string, repositories []Repository) {
	for _, name := range slices.Sorted(maps.Keys(s.VIMs)) {
		if next.VIMs[name] == nil {
			vims = append(vims, name)
		}
	}
	for _, r := range s.Repositories {
		if !slices.ContainsFunc(next.Repositories, func(n Repository) bool { return n.Name == r.Name }) {
			repositories = append(repositories, r)
		}
	}
	return vims, repositories
}

// Users are the directories of the instances that need something, by its name.
type Users map[string][]string

// Add notes that the instance in dir needs what the names say.
func (u Users) Add(dir string, names ...string) {
	for _, name := range names {
		if !slices.Contains(u[name], dir) {
			u[name] = append(u[name], dir)
		}
	}
}

// NeededVIM returns the problem of removing a VIM's file while instances run there, nil where
// none does.
func (u Users) NeededVIM(name string) *Problem {
	return u.needed(name, VIMFile(name), "run at VIM "+name, "terminate them first, or in the same push; or leave the file")
}

// NeededRepository returns the problem of removing a package repository while instances run
// packages that no other repository has, nil where none does.
func (u Users) NeededRepository(name string) *Problem {
	return u.needed(name, RepositoriesFile, "run packages that repository "+name+" alone has",
		"terminate them first, or in the same push; or leave the entry, or give another one that has the packages")
}

// shownUsers is how many instances a problem names.
const shownUsers = 3

func (u Users) needed(name, file, how, remedy string) *Problem {
	dirs := slices.Clone(u[name])
	if len(dirs) == 0 {
		return nil
	}
	slices.Sort(dirs)
	who, noun := strings.Join(dirs[:min(len(dirs), shownUsers)], ", "), "instances"
	if more := len(dirs) - shownUsers; more > 0 {
		who += fmt.Sprintf(" and %d more", more)
	}
	if len(dirs) == 1 {
		noun, how = "instance", strings.Replace(how, "run ", "runs ", 1)
	}
	return &Problem{File: file, Message: fmt.Sprintf("can't go: %d %s %s: %s", len(dirs), noun, how, who), Remedy: remedy}
}

// Clash says why v can't stand beside the VIMs of s; nil where it can.
func (s *Settings) Clash(v *VIM) []*Problem {
	var problems []*Problem
	for _, name := range slices.Sorted(maps.Keys(s.VIMs)) {
		other := s.VIMs[name]
		if other.Default && v.Default {
			problems = append(problems, &Problem{File: VIMFile(v.Name), Message: fmt.Sprintf("VIM %q is the default already", name), Remedy: "keep default: true in one file"})
		}
		if id := cmp.Or(v.ID, v.Name); id == cmp.Or(other.ID, other.Name) {
			problems = append(problems, &Problem{File: VIMFile(v.Name), Message: fmt.Sprintf("VIM %q has the id %q too", name, clip(id)), Remedy: "give each VIM an id of its own"})
		}
	}
	return problems
}

// Missing says what one file of the settings names and another doesn't have.
func (s *Settings) Missing() []*Problem {
	var missing *Problem
	if _, err := s.NFVO(); errors.As(err, &missing) {
		return []*Problem{missing}
	}
	return nil
}
