package manifest

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/drivers"
	"github.com/jibe-vnfm/jibe/vnfd"
)

// ParamMapping is the parameter of an instance that names the workloads of VDUs which the manifests call otherwise than
// the VNFD does: {VDU1: {kind: Deployment, name: web}}.
const ParamMapping = "vdu_mapping"

// target is the object whose pods are the VNFCs of a VDU.
type target struct {
	kind   string // "" is any kind of workload
	name   string
	mapped bool // the instance names it, and not the VNFD
	// wrong is why the instance's mapping can't be read.
	wrong string
}

// targetOf returns the object that the instance's mapping names, else the workload that has the name of the VDU.
func targetOf(in *desired.Instance, vdu *vnfd.VDU) target {
	byName := target{name: vdu.Name}
	mapping, ok := in.Params[ParamMapping]
	if !ok {
		return byName
	}
	vdus, ok := mapping.(map[string]any)
	if !ok {
		byName.wrong = "params." + ParamMapping + " must map VDU ids to objects"
		return byName
	}
	entry, ok := vdus[vdu.ID]
	if !ok {
		return byName
	}

	fields, _ := entry.(map[string]any)
	name, _ := fields["name"].(string)
	kind, isKind := fields["kind"].(string)
	if _, has := fields["kind"]; name == "" || has && !isKind {
		byName.wrong = fmt.Sprintf("params.%s.%s must have the name and kind of an object of the manifests", ParamMapping, vdu.ID)
		return byName
	}

	return target{kind: kind, name: name, mapped: true}
}

// is reports whether the manifest is of the object.
func (t target) is(m manifest) bool { return m.name == t.name && (t.kind == "" || t.kind == m.gk.Kind) }

// isWorkload reports whether the manifest is of the object, and of a kind whose pods are VNFCs.
func (t target) isWorkload(m manifest) bool { return IsVDUKind(m.gk) && t.is(m) }

// String is the object in the text of an error, without an article.
func (t target) String() string {
	called := cmp.Or(t.kind, "workload") + " called " + t.name
	if t.mapped {
		return called + ", which params." + ParamMapping + " names"
	}

	return called
}

// unmatched says why the VDU has no workload.
func (t target) unmatched(vdu *vnfd.VDU, manifests []manifest) drivers.UnmatchedVDU {
	u := drivers.UnmatchedVDU{VDU: vdu.ID}
	switch {
	case t.wrong != "":
		u.Reason = t.wrong
	case t.kind != "" && slices.ContainsFunc(manifests, t.is):
		u.External = true
		u.Reason = fmt.Sprintf("%s %s makes the pods of VDU %s, so that it, and not a scale level, says how many there are", t.kind, t.name, vdu.ID)
	default:
		u.Reason = fmt.Sprintf("no Pod, Deployment, ReplicaSet, StatefulSet or DaemonSet of the manifests has the name %q, so that nothing would run of VDU %s: list its manifest in params.%s, or name its workload by params.%s: {%s: {kind: Deployment, name: ...}}",
			t.name, vdu.ID, paramFiles, ParamMapping, vdu.ID)
	}
	return u
}

// unknownVDUs lists what the instance maps of which the flavour has no VDU.
func unknownVDUs(in *desired.Instance, flavour *vnfd.Flavour) (unknown []drivers.UnmatchedVDU) {
	vdus, _ := in.Params[ParamMapping].(map[string]any)
	for _, id := range slices.Sorted(maps.Keys(vdus)) {
		if !slices.ContainsFunc(flavour.VDUs, func(v vnfd.VDU) bool { return v.ID == id }) {
			unknown = append(unknown, drivers.UnmatchedVDU{VDU: id, Reason: fmt.Sprintf("params.%s names VDU %s, of which flavour %s knows nothing", ParamMapping, id, flavour.ID)})
		}
	}
	return unknown
}
