package sol

import (
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
)

// changeVnfFlavourRequest is SOL003 clause 5.5.2.7.
type changeVnfFlavourRequest struct {
	NewFlavourID              string                       `json:"newFlavourId"`
	InstantiationLevelID      string                       `json:"instantiationLevelId,omitempty"`
	ExtVirtualLinks           []any                        `json:"extVirtualLinks,omitempty"`
	ExtManagedVirtualLinks    []any                        `json:"extManagedVirtualLinks,omitempty"`
	VimConnectionInfo         map[string]VimConnectionInfo `json:"vimConnectionInfo,omitempty"`
	AdditionalParams          map[string]any               `json:"additionalParams,omitempty"`
	Extensions                map[string]any               `json:"extensions,omitempty"`
	VnfConfigurableProperties map[string]any               `json:"vnfConfigurableProperties,omitempty"`
}

// changeFlavour is POST vnf_instances/{id}/change_flavour (SOL003 clause 5.4.7). The VNF then has
// the levels of the instantiation level that is named, or of the flavour's default.
func (a *api) changeFlavour(w http.ResponseWriter, r *http.Request) error {
	var req changeVnfFlavourRequest
	if err := rest.Read(w, r, &req); err != nil {
		return err
	}
	if req.NewFlavourID == "" {
		return rest.Problem(http.StatusBadRequest, "attribute \"newFlavourId\" is missing")
	}
	return a.begin(w, r, request{typ: lcm.ChangeFlavour, params: params(req),
		next: func(ctx context.Context, now *desired.Instance, _ sight) (*desired.Instance, error) {
			return a.flavoured(ctx, now, req)
		}})
}

// flavoured returns the present intent as the request changes it.
func (a *api) flavoured(ctx context.Context, now *desired.Instance, req changeVnfFlavourRequest) (*desired.Instance, error) {
	if err := running(now); err != nil {
		return nil, err
	}
	pkg, err := a.View.Package(ctx, now)
	if err != nil {
		return nil, fmt.Errorf("package of instance %s: %w", now.ID, err)
	}
	if len(pkg.VNFD.Flavours) < 2 {
		return nil, rest.Problem(http.StatusNotFound, "VNF instance %s has no other flavour: VNFD %s has only %q", now.ID, pkg.VNFD.ID, now.Flavour)
	}
	flavour, err := flavourOf(pkg, req.NewFlavourID)
	if err != nil {
		return nil, err
	}
	if flavour.ID == now.Flavour {
		return nil, rest.Problem(http.StatusConflict, "VNF instance %s has flavour %q already", now.ID, now.Flavour)
	}
	if _, err := flavour.ScaleLevels(req.InstantiationLevelID, nil); err != nil {
		return nil, err
	}
	asked := rest.Object(maps.Clone(req.AdditionalParams))
	placement, given := now.Placement, asked[placementKey] != nil
	if given {
		if placement, err = placementOf(asked); err != nil {
			return nil, err
		}
		if err := knownPlaces(flavour, placement); err != nil {
			return nil, err
		}
		delete(asked, placementKey)
	}
	next := *now
	next.Held = ""
	next.VDUs = maps.Clone(now.VDUs)
	maps.DeleteFunc(next.VDUs, func(vdu string, _ desired.VDUPin) bool { _, has := flavour.VDU(vdu); return !has })
	next.Flavour, next.InstantiationLevel, next.Levels = flavour.ID, req.InstantiationLevelID, nil
	next.Params = mergepatch.Apply(now.Params, asked)
	next.Extensions = mergepatch.Apply(now.Extensions, rest.Object(req.Extensions))
	next.ConfigurableProperties = mergepatch.Apply(now.ConfigurableProperties, rest.Object(req.VnfConfigurableProperties))
	vims, err := a.placeOn(&next, req.VimConnectionInfo, placement)
	if err != nil {
		return nil, err
	}
	if err := a.samePlace(now, &next); err != nil {
		return nil, err
	}
	if _, listed := asked[defFiles]; listed && slices.ContainsFunc(vims, func(t string) bool { return strings.HasPrefix(t, kubernetes) }) {
		if err := checkDefFiles(next.Params[defFiles]); err != nil {
			return nil, err
		}
	}
	for attr, links := range map[string][]any{"extVirtualLinks": req.ExtVirtualLinks, "extManagedVirtualLinks": req.ExtManagedVirtualLinks} {
		if len(links) == 0 {
			continue
		}
		if err := connectable(attr, vims); err != nil {
			return nil, err
		}
	}
	if next.ExtVirtualLinks, err = reconnected(now.ExtVirtualLinks, req.ExtVirtualLinks); err != nil {
		return nil, err
	}
	if next.ExtManagedVirtualLinks, err = managedOf(now.ExtManagedVirtualLinks, req.ExtManagedVirtualLinks); err != nil {
		return nil, err
	}
	full, err := a.View.Complete(ctx, now, &next)
	if err != nil {
		return nil, fmt.Errorf("vnfdId %s: %w", next.VnfdID, err)
	}
	return full, nil
}
