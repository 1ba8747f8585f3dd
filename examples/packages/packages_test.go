// Package packages holds example VNF packages, each an expanded CSAR directory.
// Its tests keep them right; what a package says is tested in package vnfd/csar.
package packages

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"
)

// A misspelt field would be dropped by the API server without a word.
func TestManifestsHaveOnlyFieldsThatKubernetesKnows(t *testing.T) {
	files, err := fs.Glob(os.DirFS("."), "*/Files/kubernetes/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatal("no manifests", err)
	}
	kinds := map[string]bool{}
	for _, name := range files {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		docs := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(data)))
		for {
			doc, err := docs.Read()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatal(name, err)
			}
			var head struct{ APIVersion, Kind string }
			if err := yaml.Unmarshal(doc, &head); err != nil {
				t.Fatal(name, err)
			}
			object, ok := map[string]any{
				"apps/v1 Deployment":  &appsv1.Deployment{},
				"apps/v1 ReplicaSet":  &appsv1.ReplicaSet{},
				"apps/v1 StatefulSet": &appsv1.StatefulSet{},
				"apps/v1 DaemonSet":   &appsv1.DaemonSet{},
				"v1 Pod":              &corev1.Pod{},
				"v1 Service":          &corev1.Service{},
				"v1 ConfigMap":        &corev1.ConfigMap{},
				"v1 Secret":           &corev1.Secret{},

				"policy/v1 PodDisruptionBudget": &policyv1.PodDisruptionBudget{},
			}[head.APIVersion+" "+head.Kind]
			if !ok {
				t.Errorf("%s: kind %s %s isn't known to this test", name, head.APIVersion, head.Kind)
				continue
			}
			if err := yaml.UnmarshalStrict(doc, object); err != nil {
				t.Errorf("%s: %s: %v", name, head.Kind, err)
			}
			kinds[path.Join(path.Dir(path.Dir(path.Dir(name))), head.Kind)] = true
		}
	}
	for _, kind := range []string{"Pod", "Deployment", "ReplicaSet", "StatefulSet", "DaemonSet"} {
		if !kinds["every-kind/"+kind] {
			t.Errorf("every-kind has no %s", kind)
		}
	}
}

func TestBothVersionsOfTheBlueGreenExampleHaveTheSameScripts(t *testing.T) {
	sameScripts(t, "blue-green-script-1.1/Scripts", "blue-green-script-1.0/Scripts")
}

func TestAllPackagesOfVirtualMachinesHaveTheSameScripts(t *testing.T) {
	sameScripts(t, "vm-blue-green-1.1/Scripts",
		"vm-blue-green-1.0/Scripts", "vm-asg-1.0/Scripts", "vm-asg-1.1/Scripts", "vm-indexed-1.0/Scripts", "vm-indexed-1.1/Scripts",
		"vm-sample-1.0", "vm-sample-1.1")
}

func sameScripts(t *testing.T, first string, others ...string) {
	t.Helper()
	scripts, err := fs.Glob(os.DirFS("."), first+"/*.py")
	if err != nil || len(scripts) == 0 {
		t.Fatal("no scripts", err)
	}
	for _, script := range scripts {
		one, err := os.ReadFile(script)
		if err != nil {
			t.Fatal(err)
		}
		for _, dir := range others {
			another, err := os.ReadFile(path.Join(dir, path.Base(script)))
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(one, another) {
				t.Errorf("%s is another one in %s", path.Base(script), dir)
			}
		}
	}
}
