package sol

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/internal/mergepatch"
	"github.com/jibe-vnfm/jibe/lcm"
	"github.com/jibe-vnfm/jibe/vnfd"
)

// defFiles is the parameter that names a CNF's manifests, in order.
const defFiles = "lcm-kubernetes-def-files"

const kubernetes = "ETSINFV.KUBERNETES"

// instantiate is POST vnf_instances/{id}/instantiate (SOL003 clause 5.4.4).
func (a *api) instantiate(w http.ResponseWriter, r *http.Request) error {
	var req instantiateVnfRequest
	if err := read(w, r, &req); err != nil {
		return err
	}
	if req.FlavourID == "" {
		return problem(http.StatusBadRequest, "attribute \"flavourId\" is missing")
	}
	pinned := "" // the VIM that nobody named
	return a.begin(w, r, request{typ: lcm.Instantiate, params: params(req),
		born: func(op *lcm.Operation, _, _ *desired.Instance) error {
			op.PinnedVIM = pinned
			return nil
		},
		next: func(ctx context.Context, now *desired.Instance, _ sight) (*desired.Instance, error) {
			if now.State == desired.Instantiated {
				return nil, problem(http.StatusConflict, "VNF instance %s is INSTANTIATED already", now.ID)
			}
			if err := suspended(now); err != nil {
				return nil, err
			}
			pkg, err := a.View.Package(ctx, now)
			if err != nil {
				return nil, fmt.Errorf("vnfdId %s: %w", now.VnfdID, err)
			}
			flavour, err := flavourOf(pkg, req.FlavourID)
			if err != nil {
				return nil, err
			}
			if _, err := flavour.ScaleLevels(req.InstantiationLevelID, nil); err != nil {
				return nil, err
			}
			next := *now
			next.State = desired.Instantiated
			next.Package = cmp.Or(now.Package, pkg.Tree)
			next.Base, next.Overlays, next.Generation = "", nil, "" // of a former life
			next.Flavour = req.FlavourID
			next.InstantiationLevel = req.InstantiationLevelID
			next.Levels, next.Condemned, next.Held = nil, nil, ""
			next.Params = object(maps.Clone(req.AdditionalParams))
			if next.Params == nil {
				next.Params = map[string]any{}
			}
			delete(next.Params, placementKey)
			if next.ExtVirtualLinks, err = linksOf(req.ExtVirtualLinks); err != nil {
				return nil, err
			}
			if next.ExtManagedVirtualLinks, err = managedOf(nil, req.ExtManagedVirtualLinks); err != nil {
				return nil, err
			}
			next.Extensions = mergepatch.Apply(now.Extensions, object(req.Extensions))
			next.ConfigurableProperties = mergepatch.Apply(now.ConfigurableProperties, object(req.VnfConfigurableProperties))
			placement, err := placementOf(object(req.AdditionalParams))
			if err != nil {
				return nil, err
			}
			if err := knownPlaces(flavour, placement); err != nil {
				return nil, err
			}
			vims, err := a.placeOn(&next, req.VimConnectionInfo, placement)
			if err != nil {
				return nil, err
			}
			if slices.ContainsFunc(vims, func(t string) bool { return strings.HasPrefix(t, kubernetes) }) {
				if err := checkDefFiles(next.Params[defFiles]); err != nil {
					return nil, err
				}
			}
			full, err := a.View.Complete(ctx, now, &next)
			if err != nil {
				return nil, fmt.Errorf("vnfdId %s: %w", next.VnfdID, err)
			}
			if pinned = ""; next.VIM == "" {
				pinned = full.VIM
			}
			return full, nil
		}})
}

func flavourOf(pkg *vnfd.Package, id string) (*vnfd.Flavour, error) {
	if f, ok := pkg.VNFD.Flavour(id); ok {
		return f, nil
	}
	var have []string
	for _, f := range pkg.VNFD.Flavours {
		have = append(have, f.ID)
	}
	return nil, problem(http.StatusBadRequest, "Invalid flavourId: VNFD %s has no flavour %q; it has %s", pkg.VNFD.ID, id, strings.Join(have, ", "))
}

// knownPlaces refuses to place VDUs that the flavour doesn't have.
func knownPlaces(f *vnfd.Flavour, placement map[string]string) error {
	var have []string
	for _, vdu := range f.VDUs {
		have = append(have, vdu.ID)
	}
	for _, vdu := range slices.Sorted(maps.Keys(placement)) {
		if !slices.Contains(have, vdu) {
			return problem(http.StatusBadRequest, "additionalParams.%s: flavour %q has no VDU %s; it has %s", placementKey, f.ID, quote(vdu), strings.Join(have, ", "))
		}
	}
	return nil
}

