package manifest

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/drivers"
)

// maker makes one instance's objects of manifests.
type maker struct {
	digestKey  []byte
	instance   string
	generation string
	namespace  string
	scopes     map[schema.GroupKind]bool
	accounts   map[string]bool
	autoscaled map[string]bool
	pods       []map[string]string // the labels of those that workloads make
	sets       map[string]string   // the names of StatefulSets, by those in the package
	granted    map[string]desired.GrantedVDU
}

func (r *Renderer) newMaker(in *desired.Instance, manifests []manifest, scopes map[schema.GroupKind]bool, namespace string, vdus map[*unstructured.Unstructured]*mapped) (*maker, error) {
	mk := &maker{
		digestKey: r.digestKey, instance: in.ID, generation: generationOf(in.Generation), namespace: namespace,
		scopes: scopes, accounts: serviceAccounts(manifests), autoscaled: autoscaled(manifests), sets: map[string]string{},
	}
	if in.Granted != nil {
		mk.granted = in.Granted.VDUs
	}
	for _, m := range manifests {
		if !runs(m.gk) {
			continue
		}
		obj, err := mk.object(m, m.obj, vdus[m.obj])
		if err != nil {
			return nil, err
		}
		mk.pods = append(mk.pods, PodLabels(obj, m.gk))
		if m.gk == KindStatefulSet {
			mk.sets[m.name] = obj.GetName()
		}
	}
	return mk, nil
}

// object is what the instance has of the manifest, whose object is from.
func (mk *maker) object(m manifest, from *unstructured.Unstructured, vdu *mapped) (*unstructured.Unstructured, error) {
	if InfoOf(m.gk).Posted {
		return mk.posted(m), nil
	}
	obj := from.DeepCopy()
	obj.SetNamespace(placeOf(m.gk, mk.scopes, mk.namespace))
	of := ""
	if vdu != nil {
		of = vdu.id
	}
	if err := label(obj, m.gk, mk.instance, of, mk.generation); err != nil {
		return nil, &drivers.RefusedError{Object: m.where, Reason: err.Error()}
	}
	moveSubjects(obj, m.gk, mk.namespace, mk.accounts)
	if m.gk == KindService {
		selectGeneration(obj, mk.pods, mk.sets, mk.generation)
	}
	if m.config != nil {
		config := map[string]string{AnnotationConfig: seal(mk.digestKey, mk.instance, m.config)}
		if err := merge(Template(obj, m.gk), config, "metadata", "annotations"); err != nil {
			return nil, &drivers.RefusedError{Object: m.where, Reason: err.Error()}
		}
	}
	if v, ok := mk.granted[of]; ok {
		if err := granted(obj, m.gk, of, m.name, v); err != nil {
			return nil, err
		}
	}
	// Else the VNFD or the autoscaler would not have the last word.
	if IsScalable(m.gk) && (vdu != nil || mk.autoscaled[m.gk.Kind+"/"+obj.GetName()]) {
		unstructured.RemoveNestedField(obj.Object, "spec", "replicas")
	}
	return obj, nil
}

// placeOf is the namespace of objects of the kind, "" for cluster-scoped ones.
func placeOf(gk schema.GroupKind, scopes map[schema.GroupKind]bool, namespace string) string {
	if cluster, known := scopes[gk]; known && !cluster || !known && !InfoOf(gk).Cluster {
		return namespace
	}
	return ""
}

// refuseDuplicates refuses manifests that would be one object.
func refuseDuplicates(manifests []manifest, scopes map[schema.GroupKind]bool, namespace string) error {
	where := make(map[string]string, len(manifests))
	for _, m := range manifests {
		key := Key(m.gk, placeOf(m.gk, scopes, namespace), m.name)
		if prior, twice := where[key]; twice {
			return &drivers.RefusedError{Object: m.where, Reason: fmt.Sprintf("%s stands already in %s", key, prior)}
		}
		where[key] = m.where
	}
	return nil
}
