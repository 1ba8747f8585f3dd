package kubernetes

import (
	"github.com/jibe-vnfm/jibe/drivers"
	"github.com/jibe-vnfm/jibe/drivers/kubernetes/manifest"
	"github.com/jibe-vnfm/jibe/plan"
)

// Workloads implements [drivers.Driver]: the workload of each VDU with the number of its
// pods, but for the annotations in
// which Jibe notes what it applied.
func (d *Driver) Workloads(r drivers.Rendering) map[string]any {
	form := formOf(r)
	if form == nil {
		return nil
	}
	names := secretNames(r.Source)
	all := make(map[string]any, len(form.Desired.Groups))
	for _, g := range form.Desired.Groups {
		obj, gk, err := sized(form, plan.Step{Object: g.Owner, To: g.Count})
		if err != nil {
			continue // a group's owner is among the objects
		}
		shown, _ := redact(names, gk, nil, obj.Object).(map[string]any)
		metadata, _ := shown["metadata"].(map[string]any)
		annotations, _ := metadata["annotations"].(map[string]any)
		delete(annotations, manifest.AnnotationDigest)
		delete(annotations, manifest.AnnotationImmutable)
		if len(annotations) == 0 {
			delete(metadata, "annotations")
		}
		all[g.VDU] = shown
	}
	return all
}
