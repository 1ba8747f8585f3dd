package manifest

import (
	"encoding/base64"
	"fmt"
	"maps"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/json"
)

// yamlToObject decodes JSON with whole numbers as int64, as Kubernetes has them.
func yamlToObject(data []byte, into *any) error { return json.Unmarshal(data, into) }

// normalise takes out what an author can't mean (status, what only a server sets) and what the API server stores otherwise than it is written.
func normalise(u *unstructured.Unstructured, gk schema.GroupKind) {
	delete(u.Object, "status")
	for _, f := range []string{"creationTimestamp", "resourceVersion", "uid", "generation", "managedFields", "selfLink"} {
		unstructured.RemoveNestedField(u.Object, "metadata", f)
	}
	if plain, ok := u.Object["stringData"].(map[string]any); ok && gk.Kind == "Secret" && gk.Group == GroupCore {
		data, _ := u.Object["data"].(map[string]any)
		if data == nil {
			data = map[string]any{}
		}
		for k, v := range plain {
			s, ok := v.(string)
			if !ok {
				return // the API server says what is wrong with it
			}
			data[k] = base64.StdEncoding.EncodeToString([]byte(s))
		}
		u.Object["data"] = data
		delete(u.Object, "stringData")
	}
}

// label marks the object, its selector and what it makes as the instance's, and as
// the generation's where each generation has one of its own. Selectors in
// affinities, budgets and network policies keep their meaning.
func label(u *unstructured.Unstructured, gk schema.GroupKind, instance, vdu, generation string) error {
	if !suffixed(gk) {
		generation = firstGeneration // of what is shared, such as the pods of a Job
	}
	own := map[string]string{LabelInstance: instance}
	pods := map[string]string{LabelInstance: instance, LabelGeneration: generation}
	selector := maps.Clone(pods)
	if vdu != "" {
		own[LabelVDU] = vdu
		pods[LabelVDU] = vdu
	}
	if generation != firstGeneration {
		own[LabelGeneration] = generation
	}
	switch gk {
	case KindPod:
		own = pods
	case KindDeployment, KindReplicaSet, KindStatefulSet, KindDaemonSet:
		own[LabelGeneration] = generation
		// A workload without a selector is refused by the API server, in its words.
		if _, found, _ := unstructured.NestedMap(u.Object, "spec", "selector"); found {
			if err := merge(u.Object, selector, "spec", "selector", "matchLabels"); err != nil {
				return err
			}
		}
		if err := merge(u.Object, pods, "spec", "template", "metadata", "labels"); err != nil {
			return err
		}
	case kindController:
		if selected, _, _ := unstructured.NestedMap(u.Object, "spec", "selector"); len(selected) > 0 {
			if err := merge(u.Object, selector, "spec", "selector"); err != nil {
				return err
			}
		}
		if err := merge(u.Object, pods, "spec", "template", "metadata", "labels"); err != nil {
			return err
		}
	case KindJob:
		// A Job that cleans itself up would be missed, made again and run again.
		unstructured.RemoveNestedField(u.Object, "spec", "ttlSecondsAfterFinished")
		if err := merge(u.Object, pods, "spec", "template", "metadata", "labels"); err != nil {
			return err
		}
	case kindCronJob:
		if err := merge(u.Object, pods, "spec", "jobTemplate", "spec", "template", "metadata", "labels"); err != nil {
			return err
		}
	case KindService:
		// selectGeneration adds the generation, as it knows the workloads.
		if selected, _, _ := unstructured.NestedMap(u.Object, "spec", "selector"); len(selected) > 0 {
			if err := merge(u.Object, map[string]string{LabelInstance: instance}, "spec", "selector"); err != nil {
				return err
			}
		}
	}
	if gk == KindStatefulSet {
		if err := labelClaims(u, instance); err != nil {
			return err
		}
	}
	return merge(u.Object, own, "metadata", "labels")
}

// labelClaims marks the claims that a StatefulSet makes as the instance's.
func labelClaims(u *unstructured.Unstructured, instance string) error {
	templates, _, _ := unstructured.NestedFieldNoCopy(u.Object, "spec", "volumeClaimTemplates")
	list, _ := templates.([]any)
	for _, x := range list {
		if t, ok := x.(map[string]any); ok {
			if err := merge(t, map[string]string{LabelInstance: instance}, "metadata", "labels"); err != nil {
				return err
			}
		}
	}
	return nil
}

// merge sets the entries in the map at path, which it makes where it isn't.
func merge(object map[string]any, entries map[string]string, path ...string) error {
	at := object
	for i, field := range path {
		next, exists := at[field]
		m, ok := next.(map[string]any)
		switch {
		case !exists:
			m = map[string]any{}
			at[field] = m
		case !ok:
			return fmt.Errorf("%v must be a map", path[:i+1])
		}
		at = m
	}
	for k, v := range entries {
		at[k] = v
	}
	return nil
}

// Annotate sets an annotation of an object whose annotations are a map.
func Annotate(u *unstructured.Unstructured, key, value string) {
	// metadata.annotations was checked to be a map when the manifest was read.
	_ = merge(u.Object, map[string]string{key: value}, "metadata", "annotations")
}

// serviceAccounts are the names of those that the package makes.
func serviceAccounts(manifests []manifest) map[string]bool {
	names := map[string]bool{}
	for _, m := range manifests {
		if m.gk.Group == GroupCore && m.gk.Kind == "ServiceAccount" {
			names[m.obj.GetName()] = true
		}
	}
	return names
}

// moveSubjects makes bindings follow the package's ServiceAccounts into the
// instance's namespace.
func moveSubjects(u *unstructured.Unstructured, gk schema.GroupKind, namespace string, accounts map[string]bool) {
	if gk.Group != GroupRBAC || gk.Kind != "RoleBinding" && gk.Kind != "ClusterRoleBinding" {
		return
	}
	subjects, _ := u.Object["subjects"].([]any)
	for _, x := range subjects {
		s, _ := x.(map[string]any)
		name, _ := s["name"].(string)
		if s != nil && s["kind"] == "ServiceAccount" && (accounts[name] || s["namespace"] == nil) {
			s["namespace"] = namespace
		}
	}
}
