package reconciler_test

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/drivers"
	"github.com/jibe-vnfm/jibe/plan"
)

// rack is a VIM of virtual machines: one stack a generation owns the servers of all VDUs
// and does nothing for them by itself. Everything is done at once.
type rack struct {
	drivers.Defaults

	mu     sync.Mutex
	stacks map[string]*stack // by key
	born   int
	// did are the steps in their order, as people read them.
	did []string
	// refusing is how many calls still fail, as those of a VIM that throttles.
	refusing int
}

type stack struct {
	digest, generation, stalled string
	counts                      map[string]int
	servers                     []*server
}

type server struct {
	vdu, key, id, made string
	life, born         int
	dead               string
	off                bool
}

func newRack() *rack { return &rack{stacks: map[string]*stack{}} }

// Change lets every change of package pass.
func (r *rack) Change(_, _ drivers.Source) error { return nil }

func (r *rack) Render(src drivers.Source) (drivers.Rendering, error) {
	in := src.Instance
	f, _ := src.Package.VNFD.Flavour(in.Flavour)
	key := "Stack/vnf-" + in.ID
	if in.Generation != "" {
		key += "-" + in.Generation
	}
	want := plan.Desired{Condemned: in.Condemned, Generation: cmp.Or(in.Generation, "0"),
		Objects: []plan.Object{{Key: key, Digest: src.Package.Tree}}}
	levels, err := f.ScaleLevels(in.InstantiationLevel, in.Levels)
	if err != nil {
		return drivers.Rendering{}, &drivers.RefusedError{Field: "levels", Reason: err.Error()}
	}
	for i := range f.VDUs {
		n, err := f.Count(&f.VDUs[i], in.InstantiationLevel, levels)
		if err != nil {
			return drivers.Rendering{}, &drivers.RefusedError{Field: "levels", Reason: err.Error()}
		}
		want.Groups = append(want.Groups, plan.Group{VDU: f.VDUs[i].ID, Owner: key, Count: n, Stopped: in.State == desired.Stopped})
	}
	return drivers.Rendering{Desired: want, Source: src}, nil
}

func (r *rack) Observe(context.Context, drivers.Rendering) (plan.Observed, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var o plan.Observed
	for _, key := range slices.Sorted(maps.Keys(r.stacks)) {
		x := r.stacks[key]
		o.Objects = append(o.Objects, plan.ObservedObject{Key: key, Incarnation: key + "-id", Digest: x.digest, Count: -1,
			Counts: maps.Clone(x.counts), Passive: true, Ready: x.stalled == "", Stalled: x.stalled, Generation: x.generation})
		for _, s := range x.servers {
			u := plan.Unit{ID: fmt.Sprintf("%s@%d", s.id, s.life), Key: s.key, Name: s.id, VDU: s.vdu, Owner: key, Ready: s.dead == "" && !s.off, Stopped: s.off,
				Dead: s.dead, Generation: x.generation, Kind: "OS::Nova::Server"}
			if s.made != x.digest {
				u.Outdated = "it is of " + s.made
			}
			o.Units = append(o.Units, u)
			o.Resources = append(o.Resources, plan.Resource{Kind: plan.LinkPort, ID: "port-" + s.id, Name: "CP1", Unit: s.key,
				Addresses: []plan.Address{{IP: fmt.Sprintf("10.0.0.%d", s.born)}}, Floating: fmt.Sprintf("192.0.2.%d", s.born)},
				plan.Resource{Kind: plan.LinkPort, ID: "inner-" + s.id, Name: "CP2", Unit: s.key,
					Addresses: []plan.Address{{IP: fmt.Sprintf("10.1.0.%d", s.born)}}})
		}
	}
	return o, nil
}

func (r *rack) Verify(context.Context, drivers.Rendering, ...plan.Step) error { return nil }

func (r *rack) Do(_ context.Context, want drivers.Rendering, steps ...plan.Step) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.refusing > 0 {
		r.refusing--
		return drivers.ErrUnavailable
	}
	for _, s := range steps {
		r.did = append(r.did, string(s.Action)+" "+s.Object)
		if err := r.do(want, s); err != nil {
			return err
		}
	}
	return nil
}

func (r *rack) do(want drivers.Rendering, s plan.Step) error {
	switch s.Action {
	case plan.Apply:
		x := r.stacks[s.Object]
		if x == nil {
			x = &stack{counts: map[string]int{}, generation: want.Generation}
			for _, g := range want.Groups {
				x.counts[g.VDU] = g.Count
			}
			r.stacks[s.Object] = x
		}
		x.digest, x.stalled = want.Objects[0].Digest, ""
		r.fill(x)
	case plan.Scale:
		x := r.stacks[s.Object]
		x.counts[s.VDU] = s.To
		x.servers = slices.DeleteFunc(x.servers, func(m *server) bool { return slices.Contains(s.Victims, fmt.Sprintf("%s@%d", m.id, m.life)) })
		r.fill(x)
	case plan.Delete:
		delete(r.stacks, s.Object)
	case plan.Stop, plan.Start:
		for _, m := range r.stacks[s.Owner].servers {
			if fmt.Sprintf("%s@%d", m.id, m.life) == s.Incarnation {
				m.off = s.Action == plan.Stop
			}
		}
	case plan.DeleteUnit, plan.Renew:
		x := r.stacks[s.Owner]
		i := slices.IndexFunc(x.servers, func(m *server) bool { return m.key == s.Object })
		if m := x.servers[i]; fmt.Sprintf("%s@%d", m.id, m.life) == s.Incarnation {
			if m.made, m.dead = x.digest, ""; s.Action == plan.Renew {
				m.life++
			} else {
				r.born++
				m.id, m.born = fmt.Sprintf("server-%d", r.born), r.born
			}
		}
	}
	return nil
}

// fill makes the servers that the stack lacks.
func (r *rack) fill(x *stack) {
	for _, vdu := range slices.Sorted(maps.Keys(x.counts)) {
		for n := range x.counts[vdu] {
			key := fmt.Sprintf("Server/%s/%d", vdu, n)
			if x.generation != "0" {
				key += "/" + x.generation
			}
			if !slices.ContainsFunc(x.servers, func(m *server) bool { return m.key == key }) {
				r.born++
				x.servers = append(x.servers, &server{vdu: vdu, key: key, id: fmt.Sprintf("server-%d", r.born), made: x.digest, life: 1, born: r.born})
			}
		}
	}
}

// meddle changes the stack of the first generation behind the reconciler.
func (r *rack) meddle(alter func(*stack)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	alter(r.stacks["Stack/vnf-"+id])
}

// steps are those done so far that begin like this.
func (r *rack) steps(action plan.Action) (list []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range r.did {
		if strings.HasPrefix(s, string(action)+" ") {
			list = append(list, s)
		}
	}
	return list
}

var _ drivers.Driver = (*rack)(nil)
