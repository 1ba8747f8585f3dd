package watched

import (
	"context"
	"errors"
	"reflect"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	clientcache "k8s.io/client-go/tools/cache"

	"github.com/jibe-vnfm/jibe/drivers/kubernetes/manifest"
)

// run keeps the facts of the kind up to date until ctx ends. Of all objects of
// the kind, only those that carry an instance's label cross the wire, unless those of
// others matter to instances.
func (k *kindCache) run(ctx context.Context, client dynamic.Interface, resource schema.GroupVersionResource) {
	selector := manifest.LabelInstance
	if manifest.InfoOf(k.gk).Shared || k.gk == manifest.KindAutoscaler || k.gk == manifest.KindStorage {
		selector = ""
	}
	api := client.Resource(resource)
	lw := &clientcache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			o.LabelSelector = selector
			list, err := api.List(ctx, o)
			if apierrors.IsNotFound(err) {
				// The kind is gone, with all its objects.
				_ = k.Replace(nil, "") // nothing to index, nothing to fail
			}
			if missing := ignoreMissingKind(err); missing != nil {
				k.seen(missing) // Replace notes success, when the list is taken over
			}
			return list, err
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			o.LabelSelector = selector
			w, err := api.Watch(ctx, o)
			switch {
			case err == nil && reflect.TypeOf(w) == reflect.TypeOf(watch.NewEmptyWatch()):
				// That is what client-go makes of a connection that was closed, or that timed
				// out, before there was an answer.
				k.seen(errNoAnswer)
			case apierrors.IsNotFound(err):
				_ = k.Replace(nil, "") // nothing to index, nothing to fail
			case apierrors.IsResourceExpired(err), apierrors.IsGone(err), apierrors.IsInvalid(err), apierrors.IsBadRequest(err):
				// The reflector lists anew, which notes the result.
			case err == nil && o.SendInitialEvents != nil && *o.SendInitialEvents:
				// It is a list in other clothes: Replace notes when it is complete.
			default:
				k.seen(err)
			}
			return w, err
		},
	}
	quiet := logr.Discard()
	clientcache.NewReflectorWithOptions(lw, nil, k, clientcache.ReflectorOptions{
		Name: "jibe " + k.gk.Kind, Logger: &quiet,
		// client-go would wait up to a minute before it looks at a VIM that is back,
		// or has granted the right that was missing: operations wait for this.
		Backoff: &wait.Backoff{Duration: retryFirst, Cap: retryMost, Steps: 20, Factor: 1.5, Jitter: 0.2},
	}).RunWithContext(logr.NewContext(ctx, quiet))
}

// errNoAnswer is why a kind isn't seen: its watch ended before it began.
var errNoAnswer = errors.New("no answer: the connection was closed, or timed out")

// The pauses between two tries to list or watch a kind.
const (
	retryFirst = 300 * time.Millisecond
	retryMost  = 3 * time.Second
)

func ignoreMissingKind(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// Watch calls changed with the instance of every object that moved, until ctx
// ends or the driver is closed. It begins the watches that every VIM has, so that it
// reports what is there already, too.
func (c *Cache) Watch(ctx context.Context, changed func(instance string)) error {
	cancel := c.subscribe(changed)
	defer cancel()
	ctx, end := context.WithCancel(ctx)
	defer end()
	defer context.AfterFunc(c.life, end)()
	said := false
	_ = wait.PollUntilContextCancel(ctx, retryMost, true, func(context.Context) (bool, error) {
		gk, err := c.watchAlways()
		if err != nil && c.life.Err() == nil && !said {
			c.log.Warn("the VIM can't be watched yet, and is tried again", "kind", gk.Kind, "error", err)
			said = true
		}
		return err == nil, nil
	}) // it fails only when ctx ends
	<-ctx.Done()
	return nil
}

// watchAlways begins the watches that every VIM has; the error is of the first
// kind that can't be looked up.
func (c *Cache) watchAlways() (schema.GroupKind, error) {
	for gk, info := range manifest.Kinds {
		if !info.Always {
			continue
		}
		if err := c.ensure(gk); err != nil {
			return gk, err
		}
	}
	return schema.GroupKind{}, nil
}
