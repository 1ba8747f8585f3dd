package manifest

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// A VNF that is stopped keeps everything but its pods: workloads are asked for none, and those
// that can't be asked go. Jobs run to their end, as what they do may not be cut short; those of
// a CronJob begin again with the VNF. What custom resources make is their operators' business.

// AnnotationState stands on workloads. It has the value "stopped" while the VNF is. An autoscaler lets
// a workload that has no pods rest.
const AnnotationState = Domain + "/state"

// endsWhenStopped says whether objects of the kind always have pods, so that a VNF that is
// stopped has none of them.
func endsWhenStopped(gk schema.GroupKind) bool { return gk == KindPod || gk == KindDaemonSet }

// stop makes of an object the one that stands while the VNF is stopped. How many pods a VDU's
// workload has is counted elsewhere.
func stop(u *unstructured.Unstructured, gk schema.GroupKind, isVDU bool) {
	spec, _ := u.Object["spec"].(map[string]any)
	if spec == nil {
		return
	}
	switch {
	case gk == kindCronJob:
		spec["suspend"] = true
	case IsScalable(gk) || gk == kindController:
		if !isVDU {
			spec["replicas"] = int64(0)
		}
		if policy, _ := spec["persistentVolumeClaimRetentionPolicy"].(map[string]any); policy["whenScaled"] == "Delete" {
			policy["whenScaled"] = "Retain" // the data of the pods that a start makes again
		}
	default:
		return
	}
	Annotate(u, AnnotationState, "stopped")
}
