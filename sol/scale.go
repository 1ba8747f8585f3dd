package sol

import (
	"context"
	"fmt"
	"maps"
	"net/http"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/lcm"
	"github.com/jibe-vnfm/jibe/sol/rest"
	"github.com/jibe-vnfm/jibe/vnfd"
)

// vduMapping is the parameter that names the workloads of VDUs which the package calls otherwise. It is the instance's
// from then on.
const vduMapping = "vdu_mapping"

// scale is POST vnf_instances/{id}/scale (clause 5.4.5). It commits the absolute level
// after the steps.
func (a *api) scale(w http.ResponseWriter, r *http.Request) error {
	var req scaleVnfRequest
	if err := rest.Read(w, r, &req); err != nil {
		return err
	}
	if req.Type != lcm.ScaleOut && req.Type != lcm.ScaleIn {
		return rest.Problem(http.StatusBadRequest, "attribute \"type\" must be %s or %s, not %q", lcm.ScaleOut, lcm.ScaleIn, req.Type)
	}
	if req.AspectID == "" {
		return rest.Problem(http.StatusBadRequest, "attribute \"aspectId\" is missing")
	}
	if !req.NumberOfSteps.set {
		req.NumberOfSteps = number{1, true}
	}
	if req.NumberOfSteps.n < 1 {
		return rest.Problem(http.StatusBadRequest, "Invalid numberOfSteps: %d; it must be at least 1", req.NumberOfSteps.n)
	}
	victims, err := victimsOf(req)
	if err != nil {
		return err
	}
	return a.begin(w, r, request{typ: lcm.Scale, params: params(req),
		next: func(ctx context.Context, now *desired.Instance, seen sight) (*desired.Instance, error) {
			flavour, err := a.runningFlavour(ctx, now)
			if err != nil {
				return nil, err
			}
			aspect, ok := flavour.Aspect(req.AspectID)
			if !ok {
				return nil, rest.Problem(http.StatusBadRequest, "Invalid aspectId: flavour %q has no aspect %q", now.Flavour, req.AspectID)
			}
			levels, err := flavour.ScaleLevels(now.InstantiationLevel, now.Levels)
			if err != nil {
				return nil, err
			}
			steps := req.NumberOfSteps.n
			if req.Type == lcm.ScaleIn {
				steps = -steps
			}
			level := levels[aspect.ID] + steps
			if level < 0 || level > aspect.MaxLevel {
				return nil, rest.Problem(http.StatusBadRequest, "Invalid numberOfSteps: aspect %s is at scale level %d, %s by %d leads to %d, outside 0..%d",
					aspect.ID, levels[aspect.ID], req.Type, req.NumberOfSteps.n, level, aspect.MaxLevel)
			}
			next := *now
			next.Held = ""
			next.Levels = maps.Clone(now.Levels)
			if next.Levels == nil {
				next.Levels = map[string]int{}
			}
			next.Levels[aspect.ID] = level
			if mapping, ok := rest.Object(req.AdditionalParams)[vduMapping]; ok {
				next.Params = maps.Clone(now.Params)
				if next.Params == nil {
					next.Params = map[string]any{}
				}
				next.Params[vduMapping] = mapping
			}
			doomed, err := victims.choose(now.ID, aspect.ID, req.NumberOfSteps.n, flavour, seen)
			if err != nil {
				return nil, err
			}
			next.Condemned = merged(now.Condemned, doomed)
			return &next, nil
		}})
}

// runningFlavour returns the flavour of an instance that is instantiated and runs; the error of
// any other is the answer.
func (a *api) runningFlavour(ctx context.Context, in *desired.Instance) (*vnfd.Flavour, error) {
	if err := running(in); err != nil {
		return nil, err
	}
	pkg, err := a.View.Package(ctx, in)
	if err != nil {
		return nil, fmt.Errorf("package of instance %s: %w", in.ID, err)
	}
	return flavourOf(pkg, in.Flavour)
}
