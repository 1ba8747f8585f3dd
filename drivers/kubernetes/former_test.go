package kubernetes_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/rogpeppe/go-internal/txtar"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"

	"github.com/jibe-vnfm/jibe/drivers"
	"github.com/jibe-vnfm/jibe/drivers/kubernetes"
	"github.com/jibe-vnfm/jibe/drivers/kubernetes/manifest"
	"github.com/jibe-vnfm/jibe/drivers/kubernetes/manifest/sample"
	"github.com/jibe-vnfm/jibe/plan"
	"github.com/jibe-vnfm/jibe/test/kit"
	"github.com/jibe-vnfm/jibe/test/kubeenv"
)

// former is the package of testdata/former.txtar as an instance, and what a Jibe that
// knew no generations made of it, by key.
func former(t *testing.T, id, namespace string) (drivers.Source, map[string]*unstructured.Unstructured) {
	t.Helper()
	archive, err := txtar.ParseFile("testdata/former.txtar")
	if err != nil {
		t.Fatal(err)
	}
	file := map[string]string{}
	for _, f := range archive.Files {
		file[f.Name] = string(f.Data)
	}
	src := sample.Source(id, namespace, file["package.yaml"], sample.Workloads("web", "cache", "store", "agent", "probe"), nil)
	return src, objectsOf(t, strings.NewReplacer("former", id, "namespace: amf", "namespace: "+namespace, "/amf/", "/"+namespace+"/").Replace(file["objects.yaml"]))
}

// objectsOf reads what RenderYAML writes.
func objectsOf(t *testing.T, content string) map[string]*unstructured.Unstructured {
	t.Helper()
	all := map[string]*unstructured.Unstructured{}
	for _, part := range strings.Split(content, "--- # ")[1:] {
		key, text, _ := strings.Cut(part, "\n")
		u := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(text), &u.Object); err != nil {
			t.Fatal(err)
		}
		all[key] = u
	}
	return all
}

func rendered(t *testing.T, d *kubernetes.Driver, src drivers.Source) map[string]*unstructured.Unstructured {
	t.Helper()
	all := map[string]*unstructured.Unstructured{}
	for key, u := range rendering(t, d, src).Form.(*manifest.Form).Objects {
		all[key] = u.DeepCopy()
	}
	return all
}

func digest(u *unstructured.Unstructured) string {
	return u.GetAnnotations()[manifest.AnnotationDigest]
}

func TestOnlyServicesThatSelectWorkloadsHaveOtherDigestsThanBeforeThereWereGenerations(t *testing.T) {
	d, err := kubernetes.New(drivers.VIM{Endpoint: "https://127.0.0.1:1"}, kubernetes.Options{DigestKey: []byte("0123456789abcdef")})
	if err != nil {
		t.Fatal(err)
	}
	src, was := former(t, "former", "amf")
	is := rendered(t, d, src)
	var others []string
	for key, u := range is {
		if was[key] == nil || digest(was[key]) != digest(u) {
			others = append(others, key)
		}
	}
	slices.Sort(others)
	if want := []string{"Service/amf/store", "Service/amf/web"}; !slices.Equal(others, want) || len(is) != len(was) {
		t.Errorf("other digests have %v, want %v; %d objects, were %d", others, want, len(is), len(was))
	}
}

func TestWhatAFormerVersionMadeIsRepairedOnceWithoutTouchingAPod(t *testing.T) {
	c := newCluster(t)
	d, namespace := c.connect(t), c.namespace(t)
	src, was := former(t, uuid.NewString(), namespace)
	client, err := dynamic.NewForConfig(kubeenv.RestConfig(t))
	if err != nil {
		t.Fatal(err)
	}
	is := rendered(t, d, src)
	for _, key := range slices.Sorted(maps.Keys(was)) {
		u := was[key]
		if key != "Service/"+namespace+"/web" && key != "Service/"+namespace+"/store" {
			// It is as it was but for the id and the namespace, which are of this run.
			if err := unstructured.SetNestedField(u.Object, digest(is[key]), "metadata", "annotations", manifest.AnnotationDigest); err != nil {
				t.Fatal(err)
			}
		}
		if key == "ReplicaSet/"+namespace+"/cache" || key == "StatefulSet/"+namespace+"/store" {
			if err := unstructured.SetNestedField(u.Object, int64(1), "spec", "replicas"); err != nil {
				t.Fatal(err)
			}
		}
		gv := u.GroupVersionKind().GroupVersion()
		data, err := json.Marshal(u.Object)
		if err != nil {
			t.Fatal(err)
		}
		force := true
		if _, err := client.Resource(schema.GroupVersionResource{Group: gv.Group, Version: gv.Version, Resource: strings.ToLower(u.GetKind()) + "s"}).Namespace(namespace).
			Patch(t.Context(), u.GetName(), types.ApplyPatchType, data, metav1.PatchOptions{FieldManager: "jibe", Force: &force}); err != nil {
			t.Fatalf("%s: %v", key, err)
		}
	}
	want, err := d.Render(src)
	if err != nil {
		t.Fatal(err)
	}
	var before plan.Observed
	var steps []plan.Step
	kit.Eventually(t, func() error {
		before = observe(t, d, want)
		steps = plan.Compute(want.Desired, before, plan.Journal{})
		for _, s := range steps {
			if s.Action != plan.Apply && s.Reason != "until it is ready" {
				return fmt.Errorf("%s isn't what a repair begins with", s)
			}
		}
		return nil
	})
	var due []string
	for _, s := range plan.Next(steps) {
		due = append(due, s.Object)
	}
	slices.Sort(due)
	if all := []string{"Job/" + namespace + "/once", "Pod/" + namespace + "/probe", "Service/" + namespace + "/store", "Service/" + namespace + "/web"}; !slices.Equal(due, all) {
		t.Errorf("due are %v, want %v", due, all)
	}
	found, err := d.Examine(t.Context(), want, plan.Next(steps)...)
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range found {
		if !slices.Contains([]string{"spec.selector", "metadata.annotations[" + manifest.AnnotationImmutable + "]", "metadata.annotations[" + manifest.AnnotationDigest + "]"}, x.Field) {
			t.Errorf("differs: %s", x)
		}
	}
	after := converge(t, d, src, true)
	if a, b := incarnations(before, everything), incarnations(after, everything); !maps.Equal(a, b) {
		t.Errorf("objects were %v, are %v", a, b)
	}
	units := func(o plan.Observed) (ids []string) {
		for _, u := range o.Units {
			ids = append(ids, u.Key+" "+u.ID)
		}
		return ids
	}
	if a, b := units(before), units(after); len(a) < 5 || !slices.Equal(a, b) {
		t.Errorf("units were %v, are %v", a, b)
	}
	converge(t, d, src, false)
}
