package lcm

import (
	"encoding/json"
	"maps"
	"slices"

	"github.com/jibe-vnfm/jibe/desired"
)

// packageChanged says whether the change deploys something else: another VNFD, package,
// generation or flavour, other manifests of the same package, or other networks in
// the place of the VNF's own.
func packageChanged(before, after *desired.Instance) bool {
	return changed(before, after, "vnfdId", "flavour", "base", "overlays", "vdus", "generation", "params", "extManagedVirtualLinks") || repinned(before, after)
}

// containerUpdate says whether the change only lays container updates on top of what
// is deployed.
func containerUpdate(before, after *desired.Instance) bool {
	n := len(before.Overlays)
	if changed(before, after, "flavour", "vdus", "generation", "instantiationLevel", "params", "extVirtualLinks", "extManagedVirtualLinks") ||
		base(before) != base(after) || len(after.Overlays) <= n {
		return false
	}
	return slices.EqualFunc(before.Overlays, after.Overlays[:n], func(a, b desired.Overlay) bool {
		return a.Package == b.Package && slices.Equal(a.Paths, b.Paths)
	})
}

// base returns the package whose manifests apply in full.
func base(in *desired.Instance) string {
	if in.Base != "" {
		return in.Base
	}
	return in.Package
}

// collapses says whether the change only ends container updates: the package of the last
// one then applies in full.
func collapses(before, after *desired.Instance) bool {
	return len(before.Overlays) > 0 && len(after.Overlays) == 0 && before.Package == after.Package &&
		!changed(before, after, "vnfdId", "flavour", "generation")
}

func changePackageParams(before, after *desired.Instance) json.RawMessage {
	p := map[string]any{"vnfdId": after.VnfdID}
	additional := map[string]any{"upgrade_type": "RollingUpdate"}
	if before.Generation != after.Generation {
		additional["upgrade_type"] = "Blue-Green"
	}
	for name, value := range map[string]string{
		"lcm-operation-coordinate-new-vnf": after.Update.Coordinate.New, "lcm-operation-coordinate-new-vnf-class": after.Update.Coordinate.NewClass,
		"lcm-operation-coordinate-old-vnf": after.Update.Coordinate.Old, "lcm-operation-coordinate-old-vnf-class": after.Update.Coordinate.OldClass,
	} {
		if value != "" {
			additional[name] = value
		}
	}
	if vdus := after.Update.VDUs; len(vdus) > 0 {
		named := make([]any, len(vdus))
		for i, vdu := range vdus {
			named[i] = map[string]any{"vdu_id": vdu}
		}
		additional["vdu_params"] = named
	}
	maps.Copy(additional, after.Update.Coordinate.Params)
	maps.Copy(additional, after.Params)
	put(p, "additionalParams", additional)
	if extConnChanged(before, after) {
		p["extVirtualLinks"] = after.ExtVirtualLinks
	}
	if changed(before, after, "extManagedVirtualLinks") {
		p["extManagedVirtualLinks"] = after.ExtManagedVirtualLinks
	}
	return encode(p)
}

// TriggeredByPackage returns ModificationsTriggeredByVnfPkgChange of SOL003 v3.3.1: what
// the change of package altered in the VnfInstance. vnf is that of after.
func TriggeredByPackage(before, after *desired.Instance, vnf VNF) json.RawMessage {
	p := versions(after, vnf)
	keyValues(p, before, after)
	return encode(p)
}

// ChangedInfo returns VnfInfoModifications (SOL003 v3.3.1 clause 5.5.2.12a) of a MODIFY_INFO
// that a commit asked for: what it altered in the VnfInstance. vnf is that of after.
func ChangedInfo(before, after *desired.Instance, vnf VNF) json.RawMessage {
	p := map[string]any{}
	if before.VnfdID != after.VnfdID || before.Package != after.Package {
		p = versions(after, vnf)
	}
	if before.Name != after.Name {
		p["vnfInstanceName"] = after.Name
	}
	if before.Description != after.Description {
		p["vnfInstanceDescription"] = after.Description
	}
	keyValues(p, before, after)
	return encode(p)
}

// versions returns the attributes that identify the package of the instance.
func versions(inst *desired.Instance, vnf VNF) map[string]any {
	return map[string]any{
		"vnfdId": inst.VnfdID, "vnfProvider": vnf.Provider, "vnfProductName": vnf.ProductName,
		"vnfSoftwareVersion": vnf.SoftwareVersion, "vnfdVersion": vnf.VnfdVersion,
	}
}

// keyValues adds the attributes of free form that differ.
func keyValues(p map[string]any, before, after *desired.Instance) {
	for _, key := range desired.Changed(before, after) {
		switch key {
		case "metadata":
			p[key] = redact(after.Metadata)
		case "extensions":
			p[key] = redact(after.Extensions)
		case "vnfConfigurableProperties":
			p[key] = redact(after.ConfigurableProperties)
		}
	}
}
