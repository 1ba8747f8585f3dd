package watched

import (
	"log/slog"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/jibe-vnfm/jibe/drivers/kubernetes/manifest"
)

// configMap is one of instance i1, of the version.
func configMap(name, version string) any {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap",
		"metadata": map[string]any{
			"name": name, "namespace": "ns", "uid": "uid-" + name, "resourceVersion": version,
			"labels": map[string]any{manifest.LabelInstance: "i1"},
		},
	}}
}

func TestAStoreThatWasSetBackIsBelieved(t *testing.T) {
	c := NewCache(nil, nil, "", nil, slog.New(slog.DiscardHandler))
	k := &kindCache{cache: c, scope: scope{gk: manifest.KindConfigMap}, facts: map[string]*Fact{}}
	c.kinds[scope{gk: manifest.KindConfigMap}] = k
	replace := func(version string, list ...any) {
		t.Helper()
		if err := k.Replace(list, version); err != nil {
			t.Fatal(err)
		}
	}
	replace("10", configMap("a", "8"))
	for _, x := range []any{configMap("a", "20"), configMap("b", "21")} {
		if err := k.Update(x); err != nil {
			t.Fatal(err)
		}
	}
	replace("15", configMap("a", "8"))
	if a := c.Get(manifest.KindConfigMap, "ConfigMap/ns/a"); a == nil || a.version != 8 {
		t.Errorf("a is %+v, want its version of the store that was restored", a)
	}
	if b := c.Get(manifest.KindConfigMap, "ConfigMap/ns/b"); b != nil {
		t.Errorf("b was made after the backup, and is still seen: %+v", b)
	}
	if n := len(c.of("i1")); n != 1 {
		t.Errorf("the instance has %d objects, want 1", n)
	}
	// What was written after a list was made, on the other hand, isn't in it.
	c.Written(manifest.KindConfigMap, configMap("c", "30").(*unstructured.Unstructured))
	replace("25", configMap("a", "8"))
	if c.Get(manifest.KindConfigMap, "ConfigMap/ns/c") == nil {
		t.Error("c was written after the list was made, and was forgotten")
	}
}
