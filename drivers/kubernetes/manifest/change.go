package manifest

import (
	"cmp"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/drivers"
	"github.com/jibe-vnfm/jibe/drivers/kubernetes/raw"
	"github.com/jibe-vnfm/jibe/plan"
)

// Change refuses a way from before to after on which pods would be lost, share what
// they can't share, or never get traffic again. An immutable selector, which only
// the API server knows, is left to Verify.
func (r *Renderer) Change(before, after drivers.Source) error {
	if after.VDUs == nil && !reflect.DeepEqual(before.Instance.ExtVirtualLinks, after.Instance.ExtVirtualLinks) {
		return &drivers.RefusedError{Field: "extVirtualLinks", Reason: "pods are on no networks that could be changed from outside: leave it as it was"}
	}
	was, err := r.Render(before)
	if err != nil {
		return fmt.Errorf("what runs: %w", err)
	}
	is, err := r.Render(after)
	if err != nil {
		return err
	}
	// In another generation, what a container update brings is built next to what runs: that is a blue-green change.
	if updatesContainers(before, after) && is.Desired.Generation == was.Desired.Generation {
		if err := is.keepsUnits(was); err != nil {
			return err
		}
		return is.keepsImmutable(was)
	}
	if is.Desired.Generation != was.Desired.Generation {
		if err := is.standsBeside(was, after.Instance); err != nil {
			return err
		}
	}
	return is.keepsTraffic(was)
}

// updatesContainers says whether after is before with container updates on top.
func updatesContainers(before, after drivers.Source) bool {
	was, is := before.Instance.Overlays, after.Instance.Overlays
	return len(is) > len(was) && before.Foundation().Tree == after.Foundation().Tree &&
		slices.EqualFunc(was, is[:len(was)], func(a, b desired.Overlay) bool {
			return a.Package == b.Package && slices.Equal(a.Paths, b.Paths)
		})
}

// keepsUnits refuses a container update whose VNFD has lost or renamed a VDU.
func (r *Form) keepsUnits(was *Form) error {
	for _, g := range was.Desired.Groups {
		if !slices.ContainsFunc(r.Desired.Groups, func(x plan.Group) bool { return x.VDU == g.VDU && x.Owner == g.Owner }) {
			return &drivers.RefusedError{Object: g.Owner, Reason: fmt.Sprintf(
				"is VDU %s and would be none in the new VNFD: a container update changes configuration and images alone; change the package instead", g.VDU)}
		}
	}
	return nil
}

// keepsImmutable refuses other content for a map that was declared immutable, and
// another type for a Secret.
func (r *Form) keepsImmutable(was *Form) error {
	for _, x := range was.Desired.Objects {
		old, next := was.Objects[x.Key], r.Objects[x.Key]
		if next == nil || !isMap(old.GroupVersionKind().GroupKind()) {
			continue
		}
		fixed, _, _ := unstructured.NestedBool(old.Object, "immutable")
		still, _, _ := unstructured.NestedBool(next.Object, "immutable")
		if fixed && (!still || !sameData(old, next)) {
			return &drivers.RefusedError{Object: x.Key, Reason: "is immutable, so its content can't change: give it another name in a change of package"}
		}
		if a, b := secretType(old), secretType(next); a != b {
			return &drivers.RefusedError{Object: x.Key, Reason: fmt.Sprintf("is of type %s, and can't become one of type %s", a, b)}
		}
	}
	return nil
}

// secretType is the type of a Secret as the API server stores it.
func secretType(u *unstructured.Unstructured) string {
	if u.GetKind() != kindSecret.Kind {
		return ""
	}
	return cmp.Or(raw.String(u.Object, "type"), "Opaque")
}

// standsBeside refuses what can't run in two generations at once.
func (r *Form) standsBeside(was *Form, in *desired.Instance) error {
	for _, x := range r.Desired.Objects {
		u := r.Objects[x.Key]
		gk := u.GroupVersionKind().GroupKind()
		if !suffixed(gk) {
			continue
		}
		if was.Objects[x.Key] != nil {
			return &drivers.RefusedError{Object: x.Key, Reason: fmt.Sprintf(
				"has this name in generation %s, which is that of an object that runs: give the generation another name", in.Generation)}
		}
		if why := r.alone(u, gk, in.Update.BarePods); why != "" {
			name := strings.TrimSuffix(u.GetName(), "-"+in.Generation)
			return &drivers.RefusedError{Object: Key(gk, u.GetNamespace(), name), Reason: why}
		}
	}
	return nil
}

