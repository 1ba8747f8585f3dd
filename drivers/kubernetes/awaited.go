package kubernetes

import (
	"maps"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
)

// What stands in an instance's way may be no object of its own: the namespace is gone, or
// nobody has defined a kind. Of what was refused for that, the driver tells when it comes.

// await notes what the instance's object in the namespace was refused for.
func (c *cache) await(instance, namespace string, err error) {
	kind, name := kindNamespace, namespace
	switch {
	case meta.IsNoMatchError(err):
		kind, name = kindCRD, ""
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

// awaiting are the instances to tell, once, that what they needed is there. c.mu is held.
func (c *cache) awaiting(f *fact) []string {
	name := ""
	switch {
	case !f.ready || f.deleting:
		return nil
	case f.gk == kindNamespace:
		name = f.name
	case f.gk != kindCRD:
		return nil
	}
	told := slices.Collect(maps.Keys(c.awaited[name]))
	delete(c.awaited, name)
	return told
}
