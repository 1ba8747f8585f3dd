package kubernetes

import (
	"cmp"
	"context"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/jibe-vnfm/jibe/drivers"
	"github.com/jibe-vnfm/jibe/drivers/kubernetes/manifest"
	"github.com/jibe-vnfm/jibe/drivers/kubernetes/raw"
)

// explainPatience bounds all that an explanation may cost: the operation that
// waits for it has failed already.
const explainPatience = 3 * time.Second

// maxEvents bounds how many events are read for one explanation.
const maxEvents = 1000

// Explain is the newest event about the object, or about what it owns and isn't
// ready: "FailedScheduling: 0/3 nodes are available (3 s ago, from
// default-scheduler)". A warning is worth more than an event of something that went well.
func (d *Driver) Explain(ctx context.Context, r drivers.Rendering, key string) string {
	gk, namespace, name, ok := manifest.SplitKey(key)
	if !ok {
		return ""
	}
	ctx, cancel := context.WithTimeout(ctx, explainPatience)
	defer cancel()
	about, owns := d.watches.Subjects(r.Source.Instance.ID, key)
	found := d.events(ctx, namespace, "involvedObject.kind="+gk.Kind+",involvedObject.name="+name, func(e *unstructured.Unstructured) bool {
		uid := types.UID(raw.String(e.Object, "involvedObject", "uid"))
		return len(about) == 0 || uid == "" || about[uid]
	})
	if owns {
		found = append(found, d.events(ctx, namespace, "type=Warning", func(e *unstructured.Unstructured) bool {
			return about[types.UID(raw.String(e.Object, "involvedObject", "uid"))]
		})...)
	}
	var best *unstructured.Unstructured
	for _, e := range found {
		if best == nil || worth(e, best) {
			best = e
		}
	}
	if best == nil {
		return ""
	}
	said := raw.String(best.Object, "reason")
	if message := strings.Join(strings.Fields(raw.String(best.Object, "message")), " "); message != "" {
		said = strings.TrimPrefix(said+": "+message, ": ")
	}
	if what := raw.String(best.Object, "involvedObject", "kind") + "/" + namespace + "/" + raw.String(best.Object, "involvedObject", "name"); what != key {
		said = what + ": " + said
	}
	said += " (" + max(0, time.Since(when(best))).Round(time.Second).String() + " ago"
	if from := cmp.Or(raw.String(best.Object, "source", "component"), raw.String(best.Object, "reportingComponent")); from != "" {
		said += ", from " + from
	}
	return said + ")"
}

// events are those of the namespace that the selector and keep let through; none
// on any error.
func (d *Driver) events(ctx context.Context, namespace, selector string, keep func(*unstructured.Unstructured) bool) []*unstructured.Unstructured {
	// Events about objects in no namespace are in this one.
	namespace = cmp.Or(namespace, metav1.NamespaceDefault)
	api := d.client.Resource(schema.GroupVersionResource{Version: "v1", Resource: "events"}).Namespace(namespace)
	list, err := api.List(ctx, metav1.ListOptions{FieldSelector: selector, Limit: maxEvents})
	if err != nil {
		d.log.Debug("the VIM's events can't be read", "namespace", namespace, "error", err)
		return nil
	}
	var found []*unstructured.Unstructured
	for i := range list.Items {
		if keep(&list.Items[i]) {
			found = append(found, &list.Items[i])
		}
	}
	return found
}

// worth says whether the event explains more than the other.
func worth(e, than *unstructured.Unstructured) bool {
	a, b := raw.String(e.Object, "type") == "Warning", raw.String(than.Object, "type") == "Warning"
	if a != b {
		return a
	}
	return when(e).After(when(than))
}

// when is the last time that the event happened.
func when(e *unstructured.Unstructured) time.Time {
	for _, path := range [][]string{{"series", "lastObservedTime"}, {"lastTimestamp"}, {"eventTime"}, {"firstTimestamp"}} {
		if t, err := time.Parse(time.RFC3339Nano, raw.String(e.Object, path...)); err == nil {
			return t
		}
	}
	return e.GetCreationTimestamp().Time
}
