package multi_test

import (
	"context"
	"slices"
	"testing"

	"github.com/jibe-vnfm/jibe/drivers"
	"github.com/jibe-vnfm/jibe/drivers/multi"
	"github.com/jibe-vnfm/jibe/drivers/sim"
	"github.com/jibe-vnfm/jibe/plan"
)

// strict is the in-memory VIM with bounds: it permits no object to a project.
type strict struct {
	drivers.Driver
	asked []drivers.Rendering // to Observe
}

func (s *strict) Confine(r drivers.Rendering) (all []drivers.Violation) {
	for _, x := range r.Objects {
		if r.Source.Bounds != nil {
			all = append(all, drivers.Violation{File: "a", Object: x.Key, Rule: drivers.RuleKind, Detail: "of " + r.Source.Bounds.Project})
		}
	}
	return all
}

func (s *strict) Observe(ctx context.Context, r drivers.Rendering) (plan.Observed, error) {
	s.asked = append(s.asked, r)
	return s.Driver.Observe(ctx, r)
}

func TestEachVIMIsHeldToTheBoundsAndKnowsWhatStood(t *testing.T) {
	s := newSite(t)
	core := &strict{Driver: sim.New(s.main, drivers.VIM{Name: "core"})}
	edge := &strict{Driver: sim.New(s.edge, drivers.VIM{Name: "edge b"})}
	s.drv = multi.New(multi.Part{Name: "core", Driver: core}, multi.Part{Name: "edge b", Driver: edge})
	want := s.render()
	if found := s.drv.Confine(want); len(found) > 0 {
		t.Errorf("without bounds: %v", found)
	}
	var objects []string
	for _, v := range s.drv.Confine(want.Bounded(&drivers.Bounds{Project: "p"})) {
		objects = append(objects, v.Object+" "+v.Detail)
	}
	if all := []string{web + " of p", db + " of p"}; !slices.Equal(objects, all) {
		t.Errorf("violations are of %q, want %q", objects, all)
	}

	gone := drivers.Absent(s.src.Instance).Bounded(&drivers.Bounds{Account: "a/b"})
	gone.Former = &want
	s.observe(gone)
	for name, part := range map[string]*strict{"core": core, "edge b": edge} {
		asked := part.asked[len(part.asked)-1]
		if asked.Former == nil || len(asked.Former.Objects) != 1 {
			t.Errorf("%s isn't told what stood: %+v", name, asked.Former)
		}
		if asked.Source.Bounds == nil || asked.Source.Bounds.Account != "a/b" {
			t.Errorf("%s isn't told the account", name)
		}
	}
}
