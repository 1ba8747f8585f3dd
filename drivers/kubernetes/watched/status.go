package watched

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/jibe-vnfm/jibe/drivers/kubernetes/manifest"
	"github.com/jibe-vnfm/jibe/drivers/kubernetes/raw"
)

// assess fills in whether the object is ready, and why not. kstatus
// knows workloads, definitions and what keeps the conventions of conditions; the
// kinds that it calls ready too early are looked at here.
//
// A failure is what doesn't get well by itself. Whatever may (a node that has no
// room, a volume that isn't there yet) is a reason, and ends by the deadline.
func assess(f *Fact, u *unstructured.Unstructured) {
	switch {
	case f.GroupKind == manifest.KindPod:
		assessPod(f, u)
		return
	case f.GroupKind == manifest.KindNamespace:
		phase, _, _ := unstructured.NestedString(u.Object, "status", "phase")
		f.ready, f.Reason = phase == "Active", "namespace is "+cmp.Or(phase, "new")
	case f.GroupKind == manifest.KindVolume:
		phase, _, _ := unstructured.NestedString(u.Object, "status", "phase")
		f.ready, f.Reason = phase == "Bound" || phase == "Available", "volume is "+cmp.Or(phase, "new")
		if phase == "Failed" {
			f.failure = "volume failed: " + raw.String(u.Object, "status", "message")
		}
	case f.GroupKind == manifest.KindClaim:
		phase, _, _ := unstructured.NestedString(u.Object, "status", "phase")
		f.ready, f.Reason = phase == "Bound", fmt.Sprintf("claim is %s, not bound to a volume", cmp.Or(phase, "new"))
		if phase == "Lost" {
			f.failure = "the claim's volume is lost"
		}
	case f.GroupKind.Group == manifest.GroupBatch && f.GroupKind.Kind == "Job":
		assessJob(f, u)
	case f.GroupKind.Group == "apiregistration.k8s.io":
		c := condition(u, "Available")
		f.ready, f.Reason = c["status"] != "False", raw.String(c, "message")
	default:
		assessByConvention(f, u)
	}
	assessFailures(f, u)
	if f.ready {
		f.Reason = ""
	}
}

func assessByConvention(f *Fact, u *unstructured.Unstructured) {
	if f.GroupKind == manifest.KindDaemonSet && onDelete(u) {
		// Somebody else replaces its pods, so that it is ready whatever template they have.
		// kstatus knows that of StatefulSets only.
		u = u.DeepCopy()
		if n, found, err := unstructured.NestedInt64(u.Object, "status", "desiredNumberScheduled"); found && err == nil {
			_ = unstructured.SetNestedField(u.Object, n, "status", "updatedNumberScheduled") // status is a map, as something was in it
		}
	}
	result, err := status.Compute(u)
	if err != nil {
		f.Reason = "its status can't be read: " + err.Error()
		return
	}
	f.ready, f.Reason = result.Status == status.CurrentStatus, result.Message
	if result.Status == status.FailedStatus {
		f.failure = cmp.Or(result.Message, "failed")
	}
}

// assessJob asks for success where kstatus is content with a start.
func assessJob(f *Fact, u *unstructured.Unstructured) {
	if c := condition(u, "Failed"); c["status"] == "True" {
		f.Reason = fmt.Sprintf("job failed: %s", raw.String(c, "message"))
		f.failure = f.Reason
		return
	}
	done := condition(u, "Complete")
	suspended, _, _ := unstructured.NestedBool(u.Object, "spec", "suspend")
	parallel, given, _ := unstructured.NestedInt64(u.Object, "spec", "parallelism")
	suspended = suspended || given && parallel == 0
	f.ready, f.Reason = done["status"] == "True" || suspended, "job hasn't completed yet"
}

// assessFailures reads what workload controllers say of pods that they couldn't
// make at all: there is no pod that could say so.
func assessFailures(f *Fact, u *unstructured.Unstructured) {
	if !manifest.IsVDUKind(f.GroupKind) || f.ready {
		return
	}
	observed, _, _ := unstructured.NestedInt64(u.Object, "status", "observedGeneration")
	if observed < u.GetGeneration() {
		return // what the status says is of what was wanted before
	}
	if c := condition(u, "Progressing"); c["reason"] == "ProgressDeadlineExceeded" {
		f.failure = fmt.Sprintf("gave up waiting for its pods (ProgressDeadlineExceeded): %s", raw.String(c, "message"))
		f.Reason = f.failure
	}
	if c := condition(u, "ReplicaFailure"); c["status"] == "True" && short(f, u) {
		// "pods "a" is forbidden: exceeded quota: …": what the API server said.
		f.failure = fmt.Sprintf("its pods can't be created: %s", raw.String(c, "message"))
		f.Reason = f.failure
	}
}

// short says whether a workload has fewer pods of its present template than it should. A pod that
// couldn't be made for want of quota is no longer missed where the size was taken back since,
// and a busy controller says for seconds yet that it couldn't.
func short(f *Fact, u *unstructured.Unstructured) bool {
	field := "replicas"
	if f.GroupKind == manifest.KindDeployment {
		field = "updatedReplicas"
	}
	has, _, _ := unstructured.NestedInt64(u.Object, "status", field)
	return has < int64(f.Count)
}

