package kubernetes

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/jibe-vnfm/jibe/drivers"
	"github.com/jibe-vnfm/jibe/drivers/kubernetes/manifest"
	"github.com/jibe-vnfm/jibe/drivers/kubernetes/raw"
	"github.com/jibe-vnfm/jibe/drivers/kubernetes/watched"
	"github.com/jibe-vnfm/jibe/plan"
)

// post hands over an object that the API server takes and doesn't keep. It only matters that
// the server takes it: the answer to a review is thrown away.
func (d *Driver) post(ctx context.Context, src drivers.Source, r *manifest.Form, s plan.Step, dryRun bool) error {
	obj, gk, err := sized(r, s)
	if err != nil {
		return err
	}
	resource, part := schema.GroupVersionResource{Version: "v1", Resource: "pods"}, ""
	switch gk {
	case manifest.KindEviction:
		part = "eviction"
	case manifest.KindBinding:
		part = "binding"
	default:
		mapping, err := d.mapper.Find(gk, obj.GroupVersionKind().Version)
		if err != nil {
			d.watches.Await(src.Instance.ID, "", err)
			return d.unknownKind(gk, s.Object, err)
		}
		resource = mapping.Resource
	}
	client, err := d.as(src.Bounds)
	if err != nil {
		return err
	}
	var api dynamic.ResourceInterface = client.Resource(resource)
	if namespace := obj.GetNamespace(); namespace != "" {
		if outside := d.unused(namespace); outside != "" {
			return &drivers.RefusedError{Object: s.Object, Reason: outside}
		}
		api = client.Resource(resource).Namespace(namespace)
	}
	var parts []string
	if part != "" {
		parts = append(parts, part)
		due, err := d.due(ctx, src, api, obj, s.Object, dryRun)
		if err != nil || !due {
			return err
		}
	}
	release, err := d.slot(ctx)
	if err != nil {
		return err
	}
	defer release()
	ctx, cancel := context.WithTimeout(ctx, callPatience)
	defer cancel()
	o, what := metav1.CreateOptions{FieldValidation: metav1.FieldValidationStrict}, "post "
	if dryRun {
		o.DryRun, what = []string{metav1.DryRunAll}, "dry run of "
	}
	if _, err = api.Create(ctx, obj, o, parts...); err != nil {
		d.watches.Await(src.Instance.ID, obj.GetNamespace(), err)
		return drivers.About(what+s.Object, classifyAs(src.Bounds, s.Object, err))
	}
	return nil
}

// due says whether the Pod that an Eviction or a Binding is about is still to be evicted or
// bound. One that belongs to somebody else is refused.
func (d *Driver) due(ctx context.Context, src drivers.Source, pods dynamic.ResourceInterface, obj *unstructured.Unstructured, key string, dryRun bool) (bool, error) {
	pod, err := d.look(ctx, src.Bounds, pods, obj.GetName(), key)
	if err != nil {
		return false, err
	}
	evicts := obj.GetKind() == manifest.KindEviction.Kind
	switch {
	case pod == nil:
		return !evicts && !dryRun, nil // a dry run comes before the Pod
	case !d.watches.Owns(watched.FactOf(d.installation, manifest.KindPod, pod), src.Instance.ID):
		return false, &drivers.RefusedError{Object: key, Reason: "is about Pod " + obj.GetNamespace() + "/" + obj.GetName() +
			", which isn't this VNF instance's: name a Pod of the package, or leave the manifest out"}
	case evicts:
		return pod.GetDeletionTimestamp() == nil, nil
	}
	return raw.String(pod.Object, "spec", "nodeName") != raw.String(obj.Object, "target", "name"), nil
}
