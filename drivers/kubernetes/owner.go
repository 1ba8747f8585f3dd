package kubernetes

import (
	"context"
	"fmt"
	"maps"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/jibe-vnfm/jibe/drivers"
	"github.com/jibe-vnfm/jibe/drivers/kubernetes/manifest"
)

// mine says whether the watches know the object as the instance's.
func (d *Driver) mine(gk schema.GroupKind, key, instance string) bool {
	f := d.watches.Get(gk, key)
	return f != nil && f.Instance == instance
}

// checkOwner refuses an object that exists and isn't the instance's.
func (d *Driver) checkOwner(ctx context.Context, api dynamic.ResourceInterface, rendered *unstructured.Unstructured, key, instance string) error {
	now, err := d.look(ctx, api, rendered.GetName(), key)
	if err != nil || now == nil {
		return err
	}
	return ownedBy(now, rendered, key, instance)
}

// look asks the API server for the object; nil if there is none.
func (d *Driver) look(ctx context.Context, api dynamic.ResourceInterface, name, key string) (*unstructured.Unstructured, error) {
	release, err := d.slot(ctx)
	if err != nil {
		return nil, err
	}
	defer release()
	ctx, cancel := context.WithTimeout(ctx, callPatience)
	defer cancel()
	now, err := api.Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("look at %s: %w", key, classify(key, err))
	}
	return now, nil
}

// ownedBy refuses an object that isn't the instance's. One that lost its label
// is known by its digest, which nobody else can make: it is that of this very
// object of this very instance.
func ownedBy(now, rendered *unstructured.Unstructured, key, instance string) error {
	digest := now.GetAnnotations()[manifest.AnnotationDigest]
	proven := digest != "" && digest == rendered.GetAnnotations()[manifest.AnnotationDigest]
	switch owner := now.GetLabels()[manifest.LabelInstance]; {
	case owner == instance, proven:
		return nil
	case owner == "":
		return &drivers.RefusedError{Object: key, Reason: "exists already and is not Jibe's: rename it in the package, choose another namespace, or remove it from the cluster"}
	default:
		return &drivers.RefusedError{Object: key, Owner: owner, Reason: fmt.Sprintf("exists already and belongs to VNF instance %s: rename it in the package, or choose another namespace", owner)}
	}
}

// neverWritten is a resourceVersion that no object has: the first that a cluster ever
// writes has a later one.
const neverWritten = "1"

// creating is how an object is written that isn't known to exist. As long as it doesn't,
// that is one request: the API server makes an object that names a version only where there
// is none. Else it is changed if it is the instance's, and refused if it isn't. Of kinds
// that aren't built in it is asked first, as another server may serve them, by its own
// rules.
func (d *Driver) creating(key, instance string) func(context.Context, dynamic.ResourceInterface, *unstructured.Unstructured, bool) (*unstructured.Unstructured, error) {
	return func(ctx context.Context, api dynamic.ResourceInterface, obj *unstructured.Unstructured, dryRun bool) (*unstructured.Unstructured, error) {
		if _, builtIn := manifest.Kinds[obj.GroupVersionKind().GroupKind()]; builtIn {
			absent := &unstructured.Unstructured{Object: maps.Clone(obj.Object)}
			meta, _ := obj.Object["metadata"].(map[string]any)
			absent.Object["metadata"] = maps.Clone(meta)
			absent.SetResourceVersion(neverWritten)
			if made, err := d.patch(ctx, api, absent, dryRun); !apierrors.IsConflict(err) {
				return made, err
			}
		}
		if err := d.checkOwner(ctx, api, obj, key, instance); err != nil {
			return nil, err
		}
		return d.patch(ctx, api, obj, dryRun)
	}
}
