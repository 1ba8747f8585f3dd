package chaos_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/test/process"
)

// The vnfdIds of the package in testdata, of the version after it, and of one whose
// front ends never get a node. All have a Deployment whose scaling aspect "front" has the
// levels 0 to maxLevel (1 to 3 pods), a StatefulSet and a bare Pod.
const (
	trio      = "3a5c1f0e-6d0b-4f7e-9c55-0f6f2a9e1bc2"
	trioNext  = "3a5c1f0e-6d0b-4f7e-9c55-0f6f2a9e1bd2"
	trioStuck = "3a5c1f0e-6d0b-4f7e-9c55-0f6f2a9e1be2"
	maxLevel  = 2
)

// version is one version of the package.
type version struct {
	vnfd, dir string
	// objects are its manifests' by resource/name.
	objects map[string]*unstructured.Unstructured
}

// makeVersions lays out all versions. They differ in images and configuration, which a
// container update changes too, and in what only a change of package does.
func makeVersions(t *testing.T) []*version {
	t.Helper()
	first := filepath.Join(process.Root(), "test", "chaos", "testdata", "trio")
	probe := "spec:\n  containers:\n    - name: probe"
	store := "apiVersion: v1\nkind: Service\nmetadata:\n  name: store"
	more := []string{
		"          envFrom:", "          env:\n            - name: VERSION\n              value: later\n          envFrom:",
		probe, strings.Replace(probe, "  containers:", "  terminationGracePeriodSeconds: 5\n  containers:", 1),
		store, "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: notes\ndata:\n  later: 'yes'\n---\n" + store,
	}
	later := func(name, vnfd, number, level string, oldnew ...string) string {
		return process.NextVersion(t, first, name, append(oldnew, trio, vnfd, "'1.0'", "'"+number+".0'",
			"pause:3.10", "pause:"+number+".10", "LOG_LEVEL: info", "LOG_LEVEL: "+level)...)
	}
	web := "    spec:\n      containers:\n        - name: web"
	versions := []*version{
		{vnfd: trio, dir: first},
		{vnfd: trioNext, dir: later("trio-next", trioNext, "4", "notice", more...)},
		{vnfd: trioStuck, dir: later("trio-stuck", trioStuck, "5", "none", append(more,
			web, strings.Replace(web, "      containers:", "      schedulerName: nobody\n      containers:", 1))...)},
	}
	for _, v := range versions {
		if err := v.read(); err != nil {
			t.Fatal(err)
		}
	}
	return versions
}

// manifests are the package's manifests, configPaths those that a container update takes.
func manifests() []string {
	return append(configPaths(), "Files/kubernetes/support.yaml", "Files/kubernetes/workloads.yaml")
}

func configPaths() []string { return []string{"Files/kubernetes/settings.yaml"} }

func (v *version) read() error {
	v.objects = map[string]*unstructured.Unstructured{}
	for _, file := range manifests() {
		text, err := os.ReadFile(filepath.Join(v.dir, file))
		if err != nil {
			return err
		}
		for doc := range strings.SplitSeq(string(text), "\n---\n") {
			o := &unstructured.Unstructured{}
			if err := yaml.Unmarshal([]byte(doc), &o.Object); err != nil {
				return err
			}
			v.objects[strings.ToLower(o.GetKind())+"s/"+o.GetName()] = o
		}
	}
	return nil
}

const generationLabel = "vnf.jibe.dev/generation"

// generationOf is what the label says of objects of the instance's generation, and
// suffixOf what stands at the end of their names.
func generationOf(in *desired.Instance) string {
	if in.Generation == "" {
		return "0"
	}
	return in.Generation
}

func suffixOf(in *desired.Instance) string {
	if in.Generation == "" {
		return ""
	}
	return "-" + in.Generation
}

// render is what must run where an instance's file says so: the objects of the package
// that applies in full, with the configuration and images of the container updates on top,
// under the names and labels of its generation.
func (w *world) render(id string, in *desired.Instance) (map[string]*unstructured.Unstructured, error) {
	base := in.Package
	if in.Base != "" {
		base = in.Base
	}
	of, ok := w.trees[base]
	if !ok {
		return nil, fmt.Errorf("no version has the tree %q", base)
	}
	all := map[string]*unstructured.Unstructured{}
	for key, o := range of.objects {
		o = o.DeepCopy()
		for _, update := range in.Overlays {
			from := w.trees[update.Package]
			if from == nil {
				return nil, fmt.Errorf("no version has the tree %q", update.Package)
			}
			if err := overlay(o, from.objects[key], slices.Equal(update.Paths, configPaths())); err != nil {
				return nil, err
			}
		}
		name, labels := o.GetName(), o.GetLabels()
		if labels == nil {
			labels = map[string]string{}
		}
		labels["vnf.jibe.dev/instance"] = id
		if o.GetKind() == "Service" {
			if err := unstructured.SetNestedField(o.Object, generationOf(in), "spec", "selector", generationLabel); err != nil {
				return nil, err
			}
		} else {
			name += suffixOf(in)
			if in.Generation != "" || o.GetKind() != "ConfigMap" {
				labels[generationLabel] = generationOf(in)
			}
		}
		o.SetName(name)
		o.SetLabels(labels)
		if o.GetKind() == "Deployment" {
			containers, _, err := unstructured.NestedSlice(o.Object, "spec", "template", "spec", "containers")
			if err != nil {
				return nil, err
			}
			containers[0].(map[string]any)["envFrom"] = []any{map[string]any{"configMapRef": map[string]any{"name": "settings" + suffixOf(in)}}}
			if err := unstructured.SetNestedSlice(o.Object, containers, "spec", "template", "spec", "containers"); err != nil {
				return nil, err
			}
		}
		if o.GetKind() == "Deployment" || o.GetKind() == "StatefulSet" {
			if err := unstructured.SetNestedField(o.Object, generationOf(in), "spec", "template", "metadata", "labels", generationLabel); err != nil {
				return nil, err
			}
		}
		all[strings.Split(key, "/")[0]+"/"+name] = o
	}
	return all, nil
}

// overlay lays one object of a container update on that of the base: the images of a
// workload, and the ConfigMap where its file is named.
func overlay(o, update *unstructured.Unstructured, named bool) error {
	path := map[string][]string{
		"Deployment": {"spec", "template", "spec", "containers"}, "StatefulSet": {"spec", "template", "spec", "containers"}, "Pod": {"spec", "containers"},
	}[o.GetKind()]
	switch {
	case update == nil:
		return nil
	case o.GetKind() == "ConfigMap" && o.GetName() == "settings" && named:
		o.Object["data"] = update.DeepCopy().Object["data"]
		return nil
	case path == nil:
		return nil
	}
	have, _, err := unstructured.NestedSlice(o.Object, path...)
	if err != nil {
		return err
	}
	with, _, err := unstructured.NestedSlice(update.Object, path...)
	if err != nil {
		return err
	}
	have[0].(map[string]any)["image"] = with[0].(map[string]any)["image"]
	return unstructured.SetNestedSlice(o.Object, have, path...)
}
