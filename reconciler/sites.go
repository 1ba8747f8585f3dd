package reconciler

import (
	"context"
	"maps"
	"slices"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/drivers"
)

// site is one VIM, whatever names lead to it.
type site struct {
	// name is the first of its names, and names are those of files under vims/.
	name   string
	names  []string
	driver drivers.Driver
	// identity is what it says that it is, "" where it can't say.
	identity string
}

// Unseen is a VIM that can't be looked at, and why.
type Unseen struct {
	VIM string `json:"vim"`
	Why string `json:"why"`
}

// sites returns the VIMs that files under vims/ name, and those to which instances have connections of their own, each
// once. unseen are those that can't say now which one they are.
func (v *connections) sites(ctx context.Context, settings *desired.Settings) (list []*site, unseen []Unseen) {
	under := func(at desired.Place) *desired.Settings {
		if at.Connection != nil {
			return nil
		}
		return settings
	}
	for _, at := range v.allPlaces(settings) {
		drv, _, err := v.open(placeKey(at), under(at), at)
		identity := ""
		if err == nil {
			identity, err = v.identityOf(ctx, settings, at)
		}
		if err != nil {
			unseen = append(unseen, Unseen{at.Name, sentence(err)})
			continue
		}

		n := slices.IndexFunc(list, func(x *site) bool { return x.driver == drv || identity != "" && x.identity == identity })
		if n < 0 {
			n = len(list)
			list = append(list, &site{name: at.Name, driver: drv, identity: identity})
		}
		if at.File != nil {
			list[n].names = append(list[n].names, at.Name)
		}
	}
	return list, unseen
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
