package reconciler

import (
	"context"
	"maps"
	"slices"

	"golang.org/x/sync/errgroup"

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
	all := v.allPlaces(settings)
	found, errs := make([]site, len(all)), make([]error, len(all))
	for n, at := range all { // at once, so that no settings are used that count no more
		under := settings
		if at.Connection != nil {
			under = nil
		}
		found[n].driver, _, errs[n] = v.open(placeKey(at), under, at)
	}
	var g errgroup.Group
	g.SetLimit(surveyParallel)
	for n, at := range all {
		if errs[n] != nil {
			continue
		}
		g.Go(func() error {
			found[n].identity, errs[n] = v.identityOf(ctx, settings, at)
			return nil
		})
	}
	_ = g.Wait() // nothing fails

	for n, at := range all {
		if errs[n] != nil {
			unseen = append(unseen, Unseen{at.Name, sentence(errs[n])})
			continue
		}
		x := found[n]
		same := slices.IndexFunc(list, func(y *site) bool { return y.driver == x.driver || x.identity != "" && y.identity == x.identity })
		if same < 0 {
			same = len(list)
			list = append(list, &site{name: at.Name, driver: x.driver, identity: x.identity})
		}
		if at.File != nil {
			list[same].names = append(list[same].names, at.Name)
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
