package kubernetes

import (
	"context"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/jibe-vnfm/jibe/drivers"
)

// rights remembers, as long as a verdict, of which resources the credentials, or an account, may write
// objects in all namespaces. It may be used concurrently.
type rights struct {
	mu    sync.Mutex
	known map[rightKey]right
}

// rightKey is an account ("" is Jibe's own) and a resource.
type rightKey struct {
	account  string
	resource schema.GroupVersionResource
}

type right struct {
	everywhere bool
	at         time.Time
}

// maxRights bounds how many resources are remembered.
const maxRights = 256

// writesEverywhere says whether the account of the bounds may apply objects of the resource in
// every namespace. It asks the API server; no answer is a no.
func (d *Driver) writesEverywhere(ctx context.Context, b *drivers.Bounds, resource schema.GroupVersionResource) bool {
	key := rightKey{accountOf(b), resource}
	d.rights.mu.Lock()
	r, known := d.rights.known[key]
	d.rights.mu.Unlock()
	if known && time.Since(r.at) < verdictAge {
		return r.everywhere
	}
	// An apply is a patch, and the creation of what doesn't exist.
	r = right{everywhere: d.may(ctx, b, "patch", resource) && d.may(ctx, b, "create", resource), at: time.Now()}
	d.rights.mu.Lock()
	defer d.rights.mu.Unlock()
	if len(d.rights.known) >= maxRights {
		clear(d.rights.known)
	}
	d.rights.known[key] = r
	return r.everywhere
}

// may asks whether the account of the bounds has the right in all namespaces.
func (d *Driver) may(ctx context.Context, b *drivers.Bounds, verb string, resource schema.GroupVersionResource) bool {
	client, err := d.as(b)
	if err != nil {
		return false
	}
	release, err := d.slot(ctx)
	if err != nil {
		return false
	}
	defer release()
	ctx, cancel := context.WithTimeout(ctx, callPatience)
	defer cancel()
	review := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview",
		"spec": map[string]any{"resourceAttributes": map[string]any{
			"verb": verb, "group": resource.Group, "version": resource.Version, "resource": resource.Resource,
		}},
	}}
	reviews := schema.GroupVersionResource{Group: "authorization.k8s.io", Version: "v1", Resource: "selfsubjectaccessreviews"}
	answer, err := client.Resource(reviews).Create(ctx, review, metav1.CreateOptions{})
	if err != nil {
		return false
	}
	allowed, _, err := unstructured.NestedBool(answer.Object, "status", "allowed")
	return allowed && err == nil
}
