package kubernetes

import (
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/restmapper"
)

// mapper finds the resource of a kind. It asks the API server once which kinds there
// are, and again when one is missing, as definitions may have come since.
type mapper struct {
	deferred *restmapper.DeferredDiscoveryRESTMapper
	mu       sync.Mutex
	reset    time.Time
}

// refreshEvery bounds how often a missing kind makes the mapper ask again.
const refreshEvery = 500 * time.Millisecond

// Find returns the resource of a kind in one of the versions, in any without. It returns a [*retiredError] if the cluster
// serves the kind in other versions alone.
func (m *mapper) Find(gk schema.GroupKind, versions ...string) (*meta.RESTMapping, error) {
	mapping, err := m.deferred.RESTMapping(gk, versions...)
	if !meta.IsNoMatchError(err) {
		return mapping, err
	}
	m.mu.Lock()
	if time.Since(m.reset) > refreshEvery {
		m.deferred.Reset()
		m.reset = time.Now()
	}
	m.mu.Unlock()

	mapping, err = m.deferred.RESTMapping(gk, versions...)
	if meta.IsNoMatchError(err) && len(versions) > 0 {
		if served := m.served(gk); len(served) > 0 {
			return nil, &retiredError{error: err, served: served}
		}
	}
	return mapping, err
}

// served returns the API versions in which the cluster serves the kind: those of its group, else those of Kubernetes' other
// groups, as kinds have moved from extensions to apps, policy and networking.k8s.io.
func (m *mapper) served(gk schema.GroupKind) []string {
	var list []string
	add := func(gvk schema.GroupVersionKind) {
		if v := gvk.GroupVersion().String(); gvk.Kind == gk.Kind && !slices.Contains(list, v) {
			list = append(list, v)
		}
	}
	if mappings, err := m.deferred.RESTMappings(gk); err == nil {
		for _, x := range mappings {
			add(x.GroupVersionKind)
		}
	}
	if len(list) > 0 || !ofKubernetes(gk.Group) {
		return list
	}

	plural, _ := meta.UnsafeGuessKindToResource(gk.WithVersion(""))
	kinds, err := m.deferred.KindsFor(schema.GroupVersionResource{Resource: plural.Resource})
	if err != nil {
		return nil
	}
	for _, gvk := range kinds {
		if ofKubernetes(gvk.Group) {
			add(gvk)
		}
	}
	return list
}

// ofKubernetes reports whether the group is one of Kubernetes' own.
func ofKubernetes(group string) bool {
	return !strings.Contains(group, ".") || strings.HasSuffix(group, ".k8s.io")
}

// retiredError is the error of a kind that the cluster serves in other versions alone.
type retiredError struct {
	error
	served []string
}

func (e *retiredError) Unwrap() error { return e.error }
