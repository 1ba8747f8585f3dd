package watched

import (
	"context"
	"maps"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/jibe-vnfm/jibe/drivers/kubernetes/manifest"
)

// An instance may have to wait for something that is no object of its own: a namespace, or
// the definition of a kind. The watches notify it when that comes.

// Await notes what the instance's object in the namespace was refused for.
func (c *Cache) Await(instance, namespace string, err error) {
	kind, name := manifest.KindNamespace, namespace
	switch {
	case meta.IsNoMatchError(err):
		kind, name = manifest.KindCRD, ""
	case namespace == "":
		return
	case apierrors.IsNotFound(err), apierrors.HasStatusCause(err, "NamespaceTerminating"):
	default:
		return
	}
	c.mu.Lock()
	if c.awaited[name] == nil {
		c.awaited[name] = map[string]bool{}
	}
	c.awaited[name][instance] = true
	c.mu.Unlock()
	if err := c.ensure(kind); err != nil {
		c.log.Debug("what an instance waits for can't be watched, it is tried again after a pause", "instance", instance, "kind", kind.Kind, "error", err)
	}
}

// awaiting are the instances to notify, once, that what they needed is there. c.mu is held.
func (c *Cache) awaiting(f *Fact) []string {
	name := ""
	switch {
	case !f.ready || f.Deleting:
		return nil
	case f.GroupKind == manifest.KindNamespace:
		name = f.Name
	case f.GroupKind != manifest.KindCRD:
		return nil
	}
	notified := slices.Collect(maps.Keys(c.awaited[name]))
	delete(c.awaited, name)
	return notified
}

// Stands says whether the namespace is known to be there, and to stay. It watches
// namespaces from the first time on; where they can't be seen, none is known.
func (c *Cache) Stands(ctx context.Context, namespace string) bool {
	if err := c.Sync(ctx, map[schema.GroupKind]bool{manifest.KindNamespace: false}, namespace); err != nil {
		return false
	}
	f := c.Get(manifest.KindNamespace, manifest.Key(manifest.KindNamespace, "", namespace))
	return f != nil && f.ready && !f.Deleting
}
