package manifest

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"

	"github.com/jibe-vnfm/jibe/drivers"
	"github.com/jibe-vnfm/jibe/drivers/kubernetes/raw"
)

// generationOf is the value of LabelGeneration for the instance.
func generationOf(named string) string {
	if named == "" {
		return firstGeneration
	}
	return named
}

// suffixed kinds exist once for each generation. All others are shared: both
// generations are behind one Service, and a Job isn't run again.
func suffixed(gk schema.GroupKind) bool {
	return runs(gk) || isMap(gk) || gk == KindAutoscaler
}

// generation is the manifests under the names that they have in the instance's
// generation, with the references to them. Their order stays.
func (r *Renderer) generation(src drivers.Source, manifests []manifest) ([]manifest, error) {
	named := src.Instance.Generation
	switch named {
	case "":
		return manifests, nil
	case firstGeneration:
		return nil, &drivers.RefusedError{Field: "generation", Reason: fmt.Sprintf("%q is what the first generation is called: leave the field out, or give another", named)}
	}
	return r.remembered(src, "generation "+named+"\x00"+PackageKey(src), func() ([]manifest, error) { return rename(manifests, named) })
}

// rename gives the suffixed kinds their names in the generation. kustomize knows
// where names are referred to; what it doesn't know of (custom resources) refers
// to nothing that is renamed.
func rename(manifests []manifest, generation string) ([]manifest, error) {
	renamed := slices.Clone(manifests)
	some := false
	var given []int
	var resources []any
	for i, m := range manifests {
		if suffixed(m.gk) {
			some = true
			if err := fits(m, m.name+"-"+generation, generation); err != nil {
				return nil, err
			}
		}
		switch info, known := Kinds[m.gk]; {
		case isRole(m.gk):
			renamed[i].obj = allowRenamed(m.obj, manifests, generation)
		case known && info.Class != ClassFirst && !info.Posted:
			obj := m.obj.DeepCopy()
			obj.SetNamespace("") // it has that of the instance, as all others have
			given, resources = append(given, i), append(resources, obj.Object)
		}
	}
	if !some {
		return renamed, nil
	}
	refuse := func(format string, args ...any) ([]manifest, error) {
		return nil, &drivers.RefusedError{Field: "generation", Reason: "the package's objects can't be named for it: " + fmt.Sprintf(format, args...)}
	}
	results, err := suffix(resources, generation)
	if err != nil {
		return refuse("%v", err)
	}
	if len(results) != len(given) {
		return refuse("%d objects became %d", len(given), len(results))
	}
	for n, i := range given {
		m, obj := manifests[i], results[n]
		want := m.name
		if suffixed(m.gk) {
			want += "-" + generation
		}
		if obj.GetKind() != m.gk.Kind || obj.GetName() != want {
			return refuse("%s became %s %s", m.id(), obj.GetKind(), obj.GetName())
		}
		obj.SetNamespace(m.obj.GetNamespace())
		renamed[i].obj = obj
		if m.gk == KindJob {
			renamed[i].written = m.obj
		}
	}
	return renamed, nil
}

// The longest names that the API server takes, and that a StatefulSet may have so
// that its pods' label with its name and a hash is none too long.
const (
	longestName        = 253
	longestStatefulSet = 52
)

// fits refuses a name that would be too long only because of its suffix.
func fits(m manifest, name, generation string) error {
	longest := longestName
	if m.gk == KindStatefulSet {
		longest = longestStatefulSet
	}
	if len(name) <= longest {
		return nil
	}
	return &drivers.RefusedError{Object: m.where, Reason: fmt.Sprintf(
		"%s would be called %s in generation %s, which has %d characters where %d may be: give it a shorter name in the package", m.id(), name, generation, len(name), longest)}
}

// suffix lets kustomize rename the objects, in memory. Their order stays.
func suffix(objects []any, generation string) ([]*unstructured.Unstructured, error) {
	// A list, in JSON, in which text stays text.
	content, err := json.Marshal(map[string]any{"apiVersion": "v1", "kind": "List", "items": objects})
	if err != nil {
		return nil, err
	}
	transformer, err := json.Marshal(map[string]any{
		"apiVersion": "builtin", "kind": "SuffixTransformer", "metadata": map[string]any{"name": "generation"},
		"suffix": "-" + generation, "fieldSpecs": suffixFields(),
	})
	if err != nil {
		return nil, err
	}
	references, err := json.Marshal(map[string]any{"nameReference": moreReferences()})
	if err != nil {
		return nil, err
	}
	files := filesys.MakeFsInMemory()
	for name, data := range map[string][]byte{
		"/objects.yaml": content, "/generation.yaml": transformer, "/references.yaml": references,
		"/kustomization.yaml": []byte("resources: [objects.yaml]\ntransformers: [generation.yaml]\nconfigurations: [references.yaml]\n"),
	} {
		if err := files.WriteFile(name, data); err != nil {
			return nil, err
		}
	}
	made, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(files, "/")
	if err != nil {
		return nil, err
	}
	var results []*unstructured.Unstructured
	for _, r := range made.Resources() {
		data, err := r.MarshalJSON()
		if err != nil {
			return nil, err
		}
		var object any
		if err := yamlToObject(data, &object); err != nil {
			return nil, err
		}
		m, ok := object.(map[string]any)
		if !ok {
			return nil, fmt.Errorf("an object became a %T", object)
		}
		results = append(results, &unstructured.Unstructured{Object: m})
	}
	return results, nil
}

