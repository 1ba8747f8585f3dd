package e2e

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/jibe-vnfm/jibe/test/kit"
	"github.com/jibe-vnfm/jibe/test/kubeenv"
)

const installationLabel = "vnf.jibe.dev/installation"

// kept are the instance's own objects in the namespace, as a backup of the cluster has them.
func (b *bench) kept(id string) (all []*unstructured.Unstructured) {
	b.Helper()
	for _, kind := range []string{"ConfigMap", "Service", "Deployment"} {
		list, err := b.at(kind).List(b.Context(), metav1.ListOptions{LabelSelector: instanceLabel + "=" + id})
		if err != nil {
			b.Fatal(err)
		}
		for i := range list.Items {
			u := &list.Items[i]
			for _, field := range []string{"uid", "resourceVersion", "creationTimestamp", "generation", "managedFields"} {
				unstructured.RemoveNestedField(u.Object, "metadata", field)
			}
			unstructured.RemoveNestedField(u.Object, "status")
			all = append(all, u)
		}
	}
	return all
}

// putBack creates the object, as the restore of a backup does.
func (b *bench) putBack(u *unstructured.Unstructured) {
	b.Helper()
	if _, err := b.at(u.GetKind()).Create(b.Context(), u, metav1.CreateOptions{FieldManager: "restore"}); err != nil {
		b.Fatalf("%s %s: %v", u.GetKind(), u.GetName(), err)
	}
}

// orphans are the keys of the instance's objects that belong to no VNF, those with data marked.
func (b *bench) orphans(id string) (keys []string) {
	b.Helper()
	found := b.must(b.T, http.StatusOK, http.MethodGet, "/jibe/v1/orphans", nil).object(b.T)
	for _, o := range found.list("orphans") {
		if o.text("instance") != id || o["deleting"] == true {
			continue
		}
		key := o.text("object")
		if o["data"] == true {
			key += " data"
		}
		if o.text("vim") != "local" || o.text("created") == "" {
			b.Errorf("%v", o)
		}
		keys = append(keys, strings.Replace(key, "/"+b.namespace+"/", "/", 1))
	}
	slices.Sort(keys)
	return keys
}

func TestOrphansOfARestoredClusterAreDeletedAndNothingElse(t *testing.T) {
	b := newBench(t, usual)
	other := benchAt(t, b.server, b.config, kubeenv.Kubeconfig(t))
	ends, stays := b.runs(twins), other.runs(twins)
	before := other.pods()
	backup := b.kept(ends)
	b.server.run(t, ends, "terminate", object{"terminationType": "FORCEFUL"})
	b.must(t, http.StatusNoContent, http.MethodDelete, instances+"/"+ends, nil)

	claim := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "PersistentVolumeClaim",
		"metadata": map[string]any{"name": "data-back-0", "namespace": b.namespace, "labels": map[string]any{
			instanceLabel: ends, installationLabel: backup[0].GetLabels()[installationLabel]}},
		"spec": map[string]any{"accessModes": []any{"ReadWriteOnce"}, "resources": map[string]any{"requests": map[string]any{"storage": "1Mi"}}},
	}}
	foreign := backup[0].DeepCopy()
	foreign.SetName("foreign")
	labels := maps.Clone(foreign.GetLabels())
	labels[installationLabel] = "another-one"
	foreign.SetLabels(labels)
	want := []string{"PersistentVolumeClaim/data-back-0 data"}
	for _, u := range append(backup, claim, foreign) {
		b.putBack(u)
	}
	for _, u := range backup {
		want = append(want, u.GetKind()+"/"+u.GetName())
	}
	slices.Sort(want)

	kit.Eventually(b, func() error {
		if got := b.orphans(ends); !slices.Equal(got, want) {
			return fmt.Errorf("orphans are %v, want %v", got, want)
		}
		return nil
	})
	if got := other.orphans(stays); len(got) > 0 {
		t.Errorf("of what runs, orphans are %v", got)
	}
	if out, hints, code := b.process.CLI(t, "orphans", "delete", ends); code == 0 || !strings.Contains(hints, "nothing was deleted") || !strings.Contains(out, "Deployment/"+b.namespace) {
		t.Fatalf("without --yes: %d\n%s%s", code, out, hints)
	}
	out, hints, code := b.process.CLI(t, "orphans", "delete", "--yes", ends)
	if code != 0 || !strings.Contains(out, fmt.Sprintf("deleted: %d objects", len(backup))) {
		t.Fatalf("%d\n%s%s", code, out, hints)
	}

	kit.Eventually(b, func() error {
		if left := b.kept(ends); len(left) != 1 || left[0].GetName() != "foreign" {
			return fmt.Errorf("%d objects are left", len(left))
		}
		if got := b.orphans(ends); !slices.Equal(got, []string{"PersistentVolumeClaim/data-back-0 data"}) {
			return fmt.Errorf("orphans are %v", got)
		}
		return nil
	})
	if out, hints, code := b.process.CLI(t, "orphans", "delete", "--yes", "--delete-data", ends); code != 0 {
		t.Fatalf("with data: %d\n%s%s", code, out, hints)
	}
	kit.Eventually(b, func() error {
		left, err := b.at("PersistentVolumeClaim").Get(b.Context(), "data-back-0", metav1.GetOptions{})
		if apierrors.IsNotFound(err) || err == nil && left.GetDeletionTimestamp() != nil {
			return nil
		}
		return fmt.Errorf("the claim is there still: %w", err)
	})
	for name, p := range other.pods() {
		if before[name].UID != p.UID {
			t.Errorf("pod %s of what runs is another", name)
		}
	}
	if now := other.pods(); len(now) != len(before) || b.read("ConfigMap/foreign") == nil {
		t.Errorf("what runs has %d pods, had %d", len(now), len(before))
	}
}
