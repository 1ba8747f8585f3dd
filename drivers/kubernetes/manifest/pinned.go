package manifest

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/jibe-vnfm/jibe/drivers"
	"github.com/jibe-vnfm/jibe/drivers/kubernetes/raw"
	"github.com/jibe-vnfm/jibe/vnfd"
)

// pinned puts, in the place of the workloads of VDUs that are pinned to other packages, what
// these packages have: the workload, and the objects that concern no other VDU. An object
// that concerns another one too must be the same in both packages: there is one of it, and
// neither content would be right for both.
func pinned(src drivers.Source, all []manifest) ([]manifest, error) {
	if len(src.Pinned) == 0 {
		return all, nil
	}
	mix := &mixture{all: slices.Clone(all), from: map[id]string{}}
	var parts []part
	for _, vdu := range slices.Sorted(maps.Keys(src.Pinned)) {
		if !src.Runs(vdu) {
			continue
		}
		p, err := mix.exchange(src, vdu)
		if err != nil {
			return nil, err
		}
		parts = append(parts, p)
	}
	for _, p := range parts {
		if err := mix.keep(p); err != nil {
			return nil, err
		}
	}
	for _, p := range parts {
		if err := mix.settle(p); err != nil {
			return nil, err
		}
	}
	return mix.all, nil
}

// mixture is the manifests of one package with workloads of others among them.
type mixture struct {
	all []manifest
	// from is the tree of the package from which an object is, where that is a pin's.
	from map[id]string
}

// part is one VDU that is pinned.
type part struct {
	vdu  string
	tree string
	// old are the manifests of the package that it is pinned to; was and would are its
	// workload there, and in the package of the instance.
	old        []manifest
	was, would manifest
}

// exchange puts the workload of the VDU in the place of the one that the instance's package
// has.
func (x *mixture) exchange(src drivers.Source, vdu string) (part, error) {
	pin := src.Pinned[vdu]
	p := part{vdu: vdu, tree: pin.Package.Tree}
	refuse := func(format string, args ...any) (part, error) {
		return p, p.refused("", format, args...)
	}
	flavour, err := flavourOf(src)
	if err != nil {
		return p, err
	}
	is := vduOf(flavour, func(v vnfd.VDU) bool { return v.ID == vdu })
	if is == nil {
		return refuse("VNFD %s has no such VDU", src.Package.VNFD.ID)
	}
	former, ok := pin.Package.VNFD.Flavour(flavour.ID)
	if !ok {
		return refuse("VNFD %s, which it stays with, has no flavour %s", pin.Package.VNFD.ID, flavour.ID)
	}
	of := targetOf(src.Instance, is)
	was := vduOf(former, func(v vnfd.VDU) bool { return v.ID == vdu })
	if was == nil || targetOf(src.Instance, was) != of {
		return refuse("it is no %s in VNFD %s, which it stays with", of, pin.Package.VNFD.ID)
	}
	params := map[string]any{}
	if pin.Files != nil {
		params[paramFiles] = pin.Files
	}
	files, err := definitionFiles(params, pin.Package)
	if err != nil {
		return refuse("%v", err)
	}
	if p.old, err = readManifests(pin.Package, files); err != nil {
		return p, err
	}
	for i := range p.old {
		p.old[i].where += " of package " + p.tree
	}
	here, there := workloads(x.all, of), workloads(p.old, of)
	if len(here) != 1 || len(there) != 1 {
		return refuse("each of the two packages must have one %s, and they have %d and %d", of, len(there), len(here))
	}
	p.was, p.would = p.old[there[0]], x.all[here[0]]
	x.all[here[0]] = p.was
	x.from[p.was.id()] = p.tree
	return p, nil
}

// workloads are the indexes of the workloads that are meant.
func workloads(all []manifest, of target) []int {
	var at []int
	for i, m := range all {
		if of.isWorkload(m) {
			at = append(at, i)
		}
	}
	return at
}

// keep has the objects that concern the pinned workload as its own package has them.
func (x *mixture) keep(p part) error {
	for _, o := range p.old {
		if !concerns(o, p.was) {
			continue
		}
		at := slices.IndexFunc(x.all, func(m manifest) bool { return m.id() == o.id() })
		if at >= 0 && sameObject(x.all[at], o) {
			continue
		}
		if other := x.other(p, o); other != "" {
			return p.refused(other, "%s concerns %s too, and isn't the same in the two packages", o.id(), other)
		}
		if at < 0 {
			x.all = append(x.all, o)
		} else {
			if other := x.other(p, x.all[at]); other != "" {
				return p.refused(other, "%s would concern %s too, and isn't the same in the two packages", o.id(), other)
			}
			x.all[at] = o
		}
		x.from[o.id()] = p.tree
	}
	return nil
}