// suffixFields are the names that get the suffix.
func suffixFields() []map[string]any {
	var fields []map[string]any
	for gk := range Kinds {
		if suffixed(gk) {
			fields = append(fields, map[string]any{"path": "metadata/name", "group": gk.Group, "kind": gk.Kind})
		}
	}
	return fields
}

// moreReferences are those that kustomize's own list leaves out.
func moreReferences() []map[string]any {
	var toMaps, toSecrets []map[string]any
	at := func(gk schema.GroupKind, path string) map[string]any {
		return map[string]any{"path": path, "group": gk.Group, "kind": gk.Kind}
	}
	for gk := range Kinds {
		steps := podPath(gk)
		if gk != KindPod && steps == nil {
			continue
		}
		spec := strings.Join(append(slices.Clone(steps), "spec/"), "/")
		every := []string{"ephemeralContainers"}
		if gk == kindController { // of which kustomize knows nothing
			every = []string{"initContainers", "containers", "ephemeralContainers"}
			toMaps = append(toMaps, at(gk, spec+"volumes/configMap/name"), at(gk, spec+"volumes/projected/sources/configMap/name"))
			toSecrets = append(toSecrets, at(gk, spec+"volumes/secret/secretName"), at(gk, spec+"volumes/projected/sources/secret/name"), at(gk, spec+"imagePullSecrets/name"))
		}
		for _, list := range every {
			toMaps = append(toMaps, at(gk, spec+list+"/env/valueFrom/configMapKeyRef/name"), at(gk, spec+list+"/envFrom/configMapRef/name"))
			toSecrets = append(toSecrets, at(gk, spec+list+"/env/valueFrom/secretKeyRef/name"), at(gk, spec+list+"/envFrom/secretRef/name"))
		}
		toSecrets = append(toSecrets, at(gk, spec+"volumes/csi/nodePublishSecretRef/name"), at(gk, spec+"volumes/azureFile/secretName"))
		for _, volume := range []string{"cephfs", "rbd", "flexVolume", "iscsi", "scaleIO", "storageos"} {
			toSecrets = append(toSecrets, at(gk, spec+"volumes/"+volume+"/secretRef/name"))
		}
	}
	toSecrets = append(toSecrets, at(schema.GroupKind{Group: GroupCore, Kind: "ServiceAccount"}, "secrets/name"))
	return []map[string]any{
		{"kind": KindConfigMap.Kind, "version": "v1", "fieldSpecs": toMaps},
		{"kind": kindSecret.Kind, "version": "v1", "fieldSpecs": toSecrets},
	}
}

func isRole(gk schema.GroupKind) bool {
	return gk.Group == GroupRBAC && (gk.Kind == "Role" || gk.Kind == "ClusterRole")
}

// allowRenamed lets a role that names objects name those of the generation too. It goes on
// naming those of the first, whose pods may still need them. kustomize would take
// an object of any resource for one that was renamed.
func allowRenamed(role *unstructured.Unstructured, manifests []manifest, generation string) *unstructured.Unstructured {
	role = role.DeepCopy()
	for _, rule := range raw.Maps(role.Object, "rules") {
		named := raw.Strings(rule, "resourceNames")
		resources := raw.Strings(rule, "resources")
		more := slices.Clone(named)
		for _, m := range manifests {
			renamed := m.name + "-" + generation
			covered := slices.Contains(resources, "*") || slices.ContainsFunc(resources, func(r string) bool {
				plural, _, _ := strings.Cut(r, "/")
				return plural == strings.ToLower(m.gk.Kind)+"s"
			})
			if suffixed(m.gk) && covered && slices.Contains(named, m.name) && !slices.Contains(more, renamed) {
				more = append(more, renamed)
			}
		}
		if len(more) > len(named) {
			rule["resourceNames"] = raw.List(more)
		}
	}
	return role
}
