package watched

import (
	"context"
	"sync"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	clientcache "k8s.io/client-go/tools/cache"

	"github.com/jibe-vnfm/jibe/drivers/kubernetes/raw"
)

// creationFailures holds, by a workload's UID, why its controller couldn't make a pod.
// A StatefulSet or DaemonSet that runs into a quota says so in an event and
// nowhere else. An event may be of yesterday, so it is a reason and no failure.
type creationFailures struct {
	mu       sync.RWMutex
	messages map[types.UID]string
	subject  map[string]types.UID // event -> what it is about
}

func newCreationFailures() *creationFailures {
	return &creationFailures{messages: map[types.UID]string{}, subject: map[string]types.UID{}}
}

func (c *creationFailures) of(uid types.UID) string {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.messages[uid]
}

// run watches the one sort of event until ctx ends. Credentials that may not see
// events cost the explanation, nothing else.
func (c *creationFailures) run(ctx context.Context, client dynamic.Interface) {
	api := client.Resource(schema.GroupVersionResource{Version: "v1", Resource: "events"})
	const selector = "type=Warning,reason=FailedCreate"
	lw := &clientcache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			o.FieldSelector = selector
			return api.List(ctx, o)
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			o.FieldSelector = selector
			return api.Watch(ctx, o)
		},
	}
	quiet := logr.Discard()
	clientcache.NewReflectorWithOptions(lw, nil, c, clientcache.ReflectorOptions{
		Name: "jibe creation failures", Logger: &quiet,
	}).RunWithContext(logr.NewContext(ctx, quiet))
}

// Add, Update, Delete, Replace and Resync are what a reflector calls.

// Add takes a new event.
func (c *creationFailures) Add(obj any) error { return c.Update(obj) }

// Update takes an event that happened again.
func (c *creationFailures) Update(obj any) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.put(obj)
	return nil
}

// put notes the event. c.mu is held.
func (c *creationFailures) put(obj any) {
	u, ok := obj.(*unstructured.Unstructured)
	if !ok {
		return
	}
	uid := types.UID(raw.String(u.Object, "involvedObject", "uid"))
	c.subject[u.GetNamespace()+"/"+u.GetName()] = uid
	c.messages[uid] = raw.String(u.Object, "message")
}

// Delete takes an event that the server forgot.
func (c *creationFailures) Delete(obj any) error {
	u, ok := obj.(*unstructured.Unstructured)
	if !ok {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	name := u.GetNamespace() + "/" + u.GetName()
	delete(c.messages, c.subject[name])
	delete(c.subject, name)
	return nil
}

// Replace takes all events that there are.
func (c *creationFailures) Replace(list []any, _ string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.messages)
	clear(c.subject)
	for _, obj := range list {
		c.put(obj)
	}
	return nil
}

// Resync has nothing to do.
func (c *creationFailures) Resync() error { return nil }