// settle takes out what only the other definition of the pinned workload needed, and refuses
// what would concern the workload although its own package has it not, or otherwise.
func (x *mixture) settle(p part) error {
	x.all = slices.DeleteFunc(slices.Clone(x.all), func(m manifest) bool {
		return concerns(m, p.would) && x.from[m.id()] == "" && !contains(p.old, m.id()) &&
			!slices.ContainsFunc(x.all, func(w manifest) bool { return hasPods(w) && w.id() != p.was.id() && concerns(m, w) })
	})
	for _, m := range x.all {
		if !concerns(m, p.was) {
			continue
		}
		at := slices.IndexFunc(p.old, func(o manifest) bool { return o.id() == m.id() })
		if at < 0 || !sameObject(p.old[at], m) {
			return p.refused("", "%s of the new package would concern it, and is another or none in the package that it stays with", m.id())
		}
	}
	return nil
}

// other is a workload beside the part's own that the object concerns and that isn't of the
// same package as the part; "" where there is none.
func (x *mixture) other(p part, o manifest) string {
	for _, w := range x.all {
		if hasPods(w) && x.from[w.id()] != p.tree && concerns(o, w) {
			return w.id().String()
		}
	}
	return ""
}

// hasPods says whether the object makes pods, which run on or come to their end.
func hasPods(m manifest) bool { return runs(m.gk) || m.gk == KindJob || m.gk == kindCronJob }

func contains(all []manifest, want id) bool {
	return slices.ContainsFunc(all, func(m manifest) bool { return m.id() == want })
}

func sameObject(a, b manifest) bool { return equality.Semantic.DeepEqual(a.obj.Object, b.obj.Object) }

// refused says why the VDU can't stay as it is while others change, and what to do.
func (p part) refused(with, format string, args ...any) error {
	too := "all VDUs that change"
	if with != "" {
		too = "the VDU of " + with + " and this one together"
	}
	return &drivers.RefusedError{Field: "vdus." + p.vdu, Reason: fmt.Sprintf(
		"VDU %s can't stay with its package while others change: ", p.vdu) + fmt.Sprintf(format, args...) +
		": change " + too + " (vdu_params, update.vdus), or name none to change all"}
}

// concerns says whether the object is one that the workload's pods use, scales the workload,
// or selects its pods.
func concerns(o, workload manifest) bool {
	if o.gk == KindAutoscaler {
		return scaledBy(o) == workload.gk.Kind+"/"+workload.name
	}
	if pods := PodLabels(workload.obj, workload.gk); selectsPods(o, workload, pods) {
		return true
	}
	return needs(podSpec(workload.obj, workload.gk))[o.id()]
}

// needs are the objects that the pods can't start without: configuration, claims and the
// account that they run as.
func needs(spec map[string]any) map[id]bool {
	needed := uses(spec)
	for _, volume := range raw.Maps(spec, "volumes") {
		use(needed, KindClaim, volume, "persistentVolumeClaim", "claimName")
	}
	use(needed, kindAccount, spec, "serviceAccountName")
	for _, secret := range raw.Maps(spec, "imagePullSecrets") {
		use(needed, kindSecret, secret, "name")
	}
	return needed
}

// selectsPods says whether a Service, a budget or a network policy is about the workload's
// pods.
func selectsPods(o, workload manifest, pods map[string]string) bool {
	if pods == nil {
		return false
	}
	switch o.gk {
	case KindService:
		selector := Selector(o.obj)
		if pod, named := selector[LabelPodName]; named && !strings.HasPrefix(pod, workload.name+"-") {
			return false
		}
		return Selects(without(selector, func(k, _ string) bool { return k == LabelPodName || k == LabelPodIndex }), pods) ||
			selector[LabelPodName] != "" && len(selector) == 1
	case kindBudget:
		return matches(o, pods, "selector")
	case kindPolicy:
		return matches(o, pods, "podSelector")
	}
	return false
}

// matches evaluates the label selector in the spec's field. One that can't be read, which
// the API server refuses in its words, matches nothing.
func matches(o manifest, pods map[string]string, field string) bool {
	spec, _ := o.obj.Object["spec"].(map[string]any)
	content, _ := spec[field].(map[string]any)
	var written metav1.LabelSelector
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(content, &written); err != nil {
		return false
	}
	selector, err := metav1.LabelSelectorAsSelector(&written)
	return err == nil && selector.Matches(labels.Set(pods))
}