// alone says why there can't be two of the workload side by side, and what to do;
// "" where there can.
func (r *Form) alone(u *unstructured.Unstructured, gk schema.GroupKind, barePods bool) string {
	const otherwise = ": change the package by a rolling update"
	switch {
	case gk == KindDaemonSet:
		return "is a DaemonSet, which would run twice on every node" + otherwise
	case gk == KindPod && !barePods:
		return "is a bare Pod, which nothing would make again if it failed while two generations stand" + otherwise + ", or allow it by update.barePods"
	case gk == KindStatefulSet && len(raw.Maps(u.Object, "spec", "volumeClaimTemplates")) > 0:
		return "is a StatefulSet with volumeClaimTemplates: another would begin with empty volumes, and the data would stay with the one that goes" + otherwise
	}
	spec := podSpec(u, gk)
	if host, _, _ := unstructured.NestedBool(spec, "hostNetwork"); host {
		return "uses hostNetwork, and two generations can't have the same ports of a node" + otherwise
	}
	for _, c := range podContainers(spec) {
		for _, port := range raw.Maps(c, "ports") {
			if n := raw.Int(port["hostPort"]); n > 0 {
				return fmt.Sprintf("uses hostPort %d, which two generations can't have on one node%s", n, otherwise)
			}
		}
	}
	for _, volume := range raw.Maps(spec, "volumes") {
		name := raw.String(volume, "persistentVolumeClaim", "claimName")
		claim := r.Objects[Key(KindClaim, u.GetNamespace(), name)]
		if name != "" && claim != nil && oneNode(claim) {
			return fmt.Sprintf("uses claim %s, which pods on two nodes can't have at once (%s)%s", name, strings.Join(accessModes(claim), ", "), otherwise)
		}
	}
	return ""
}

func accessModes(claim *unstructured.Unstructured) []string {
	spec, _ := claim.Object["spec"].(map[string]any)
	return raw.Strings(spec, "accessModes")
}

// oneNode says whether the claim's volume can be mounted on one node alone.
func oneNode(claim *unstructured.Unstructured) bool {
	return !slices.ContainsFunc(accessModes(claim), func(mode string) bool {
		return mode != "ReadWriteOnce" && mode != "ReadWriteOncePod"
	})
}

// keepsTraffic refuses a Service that would lose its pods.
func (r *Form) keepsTraffic(was *Form) error {
	for _, x := range was.Desired.Objects {
		old, next := was.Objects[x.Key], r.Objects[x.Key]
		if next == nil || !x.Directs || was.selected(old) == "" || len(Selector(next)) == 0 || r.selected(next) != "" {
			continue
		}
		asked := without(Selector(next), func(k, _ string) bool { return k == LabelInstance || k == LabelGeneration })
		var entries []string
		for _, k := range slices.Sorted(maps.Keys(asked)) {
			entries = append(entries, k+"="+asked[k])
		}
		return &drivers.RefusedError{Object: x.Key, Reason: fmt.Sprintf(
			"directs traffic to %s and would direct it to no pod of the new package, as none has %s: give the pods those labels, or let the Service select what they have",
			was.selected(old), strings.Join(entries, ", "))}
	}
	return nil
}

// selected is the workload, by key, to whose pods the Service directs traffic, "" where
// that is none.
func (r *Form) selected(service *unstructured.Unstructured) string {
	selector := Selector(service)
	for _, x := range r.Desired.Objects {
		u := r.Objects[x.Key]
		gk := u.GroupVersionKind().GroupKind()
		if runs(gk) && u.GetNamespace() == service.GetNamespace() && Selects(selector, PodLabels(u, gk)) {
			return x.Key
		}
	}
	return ""
}