func checkDefFiles(v any) error {
	files, ok := v.([]any)
	if !ok || len(files) == 0 {
		return problem(http.StatusBadRequest, "additionalParams.%s is missing: it lists the package's manifests, in order", defFiles)
	}
	for _, f := range files {
		if s, ok := f.(string); !ok || s == "" {
			return problem(http.StatusBadRequest, "additionalParams.%s must be a list of paths in the package", defFiles)
		}
	}
	return nil
}

// suspended refuses what would not be carried out.
func suspended(in *desired.Instance) error {
	if in.Suspend {
		return problem(http.StatusConflict, "VNF instance %s is suspended: remove \"suspend\" from its vnf.yaml first", in.ID)
	}
	return nil
}

// scale is POST vnf_instances/{id}/scale (clause 5.4.5). What is committed is the
// absolute level that the steps lead to.
func (a *api) scale(w http.ResponseWriter, r *http.Request) error {
	var req scaleVnfRequest
	if err := read(w, r, &req); err != nil {
		return err
	}
	if req.Type != lcm.ScaleOut && req.Type != lcm.ScaleIn {
		return problem(http.StatusBadRequest, "attribute \"type\" must be %s or %s, not %q", lcm.ScaleOut, lcm.ScaleIn, req.Type)
	}
	if req.AspectID == "" {
		return problem(http.StatusBadRequest, "attribute \"aspectId\" is missing")
	}
	if !req.NumberOfSteps.set {
		req.NumberOfSteps = number{1, true}
	}
	if req.NumberOfSteps.n < 1 {
		return problem(http.StatusBadRequest, "Invalid numberOfSteps: %d; it must be at least 1", req.NumberOfSteps.n)
	}
	victims, err := victimsOf(req)
	if err != nil {
		return err
	}
	return a.begin(w, r, request{typ: lcm.Scale, params: params(req),
		next: func(ctx context.Context, now *desired.Instance, seen sight) (*desired.Instance, error) {
			if err := running(now); err != nil {
				return nil, err
			}
			pkg, err := a.View.Package(ctx, now)
			if err != nil {
				return nil, fmt.Errorf("package of instance %s: %w", now.ID, err)
			}
			flavour, err := flavourOf(pkg, now.Flavour)
			if err != nil {
				return nil, err
			}
			aspect, ok := flavour.Aspect(req.AspectID)
			if !ok {
				return nil, problem(http.StatusBadRequest, "Invalid aspectId: flavour %q has no aspect %q", now.Flavour, req.AspectID)
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
				return nil, problem(http.StatusBadRequest, "Invalid numberOfSteps: aspect %s is at scale level %d, %s by %d leads to %d, outside 0..%d",
					aspect.ID, levels[aspect.ID], req.Type, req.NumberOfSteps.n, level, aspect.MaxLevel)
			}
			next := *now
			next.Held = ""
			next.Levels = maps.Clone(now.Levels)
			if next.Levels == nil {
				next.Levels = map[string]int{}
			}
			next.Levels[aspect.ID] = level
			doomed, err := victims.choose(now.ID, aspect.ID, req.NumberOfSteps.n, flavour, seen)
			if err != nil {
				return nil, err
			}
			next.Condemned = merged(now.Condemned, doomed)
			return &next, nil
		}})
}

func running(in *desired.Instance) error {
	if in.State != desired.Instantiated {
		return problem(http.StatusConflict, "VNF instance %s is NOT_INSTANTIATED", in.ID)
	}
	return suspended(in)
}

// terminate is POST vnf_instances/{id}/terminate (clause 5.4.8). The kind of
// termination stands in the operation's parameters, where the driver finds it.
func (a *api) terminate(w http.ResponseWriter, r *http.Request) error {
	var req terminateVnfRequest
	if err := read(w, r, &req); err != nil {
		return err
	}
	if req.TerminationType != lcm.Forceful && req.TerminationType != lcm.Graceful {
		return problem(http.StatusBadRequest, "attribute \"terminationType\" must be %s or %s, not %q", lcm.Forceful, lcm.Graceful, req.TerminationType)
	}
	if req.GracefulTerminationTimeout.n < 0 {
		return problem(http.StatusBadRequest, "gracefulTerminationTimeout is %d seconds; it can't be negative", req.GracefulTerminationTimeout.n)
	}
	return a.begin(w, r, request{typ: lcm.Terminate, params: params(req),
		next: func(_ context.Context, now *desired.Instance, seen sight) (*desired.Instance, error) {
			if err := running(now); err != nil {
				return nil, err
			}
			next := *now
			next.State, next.Held = desired.NotInstantiated, ""
			next.Condemned = nil
			if next.VIM == seen.pinnedVIM {
				next.VIM = "" // it was filled in when the VNF was instantiated
			}
			return &next, nil
		}})
}
