package manifest_test

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/jibe-vnfm/jibe/drivers"
	"github.com/jibe-vnfm/jibe/drivers/kubernetes/manifest"
	"github.com/jibe-vnfm/jibe/drivers/kubernetes/manifest/sample"
)

// podOn is a manifest of a bare Pod that reads a map into its environment.
func podOn(name, image, config string) string {
	return "{apiVersion: v1, kind: Pod, metadata: {name: " + name + "}, spec: {containers: [{name: c, image: '" + image +
		"', envFrom: [{configMapRef: {name: " + config + "}}]}]}}\n"
}

func filesOf(contents map[string]string) fstest.MapFS {
	files := fstest.MapFS{}
	for name, content := range contents {
		files["Files/kubernetes/"+name] = &fstest.MapFile{Data: []byte(content)}
	}
	return files
}

func TestContainerUpdateLeavesWhatItDoesNotTouchAsItWas(t *testing.T) {
	base := sample.Packaged("i1", "ns", filesOf(map[string]string{
		"one.yaml": sample.ConfigMap("one", "a"), "two.yaml": sample.ConfigMap("two", "a"),
		"pods.yaml": podOn("uses-one", "i:1", "one") + "---\n" + podOn("uses-two", "i:1", "two"),
	}), sample.Workloads("uses-one", "uses-two"), nil)
	after := sample.Updated(base, filesOf(map[string]string{
		"one.yaml": sample.ConfigMap("one", "b"), "two.yaml": sample.ConfigMap("two", "a"),
		"pods.yaml": podOn("uses-one", "i:1", "one") + "---\n" + podOn("uses-two", "i:1", "two"),
	}), "Files/kubernetes/one.yaml", "Files/kubernetes/two.yaml")
	was, is := annotations(t, base, manifest.AnnotationDigest), annotations(t, after, manifest.AnnotationDigest)
	var changed []string
	for _, key := range slices.Sorted(maps.Keys(is)) {
		if was[key] != is[key] {
			changed = append(changed, key)
		}
	}
	if diff := cmp.Diff([]string{"ConfigMap/ns/one", "Pod/ns/uses-one"}, changed); diff != "" {
		t.Errorf("changed objects, -want +got:\n%s", diff)
	}
}

func TestConfigOfPodsDependsOnContentAlone(t *testing.T) {
	maps := func(value string) map[string]string {
		return map[string]string{"one.yaml": sample.ConfigMap("one", value), "pod.yaml": podOn("p", "i:1", "one")}
	}
	base := sample.Packaged("i1", "ns", filesOf(maps("a")), sample.Workloads("p"), nil)
	config := func(src drivers.Source) string {
		return annotations(t, src, manifest.AnnotationConfig)["Pod/ns/p"]
	}
	const path = "Files/kubernetes/one.yaml"
	b, c := sample.Updated(base, filesOf(maps("b")), path), sample.Updated(base, filesOf(maps("c")), path)
	if config(base) != "" || config(b) == "" || config(b) == config(c) {
		t.Error("the annotation doesn't tell content apart:", config(base), config(b), config(c))
	}
	if again := sample.Updated(c, filesOf(maps("b")), path); config(again) != config(b) {
		t.Error("the same content, reached another way, gives another annotation")
	}
	if back := sample.Updated(b, filesOf(maps("a")), path); config(back) != "" {
		t.Error("content that is the base's again is still told of")
	}
	labelled := maps("a")
	labelled["one.yaml"] = "{apiVersion: v1, kind: ConfigMap, metadata: {name: one, labels: {a: b}}, data: {k: a}}"
	if config(sample.Updated(base, filesOf(labelled), path)) != "" {
		t.Error("another label makes pods anew")
	}
}

func TestBarePodIsMadeAnewWhereNothingRestartsIt(t *testing.T) {
	const path = "Files/kubernetes/one.yaml"
	files := func(value, pod string) map[string]string {
		return map[string]string{"one.yaml": sample.ConfigMap("one", value), "pod.yaml": pod}
	}
	init := "{apiVersion: v1, kind: Pod, metadata: {name: p}, spec: {initContainers: [{name: i, image: 'i:1', envFrom: [{configMapRef: {name: one}}]}], containers: [{name: c, image: 'IMAGE'}]}}"
	withInit := func(image string) string {
		return strings.Replace(init, "IMAGE", image, 1)
	}
	for name, test := range map[string]struct {
		base, update map[string]string
		anew         bool
	}{
		"nothing changes":                            {files("a", podOn("p", "i:1", "one")), files("a", podOn("p", "i:1", "one")), false},
		"the image changes":                          {files("a", podOn("p", "i:1", "one")), files("a", podOn("p", "i:2", "one")), false},
		"the image changes, and the map":             {files("a", podOn("p", "i:1", "one")), files("b", podOn("p", "i:2", "one")), false},
		"the map alone changes":                      {files("a", podOn("p", "i:1", "one")), files("b", podOn("p", "i:1", "one")), true},
		"the map of an init container changes":       {files("a", withInit("i:1")), files("b", withInit("i:2")), true},
		"the image of an init container changes":     {files("a", withInit("i:1")), files("a", strings.Replace(withInit("i:1"), "i:1", "i:9", 1)), true},
		"a map that the pod doesn't use any changes": {files("a", podOn("p", "i:1", "other")), files("b", podOn("p", "i:1", "other")), false},
	} {
		t.Run(name, func(t *testing.T) {
			base := sample.Packaged("i1", "ns", filesOf(test.base), sample.Workloads("p"), nil)
			immutable := func(src drivers.Source) string {
				return annotations(t, src, manifest.AnnotationImmutable)["Pod/ns/p"]
			}
			if immutable(base) == "" {
				t.Fatal("a Pod has no identity of its immutable fields")
			}
			if anew := immutable(base) != immutable(sample.Updated(base, filesOf(test.update), path)); anew != test.anew {
				t.Errorf("made anew: %t", anew)
			}
		})
	}
}

func TestBarePodIsMadeAnewByASecondUpdateOfItsMapAlone(t *testing.T) {
	const path = "Files/kubernetes/one.yaml"
	at := func(value, image string) fstest.MapFS {
		return filesOf(map[string]string{"one.yaml": sample.ConfigMap("one", value), "pod.yaml": podOn("p", image, "one")})
	}
	base := sample.Packaged("i1", "ns", at("a", "i:1"), sample.Workloads("p"), nil)
	first := sample.Updated(base, at("b", "i:2"), path)
	second := sample.Updated(first, at("c", "i:2"), path)
	third := sample.Updated(second, at("c", "i:3"), path)
	identities := map[string]string{}
	for name, src := range map[string]drivers.Source{"base": base, "first": first, "second": second, "third": third} {
		identities[name] = annotations(t, src, manifest.AnnotationImmutable)["Pod/ns/p"]
	}
	if identities["base"] != identities["first"] || identities["first"] == identities["second"] || identities["second"] != identities["third"] {
		t.Error("made anew by the wrong update:", identities)
	}
}

func TestUpdateWithoutItsPackageIsNoRender(t *testing.T) {
	src := sample.Updated(sample.Source("i1", "ns", sample.ConfigMap("a", "b"), sample.Workloads(), nil), filesOf(nil))
	src.Overlays = nil
	if _, err := manifest.NewRenderer(nil).Render(src); err == nil {
		t.Error("rendered without the package of a container update")
	}
}
