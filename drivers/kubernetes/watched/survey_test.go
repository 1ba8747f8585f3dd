package watched

import (
	"log/slog"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/jibe-vnfm/jibe/drivers/kubernetes/manifest"
)

// noKinds is the mapper of an API server that serves nothing.
type noKinds struct{}

func (noKinds) Find(gk schema.GroupKind, _ ...string) (*meta.RESTMapping, error) {
	return nil, &meta.NoKindMatchError{GroupKind: gk}
}

func (m noKinds) Renew(gk schema.GroupKind) (*meta.RESTMapping, error) { return m.Find(gk) }

// applied is an object of the instance that an installation applied, "" for none that is named.
func applied(kind, instance, installation string, fields map[string]any) *unstructured.Unstructured {
	labels := map[string]any{manifest.LabelInstance: instance}
	if installation != "" {
		labels[manifest.LabelInstallation] = installation
	}
	u := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": kind,
		"metadata": map[string]any{
			"name": "of-" + instance, "namespace": "ns", "uid": kind + instance, "resourceVersion": "8", "creationTimestamp": "2026-05-04T03:02:01Z",
			"labels": labels, "annotations": map[string]any{manifest.AnnotationDigest: "d"},
		},
	}}
	for name, value := range fields {
		u.Object[name] = value
	}
	return u
}

func TestASurveyNamesOnlyWhatThisInstallationMade(t *testing.T) {
	c := NewCache(nil, noKinds{}, "a", nil, slog.New(slog.DiscardHandler))
	t.Cleanup(c.Close)
	for gk, list := range map[schema.GroupKind][]any{
		manifest.KindConfigMap: {applied("ConfigMap", "ours", "a", nil), applied("ConfigMap", "former", "", nil), applied("ConfigMap", "theirs", "b", nil)},
		manifest.KindPod:       {applied("Pod", "theirs", "", map[string]any{"spec": map[string]any{}})},
		manifest.KindNamespace: {applied("Namespace", "gone", "a", nil)},
	} {
		k := &kindCache{cache: c, scope: scope{gk: gk}, facts: map[string]*Fact{}}
		c.kinds[scope{gk: gk}] = k
		if err := k.Replace(list, "10"); err != nil {
			t.Fatal(err)
		}
	}

	ids, err := c.Instances(t.Context())

	if err != nil || !slices.Equal(ids, []string{"ours"}) {
		t.Errorf("%v, %v", ids, err)
	}
}

func TestWhatTakesDataAlongSaysSo(t *testing.T) {
	t.Parallel()

	templates := []any{map[string]any{"metadata": map[string]any{"name": "data"}}}
	set := func(policy string) *unstructured.Unstructured {
		return applied("StatefulSet", "i1", "a", map[string]any{"spec": map[string]any{"volumeClaimTemplates": templates,
			"persistentVolumeClaimRetentionPolicy": map[string]any{"whenDeleted": policy}}})
	}
	claim := applied("PersistentVolumeClaim", "i1", "a", nil)
	yes := true
	claim.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "batch/v1", Kind: "Job", Name: "of-i1", UID: "Jobi1", Controller: &yes}})
	owned := FactOf("a", manifest.KindClaim, claim)
	for name, c := range map[string]struct {
		gk   schema.GroupKind
		u    *unstructured.Unstructured
		want bool
	}{
		"what owns a claim":                     {manifest.KindJob, applied("Job", "i1", "a", nil), true},
		"a custom resource":                     {schema.GroupKind{Group: "postgresql.cnpg.io", Kind: "Cluster"}, applied("Cluster", "i1", "a", nil), true},
		"a claim":                               {manifest.KindClaim, applied("PersistentVolumeClaim", "i1", "a", nil), true},
		"a StatefulSet that deletes its claims": {manifest.KindStatefulSet, set("Delete"), true},
		"a StatefulSet that leaves its claims":  {manifest.KindStatefulSet, set("Retain"), false},
		"what has no data":                      {manifest.KindConfigMap, applied("ConfigMap", "i1", "a", nil), false},
	} {
		f := FactOf("a", c.gk, c.u)

		v := newView([]*Fact{f, owned})
		v.creationFailure = newCreationFailures("", func(types.UID, string) {}).of
		o := v.object(f)

		if o.Data != c.want || o.Created.IsZero() {
			t.Errorf("%s: data %t, made at %s", name, o.Data, o.Created)
		}
	}
}
