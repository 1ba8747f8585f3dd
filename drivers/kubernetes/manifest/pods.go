package manifest

import (
	"maps"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/jibe-vnfm/jibe/drivers/kubernetes/raw"
)

// isMap says whether objects of the kind are configuration that pods use.
func isMap(gk schema.GroupKind) bool { return gk == KindConfigMap || gk == kindSecret }

// runs says whether objects of the kind make pods that are to run on and on, so
// that what they are made of can change under them.
func runs(gk schema.GroupKind) bool { return IsVDUKind(gk) || gk == kindController }

// Template is what describes the object's pods: metadata and spec. nil where the
// object makes none.
func Template(u *unstructured.Unstructured, gk schema.GroupKind) map[string]any {
	var at any = u.Object
	for _, field := range podPath(gk) {
		m, _ := at.(map[string]any)
		at = m[field]
	}
	pod, _ := at.(map[string]any)
	if gk != KindPod && podPath(gk) == nil {
		return nil
	}
	return pod
}

// MakesPods reports whether objects of the kind make pods, themselves or by what they make.
func MakesPods(gk schema.GroupKind) bool { return podPath(gk) != nil }

// podPath is where [Template] looks.
func podPath(gk schema.GroupKind) []string {
	switch {
	case runs(gk) && gk != KindPod, gk == KindJob:
		return []string{"spec", "template"}
	case gk == kindCronJob:
		return []string{"spec", "jobTemplate", "spec", "template"}
	}
	return nil
}

// PodLabels are the labels of the object's pods; nil where it makes none.
func PodLabels(u *unstructured.Unstructured, gk schema.GroupKind) map[string]string {
	labels, _, _ := unstructured.NestedStringMap(Template(u, gk), "metadata", "labels")
	return labels
}

// podSpec is the spec of the object's pods, empty where there is none.
func podSpec(u *unstructured.Unstructured, gk schema.GroupKind) map[string]any {
	spec, _ := Template(u, gk)["spec"].(map[string]any)
	return spec
}

// podContainers are those of the pod, of every sort.
func podContainers(spec map[string]any) []map[string]any {
	var all []map[string]any
	for _, field := range []string{"initContainers", "containers", "ephemeralContainers"} {
		all = append(all, raw.Maps(spec, field)...)
	}
	return all
}

// restarts says whether the pod's container is started again when its image changes:
// those that run once before the others aren't.
func restarts(spec, container map[string]any) bool {
	for _, c := range raw.Maps(spec, "initContainers") {
		if raw.String(c, "name") == raw.String(container, "name") {
			return raw.String(c, "restartPolicy") == "Always"
		}
	}
	return true
}

// uses are the ConfigMaps and Secrets whose content reaches the pods' containers.
func uses(spec map[string]any) map[id]bool {
	used := map[id]bool{}
	for _, c := range podContainers(spec) {
		useEnvironment(c, used)
	}
	for _, volume := range raw.Maps(spec, "volumes") {
		useVolume(volume, used)
	}
	return used
}

// containerUses are those that reach the container: a volume does where it is mounted.
func containerUses(spec, container map[string]any) map[id]bool {
	used := map[id]bool{}
	useEnvironment(container, used)
	for _, mount := range raw.Maps(container, "volumeMounts") {
		for _, volume := range raw.Maps(spec, "volumes") {
			if raw.String(volume, "name") == raw.String(mount, "name") {
				useVolume(volume, used)
			}
		}
	}
	return used
}

func useEnvironment(container map[string]any, used map[id]bool) {
	for _, from := range raw.Maps(container, "envFrom") {
		use(used, KindConfigMap, from, "configMapRef", "name")
		use(used, kindSecret, from, "secretRef", "name")
	}
	for _, env := range raw.Maps(container, "env") {
		use(used, KindConfigMap, env, "valueFrom", "configMapKeyRef", "name")
		use(used, kindSecret, env, "valueFrom", "secretKeyRef", "name")
	}
}

func useVolume(volume map[string]any, used map[id]bool) {
	use(used, KindConfigMap, volume, "configMap", "name")
	use(used, kindSecret, volume, "secret", "secretName")
	for _, source := range raw.Maps(volume, "projected", "sources") {
		use(used, KindConfigMap, source, "configMap", "name")
		use(used, kindSecret, source, "secret", "name")
	}
}

// use notes the object that is named at the path, if one is.
func use(used map[id]bool, gk schema.GroupKind, user map[string]any, path ...string) {
	if name := raw.String(user, path...); name != "" {
		used[id{gk, name}] = true
	}
}

// Selects says whether the selector, which isn't empty, matches the labels.
func Selects(selector, labels map[string]string) bool {
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