func assessPod(f *Fact, u *unstructured.Unstructured) {
	phase := raw.String(u.Object, "status", "phase")
	ready := condition(u, "Ready")
	switch phase {
	case "Succeeded":
		f.ready = true
	case "Failed":
		why := cmp.Or(raw.String(u.Object, "status", "reason"), exits(u), "it gives no reason")
		if m := raw.String(u.Object, "status", "message"); m != "" {
			why += ": " + m
		}
		f.Reason = "pod failed: " + why
		if f.controller.uid == "" {
			f.failure, f.Dead = f.Reason, true // nothing replaces it
		}
	default:
		f.ready = phase == "Running" && ready["status"] == "True"
		if f.ready && f.controller.uid == "" && unheeded(u) {
			// Only a Pod that no workload owns is changed while it runs.
			f.ready, f.Reason = false, "its node hasn't taken note of its change yet"
			return
		}
		if f.ready {
			return
		}
		f.Reason, f.failure = containers(u)
		if c := condition(u, "PodScheduled"); f.Reason == "" && c["status"] == "False" {
			f.Reason = fmt.Sprintf("no node for it (%s): %s", raw.String(c, "reason"), raw.String(c, "message"))
		}
		f.Reason = cmp.Or(f.Reason, raw.String(ready, "message"), "pod is "+cmp.Or(phase, "new"))
	}
}

// unheeded says whether the status is of what was wanted before. A kubelet that
// doesn't write of which generation it is is believed.
func unheeded(u *unstructured.Unstructured) bool {
	observed, given, err := unstructured.NestedInt64(u.Object, "status", "observedGeneration")
	return given && err == nil && observed < u.GetGeneration()
}

// hopeless are the reasons for which a container waits in vain until someone
// changes something.
func hopeless(reason string) bool {
	return slices.Contains([]string{
		"ImagePullBackOff", "ErrImagePull", "InvalidImageName", "ErrImageNeverPull", "ImageInspectError",
		"CrashLoopBackOff", "CreateContainerConfigError", "CreateContainerError", "RunContainerError",
	}, reason)
}

// containers says what the first container that doesn't run waits for.
func containers(u *unstructured.Unstructured) (reason, failure string) {
	for _, list := range []string{"initContainerStatuses", "containerStatuses"} {
		for _, c := range raw.Maps(u.Object, "status", list) {
			name := raw.String(c, "name")
			waiting := raw.String(c, "state", "waiting", "reason")
			message := raw.String(c, "state", "waiting", "message")
			said := fmt.Sprintf("container %s: %s", name, waiting)
			if message != "" {
				said += ": " + message
			}
			switch {
			case hopeless(waiting):
				if code, found, _ := unstructured.NestedInt64(c, "lastState", "terminated", "exitCode"); found {
					said += fmt.Sprintf(" (exit code %d)", code)
				}
				return said, said
			case waiting != "" && waiting != "ContainerCreating" && waiting != "PodInitializing":
				reason = cmp.Or(reason, said)
			}
			if code, found, _ := unstructured.NestedInt64(c, "state", "terminated", "exitCode"); found && code != 0 {
				reason = cmp.Or(reason, fmt.Sprintf("container %s ended with exit code %d", name, code))
			}
		}
	}
	return reason, ""
}

func exits(u *unstructured.Unstructured) string {
	for _, c := range raw.Maps(u.Object, "status", "containerStatuses") {
		if code, found, _ := unstructured.NestedInt64(c, "state", "terminated", "exitCode"); found && code != 0 {
			return fmt.Sprintf("container %s ended with exit code %d", raw.String(c, "name"), code)
		}
	}
	return ""
}

func podFactOf(u *unstructured.Unstructured) *podFact {
	phase := raw.String(u.Object, "status", "phase")
	p := &podFact{
		node: raw.String(u.Object, "spec", "nodeName"), ip: raw.String(u.Object, "status", "podIP"),
		created: u.GetCreationTimestamp().UTC(),
		images:  imagesOf(u.Object, "spec"), config: shared(u.GetAnnotations()[manifest.AnnotationConfig]),
		finished: phase == "Succeeded" || phase == "Failed",
		template: u.GetLabels()["controller-revision-hash"],
		revision: u.GetLabels()["pod-template-generation"],
	}
	if condition(u, "Ready")["status"] != "True" {
		p.idle = idleSince(u)
	}
	if seconds := u.GetDeletionGracePeriodSeconds(); seconds != nil {
		p.grace = int(*seconds)
	}
	if p.waiting = p.node == "" && !p.finished; p.waiting {
		for _, v := range raw.Maps(u.Object, "spec", "volumes") {
			if claim := raw.String(v, "persistentVolumeClaim", "claimName"); claim != "" {
				p.claims = append(p.claims, claim)
			}
		}
	}
	return p
}

func condition(u *unstructured.Unstructured, kind string) map[string]any {
	for _, c := range raw.Maps(u.Object, "status", "conditions") {
		if c["type"] == kind {
			return c
		}
	}
	return nil
}

// TopLevel says whether Jibe applied the object, and not a controller on its
// account: controllers copy labels and annotations to what they make.
func (f *Fact) TopLevel() bool {
	return (f.Digest != "" || f.Fields.Value() != "") && f.controller.uid == "" && f.leftBy == ""
}

// claimOfSet says whether the object is a claim that a StatefulSet made. It has
// an owner where the set's retention policy wants it to go with the set or a pod.
func (f *Fact) claimOfSet() bool {
	return f.GroupKind == manifest.KindClaim && f.Digest == "" && slices.Contains([]string{"", "StatefulSet", "Pod"}, f.controller.kind)
}
