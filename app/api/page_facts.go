package api

import (
	"cmp"
	"context"
	"slices"

	"github.com/jibe-vnfm/jibe/admission"
	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/drivers"
	"github.com/jibe-vnfm/jibe/internal/natural"
	"github.com/jibe-vnfm/jibe/plan"
	"github.com/jibe-vnfm/jibe/sol/access"
	"github.com/jibe-vnfm/jibe/ui"
	"github.com/jibe-vnfm/jibe/vnfd"
)

// pageFacts are what pages of one instance show, in the page's words.
type pageFacts struct{ s *API }

// Running implements [ui.Facts].
func (f pageFacts) Running(ctx context.Context, instance string) (plan.Observed, bool) {
	return f.s.View.Running(ctx, instance)
}

// Package implements [ui.Facts].
func (f pageFacts) Package(ctx context.Context, in *desired.Instance) (*vnfd.Package, error) {
	return f.s.View.Package(ctx, in)
}

// mostChoices bounds the packages among which a page has one chosen.
const mostChoices = 500

// Choices implements [ui.Facts].
func (f pageFacts) Choices(scope *access.Scope) []ui.Choice {
	var list []ui.Choice
	for _, e := range f.s.Packages.List() {
		if !scope.SeesRepository(cmp.Or(e.Repository, f.s.pkgm.Home())) {
			continue
		}
		c := ui.Choice{VnfdID: e.VnfdID, Version: e.Version, Repository: e.Repository}
		if e.About != nil {
			c.Product = e.About.ProductName
		}
		if !slices.ContainsFunc(list, func(x ui.Choice) bool { return x.VnfdID == c.VnfdID }) {
			list = append(list, c)
		}
		if len(list) == mostChoices {
			break
		}
	}
	slices.SortFunc(list, func(a, b ui.Choice) int {
		return cmp.Or(natural.Compare(a.Product, b.Product), natural.Compare(a.Version, b.Version), cmp.Compare(a.VnfdID, b.VnfdID))
	})
	return list
}

// Drift implements [ui.Facts].
func (f pageFacts) Drift(instance string) *ui.Drift {
	d, ok := f.s.View.DriftOf(instance)
	if !ok {
		return nil
	}
	return &ui.Drift{State: string(d.State), Since: d.Since, Next: d.Next, Refused: d.Refused, Operation: d.Operation, Deviations: shownDeviations(d.Deviations)}
}

// Problems implements [ui.Facts].
func (f pageFacts) Problems(instance string) []desired.Problem { return f.s.Problems.Of(instance) }

// The most that a page shows of one instance's change.
const (
	mostDeviations = 200
	mostSteps      = 200
)

func shownDeviations(all []drivers.Deviation) []ui.Deviation {
	list := make([]ui.Deviation, 0, min(len(all), mostDeviations))
	for _, d := range all[:min(len(all), mostDeviations)] {
		list = append(list, ui.Deviation{Object: d.Object, Field: d.Field, Want: d.Want, Have: d.Have, By: d.By, At: d.At})
	}
	return list
}

// shownVerdict is a verdict as a page shows it.
func shownVerdict(v *admission.Verdict) *ui.Verdict {
	out := &ui.Verdict{Problems: v.Problems, Warnings: v.Warnings, Effect: v.Effect}
	for _, p := range v.Previews {
		x := ui.Preview{Instance: p.Instance, Dir: p.Dir, Type: p.Type, Steps: p.Steps, Filled: p.Filled, Diff: shownDeviations(p.Diff), Error: p.Error}
		if more := len(x.Steps) - mostSteps; more > 0 {
			x.Steps, x.More = x.Steps[:mostSteps], more
		}
		out.Previews = append(out.Previews, x)
	}
	return out
}
