package kubernetes

import (
	"maps"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var (
	kindSecret     = schema.GroupKind{Group: core, Kind: "Secret"}
	kindController = schema.GroupKind{Group: core, Kind: "ReplicationController"}
	kindCronJob    = schema.GroupKind{Group: batch, Kind: "CronJob"}
)

// isMap says whether objects of the kind are configuration that pods use.
func isMap(gk schema.GroupKind) bool { return gk == kindConfigMap || gk == kindSecret }

// runs says whether objects of the kind make pods that are to run on and on, so
// that what they are made of can change under them.
func runs(gk schema.GroupKind) bool { return vduKind(gk) || gk == kindController }

// templateOf is what describes the object's pods: metadata and spec. nil where the
// object makes none.
func templateOf(u *unstructured.Unstructured, gk schema.GroupKind) map[string]any {
	var at any = u.Object
	for _, field := range podPath(gk) {
		m, _ := at.(map[string]any)
		at = m[field]
	}
	pod, _ := at.(map[string]any)
	if gk != kindPod && podPath(gk) == nil {
		return nil
	}
	return pod
}

// podPath is where templateOf looks.
func podPath(gk schema.GroupKind) []string {
	switch {
	case runs(gk) && gk != kindPod, gk == kindJob:
		return []string{"spec", "template"}
	case gk == kindCronJob:
		return []string{"spec", "jobTemplate", "spec", "template"}
	}
	return nil
}

// podLabels are the labels of the object's pods; nil where it makes none.
func podLabels(u *unstructured.Unstructured, gk schema.GroupKind) map[string]string {
	labels, _, _ := unstructured.NestedStringMap(templateOf(u, gk), "metadata", "labels")
	return labels
}

// podSpec is the spec of the object's pods, empty where there is none.
func podSpec(u *unstructured.Unstructured, gk schema.GroupKind) map[string]any {
	spec, _ := templateOf(u, gk)["spec"].(map[string]any)
	return spec
}

// podContainers are those of the pod, of every sort.
func podContainers(spec map[string]any) []map[string]any {
	var all []map[string]any
	for _, field := range []string{"initContainers", "containers", "ephemeralContainers"} {
		all = append(all, mapsAt(spec, field)...)
	}
	return all
}

// uses are the ConfigMaps and Secrets whose content reaches the pods' containers.
func uses(spec map[string]any) map[id]bool {
	used := map[id]bool{}
	use := func(gk schema.GroupKind, user map[string]any, path ...string) {
		if name := str(user, path...); name != "" {
			used[id{gk, name}] = true
		}
	}
	for _, c := range podContainers(spec) {
		for _, from := range mapsAt(c, "envFrom") {
			use(kindConfigMap, from, "configMapRef", "name")
			use(kindSecret, from, "secretRef", "name")
		}
		for _, env := range mapsAt(c, "env") {
			use(kindConfigMap, env, "valueFrom", "configMapKeyRef", "name")
			use(kindSecret, env, "valueFrom", "secretKeyRef", "name")
		}
	}
	for _, volume := range mapsAt(spec, "volumes") {
		use(kindConfigMap, volume, "configMap", "name")
		use(kindSecret, volume, "secret", "secretName")
		for _, source := range mapsAt(volume, "projected", "sources") {
			use(kindConfigMap, source, "configMap", "name")
			use(kindSecret, source, "secret", "name")
		}
	}
	return used
}

// selects says whether the selector, which isn't empty, matches the labels.
func selects(selector, labels map[string]string) bool {
	for k, v := range selector {
		if have, ok := labels[k]; !ok || have != v {
			return false
		}
	}
	return len(selector) > 0
}

// without is the map without what drop says.
func without[K comparable, V any](m map[K]V, drop func(K, V) bool) map[K]V {
	rest := maps.Clone(m)
	maps.DeleteFunc(rest, drop)
	return rest
}
