package reconciler

import (
	"crypto/sha256"
	"strings"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/drivers"
)

// renderings remembers what instances were rendered to last: while something of an
// instance moves, it is looked at many times a second, and its rendering stays the same.
// The key holds everything that a rendering depends on, and a rendering is never altered.
type renderings struct {
	cache *lru.Cache[renderingKey, drivers.Rendering]
}

type renderingKey struct {
	// driver is that of one connection, or of several together.
	driver drivers.Driver
	// instance and tree are the intent, with the pins of all its packages.
	instance, tree string
	// secrets is a digest of what the references in the parameters stand for now: that may
	// change without a commit.
	secrets [sha256.Size]byte
}

// maxRenderings is the number after which the one that was used longest ago is forgotten.
const maxRenderings = 512

func newRenderings() *renderings {
	cache, err := lru.New[renderingKey, drivers.Rendering](maxRenderings)
	if err != nil {
		panic(err) // the size is positive
	}
	return &renderings{cache: cache}
}

// of is the rendering of the source, whose instance is what the revision holds.
func (r *renderings) of(drv drivers.Driver, rev desired.Revision, src drivers.Source) (drivers.Rendering, error) {
	if src.Sealed != nil {
		return drv.Render(src) // it is tried again whether the references can be resolved
	}
	key := renderingKey{driver: drv, instance: src.Instance.ID, tree: rev.Tree, secrets: sha256.Sum256([]byte(strings.Join(src.Secrets, "\x00")))}
	if known, ok := r.cache.Get(key); ok {
		return known, nil
	}
	made, err := drv.Render(src)
	if err != nil {
		return made, err
	}
	r.cache.Add(key, made)
	return made, nil
}
