package kubernetes

import (
	"context"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/jibe-vnfm/jibe/drivers"
	"github.com/jibe-vnfm/jibe/drivers/kubernetes/manifest"
	"github.com/jibe-vnfm/jibe/drivers/kubernetes/raw"
	"github.com/jibe-vnfm/jibe/plan"
)

// verify asks whether the API server would take the step, unless it is known from another
// instance.
func (d *Driver) verify(ctx context.Context, rendering drivers.Rendering, s plan.Step) error {
	src, r := rendering.Source, formOf(rendering)
	dryRun := func() error {
		return retryDenied(ctx, func() error { return d.dryRun(ctx, src, r, s) })
	}
	q, resource, same := d.sameFor(ctx, rendering, s)
	if !same {
		err := dryRun()
		if err != nil {
			d.verdicts.refused(src.Instance.ID, s.Object)
		} else {
			d.verdicts.accepted(src.Instance.ID, s.Object)
		}
		return err
	}
	_, namespace, _, _ := manifest.SplitKey(s.Object)
	shared, err := d.verdicts.ask(ctx, q, namespace, dryRun, func() bool {
		return resource.Group != manifest.GroupRBAC && d.writesEverywhere(ctx, src.Bounds, resource)
	})
	if shared && !d.nameIsFree(ctx, src, resource, s.Object) {
		err = dryRun() // which says whose the name is
	}
	if err != nil {
		d.verdicts.refused(src.Instance.ID, s.Object)
	}

	return err
}

// nameIsFree reports whether the object can be created, as far as its name goes: a verdict that
// instances share doesn't know what has the name in another namespace. An object that the
// watches show as the instance's is no creation. The API server answers from its memory, which
// is cheaper by far than a dry run; what it can't answer, the dry run must.
func (d *Driver) nameIsFree(ctx context.Context, src drivers.Source, resource schema.GroupVersionResource, key string) bool {
	gk, namespace, name, _ := manifest.SplitKey(key)
	if d.mine(gk, key, src.Instance.ID) {
		return true
	}

	client, err := d.as(src.Bounds)
	if err != nil {
		return false
	}
	now, err := d.get(ctx, client.Resource(resource).Namespace(namespace), name, metav1.GetOptions{ResourceVersion: "0"})

	return err == nil && now == nil
}

// sameFor is the question that a dry run of the step would ask, if the API server's answer
// to it is the same for all instances, and the resource that it is about. That is so of
//
//   - the creation of an object that no watch shows, in a namespace that stands: schema,
//     defaults, policies and webhooks see the same object but for its names. Whether its name
//     is free is asked for each instance ([Driver.nameIsFree]), and the apply takes nothing
//     that others made meanwhile ([Driver.creating]);
//   - the change of an object that stands as it was rendered from the former package: what
//     may be changed (immutable fields, transition rules) is decided by what was there and
//     what shall be, and both are of one shape with those of the instance that was asked for.
//     It isn't so of an object whose former rendering isn't known, or that differs from it.
//
// It is never so of objects outside of namespaces, which have no place of their own; of
// pods, for which the server looks at the namespace's own settings; of one that asks for
// something of which the cluster has one ([claimsOne]); of one that is made anew; and of one
// that was refused when it was last asked about. Rights may differ from namespace to
// namespace: a verdict reaches others where the credentials may write in all, and that of an
// RBAC object never, as rights are granted there by who has them.
func (d *Driver) sameFor(ctx context.Context, rendering drivers.Rendering, s plan.Step) (q question, resource schema.GroupVersionResource, same bool) {
	src, r := rendering.Source, formOf(rendering)
	instance := src.Instance.ID
	gk, namespace, _, _ := manifest.SplitKey(s.Object)
	if r == nil || r.Objects[s.Object] == nil || src.Package == nil || gk == manifest.KindPod ||
		claimsOne(gk, r.Objects[s.Object]) || d.verdicts.doubts(instance, s.Object) || !d.watches.Stands(ctx, namespace) {
		return q, resource, false
	}
	obj := r.Objects[s.Object]
	mapping, err := d.mapper.Find(gk, obj.GroupVersionKind().Version)
	if err != nil || mapping.Scope.Name() == meta.RESTScopeNameRoot {
		return q, resource, false
	}
	q.tree, q.account = src.Package.Tree, accountOf(src.Bounds)
	if q.to, err = manifest.ShapeOf(obj, instance); err != nil {
		return q, resource, false
	}
	now := d.watches.Get(gk, s.Object)
	if now == nil {
		return q, mapping.Resource, true
	}
	former := formerly(rendering, s.Object)
	if !d.watches.Owns(now, instance) || former == nil || now.Digest == "" || now.Digest != former.GetAnnotations()[manifest.AnnotationDigest] ||
		d.mustReplace(src, r, now) {
		return q, resource, false
	}
	q.fields = now.Fields.Value()
	q.from, err = manifest.ShapeOf(former, instance)
	return q, mapping.Resource, err == nil
}

// formerly is what the object was rendered to before the change; nil if it isn't known.
func formerly(rendering drivers.Rendering, key string) *unstructured.Unstructured {
	if rendering.Former == nil {
		return nil
	}
	if form := formOf(*rendering.Former); form != nil {
		return form.Objects[key]
	}
	return nil
}

// claimsOne says whether the object asks for something that only one can have: an
// address or a port of the cluster's.
func claimsOne(gk schema.GroupKind, obj *unstructured.Unstructured) bool {
	if gk != manifest.KindService {
		return false
	}
	spec, _ := obj.Object["spec"].(map[string]any)
	headless := spec["clusterIP"] == corev1.ClusterIPNone
	for _, field := range []string{"clusterIP", "clusterIPs", "externalIPs", "loadBalancerIP", "healthCheckNodePort"} {
		if spec[field] != nil && !(headless && strings.HasPrefix(field, "clusterIP")) {
			return true
		}
	}
	return slices.ContainsFunc(raw.Maps(spec, "ports"), func(port map[string]any) bool { return port["nodePort"] != nil })
}
