package kubernetes

import (
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

func (m *mapper) Find(gk schema.GroupKind, versions ...string) (*meta.RESTMapping, error) {
	mapping, err := m.deferred.RESTMapping(gk, versions...)
	if !meta.IsNoMatchError(err) {
		return mapping, err
	}
	m.ask()
	return m.deferred.RESTMapping(gk, versions...)
}

// Renew finds the resource of the kind by what the API server serves now.
func (m *mapper) Renew(gk schema.GroupKind) (*meta.RESTMapping, error) {
	m.ask()
	return m.deferred.RESTMapping(gk)
}

// ask has the API server asked again, unless it was a moment ago.
func (m *mapper) ask() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if time.Since(m.reset) > refreshEvery {
		m.deferred.Reset()
		m.reset = time.Now()
	}
}
