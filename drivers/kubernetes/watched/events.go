package watched

import (
	"context"
	"sync"
	"time"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	clientcache "k8s.io/client-go/tools/cache"

	"github.com/jibe-vnfm/jibe/drivers/kubernetes/manifest"
	"github.com/jibe-vnfm/jibe/drivers/kubernetes/raw"
)

// creationFailures holds, by a workload's UID, why its controller couldn't make a pod, for workloads of the whole
// cluster or of one namespace. A StatefulSet, DaemonSet or Job that runs into a quota, or whose pods are invalid, says so in an
// event and nowhere else.
type creationFailures struct {
	// namespace is the one whose events are watched, "" for all.
	namespace string
	// notify is called with what an event is about that wasn't known before.
	notify func(uid types.UID, key string)

	mu     sync.RWMutex
	end    func() // ends the present watch
	latest map[types.UID]creationFailure
}

// creationFailure is what the latest of these events says. It may be of yesterday: then it is a
// reason and no failure ([view.creationFails]).
type creationFailure struct {
	event   string // its namespace and name
	message string
	at      int64 // in seconds since 1970
}

func newCreationFailures(namespace string, notify func(types.UID, string)) *creationFailures {
	return &creationFailures{namespace: namespace, notify: notify, latest: map[types.UID]creationFailure{}}
}

// creationFailure is what the latest event about a pod of the workload says.
func (c *Cache) creationFailure(workload types.UID) (latest creationFailure) {
	for _, events := range c.creationFailures {
		if f := events.of(workload); f.at >= latest.at {
			latest = f
		}
	}
	return latest
}

func (c *creationFailures) of(uid types.UID) creationFailure {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.latest[uid]
}

// run watches the one sort of event until ctx ends, and lists all of them again as [kindCache.run] does. Credentials that
// may not see events cost the explanation, nothing else.
func (c *creationFailures) run(ctx context.Context, client dynamic.Interface) {
	for ctx.Err() == nil {
		watching, end := context.WithCancel(ctx)
		c.mu.Lock()
		c.end = end
		c.mu.Unlock()

		due := time.AfterFunc(relistAfter(), end)
		c.follow(watching, client)
		due.Stop()
		end()

		select {
		case <-time.After(relistPause):
		case <-ctx.Done():
		}
	}
}

// relist ends the present watch, so that all events are listed again.
func (c *creationFailures) relist() {
	c.mu.RLock()
	end := c.end
	c.mu.RUnlock()
	if end != nil {
		end()
	}
}

// follow lists the events and watches them until ctx ends.
func (c *creationFailures) follow(ctx context.Context, client dynamic.Interface) {
	events := client.Resource(schema.GroupVersionResource{Version: "v1", Resource: "events"})
	api, from := dynamic.ResourceInterface(events), events.Namespace(metav1.NamespaceSystem)
	if c.namespace != "" {
		api, from = events.Namespace(c.namespace), events.Namespace(c.namespace)
	}
	const selector = "type=Warning,reason=FailedCreate"
	failed := false // the last watch didn't begin; a reflector calls one function at a time
	lw := &clientcache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			o.FieldSelector, o.ResourceVersion = selector, newest
			return api.List(ctx, o)
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			o.FieldSelector = selector
			if o.SendInitialEvents != nil && *o.SendInitialEvents {
				o.ResourceVersion = newest
				return api.Watch(ctx, o)
			}
			if failed || setBack(ctx, from, noSuchObject, o.ResourceVersion) { // what is there now may not be what was there before
				failed = false
				c.relist()
				return nil, errAgain
			}

			w, err := api.Watch(ctx, o)
			failed = err != nil || closed(w)
			return w, err
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
	uid, key := c.put(obj)
	c.mu.Unlock()

	if uid != "" {
		c.notify(uid, key)
	}
	return nil
}

