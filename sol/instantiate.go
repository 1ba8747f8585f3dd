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
	"github.com/jibe-vnfm/jibe/sol/rest"
	"github.com/jibe-vnfm/jibe/vnfd"
)

// defFiles is the parameter that names a CNF's manifests, in order.
const defFiles = "lcm-kubernetes-def-files"

const kubernetes = "ETSINFV.KUBERNETES"

// instantiate is POST vnf_instances/{id}/instantiate (SOL003 clause 5.4.4).
func (a *api) instantiate(w http.ResponseWriter, r *http.Request) error {
	var req instantiateVnfRequest
	if err := rest.Read(w, r, &req); err != nil {
		return err
	}
	if req.FlavourID == "" {
		return rest.Problem(http.StatusBadRequest, "attribute \"flavourId\" is missing")
	}
	pinned := "" // the VIM that Jibe fills in because the request names none
	return a.begin(w, r, request{typ: lcm.Instantiate, params: params(req),
		born: func(op *lcm.Operation, _, _ *desired.Instance) error {
			op.PinnedVIM = pinned
			return nil
		},
		next: func(ctx context.Context, now *desired.Instance, seen sight) (*desired.Instance, error) {
			if desired.IsInstantiated(now.State) {
				return nil, rest.Problem(http.StatusConflict, "VNF instance %s is INSTANTIATED already", now.ID)
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
			next.Base, next.Overlays, next.VDUs, next.Generation = "", nil, nil, "" // left from before the VNF was terminated
			next.Flavour = req.FlavourID
			next.InstantiationLevel = req.InstantiationLevelID
			next.Levels, next.Condemned, next.Held = nil, nil, ""
			next.Params = rest.Object(maps.Clone(req.AdditionalParams))
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
			next.Extensions = mergepatch.Apply(now.Extensions, rest.Object(req.Extensions))
			next.ConfigurableProperties = mergepatch.Apply(now.ConfigurableProperties, rest.Object(req.VnfConfigurableProperties))
			placement, err := placementOf(rest.Object(req.AdditionalParams))
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
			if pinned = ""; next.VIM == "" || next.VIM == seen.pinnedVIM && desired.HasRemains(now) {
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
	return nil, rest.Problem(http.StatusBadRequest, "Invalid flavourId: VNFD %s has no flavour %q; it has %s", pkg.VNFD.ID, id, strings.Join(have, ", "))
}

// knownPlaces refuses to place VDUs that the flavour doesn't have.
func knownPlaces(f *vnfd.Flavour, placement map[string]string) error {
	var have []string
	for _, vdu := range f.VDUs {
		have = append(have, vdu.ID)
	}
	for _, vdu := range slices.Sorted(maps.Keys(placement)) {
		if !slices.Contains(have, vdu) {
			return rest.Problem(http.StatusBadRequest, "additionalParams.%s: flavour %q has no VDU %s; it has %s", placementKey, f.ID, quote(vdu), strings.Join(have, ", "))
		}
	}
	return nil
}

func checkDefFiles(v any) error {
	files, ok := v.([]any)
	if !ok || len(files) == 0 {
		return rest.Problem(http.StatusBadRequest, "additionalParams.%s is missing: it lists the package's manifests, in order", defFiles)
	}
	for _, f := range files {
		if s, ok := f.(string); !ok || s == "" {
			return rest.Problem(http.StatusBadRequest, "additionalParams.%s must be a list of paths in the package", defFiles)
		}
	}
	return nil
}
