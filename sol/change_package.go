package sol

import (
	"context"
	"errors"
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

// changePackage is POST vnf_instances/{id}/change_vnfpkg (SOL003 clause 5.4.11a). It
// commits the new package, and the way to get there.
func (a *api) changePackage(w http.ResponseWriter, r *http.Request) error {
	var req changeVnfPkgRequest
	if err := rest.Read(w, r, &req); err != nil {
		return err
	}
	if req.VnfdID == "" {
		return rest.Problem(http.StatusBadRequest, "attribute \"vnfdId\" is missing")
	}
	asked := params(req)
	up, err := upgradeOf(rest.Object(req.AdditionalParams))
	if err != nil {
		return err
	}
	return a.begin(w, r, request{typ: lcm.ChangePackage, params: asked,
		next: func(ctx context.Context, now *desired.Instance, _ sight) (*desired.Instance, error) {
			return a.upgraded(ctx, now, req, up)
		},
		born: func(op *lcm.Operation, now, after *desired.Instance) error {
			if !altered(now, after) {
				return rest.Problem(http.StatusConflict, "VNF instance %s runs package %s of VNFD %s already, and the request changes nothing else of it", now.ID, now.Package, now.VnfdID)
			}
			op.PkgChange = lcm.TriggeredByPackage(now, after, op.VNF)
			return nil
		}})
}

// altered says whether the two intents differ in more than the way from one to the other.
func altered(now, after *desired.Instance) bool {
	return slices.ContainsFunc(desired.Changed(now, after), func(key string) bool {
		return key != "update" && key != "held" && key != "condemned"
	})
}

// upgraded returns the present intent as the request changes it.
func (a *api) upgraded(ctx context.Context, now *desired.Instance, req changeVnfPkgRequest, up upgrade) (*desired.Instance, error) {
	if err := running(now); err != nil {
		return nil, err
	}
	if _, err := a.View.Package(ctx, &desired.Instance{ID: now.ID, VnfdID: req.VnfdID}); err != nil {
		return nil, fmt.Errorf("vnfdId %s: %w", req.VnfdID, err)
	}
	next := *now
	next.Held = ""
	var err error
	if next.Update, err = up.policy(now.Update); err != nil {
		return nil, err
	}
	next.Params = mergepatch.Apply(now.Params, up.rest)
	next.Extensions = mergepatch.Apply(now.Extensions, rest.Object(req.Extensions))
	next.ConfigurableProperties = mergepatch.Apply(now.ConfigurableProperties, rest.Object(req.VnfConfigurableProperties))
	vims, err := a.placeOn(&next, req.VimConnectionInfo, now.Placement)
	if err != nil {
		return nil, err
	}
	if err := a.samePlace(now, &next); err != nil {
		return nil, err
	}
	for _, given := range []struct {
		attr  string
		links []any
	}{{"extVirtualLinks", req.ExtVirtualLinks}, {"extManagedVirtualLinks", req.ExtManagedVirtualLinks}} {
		if len(given.links) == 0 {
			continue
		}
		if err := connectable(given.attr, vims); err != nil {
			return nil, err
		}
	}
	if next.ExtVirtualLinks, err = reconnected(now.ExtVirtualLinks, req.ExtVirtualLinks); err != nil {
		return nil, err
	}
	if next.ExtManagedVirtualLinks, err = managedOf(now.ExtManagedVirtualLinks, req.ExtManagedVirtualLinks); err != nil {
		return nil, err
	}
	next.VnfdID, next.Package = req.VnfdID, "" // the newest, as Complete knows it
	// A blue-green change makes a new generation of every VDU: there, parameters only say
	// how VNFCs are reached.
	var limit []string
	if next.Update.Strategy == desired.Rolling {
		limit = up.vdus
	}
	if len(limit) == 0 {
		next.VDUs = nil
	}
	if err := a.knownVDUs(ctx, up, now, &next); err != nil {
		return nil, err
	}
	listed, err := a.listing(ctx, now, &next, up.files)
	if err != nil {
		return nil, err
	}
	asked := *listed
	asked.Update.VDUs = limit
	full, err := a.View.Complete(ctx, now, &asked)
	if err != nil {
		return nil, fmt.Errorf("vnfdId %s: %w", req.VnfdID, err)
	}
	// The limit is this request's alone: what it leaves as it is stands in "vdus" now, and a
	// later commit that changes the package isn't limited by it.
	limited := *full
	limited.Update.VDUs = nil
	return &limited, nil
}

// listing returns after with the list of its package's manifests, given those that a
// request lists (nil where it lists none).
func (a *api) listing(ctx context.Context, now, after *desired.Instance, listed []string) (*desired.Instance, error) {
	files, err := a.View.Definitions(ctx, now, after, listed)
	if now.Package == "" && errors.Is(err, ErrUnknownPackage) {
		// The commit that a person pushed is known already, and that which fills in its pin isn't.
		return nil, rest.Problem(http.StatusConflict, "the package of VNF instance %s isn't pinned yet: ask again in a moment", now.ID)
	}
	if err != nil {
		return nil, fmt.Errorf("manifests of vnfdId %s: %w", after.VnfdID, err)
	}
	if files == nil {
		files = listed
	}
	if files == nil {
		return after, nil
	}
	out := *after
	out.Params = maps.Clone(after.Params)
	if out.Params == nil {
		out.Params = map[string]any{}
	}
	list := make([]any, len(files))
	for i, f := range files {
		list[i] = f
	}
	out.Params[defFiles] = list
	return &out, nil
}

// knownVDUs refuses parameters for VDUs that neither package has.
func (a *api) knownVDUs(ctx context.Context, up upgrade, now, after *desired.Instance) error {
	if len(up.vdus) == 0 {
		return nil
	}
	var have []string
	for _, in := range []*desired.Instance{now, after} {
		pkg, err := a.View.Package(ctx, in)
		if err != nil {
			return fmt.Errorf("package of vnfdId %s: %w", in.VnfdID, err)
		}
		if f, ok := pkg.VNFD.Flavour(in.Flavour); ok {
			for _, vdu := range f.VDUs {
				have = append(have, vdu.ID)
			}
		}
	}
	slices.Sort(have)
	for i, id := range up.vdus {
		if !slices.Contains(have, id) {
			return rest.Problem(http.StatusBadRequest, "additionalParams.%s[%d].vdu_id: neither VNFD %s nor VNFD %s has a VDU %s; they have %s",
				vduParams, i, now.VnfdID, after.VnfdID, quote(id), strings.Join(slices.Compact(have), ", "))
		}
	}
	return nil
}
