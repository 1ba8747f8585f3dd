package watched

import (
	"context"
	"errors"
	"reflect"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	clientcache "k8s.io/client-go/tools/cache"

	"github.com/jibe-vnfm/jibe/drivers/kubernetes/manifest"
)

// run keeps the facts of the kind up to date until ctx ends. Whenever [kindCache.relist] is called, and at the least
// every [relistMost], all is listed again.
func (k *kindCache) run(ctx context.Context, client dynamic.Interface, mapping *meta.RESTMapping) {
	pause := relistPause
	for ctx.Err() == nil {
		watching, end := context.WithCancel(ctx)
		k.cache.mu.Lock()
		k.end, k.void = end, false
		k.cache.mu.Unlock()

		if now, err := k.cache.mapper.Find(k.gk); err == nil {
			mapping = now // it may be served in another version by now
		}
		due, began := time.AfterFunc(relistAfter(), end), time.Now()
		k.follow(watching, client, mapping)
		due.Stop()
		end()

		if time.Since(began) >= relistCalm {
			pause = relistPause
			continue
		}
		select { // an address that leads to two clusters in turn has every list set the watches back
		case <-time.After(pause):
		case <-ctx.Done():
		}
		pause = min(2*pause, relistCalm)
	}
}

// The pause before a kind is listed again whose watch ended within relistCalm; it doubles up to that.
const (
	relistPause = 100 * time.Millisecond
	relistCalm  = 30 * time.Second
)

// relist ends the present watch of the kind, so that all is listed again. Cache.mu is held.
func (k *kindCache) relist() {
	if k.end != nil {
		k.end()
	}
}

// follow lists the kind and watches it, in its scope, until ctx ends. Of all objects of
// the kind, only those that carry an instance's label cross the wire, unless those of
// others matter to instances.
func (k *kindCache) follow(ctx context.Context, client dynamic.Interface, mapping *meta.RESTMapping) {
	selector := manifest.LabelInstance
	if manifest.InfoOf(k.gk).Shared || k.gk == manifest.KindAutoscaler || k.gk == manifest.KindStorage {
		selector = ""
	}
	field := k.fieldSelector()
	lw := &clientcache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			o.LabelSelector, o.FieldSelector = selector, field
			o.ResourceVersion = newest
			ctx, answered := withOnce(ctx)
			list, err := k.resource(client, mapping).List(ctx, o)
			switch {
			case apierrors.IsNotFound(err):
				err = k.missing(mapping, err)
			case err != nil:
				k.failing(err) // Replace notes success, when the list is taken over
				answered.wait(ctx)
			}
			return list, err
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			o.LabelSelector, o.FieldSelector = selector, field
			ctx, answered := withOnce(ctx)
			begin := k.resume
			if o.SendInitialEvents != nil && *o.SendInitialEvents {
				begin = k.begin
			}
			w, err := begin(ctx, client, mapping, o)
			if err != nil {
				answered.wait(ctx)
			}
			return w, err
		},
	}
	quiet := logr.Discard()
	clientcache.NewReflectorWithOptions(lw, nil, k, clientcache.ReflectorOptions{
		Name: "jibe " + k.String(), Logger: &quiet,
		// client-go would wait up to a minute before it looks at a VIM that is back,
		// or has granted the right that was missing: operations wait for this.
		Backoff: &wait.Backoff{Duration: retryFirst, Cap: retryMost, Steps: 20, Factor: 1.5, Jitter: 0.2},
	}).RunWithContext(logr.NewContext(ctx, quiet))
}

// begin begins a watch that is a list in other clothes: Replace notes when it is complete.
func (k *kindCache) begin(ctx context.Context, client dynamic.Interface, mapping *meta.RESTMapping, o metav1.ListOptions) (watch.Interface, error) {
	o.ResourceVersion = newest
	w, err := k.resource(client, mapping).Watch(ctx, o)
	if err != nil || closed(w) {
		return w, k.failed(ctx, mapping, err)
	}
	return w, nil
}

