package manifest_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/jibe-vnfm/jibe/drivers"
	"github.com/jibe-vnfm/jibe/drivers/kubernetes/manifest"
	"github.com/jibe-vnfm/jibe/drivers/kubernetes/manifest/sample"
)

func TestGenerationsShareWhatTheyMustAndNothingElse(t *testing.T) {
	src := sample.Source("i1", "ns", sample.EveryKind, sample.Workloads("web", "db"), nil)
	digests := func(generation string) map[string]string {
		return annotations(t, sample.OfGeneration(src, generation), manifest.AnnotationDigest)
	}
	first, next := digests(""), digests("1")
	var same, other, alone []string
	for _, key := range slices.Sorted(maps.Keys(next)) {
		switch was, shared := first[key]; {
		case !shared:
			alone = append(alone, key)
		case was == next[key]:
			same = append(same, key)
		default:
			other = append(other, key)
		}
	}
	for what, diff := range map[string]string{
		"as they were": cmp.Diff([]string{"Job/ns/migrate", "PersistentVolumeClaim/ns/shared", "PodDisruptionBudget/ns/web", "Service/ns/by-hand"}, same),
		"changed":      cmp.Diff([]string{"Service/ns/web"}, other),
		"of its own":   cmp.Diff([]string{"ConfigMap/ns/settings-1", "Deployment/ns/web-1", "HorizontalPodAutoscaler/ns/web-1", "Secret/ns/key-1", "StatefulSet/ns/db-1"}, alone),
	} {
		if diff != "" {
			t.Errorf("%s, -want +got:\n%s", what, diff)
		}
	}
}

func TestJobRunsAgainForItsTemplateAlone(t *testing.T) {
	src := sample.Source("i1", "ns", sample.EveryKind, sample.Workloads("web", "db"), nil)
	immutable := func(src drivers.Source) string {
		return annotations(t, src, manifest.AnnotationImmutable)["Job/ns/migrate"]
	}
	was := immutable(src)
	if was == "" {
		t.Fatal("a Job has no identity of its immutable fields")
	}
	if immutable(sample.OfGeneration(src, "1")) != was {
		t.Error("a Job would run again because the map that it reads has another name")
	}
	with := func(old, new string) string {
		return immutable(sample.Source("i1", "ns", strings.Replace(sample.EveryKind, old, new, 1), sample.Workloads("web", "db"), nil))
	}
	if with("restartPolicy: Never, nodeSelector: {no: where}", "restartPolicy: OnFailure") == was {
		t.Error("a Job with another template wouldn't run again")
	}
	if with("spec: {template: {spec: {restartPolicy", "spec: {suspend: true, template: {spec: {restartPolicy") != was {
		t.Error("a Job would run again for what can be changed in it")
	}
}

func TestOnlyServicesThatSelectDirectTraffic(t *testing.T) {
	d := manifest.NewRenderer(nil)
	src := sample.Source("i1", "ns", sample.EveryKind, sample.Workloads("web", "db"), nil)
	for generation, called := range map[string]string{"": "0", "1": "1"} {
		want, err := d.Render(sample.OfGeneration(src, generation))
		if err != nil {
			t.Fatal(err)
		}
		var directs []string
		for _, x := range want.Desired.Objects {
			if x.Directs {
				directs = append(directs, x.Key)
			}
		}
		if !slices.Equal(directs, []string{"Service/ns/web"}) || want.Desired.Generation != called {
			t.Errorf("generation %q is called %q and selected by %v", generation, want.Desired.Generation, directs)
		}
	}
}

func TestTheSameSourceRendersToTheSameObjectsWhoeverRendersIt(t *testing.T) {
	base := sample.Source("i1", "ns", sample.EveryKind, sample.Workloads("web", "db"), nil)
	update := filesOf(map[string]string{"one.yaml": sample.ConfigMap("settings", "b"), "pods.yaml": podOn("p", "i:2", "settings")})
	pods := sample.Packaged("i1", "ns", filesOf(map[string]string{"one.yaml": sample.ConfigMap("settings", "a"), "pods.yaml": podOn("p", "i:1", "settings")}), sample.Workloads("p"), nil)
	for name, src := range map[string]drivers.Source{
		"first": base, "later": sample.OfGeneration(base, "1"), "later, with a container update": sample.OfGeneration(sample.Updated(pods, update, paths("one.yaml")...), "2"),
	} {
		if diff := cmp.Diff(inYAML(t, rendered(t, src)), inYAML(t, rendered(t, src))); diff != "" {
			t.Errorf("%s:\n%s", name, diff)
		}
	}
}
