package sol

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strings"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/internal/mergepatch"
	"github.com/jibe-vnfm/jibe/lcm"
	"github.com/jibe-vnfm/jibe/sol/rest"
)

// pathsKey is the entry of metadata that names the manifests of the ConfigMaps and
// Secrets that a container update takes over.
const pathsKey = "configmap_secret_paths"

// modifiable says whether VnfInfoModificationRequest (clause 5.5.2.12) has the
// attribute.
func modifiable(attr string) bool {
	switch attr {
	case "vnfInstanceName", "vnfInstanceDescription", "metadata", "extensions", "vnfConfigurableProperties",
		"vnfdId", "vimConnectionInfo", "vnfcInfoModifications":
		return true
	}
	return false
}

// modifyInstance is PATCH vnf_instances/{id} (clause 5.4.3.3.4), a merge patch
// (RFC 7396). Another vnfdId is a container update of a VNF that runs.
func (a *api) modifyInstance(w http.ResponseWriter, r *http.Request) error {
	patch := map[string]any{}
	if err := rest.Read(w, r, &patch); err != nil {
		return err
	}
	if len(patch) == 0 {
		return rest.Problem(http.StatusBadRequest, "the body names nothing to modify")
	}
	for _, attr := range slices.Sorted(maps.Keys(patch)) {
		switch {
		case !modifiable(attr):
			return rest.Problem(http.StatusBadRequest, "unknown attribute %q in the body", attr)
		case attr == "vnfcInfoModifications":
			return rest.Problem(http.StatusUnprocessableEntity,
				"%s can't be carried out: a VNFC is what its VDU makes of it, and properties of a single one would end with it; modify vnfConfigurableProperties or extensions of the VNF", attr)
		}
	}
	rest.Object(patch)
	if v, ok := patch["vnfdId"]; ok {
		if _, err := filled(`attribute "vnfdId"`, v); err != nil {
			return err
		}
	}
	paths, err := configPaths(patch)
	if err != nil {
		return err
	}
	return a.begin(w, r, request{typ: lcm.ModifyInfo, params: params(patch),
		next: func(ctx context.Context, now *desired.Instance, _ sight) (*desired.Instance, error) {
			next := *now
			if desired.IsInstantiated(now.State) {
				next.Held = "" // else it says that objects may be left
			}
			if err := applyPatch(patch, now, &next); err != nil {
				return nil, err
			}
			if err := a.reconnect(patch, now, &next); err != nil {
				return nil, err
			}
			return a.repackage(ctx, patch, paths, now, &next)
		},
		born: func(op *lcm.Operation, now, after *desired.Instance) error {
			op.ChangedInfo = params(a.changedInfo(patch, now, after, op.VNF))
			return nil
		}})
}

// applyPatch patches the attributes that are only information.
func applyPatch(patch map[string]any, now, next *desired.Instance) error {
	if err := patchText(patch, "vnfInstanceName", &next.Name); err != nil {
		return err
	}
	if err := patchText(patch, "vnfInstanceDescription", &next.Description); err != nil {
		return err
	}
	if m, ok := patch["metadata"].(map[string]any); ok {
		patch = maps.Clone(patch)
		patch["metadata"] = withoutFiles(m, now)
	}
	for attr, to := range map[string]*map[string]any{"metadata": &next.Metadata, "extensions": &next.Extensions,
		"vnfConfigurableProperties": &next.ConfigurableProperties} {
		if err := patchMap(patch, attr, to); err != nil {
			return err
		}
	}
	if err := checkMapping(next.Metadata); err != nil {
		return err
	}
	return checkNames(next.Name, next.Description)
}

// configPaths returns the manifests that the patch's metadata names.
func configPaths(patch map[string]any) ([]string, error) {
	metadata, _ := patch["metadata"].(map[string]any)
	v := metadata[pathsKey]
	if v == nil {
		return nil, nil
	}
	list, ok := v.([]any)
	paths := make([]string, len(list))
	for i, e := range list {
		if paths[i], _ = e.(string); paths[i] == "" {
			ok = false
		}
	}
	if !ok {
		return nil, rest.Problem(http.StatusBadRequest, "metadata.%s must be a list of paths in the package", pathsKey)
	}
	return paths, nil
}

// repackage has next run the package that the patch names. A VNF that runs gets only the
// ConfigMaps and Secrets at the paths and the images of it, as an overlay of its base
// package.
func (a *api) repackage(ctx context.Context, patch map[string]any, paths []string, now, next *desired.Instance) (*desired.Instance, error) {
	id, ok := patch["vnfdId"].(string)
	if !ok {
		return next, nil
	}
	pkg, err := a.View.Package(ctx, &desired.Instance{ID: now.ID, VnfdID: id})
	if err != nil {
		return nil, fmt.Errorf("vnfdId %s: %w", id, err)
	}
	next.VnfdID = id
	if !desired.IsInstantiated(now.State) {
		next.Package, next.Base, next.Overlays, next.VDUs, next.Generation = pkg.Tree, "", nil, nil, ""
		return next, nil
	}
	if err := suspended(now); err != nil {
		return nil, err
	}
	n := len(now.Overlays)
	if pkg.Tree == now.Package && (n == 0 || len(paths) == 0 || slices.Equal(paths, now.Overlays[n-1].Paths)) {
		return next, nil
	}
	next.Package = "" // Complete pins it and the overlay
	next.Base = cmp.Or(now.Base, now.Package)
	next.Overlays = append(slices.Clone(now.Overlays), desired.Overlay{Paths: paths})
	return a.View.Complete(ctx, now, next)
}

