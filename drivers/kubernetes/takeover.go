package kubernetes

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"

	lru "github.com/hashicorp/golang-lru/v2"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/jibe-vnfm/jibe/drivers"
	"github.com/jibe-vnfm/jibe/drivers/kubernetes/fields"
	"github.com/jibe-vnfm/jibe/drivers/kubernetes/manifest"
	"github.com/jibe-vnfm/jibe/drivers/kubernetes/watched"
)

// takeovers marks, one after the other and beside all other work, objects that are this
// installation's and don't say so: those that earlier versions made, and claims that
// StatefulSets make. It changes nothing but their label and the name of Jibe's field manager,
// so that nothing that runs is touched. What fails is tried again when the instance is looked
// at again.
type takeovers struct {
	driver *Driver
	life   context.Context
	stop   context.CancelFunc
	work   sync.WaitGroup

	mu      sync.Mutex
	running bool
	due     []takeover
	queued  map[string]bool // by instance
	// refused are the incarnations that can't be marked, so that it isn't tried at each look.
	refused *lru.Cache[types.UID, bool]
}

// takeover is what of one instance is to be marked.
type takeover struct {
	src     drivers.Source
	objects []*watched.Fact
}

// maxRefused bounds how many objects are remembered that can't be marked.
const maxRefused = 4096

func newTakeovers(d *Driver) (*takeovers, error) {
	refused, err := lru.New[types.UID, bool](maxRefused)
	if err != nil {
		return nil, err
	}
	t := &takeovers{driver: d, queued: map[string]bool{}, refused: refused}
	t.life, t.stop = context.WithCancel(context.Background())
	return t, nil
}

func (t *takeovers) close() {
	t.mu.Lock()
	t.stop()
	t.mu.Unlock()
	t.work.Wait()
}

// add has the objects marked, in their order. An instance that waits for it already keeps its
// place.
func (t *takeovers) add(src drivers.Source, objects []*watched.Fact) {
	objects = slices.DeleteFunc(objects, func(f *watched.Fact) bool { return t.refused.Contains(f.UID) })
	if len(objects) == 0 {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.queued[src.Instance.ID] || t.life.Err() != nil {
		return
	}
	t.queued[src.Instance.ID] = true
	t.due = append(t.due, takeover{src, objects})
	if !t.running {
		t.running = true
		t.work.Go(t.run)
	}
}

func (t *takeovers) run() {
	for {
		t.mu.Lock()
		if len(t.due) == 0 || t.life.Err() != nil {
			t.running = false
			t.mu.Unlock()
			return
		}
		next := t.due[0]
		t.due = t.due[1:]
		t.mu.Unlock()
		t.carryOut(next)
		t.mu.Lock()
		delete(t.queued, next.src.Instance.ID)
		t.mu.Unlock()
	}
}

func (t *takeovers) carryOut(next takeover) {
	d, former := t.driver, 0
	for _, f := range next.objects {
		// In order: what is left when one fails includes what proves whose the others are.
		if err := d.takeOver(t.life, next.src, f.GroupKind, f.Key, f.UID); err != nil {
			var refused *drivers.RefusedError
			if errors.As(err, &refused) {
				t.refused.Add(f.UID, true)
			}
			if t.life.Err() == nil {
				d.log.Warn("an object can't be marked as this installation's now", "instance", next.src.Instance.ID, "object", f.Key, "error", err)
			}
			return
		}
		if f.TopLevel() {
			former++
		}
	}
	if former > 0 {
		d.log.Info("objects that an earlier version of Jibe made are marked as this installation's", "instance", next.src.Instance.ID, "objects", former, "installation", string(d.installation))
	}
}

// takeOver marks the incarnation of the object as this installation's, which the caller knows it
// to be. One that has gone meanwhile is nobody's.
func (d *Driver) takeOver(ctx context.Context, src drivers.Source, gk schema.GroupKind, key string, uid types.UID) error {
	_, namespace, name, _ := manifest.SplitKey(key)
	mapping, err := d.mapper.Find(gk)
	if err != nil {
		return fmt.Errorf("look up the kind of %s: %w", key, watched.Unavailable(err))
	}
	client, err := d.as(src.Bounds)
	if err != nil {
		return err
	}
	var api dynamic.ResourceInterface = client.Resource(mapping.Resource)
	if mapping.Scope.Name() != meta.RESTScopeNameRoot {
		api = client.Resource(mapping.Resource).Namespace(namespace)
	}
	for try := 1; ; try++ {
		live, err := d.look(ctx, src.Bounds, api, name, key)
		if err != nil || live == nil || live.GetUID() != uid {
			return err
		}
		if f := watched.FactOf(d.installation, gk, live); f.Instance != src.Instance.ID {
			return nil // somebody has relabelled it meanwhile
		}
		err = d.mark(ctx, api, key, live)
		if !apierrors.IsConflict(err) || try == tries {
			return drivers.About("mark "+key, classifyAs(src.Bounds, key, err))
		}
	}
}

// mark puts the label of this installation on the object, in the version that was read, and
// gives what a former field manager of Jibe's had applied to this installation's.
func (d *Driver) mark(ctx context.Context, api dynamic.ResourceInterface, key string, live *unstructured.Unstructured) error {
	entries, err := d.handedOver(live.GetManagedFields())
	if err != nil {
		return fmt.Errorf("managed fields of %s: %w", key, err)
	}
	labels := live.GetLabels()
	if labels == nil {
		labels = map[string]string{}
	}
	labels[manifest.LabelInstallation] = string(d.installation)
	patch := []map[string]any{
		{"op": "replace", "path": "/metadata/resourceVersion", "value": live.GetResourceVersion()},
		{"op": "add", "path": "/metadata/labels", "value": labels},
	}
	if entries != nil {
		patch = append(patch, map[string]any{"op": "replace", "path": "/metadata/managedFields", "value": entries})
	}
	data, err := json.Marshal(patch)
	if err != nil {
		return err
	}
	release, err := d.slot(ctx)
	if err != nil {
		return err
	}
	defer release()
	ctx, cancel := context.WithTimeout(ctx, callPatience)
	defer cancel()
	written, err := api.Patch(ctx, live.GetName(), types.JSONPatchType, data, metav1.PatchOptions{FieldManager: d.installation.Manager()})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	d.watches.Written(live.GroupVersionKind().GroupKind(), written)
	return nil
}

// handedOver are the managed fields in which what Jibe applied before it knew installations is
// this one's, with the label; nil where there is nothing of that.
func (d *Driver) handedOver(entries []metav1.ManagedFieldsEntry) ([]metav1.ManagedFieldsEntry, error) {
	all, found := fieldpath.NewSet(fieldpath.MakePathOrDie("metadata", "labels", manifest.LabelInstallation)), false
	var kept []metav1.ManagedFieldsEntry
	var ours metav1.ManagedFieldsEntry
	for _, m := range entries {
		if !fields.IsOurs(d.installation, m) {
			kept = append(kept, m)
			continue
		}
		found = found || fields.IsOf("", m)
		all, ours = all.Union(fields.Of(m)), m
	}
	if !found || d.installation == "" {
		return nil, nil
	}
	content, err := all.ToJSON()
	if err != nil {
		return nil, err
	}
	if len(content) == 0 {
		return nil, errors.New("they are empty")
	}
	ours.Manager, ours.FieldsV1 = d.installation.Manager(), metav1.NewFieldsV1(string(content))
	return append(kept, ours), nil
}
