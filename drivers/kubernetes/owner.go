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
	"github.com/jibe-vnfm/jibe/drivers/kubernetes/watched"
)

// mine says whether the watches know the object as the instance's.
func (d *Driver) mine(gk schema.GroupKind, key, instance string) bool {
	return d.watches.Owns(d.watches.Get(gk, key), instance)
}

// checkOwner refuses an object that exists and isn't the instance's.
func (d *Driver) checkOwner(ctx context.Context, src drivers.Source, api dynamic.ResourceInterface, rendered *unstructured.Unstructured, key string) error {
	now, err := d.look(ctx, src.Bounds, api, rendered.GetName(), key)
	if err != nil || now == nil {
		return err
	}
	return d.ownedBy(now, rendered, key, src.Instance.ID)
}

// look asks the API server for the object; nil if there is none.
func (d *Driver) look(ctx context.Context, b *drivers.Bounds, api dynamic.ResourceInterface, name, key string) (*unstructured.Unstructured, error) {
	now, err := d.get(ctx, api, name, metav1.GetOptions{})
	if err != nil {
		return nil, drivers.About("look at "+key, classifyAs(b, key, err))
	}

	return now, nil
}

// get is one request for an object; nil if there is none.
func (d *Driver) get(ctx context.Context, api dynamic.ResourceInterface, name string, o metav1.GetOptions) (*unstructured.Unstructured, error) {
	release, err := d.slot(ctx)
	if err != nil {
		return nil, err
	}
	defer release()
	ctx, cancel := context.WithTimeout(ctx, callPatience)
	defer cancel()

	now, err := api.Get(ctx, name, o)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}

	return now, err
}

// ownedBy refuses an object that isn't the instance's, of this installation. One that lost its
// label is known by its digest, which nobody else can make: it is that of this very
// object of this very instance. What another installation says is its own is so, whatever the
// digest: who copies a key makes the same ones.
func (d *Driver) ownedBy(now, rendered *unstructured.Unstructured, key, instance string) error {
	refuse := func(owner, format string, args ...any) error {
		return &drivers.RefusedError{Object: key, Owner: owner, Reason: fmt.Sprintf(format, args...)}
	}
	f := watched.FactOf(d.installation, now.GroupVersionKind().GroupKind(), now)
	digest := rendered.GetAnnotations()[manifest.AnnotationDigest]
	labels := now.GetLabels()
	switch owner := labels[manifest.LabelInstance]; {
	case f.Elsewhere != "":
		return refuse("", "exists already and belongs to VNF instance %s of another installation of Jibe, %s (this one is %s): rename it in the package, or choose another namespace. "+
			"If this is that installation, set up again, write its id into the file \"installation\" of the data directory and start Jibe anew", f.Elsewhere, labels[manifest.LabelInstallation], d.installation)
	case digest != "" && f.Digest == digest, d.watches.Owns(f, instance):
		return nil
	case owner == instance:
		return refuse("", "exists already, and nothing proves that this installation made it, as its label says another thing than its digest: remove it from the cluster, "+
			"or give it the label %s: %s to have Jibe take it", manifest.LabelInstallation, d.installation)
	case owner == "":
		return refuse("", "exists already and is not Jibe's: rename it in the package, choose another namespace, or remove it from the cluster")
	default:
		return refuse(owner, "exists already and belongs to VNF instance %s: rename it in the package, or choose another namespace", owner)
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
func (d *Driver) creating(src drivers.Source, key string) func(context.Context, dynamic.ResourceInterface, *unstructured.Unstructured, bool) (*unstructured.Unstructured, error) {
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
		now, err := d.look(ctx, src.Bounds, api, obj.GetName(), key)
		if err == nil && now != nil {
			err = d.ownedBy(now, obj, key, src.Instance.ID)
		}
		if err != nil {
			return nil, err
		}
		if gk := obj.GroupVersionKind().GroupKind(); now != nil && !dryRun && watched.FactOf(d.installation, gk, now).Former() {
			if err := d.mark(ctx, api, key, now); err != nil {
				return nil, err
			}
		}
		return d.patch(ctx, api, obj, dryRun)
	}
}
