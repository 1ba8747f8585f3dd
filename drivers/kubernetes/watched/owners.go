package watched

import (
	"context"
	"errors"
	"fmt"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/jibe-vnfm/jibe/drivers"
	"github.com/jibe-vnfm/jibe/drivers/kubernetes/manifest"
)

// The watches bring what carries an instance's label. Pods keep theirs, which the selector of
// what makes them demands; a Deployment or StatefulSet may lose its own, by a person or a tool.
// Its pods are then known by their owner all the same: the API server is asked for it, by the
// name that they have. What it answers stands among the facts as a stray, which no watch keeps
// up to date. Each look at the instance asks for it again, until it has its label or is gone.

// owner is what an object says of the one that made it.
type owner struct {
	gk              schema.GroupKind
	namespace, name string
	uid             types.UID
}

func (o owner) key() string { return manifest.Key(o.gk, o.namespace, o.name) }

// owners remembers which owners needn't be asked for, and until when, and since when others can't be read.
type owners struct {
	settled *lru.Cache[types.UID, time.Time]
	failing *lru.Cache[types.UID, time.Time]
}

const (
	// maxSettled bounds how many are remembered; the oldest are forgotten first.
	maxSettled = 4096
	// settledFor is for how long an owner isn't asked for again of which nothing could be
	// learned. One that is gone never comes back.
	settledFor = time.Minute
	// ownerRounds is how often owners of owners are looked for: a pod's ReplicaSet or Job, and
	// what made that.
	ownerRounds = 3
	// leavingPause is after how long an instance is looked at again that has a stray which is
	// being deleted: no watch tells that it is gone.
	leavingPause = time.Second
)

func newOwners() *owners {
	settled, err := lru.New[types.UID, time.Time](maxSettled)
	if err != nil {
		panic(err) // the size isn't positive
	}
	failing, err := lru.New[types.UID, time.Time](maxSettled)
	if err != nil {
		panic(err)
	}

	return &owners{settled, failing}
}

// failed notes that the owner couldn't be read, and returns since when it can't.
func (o *owners) failed(uid types.UID) time.Time {
	now := time.Now()
	if since, failing, _ := o.failing.PeekOrAdd(uid, now); failing {
		return since
	}

	return now
}

func (o *owners) settle(uid types.UID, until time.Duration) {
	o.settled.Add(uid, time.Now().Add(until))
}

func (o *owners) isSettled(uid types.UID) bool {
	until, ok := o.settled.Peek(uid)
	return ok && time.Now().Before(until)
}

// findOwners asks the API server for the owners of the instance's pods that no watch brings.
// proven reports whether an object is the instance's by its digest.
func (c *Cache) findOwners(ctx context.Context, instance string, proven func(*Fact) bool) error {
	due := c.strays(instance)
	for range ownerRounds {
		due = append(due, c.unseenOwners(instance)...)
		if len(due) == 0 {
			return nil
		}

		for _, o := range due {
			if err := c.findOwner(ctx, instance, o, proven); err != nil {
				return fmt.Errorf("look at %s, which has lost its label: %w", o.key(), err)
			}
		}
		due = nil
	}

	return nil
}

// strays are the owners of the instance's pods that are known from a look before.
func (c *Cache) strays(instance string) (found []owner) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	for _, all := range []map[string]*Fact{c.instances[instance], c.elsewhere[instance]} {
		for _, f := range all {
			if f.stray {
				found = append(found, owner{f.GroupKind, f.namespace, f.Name, f.UID})
			}
		}
	}

	return found
}

// unseenOwners are those that no watch has brought.
func (c *Cache) unseenOwners(instance string) (unseen []owner) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	var known map[types.UID]bool
	for _, f := range c.instances[instance] {
		gk := f.controller.groupKind()
		if f.controller.uid == "" || !manifest.MakesPods(gk) || c.owners.isSettled(f.controller.uid) {
			continue
		}
		if known == nil {
			known = c.uids(instance)
		}
		if !known[f.controller.uid] {
			known[f.controller.uid] = true
			unseen = append(unseen, owner{gk, f.namespace, f.controller.name, f.controller.uid})
		}
	}

	return unseen
}

// uids are those of all that is known of the instance. c.mu is held.
func (c *Cache) uids(instance string) map[types.UID]bool {
	known := make(map[types.UID]bool, len(c.instances[instance]))
	for _, all := range []map[string]*Fact{c.instances[instance], c.elsewhere[instance]} {
		for _, f := range all {
			known[f.UID] = true
		}
	}

	return known
}

