package kubernetes

import (
	"strings"
	"sync"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/drivers"
	"github.com/jibe-vnfm/jibe/vnfd"
)

// renders remembers the renders that were made last. While something of an
// instance moves, it is looked at many times a second, and always renders to the
// same. Instances and packages are immutable, so that their addresses tell them
// apart; renders are shared and never altered.
type renders struct {
	mu         sync.Mutex
	young, old map[renderKey]*render
}

type renderKey struct {
	instance  *desired.Instance
	pkg, base *vnfd.Package
	vdus      string // those that run at this VIM, where not all do
}

// rendersKept is the number of renders after which the older half is forgotten.
const rendersKept = 256

func newRenders() *renders { return &renders{young: map[renderKey]*render{}} }

// of is the render of the source, which build makes if it isn't remembered.
func (m *renders) of(src drivers.Source, build func(drivers.Source) (*render, error)) (*render, error) {
	key := renderKey{src.Instance, src.Package, src.Base, strings.Join(src.VDUs, " ")}
	m.mu.Lock()
	r, ok := m.young[key]
	if !ok {
		r, ok = m.old[key]
	}
	m.mu.Unlock()
	if !ok {
		var err error
		if r, err = build(src); err != nil {
			return nil, err
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.young) >= rendersKept {
		m.young, m.old = map[renderKey]*render{}, m.young
	}
	m.young[key] = r
	return r, nil
}
