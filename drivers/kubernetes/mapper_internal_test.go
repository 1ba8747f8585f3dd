package kubernetes

import (
	"errors"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery/cached/memory"
	fakediscovery "k8s.io/client-go/discovery/fake"
	"k8s.io/client-go/restmapper"
	clienttesting "k8s.io/client-go/testing"

	"github.com/jibe-vnfm/jibe/drivers"
)

func TestARetiredVersionNamesTheServedOne(t *testing.T) {
	t.Parallel()

	list := func(version string, kinds ...string) *metav1.APIResourceList {
		l := &metav1.APIResourceList{GroupVersion: version}
		for _, kind := range kinds {
			l.APIResources = append(l.APIResources, metav1.APIResource{Name: strings.ToLower(kind) + "s", Kind: kind, Namespaced: true, Verbs: metav1.Verbs{"list"}})
		}
		return l
	}
	served := &fakediscovery.FakeDiscovery{Fake: &clienttesting.Fake{Resources: []*metav1.APIResourceList{
		list("v1", "Service"), list("apps/v1", "Deployment"), list("policy/v1", "PodDisruptionBudget"),
		list("networking.k8s.io/v1", "NetworkPolicy"), list("example.com/v1", "Deployment", "Route"),
	}}}
	m := &mapper{deferred: restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(served))}

	for version, c := range map[string]struct{ kind, says, never string }{
		"policy/v1beta1":             {"PodDisruptionBudget", "policy/v1", "install"},
		"extensions/v1beta1":         {"Deployment", "apps/v1", "example.com"},
		"example.com/v1alpha1":       {"Route", "example.com/v1", "install"},
		"other.example.com/v1":       {"Route", "install its definition first", "example.com/v1 is"},
		"scheduling.example.com/v1a": {"Nothing", "install its definition first", "served"},
	} {
		gv, err := schema.ParseGroupVersion(version)
		if err != nil {
			t.Fatal(err)
		}
		_, err = m.Find(gv.WithKind(c.kind).GroupKind(), gv.Version)
		refused, ok := errors.AsType[*drivers.RefusedError](classify(c.kind, err))
		if !ok || !strings.Contains(refused.Reason, c.says) || strings.Contains(refused.Reason, c.never) {
			t.Errorf("%s %s: %v; want %q in it, and %q not", version, c.kind, classify(c.kind, err), c.says, c.never)
		}
	}
}
