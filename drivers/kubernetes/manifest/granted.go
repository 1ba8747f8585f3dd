package manifest

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/drivers"
	"github.com/jibe-vnfm/jibe/drivers/kubernetes/raw"
)

// zoneLabel is the label of nodes that says in which zone they are.
const zoneLabel = "topology.kubernetes.io/zone"

// granted has the workload's pods be as they were granted: in the zones, and of the image. What
// a cluster has no notion of is a [*drivers.RefusedError].
func granted(obj *unstructured.Unstructured, gk schema.GroupKind, vdu, workload string, v desired.GrantedVDU) error {
	refuse := func(format string, args ...any) error {
		return &drivers.RefusedError{Object: desired.GrantedFile, Reason: fmt.Sprintf("VDU %s: ", vdu) + fmt.Sprintf(format, args...)}
	}
	switch {
	case v.Flavour != "":
		return refuse("the compute flavour %s was granted, and pods have none: what they need stands in the package", v.Flavour)
	case v.Reservation != "":
		return refuse("the reservation %s was granted, and a cluster has no reservations", v.Reservation)
	}
	spec := podSpec(obj, gk)
	if spec == nil {
		return nil
	}
	if len(v.Zones) > 0 {
		zones := make([]any, len(v.Zones))
		for i, z := range v.Zones {
			zones[i] = z
		}
		if err := requireNodes(spec, map[string]any{"key": zoneLabel, "operator": "In", "values": zones}); err != nil {
			return refuse("its workload's affinity can't be read: %v", err)
		}
	}
	if v.Image == "" {
		return nil
	}
	c, ok := mainContainer(spec, vdu, workload)
	if !ok {
		return refuse("the image %s was granted, and it isn't clear which of the pod's containers it is for: call one of them %q, or %q", v.Image, vdu, workload)
	}
	c["image"] = v.Image
	return nil
}

// requireNodes adds a requirement to each of the alternatives that the pod has for its node.
func requireNodes(spec map[string]any, requirement map[string]any) error {
	path := []string{"affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms"}
	terms, _, err := unstructured.NestedSlice(spec, path...)
	if err != nil {
		return err
	}
	if len(terms) == 0 {
		terms = []any{map[string]any{}}
	}
	for _, t := range terms {
		term, ok := t.(map[string]any)
		if !ok {
			return fmt.Errorf("an entry of %s is no mapping", strings.Join(path, "."))
		}
		all, _ := term["matchExpressions"].([]any)
		term["matchExpressions"] = append(slices.Clone(all), requirement)
	}
	return unstructured.SetNestedSlice(spec, terms, path...)
}

// mainContainer is the container that runs the VDU's software: the only one, or the one that has
// the name of the VDU or of its workload.
func mainContainer(spec map[string]any, vdu, workload string) (map[string]any, bool) {
	all := raw.Maps(spec, "containers")
	if len(all) == 1 {
		return all[0], true
	}
	i := slices.IndexFunc(all, func(c map[string]any) bool {
		name := raw.String(c, "name")
		return strings.EqualFold(name, vdu) || name == workload
	})
	if i < 0 {
		return nil, false
	}
	return all[i], true
}
