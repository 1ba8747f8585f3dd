package watched

import (
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/jibe-vnfm/jibe/drivers/kubernetes/manifest"
	"github.com/jibe-vnfm/jibe/drivers/kubernetes/raw"
)

// setFact is what is kept of a StatefulSet in addition.
type setFact struct {
	// former names the template that all its pods had last.
	former string
	// partition is the number of its first pod that should have the present template; those
	// below keep the former one.
	partition int64
	// parallel reports whether its controller replaces pods without waiting for others.
	parallel bool
	// takesClaims reports whether its claims are deleted with it.
	takesClaims bool
}

func setFactOf(u *unstructured.Unstructured) setFact {
	s := setFact{parallel: raw.String(u.Object, "spec", "podManagementPolicy") == "Parallel" && !onDelete(u)}
	s.takesClaims = raw.String(u.Object, "spec", "persistentVolumeClaimRetentionPolicy", "whenDeleted") == "Delete" && len(raw.Maps(u.Object, "spec", "volumeClaimTemplates")) > 0
	s.former, _, _ = unstructured.NestedString(u.Object, "status", "currentRevision")

	kept, _, _ := unstructured.NestedInt64(u.Object, "spec", "updateStrategy", "rollingUpdate", "partition")
	first, _, _ := unstructured.NestedInt64(u.Object, "spec", "ordinals", "start")
	if kept > 0 {
		s.partition = first + kept
	}

	return s
}

// due names the template that the controller gives to the set's pod with this number.
func (f *Fact) due(ordinal int64) string {
	if ordinal < f.set.partition {
		return f.set.former
	}
	return f.revision
}

// blocks says of a pod of a StatefulSet why it must be deleted, "" where it needn't: it has
// another template than its successor would have, its controller waits until it is ready before
// it replaces any, and that never happens. A pod of the template that all had last may only be
// unready for a moment, and is left to the controller: unless its containers can't run, or it
// hadn't been ready before the set was changed, so that the change finds what it has to end.
func (v *view) blocks(f *Fact) string {
	set := v.byUID[f.controller.uid]
	if set == nil || set.GroupKind != manifest.KindStatefulSet || f.ready || f.Deleting || f.pod.finished {
		return ""
	}
	if set.unheeded || set.set.parallel || set.revision == "" || set.set.former == "" || f.pod.template == "" {
		return ""
	}

	ordinal, ok := ordinalOf(f.Name)
	if !ok || f.pod.template == set.due(ordinal) {
		return ""
	}

	// With OnDelete the controller never says which template all pods had last.
	abandoned := !set.manual && f.pod.template != set.set.former && f.pod.template != set.revision
	if !abandoned && f.failure == "" && f.pod.idle > set.written {
		return ""
	}

	return waitsInVain
}

// waitsInVain is why a pod has to be deleted.
const waitsInVain = "it has a former template and isn't ready, and its StatefulSet would wait for it before replacing it"

// ordinalOf is the number of a StatefulSet's pod.
func ordinalOf(pod string) (int64, bool) {
	n, err := strconv.ParseInt(pod[strings.LastIndexByte(pod, '-')+1:], 10, 64)
	return n, err == nil
}

// idleSince is since when a pod that isn't ready hasn't been, in seconds since 1970. One whose
// containers haven't all started never was.
func idleSince(u *unstructured.Unstructured) int64 {
	said := raw.String(condition(u, "Ready"), "lastTransitionTime")
	if at, err := time.Parse(time.RFC3339, said); err == nil && raw.String(u.Object, "status", "phase") != "Pending" {
		return at.Unix()
	}
	return u.GetCreationTimestamp().Unix()
}
