package reconciler

import (
	"context"
	"maps"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/drivers"
)

// site is one connection to a VIM, whatever names lead to it.
type site struct {
	// name is the first of its names ([siteName]), and names are those of files under vims/. also are names of other connections to what
	// says that it is the same: a cluster, or a region of the same OpenStack project.
	name        string
	names, also []string
	driver      drivers.Driver
	// identity is what it says that it is, "" where it can't say.
	identity string
}

// Unseen is a VIM that can't be looked at, and why.
type Unseen struct {
	VIM string `json:"vim"`
	Why string `json:"why"`
}

// sites returns the VIMs that files under vims/ name and that which picks, and those to which instances have connections of
// their own, each connection once. unseen are those that can't say now which one they are.
func (v *connections) sites(ctx context.Context, settings *desired.Settings, which func(vim string) bool) (list []*site, unseen []Unseen) {
	all := slices.DeleteFunc(v.allPlaces(settings), func(at desired.Place) bool { return at.File != nil && !which(at.Name) })
	found, errs := make([]*connected, len(all)), make([]error, len(all))
	for n, at := range all {
		under := settings
		if at.Connection != nil {
			under = nil
		}
		found[n], _, errs[n] = v.open(placeKey(at), under, at)
	}
	identities := make([]string, len(all))
	var g errgroup.Group
	g.SetLimit(surveyParallel)
	for n := range all {
		if errs[n] != nil {
			continue
		}
		g.Go(func() error {
			identities[n], errs[n] = found[n].identify(ctx, v.now())
			return nil
		})
	}
	_ = g.Wait() // nothing fails

	for n, at := range all {
		if errs[n] != nil {
			unseen = append(unseen, Unseen{siteName(at), sentence(errs[n])})
			continue
		}
		driver := found[n].Driver
		same := slices.IndexFunc(list, func(y *site) bool { return y.driver == driver })
		if same < 0 {
			same = len(list)
			list = append(list, &site{name: siteName(at), driver: driver, identity: identities[n]})
		}
		if at.File != nil {
			list[same].names = append(list[same].names, at.Name)
		}
	}
	for _, x := range list {
		for _, y := range list {
			if x != y && x.identity != "" && y.identity == x.identity {
				x.also = append(x.also, y.names...)
			}
		}
	}
	return list, unseen
}

// siteName tells the place from all others, which may have the key of an instance's own connection as their name, too.
func siteName(p desired.Place) string {
	if p.Connection != nil {
		return p.Name + "@" + fingerprint(p.Connection)[:8]
	}
	return p.Name
}

// allPlaces returns the places of files under vims/, by name, and then those of instances' own connections.
func (v *connections) allPlaces(settings *desired.Settings) []desired.Place {
	var all []desired.Place
	for _, name := range slices.Sorted(maps.Keys(settings.VIMs)) {
		all = append(all, desired.Place{Name: name, File: settings.VIMs[name]})
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(v.known)) {
		if at := v.known[name].at; at.Connection != nil {
			all = append(all, at)
		}
	}
	return all
}
