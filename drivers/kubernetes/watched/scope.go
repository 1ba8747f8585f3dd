package watched

import (
	"iter"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/jibe-vnfm/jibe/drivers/kubernetes/manifest"
	"github.com/jibe-vnfm/jibe/plan"
)

// Credentials may have rights in some namespaces alone. Where the VIM names these, each kind is listed and watched
// once a namespace, each list with a resourceVersion, an error and a time of its own: one namespace that can't be seen
// leaves the instances in the others as they are. The namespaces themselves are watched by their names, for which a
// right to no other namespace is needed. What is in no namespace is watched in the cluster, as far as the credentials let it.

// scope is what one watch covers: a kind, in one namespace or, where that is "", in the whole cluster. A namespace
// itself is in the scope of its own name.
type scope struct {
	gk        schema.GroupKind
	namespace string
}

// String returns the scope's name for logs, which is unique.
func (s scope) String() string {
	if s.namespace == "" {
		return manifest.KindName(s.gk)
	}
	return manifest.KindName(s.gk) + " in namespace " + s.namespace
}

// places are the namespaces of the scopes of a kind that is in namespaces.
func (c *Cache) places() []string {
	if len(c.namespaces) == 0 {
		return []string{""}
	}
	return c.namespaces
}

// scopesOf returns what is watched of a kind.
func (c *Cache) scopesOf(gk schema.GroupKind, mapping *meta.RESTMapping) (all []scope) {
	if mapping.Scope.Name() == meta.RESTScopeNameRoot && gk != manifest.KindNamespace {
		return []scope{{gk: gk}}
	}
	for _, namespace := range c.places() {
		all = append(all, scope{gk, namespace})
	}
	return all
}

// watches reports whether the kind is watched, in whichever scope. c.mu is held.
func (c *Cache) watches(gk schema.GroupKind) bool {
	return c.kinds[scope{gk: gk}] != nil || c.kinds[scope{gk, c.places()[0]}] != nil
}

// within returns what is known of the kind in the namespaces, or in all where none is given. Objects in no namespace
// count as being in each. c.mu is held.
func (c *Cache) within(gk schema.GroupKind, namespaces []string) iter.Seq[*kindCache] {
	return func(yield func(*kindCache) bool) {
		if k := c.kinds[scope{gk: gk}]; k != nil && !yield(k) {
			return
		}
		for _, namespace := range c.namespaces {
			k := c.kinds[scope{gk, namespace}]
			if k != nil && (len(namespaces) == 0 || slices.Contains(namespaces, namespace)) && !yield(k) {
				return
			}
		}
	}
}

// holder is the kindCache that has, or would have, the object with the key; nil where no watch covers it. c.mu is held.
func (c *Cache) holder(gk schema.GroupKind, key string) *kindCache {
	if k := c.kinds[scope{gk: gk}]; k != nil || len(c.namespaces) == 0 {
		return k
	}
	_, namespace, name, _ := manifest.SplitKey(key)
	if gk == manifest.KindNamespace {
		namespace = name
	}
	return c.kinds[scope{gk, namespace}]
}

// namespacesOf returns the namespaces in which the instance has, should have or had something; none where that isn't
// known, so that it may have something in each.
func (c *Cache) namespacesOf(instance string, want plan.Desired, former *plan.Desired) []string {
	if len(c.namespaces) == 0 {
		return nil
	}

	found := map[string]bool{}
	objects := want.Objects
	if former != nil {
		objects = slices.Concat(objects, former.Objects)
	}
	for _, x := range objects {
		if _, namespace, _, _ := manifest.SplitKey(x.Key); namespace != "" {
			found[namespace] = true
		}
	}
	if len(found) == 0 {
		return nil
	}

	c.mu.RLock()
	defer c.mu.RUnlock()
	for _, f := range c.instances[instance] {
		found[f.namespace] = true
	}
	return slices.Collect(maps.Keys(found))
}

// resource is where the objects of the scope are listed and watched.
func (s scope) resource(client dynamic.Interface, mapping *meta.RESTMapping) dynamic.ResourceInterface {
	all := client.Resource(mapping.Resource)
	if s.namespace == "" || s.gk == manifest.KindNamespace {
		return all
	}
	return all.Namespace(s.namespace)
}

// fieldSelector selects the objects of the scope, where its resource has others: RBAC lets a namespace be listed and
// watched by a right to its name, if the request selects that name alone.
func (s scope) fieldSelector() string {
	if s.namespace == "" || s.gk != manifest.KindNamespace {
		return ""
	}
	return metav1.ObjectNameField + "=" + s.namespace
}

// probe is where, and for which name, [setBack] asks which version the store has. It reads no object, but for the
// namespace that the scope is.
func (s scope) probe(client dynamic.Interface, mapping *meta.RESTMapping) (from dynamic.ResourceInterface, name string) {
	switch {
	case s.fieldSelector() != "":
		return s.resource(client, mapping), s.namespace
	case s.namespace == "" && mapping.Scope.Name() == meta.RESTScopeNameNamespace:
		return client.Resource(mapping.Resource).Namespace(metav1.NamespaceSystem), noSuchObject
	}
	return s.resource(client, mapping), noSuchObject
}