// put notes the event, and returns what it is about, if that is news. c.mu is held.
func (c *creationFailures) put(obj any) (about types.UID, key string) {
	u, ok := obj.(*unstructured.Unstructured)
	if !ok {
		return "", ""
	}
	uid := types.UID(raw.String(u.Object, "involvedObject", "uid"))
	now := creationFailure{event: u.GetNamespace() + "/" + u.GetName(), message: raw.String(u.Object, "message"), at: happened(u)}
	was := c.latest[uid]
	if now.at < was.at {
		return "", ""
	}

	c.latest[uid] = now
	if now.at == was.at && now.message == was.message {
		return "", ""
	}
	return uid, subject(u)
}

// subject is the key of what the event is about.
func subject(event *unstructured.Unstructured) string {
	about := func(field string) string { return raw.String(event.Object, "involvedObject", field) }
	version, err := schema.ParseGroupVersion(about("apiVersion"))
	if err != nil {
		return ""
	}
	return manifest.Key(schema.GroupKind{Group: version.Group, Kind: about("kind")}, about("namespace"), about("name"))
}

// happened is when the event happened last, in seconds since 1970.
func happened(event *unstructured.Unstructured) int64 {
	last := event.GetCreationTimestamp().Unix()
	for _, said := range []string{
		raw.String(event.Object, "lastTimestamp"), raw.String(event.Object, "eventTime"), raw.String(event.Object, "series", "lastObservedTime"),
	} {
		if at, err := time.Parse(time.RFC3339, said); err == nil {
			last = max(last, at.Unix())
		}
	}
	return last
}

// Delete takes an event that the server forgot.
func (c *creationFailures) Delete(obj any) error {
	u, ok := obj.(*unstructured.Unstructured)
	if !ok {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	uid := types.UID(raw.String(u.Object, "involvedObject", "uid"))
	if c.latest[uid].event == u.GetNamespace()+"/"+u.GetName() {
		delete(c.latest, uid)
	}
	return nil
}

// Replace takes all events that there are.
func (c *creationFailures) Replace(list []any, _ string) error {
	news := map[types.UID]string{}
	c.mu.Lock()
	clear(c.latest)
	for _, obj := range list {
		if uid, key := c.put(obj); uid != "" {
			news[uid] = key
		}
	}
	c.mu.Unlock()

	for uid, key := range news {
		c.notify(uid, key)
	}
	return nil
}

// Resync has nothing to do.
func (c *creationFailures) Resync() error { return nil }

// told notifies the instance of an object of which an event tells. An event that comes before its
// object is seen with it.
func (c *Cache) told(uid types.UID, key string) {
	gk, _, _, _ := manifest.SplitKey(key)
	if f := c.Get(gk, key); f != nil && f.UID == uid {
		c.notify(f.Instance)
	}
}

// lacksPods reports whether a workload whose controller tells only in events that it couldn't make a
// pod has fewer than it should.
func lacksPods(f *Fact, u *unstructured.Unstructured) bool {
	status := func(field string) int64 {
		n, _, _ := unstructured.NestedInt64(u.Object, "status", field)
		return n
	}
	if f.GroupKind == manifest.KindJob {
		return !f.ready && status("active") == 0
	}
	if status("observedGeneration") < u.GetGeneration() {
		return false // what the status says is of what was wanted before
	}

	switch f.GroupKind {
	case manifest.KindStatefulSet:
		return status("replicas") < int64(f.Count)
	case manifest.KindDaemonSet:
		return status("currentNumberScheduled") < status("desiredNumberScheduled")
	}
	return false
}

// creationFails is why the workload's controller can't make a pod now, "" where it can or where that
// isn't known: it lacks pods, and the event is no older than its newest pod and its last change.
func (v *view) creationFails(f *Fact) string {
	said := v.creationFailure(f.UID)
	if said.message == "" || !f.lacks || said.at < f.written || said.at < v.newest[f.Key] {
		return ""
	}
	return "its pods can't be created: " + said.message
}