// findOwner asks for one owner, and has it among the facts if it is still there.
func (c *Cache) findOwner(ctx context.Context, instance string, o owner, proven func(*Fact) bool) error {
	mapping, err := c.mapper.Find(o.gk)
	if meta.IsNoMatchError(err) {
		c.owners.settle(o.uid, settledFor)
		return nil
	}
	if err != nil {
		return Unavailable(err)
	}
	if err := c.ensure(o.gk); err != nil {
		return err
	}

	ctx, cancel := context.WithTimeout(ctx, syncPatience)
	defer cancel()
	found, err := c.client.Resource(mapping.Resource).Namespace(o.namespace).Get(Once(ctx), o.name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err), err == nil && found.GetUID() != o.uid:
		c.owners.settle(o.uid, 100*365*24*time.Hour)
		c.dropStray(o)
	case isForbidden(err):
		c.owners.settle(o.uid, settledFor)
	case err != nil:
		return c.unread(ctx, o, err)
	default:
		c.putStray(instance, o, found, proven)
	}
	c.owners.failing.Remove(o.uid)

	return nil
}

// unread returns why an owner couldn't be read: an error of its kind, which concerns this instance alone, where
// the API server answered with it and answers other requests, and of the VIM where it doesn't.
func (c *Cache) unread(ctx context.Context, o owner, err error) error {
	var said apierrors.APIStatus
	if !errors.As(err, &said) || apierrors.IsUnauthorized(err) {
		return Unavailable(err)
	}
	if since := c.owners.failed(o.uid); c.answers(ctx, since) {
		return &drivers.UnlistedError{Kind: manifest.KindName(o.gk), Since: since, Err: fmt.Errorf("read %s: %w", o.key(), err)}
	}

	return Unavailable(err)
}

func (c *Cache) dropStray(o owner) {
	c.mu.Lock()
	defer c.mu.Unlock()
	k := c.holder(o.gk, o.key())
	if k == nil {
		return
	}
	if f := k.facts[o.key()]; f != nil && f.stray {
		k.drop(o.key(), o.uid)
	}
}

// putStray has the owner among the facts. What has a label has only overtaken its watch.
func (c *Cache) putStray(instance string, o owner, found *unstructured.Unstructured, proven func(*Fact) bool) {
	f := FactOf(c.installation, o.gk, found)
	if _, labelled := found.GetLabels()[manifest.LabelInstance]; !labelled {
		f.attribute(instance, isAnother(c.installation, found), proven)
	}
	if f.Instance != instance && f.Elsewhere != instance {
		c.owners.settle(o.uid, settledFor) // it says that it is another instance's
	}

	c.mu.Lock()
	defer c.mu.Unlock()
	k := c.holder(o.gk, f.Key)
	if k == nil || k.void {
		return
	}
	if !f.stray && k.synced && f.version != 0 && f.version <= k.version {
		return // its watch has passed this version, and may have deleted it
	}
	k.put(f)
	if f.stray && f.Deleting {
		c.lookAgainSoon(instance)
	}
}

// attribute says whose an owner is that carries no instance's label, and whose pods carry that of
// the instance. Where a controller made it, its own owner tells. Where Jibe applied it, it is the
// instance's: its fields ([Fact.keepInstance]), or its digest, prove that. Else it is another's,
// be it another installation's or a person's, and so are its pods.
func (f *Fact) attribute(instance string, another bool, proven func(*Fact) bool) {
	f.stray = true
	isProven := !another && proven(f)
	f.installed = f.installed || isProven

	switch {
	case f.Instance != "":
	case f.controller.uid != "", f.leftBy != "", isProven:
		f.Instance = instance
	default:
		f.Elsewhere = instance
	}
}

// keepInstance has what makes pods be the instance's whose label these carry, where Jibe applied
// it and its own label was taken off, or given another value, by others. The pods' label is what
// the object selects them by, which Kubernetes never changes.
func (f *Fact) keepInstance(i manifest.Installation, u *unstructured.Unstructured) {
	if f.makes != "" && f.Instance != f.makes && !isAnother(i, u) && f.relabelled() {
		f.Instance = f.makes
	}
}

// isAnother reports whether the object's label names another installation than this one.
func isAnother(i manifest.Installation, u *unstructured.Unstructured) bool {
	named := u.GetLabels()[manifest.LabelInstallation]
	return i != "" && named != "" && named != string(i)
}

// lookAgainSoon has the instance looked at again after a while. c.mu is held.
func (c *Cache) lookAgainSoon(instance string) {
	if c.looks[instance] {
		return
	}
	c.looks[instance] = true

	time.AfterFunc(leavingPause, func() {
		c.mu.Lock()
		delete(c.looks, instance)
		c.mu.Unlock()
		if c.life.Err() == nil {
			c.notify(instance)
		}
	})
}
