package kubernetes

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/jibe-vnfm/jibe/drivers"
)

// mine says whether the watches know the object as the instance's.
func (d *Driver) mine(gk schema.GroupKind, key, instance string) bool {
	f := d.cache.get(gk, key)
	return f != nil && f.instance == instance
}

// checkOwner refuses an object that exists and isn't the instance's.
func (d *Driver) checkOwner(ctx context.Context, api dynamic.ResourceInterface, name, key, instance string) error {
	release, err := d.slot(ctx)
	if err != nil {
		return err
	}
	defer release()
	ctx, cancel := context.WithTimeout(ctx, callPatience)
	defer cancel()
	now, err := api.Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("look at %s: %w", key, classify(key, err))
	}
	switch owner := now.GetLabels()[LabelInstance]; owner {
	case instance:
		return nil
	case "":
		return &drivers.RefusedError{Object: key, Reason: "exists already and is not Jibe's: rename it in the package, choose another namespace, or remove it from the cluster"}
	default:
		return &drivers.RefusedError{Object: key, Reason: fmt.Sprintf("exists already and belongs to VNF instance %s: rename it in the package, or choose another namespace", owner)}
	}
}
