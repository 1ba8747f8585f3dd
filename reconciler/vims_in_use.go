package reconciler

import (
	"sync"

	"github.com/jibe-vnfm/jibe/desired"
)

// vimsInUse are the names of the VIMs that each instance of this process needs: where it has objects, or where an
// operation works on it. They are kept in memory, as facts are.
type vimsInUse struct {
	mu sync.Mutex
	of map[string][]string
}

func newVIMsInUse() *vimsInUse { return &vimsInUse{of: make(map[string][]string)} }

// note takes down at which VIMs the instance is. Where that isn't known now, what was known stands.
func (u *vimsInUse) note(repo desired.Repo, in *desired.Instance) {
	settings, err := repo.Settings()
	if err != nil || in == nil {
		return
	}
	list, err := places(settings, in)
	if err != nil {
		return
	}
	names := make([]string, len(list))
	for n, at := range list {
		names[n] = at.Name
	}

	u.mu.Lock()
	defer u.mu.Unlock()
	u.of[in.ID] = names
}

// clear notes that the instance is at no VIM.
func (u *vimsInUse) clear(instance string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.of, instance)
}

// InstancesAtVIMs returns how many instances of this process are at a VIM, or are to be, by the name of the VIM's file;
// 0 for a VIM that has none. It asks no VIM.
func (v *View) InstancesAtVIMs() map[string]int {
	n := v.eachVIM()
	u := v.r.inUse
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, names := range u.of {
		for _, name := range names {
			if _, file := n[name]; file { // else it is a connection of the instance's own
				n[name]++
			}
		}
	}
	return n
}

// eachVIM has 0 under the name of each file under vims/.
func (v *View) eachVIM() map[string]int {
	n := make(map[string]int)
	if settings, err := v.r.Repo.Settings(); err == nil {
		for name := range settings.VIMs {
			n[name] = 0
		}
	}
	return n
}
