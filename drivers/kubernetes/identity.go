package kubernetes

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/jibe-vnfm/jibe/drivers/kubernetes/watched"
)

// Identity is the uid of the namespace kube-system, which every cluster has from its
// beginning to its end. Credentials of one namespace may not see it.
func (d *Driver) Identity(ctx context.Context) (string, error) {
	release, err := d.slot(ctx)
	if err != nil {
		return "", err
	}
	defer release()
	ctx, cancel := context.WithTimeout(ctx, callPatience)
	defer cancel()
	const name = metav1.NamespaceSystem
	ns, err := d.client.Resource(schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}).Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err), apierrors.IsForbidden(err):
		return "", nil
	case err != nil:
		return "", fmt.Errorf("look at namespace %s: %w", name, watched.Unavailable(err))
	}
	return string(ns.GetUID()), nil
}