// reconnect patches the connection to the VIM that the VNF runs on.
func (a *api) reconnect(patch map[string]any, now, next *desired.Instance) error {
	v, ok := patch["vimConnectionInfo"]
	if !ok {
		return nil
	}
	if !desired.IsInstantiated(now.State) {
		return rest.Problem(http.StatusBadRequest, "vimConnectionInfo can't be modified while VNF instance %s is NOT_INSTANTIATED: instantiate takes it", now.ID)
	}
	p, ok := v.(map[string]any)
	if !ok {
		return rest.Problem(http.StatusBadRequest, "attribute \"vimConnectionInfo\" must be an object")
	}
	var connections map[string]VimConnectionInfo
	var err error
	inline := len(now.VIMConnections) > 0
	for key := range p {
		_, own := now.VIMConnections[key]
		inline = inline && (own || now.VIM == "")
	}
	if inline {
		connections, err = patchedConnections(now.VIMConnections, p)
		next.VIMConnections = nil // connections that the patch removes must not stay
	} else {
		shown := a.connections(now)
		if back, err := patchedConnections(shown, p); err == nil && reflect.DeepEqual(back, shown) {
			return nil // the client sent back what it read of the VIM's file
		}
		connections, err = patchedConnections(nil, p)
	}
	if err != nil {
		return err
	}
	if len(connections) == 0 {
		return rest.Problem(http.StatusBadRequest, "vimConnectionInfo: a VNF that runs can't be without a connection to its VIM")
	}
	if !inline {
		for _, key := range slices.Sorted(maps.Keys(connections)) {
			if c := connections[key]; (len(c.InterfaceInfo) > 0) != (len(c.AccessInfo) > 0) {
				return rest.Problem(http.StatusUnprocessableEntity,
					"vimConnectionInfo.%s: VNF instance %s runs on a VIM of the desired repository: change its file under vims/, or give both interfaceInfo and accessInfo", key, now.ID)
			}
		}
	}
	if _, err := a.placeOn(next, connections, now.Placement); err != nil {
		return err
	}
	return a.samePlace(now, next)
}

// patchedConnections applies a merge patch to vimConnectionInfo. Its errors quote no value.
func patchedConnections(have any, patch map[string]any) (map[string]VimConnectionInfo, error) {
	m, err := rest.Generic(have)
	if err != nil {
		return nil, fmt.Errorf("vimConnectionInfo: %w", err)
	}
	b, err := json.Marshal(mergepatch.Apply(rest.Object(m), patch))
	if err != nil {
		return nil, fmt.Errorf("vimConnectionInfo: %w", err)
	}
	var out map[string]VimConnectionInfo
	if err := rest.Decode(b, &out); err != nil {
		why, _, _ := strings.Cut(err.Error(), ", at ") // a position in no text that the client sent
		return nil, rest.Problem(http.StatusBadRequest, "vimConnectionInfo as patched can't be used: %s", why)
	}
	return out, nil
}

// changedInfo returns VnfInfoModifications (clause 5.5.2.12a). Attributes that were removed
// are empty, and another package changes the attributes of the product.
func (a *api) changedInfo(patch map[string]any, now, after *desired.Instance, vnf lcm.VNF) map[string]any {
	out := maps.Clone(patch)
	for attr, v := range out {
		switch {
		case v != nil:
		case attr == "vnfInstanceName" || attr == "vnfInstanceDescription":
			out[attr] = ""
		default:
			out[attr] = map[string]any{}
		}
	}
	if p, ok := patch["vimConnectionInfo"].(map[string]any); ok {
		shown := map[string]any{} // the data type has whole connections
		for key, c := range a.connections(after) {
			if _, named := p[key]; named || after.VIM != "" {
				shown[key] = c
			}
		}
		out["vimConnectionInfo"] = shown
	}
	if after.VnfdID != now.VnfdID || after.Package != now.Package {
		maps.Copy(out, map[string]any{"vnfdId": after.VnfdID, "vnfProvider": vnf.Provider, "vnfProductName": vnf.ProductName,
			"vnfSoftwareVersion": vnf.SoftwareVersion, "vnfdVersion": vnf.VnfdVersion})
	}
	return out
}

func patchText(patch map[string]any, attr string, to *string) error {
	v, ok := patch[attr]
	if !ok {
		return nil
	}
	if v == nil {
		*to = ""
		return nil
	}
	s, ok := v.(string)
	if !ok {
		return rest.Problem(http.StatusBadRequest, "attribute %q must be a string", attr)
	}
	*to = s
	return nil
}

func patchMap(patch map[string]any, attr string, to *map[string]any) error {
	v, ok := patch[attr]
	if !ok {
		return nil
	}
	if v == nil {
		*to = nil
		return nil
	}
	m, ok := v.(map[string]any)
	if !ok {
		return rest.Problem(http.StatusBadRequest, "attribute %q must be an object", attr)
	}
	*to = mergepatch.Apply(*to, m)
	return nil
}
