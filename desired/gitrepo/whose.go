package gitrepo

import (
	"maps"
	"path"
	"slices"
)

// Whose is the id of the instance in whose directory the file is at head, by the last
// content of the directory that could be read; "" where there is none.
func (r *Repo) Whose(file string) string {
	r.mu.RLock()
	defer r.mu.RUnlock()
	for dir := path.Dir(file); dir != "." && dir != "/"; dir = path.Dir(dir) {
		if s, ok := r.index.byDir[dir]; ok {
			return s.rev.Instance
		}
	}
	return ""
}

// Named are the directories at head whose instances have a name, in order.
func (r *Repo) Named(name string) []string {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return slices.Sorted(maps.Keys(r.index.byName[name]))
}