// newest is the version of lists that have all that the store has now. What a server has in memory may be older than
// what is known here; and one that was set back would keep a list of a version of the future waiting.
const newest = ""

// resume goes on with a watch where the last one ended, unless the server may have other facts by now than those that
// were seen: then all is listed again.
func (k *kindCache) resume(ctx context.Context, client dynamic.Interface, mapping *meta.RESTMapping, o metav1.ListOptions) (watch.Interface, error) {
	if from, name := k.probe(client, mapping); setBack(ctx, from, name, o.ResourceVersion) {
		k.cache.log.Warn("the VIM's store was set back, as after a restore: all objects are listed again", "kind", k.String(), "version", o.ResourceVersion)
		return nil, k.again()
	}
	w, err := k.resource(client, mapping).Watch(ctx, o)
	if err != nil || closed(w) {
		return w, k.failed(ctx, mapping, err)
	}
	if k.isFailing() { // what is there now may not be what was there before
		w.Stop()
		return nil, k.again()
	}
	if _, err := k.cache.identify(ctx, time.Now()); err != nil {
		w.Stop()
		k.failing(err)
		return nil, err
	}
	return w, nil
}

// failed notes why a watch couldn't begin, and returns the error.
func (k *kindCache) failed(ctx context.Context, mapping *meta.RESTMapping, err error) error {
	switch {
	case ctx.Err() != nil:
	case err == nil:
		k.failing(errNoAnswer)
	case apierrors.IsNotFound(err):
		return k.missing(mapping, err)
	case apierrors.IsResourceExpired(err), apierrors.IsGone(err), apierrors.IsInvalid(err), apierrors.IsBadRequest(err):
		// The reflector lists again, which notes the result.
	default:
		k.failing(err)
	}
	return err
}

// missing takes the answer that there is no such resource, and returns the error with which the list or watch ends. The
// kind is gone with all its objects only where the API server serves it in no version: one that was removed from the
// definition takes no object with it.
func (k *kindCache) missing(mapping *meta.RESTMapping, err error) error {
	k.cache.mu.RLock()
	known := k.goneUntil.After(time.Now()) && k.goneAt == k.cache.definitions
	at, empty := k.cache.definitions, len(k.facts) == 0
	k.cache.mu.RUnlock()
	if known {
		return err
	}

	now, failed := k.cache.mapper.Renew(k.gk)
	switch {
	case meta.IsNoMatchError(failed):
		k.cache.mu.Lock()
		k.goneAt, k.goneUntil = at, time.Now().Add(relistCalm)
		k.cache.mu.Unlock()
		_ = k.Replace(nil, "") // nothing to index; an error is that of the list
	case failed != nil:
		k.failing(failed)
	case now.Resource != mapping.Resource:
		k.cache.log.Info("a kind is served in another version by now", "kind", k.String(), "was", mapping.Resource.Version, "is", now.Resource.Version)
		return k.again()
	case empty:
		_ = k.Replace(nil, "") // its definition has just come, or is just going
	default:
		k.failing(err) // what is served isn't settled yet
	}
	return err
}

// errAgain ends a watch after which all is listed again.
var errAgain = errors.New("all is listed again")

// again has all listed again, and returns the error with which the present watch ends.
func (k *kindCache) again() error {
	k.cache.mu.Lock()
	defer k.cache.mu.Unlock()
	k.relist()
	return errAgain
}

// isFailing reports whether the last list or watch failed.
func (k *kindCache) isFailing() bool {
	k.cache.mu.RLock()
	defer k.cache.mu.RUnlock()
	return k.err != nil
}

// closed reports whether the watch is what client-go makes of a connection that was closed, or that timed out, before
// there was an answer.
func closed(w watch.Interface) bool {
	return reflect.TypeOf(w) == reflect.TypeOf(watch.NewEmptyWatch())
}

// errNoAnswer is why a kind isn't seen: its watch ended before it began.
var errNoAnswer = errors.New("no answer: the connection was closed, or timed out")

// The pauses between two tries to list or watch a kind.
const (
	retryFirst = 300 * time.Millisecond
	retryMost  = 3 * time.Second
)

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
