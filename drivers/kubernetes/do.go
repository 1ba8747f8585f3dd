package kubernetes

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/jibe-vnfm/jibe/drivers"
	"github.com/jibe-vnfm/jibe/drivers/kubernetes/manifest"
	"github.com/jibe-vnfm/jibe/drivers/kubernetes/watched"
	"github.com/jibe-vnfm/jibe/plan"
)

// callPatience bounds one request.
const callPatience = 30 * time.Second

// Do applies, scales and deletes: what doesn't depend on each other side by
// side, workloads after what they need, and deletes the other way round.
func (d *Driver) Do(ctx context.Context, rendering drivers.Rendering, steps ...plan.Step) error {
	src, r := rendering.Source, formOf(rendering)
	var later atomic.Bool
	var batches [2 * int(manifest.Classes)][]func() error
	for _, s := range steps {
		gk, namespace, name, ok := manifest.SplitKey(s.Object)
		if !ok {
			return fmt.Errorf("%s: %q is no key of an object", s.Action, s.Object)
		}
		rank := rankOf(gk, name, src.Instance.ID)
		switch s.Action {
		case plan.Apply, plan.Scale:
			batches[rank] = append(batches[rank], func() error { return d.apply(ctx, src, r, s) })
		case plan.Post:
			batches[rank] = append(batches[rank], func() error { return d.post(ctx, src, r, s, false) })
		case plan.Reselect:
			batches[rank] = append(batches[rank], func() error { return d.reselect(ctx, rendering, s) })
		case plan.Delete, plan.DeleteUnit:
			last := int(manifest.Classes)*2 - 1 - int(rank)
			batches[last] = append(batches[last], func() error {
				return d.delete(ctx, src, r, gk, namespace, name, s, &later)
			})
		default:
			return fmt.Errorf("a driver doesn't do %q", s.Action)
		}
	}
	for _, batch := range batches {
		if err := together(batch); err != nil {
			if errors.Is(err, drivers.ErrUnavailable) {
				d.watches.Missed(src.Instance.ID)
			}
			return fmt.Errorf("VIM %s: %w", d.vim.Name, err)
		}
		if later.Load() {
			return nil // what would go after it has to wait for it
		}
	}
	return nil
}

func rankOf(gk schema.GroupKind, name, instance string) manifest.Class {
	if gk == manifest.KindConfigMap && name == manifest.InventoryName(instance) {
		return manifest.ClassFirst
	}
	return manifest.InfoOf(gk).Class
}

// together runs the calls side by side. A refusal is worth more than an error
// that passes.
func together(calls []func() error) error {
	errs := make([]error, len(calls))
	if len(calls) == 1 {
		return calls[0]()
	}
	var wg sync.WaitGroup
	for i, call := range calls {
		wg.Go(func() { errs[i] = call() })
	}
	wg.Wait()
	var other error
	for _, err := range errs {
		var refused *drivers.RefusedError
		if errors.As(err, &refused) {
			return err
		}
		if other == nil {
			other = err
		}
	}
	return other
}

// apply makes one object what it was rendered to, with the step's number of units.
func (d *Driver) apply(ctx context.Context, src drivers.Source, r *manifest.Form, s plan.Step) error {
	rendered, gk, err := sized(r, s)
	if err != nil {
		return err
	}
	api, obj, err := d.resource(ctx, src.Bounds, rendered, gk, s.Object)
	if err != nil {
		d.watches.Await(src.Instance.ID, "", err)
		return d.unknownKind(gk, s.Object, err)
	}
	sent, instance := obj, src.Instance.ID
	now := d.watches.Get(gk, s.Object)
	if !d.watches.Owns(now, instance) {
		now = nil
	}
	if obj, err = watched.TakeOver(obj, s.Keep, now); err != nil {
		return err
	}
	if now != nil {
		obj = watched.StillCounted(obj, now)
	}
	if manifest.InfoOf(gk).Shared {
		if err := d.watches.Sync(ctx, map[schema.GroupKind]bool{gk: true}, obj.GetName()); err != nil {
			return err
		}
		if f := d.watches.Get(gk, s.Object); f != nil && !d.watches.Owns(f, instance) {
			return nil // used as it stands
		}
	}
	if now != nil && now.Former() {
		// Else the former field manager would keep what isn't rendered any more.
		if err := d.takeOver(ctx, src, gk, s.Object, now.UID); err != nil {
			return err
		}
	}
	write := d.patch
	if !d.mine(gk, s.Object, instance) {
		write = d.creating(src, s.Object)
	}
	written, err := write(ctx, api, obj, false)
	if apierrors.IsInvalid(err) {
		if freed, failed := d.reclaim(ctx, src.Bounds, api, obj, s.Object, err); failed != nil {
			return failed
		} else if freed {
			written, err = d.patch(ctx, api, obj, false)
		}
	}
	if isTaken(err) && s.Keep != "" && s.Keep == d.watches.Handover(instance, s.Object) {
		// It was a courtesy: better another address than none.
		d.log.WarnContext(ctx, "the address of an object that was deleted by hand belongs to another one by now", "instance", instance, "object", s.Object)
		d.watches.ForgetHandover(s.Object)
		written, err = d.patch(ctx, api, sent, false)
	}
	if err != nil {
		d.verdicts.refused(instance, s.Object)
		d.watches.Await(instance, obj.GetNamespace(), err)
		return drivers.About("apply "+s.Object, taken(s.Object, s.Keep, classifyAs(src.Bounds, s.Object, err)))
	}
	if err := d.watches.Served(gk); err != nil {
		return err
	}
	d.verdicts.accepted(instance, s.Object)
	d.accepted(watched.FactOf(d.installation, gk, written), rendered)
	d.watches.Written(gk, written)
	return nil
}

// sized is the rendered object with the step's number of units.
func sized(r *manifest.Form, s plan.Step) (*unstructured.Unstructured, schema.GroupKind, error) {
	var obj *unstructured.Unstructured
	if r != nil {
		obj = r.Objects[s.Object]
	}
	if obj == nil {
		return nil, schema.GroupKind{}, &drivers.RefusedError{Object: s.Object, Reason: "is not among the instance's manifests"}
	}
	gk := obj.GroupVersionKind().GroupKind()
	if !r.Counted[s.Object] {
		return obj, gk, nil
	}
	obj = obj.DeepCopy()
	if err := unstructured.SetNestedField(obj.Object, int64(s.To), "spec", "replicas"); err != nil {
		return nil, gk, &drivers.RefusedError{Object: s.Object, Reason: err.Error()}
	}
	return obj, gk, nil
}

// resource is where the API server has the object, for the account of the bounds. An object
// that turns out to be in no namespace is sent without, and remembers its key; it is refused
// where the bounds don't permit such. Its nulls are as its definition has them.
func (d *Driver) resource(ctx context.Context, b *drivers.Bounds, obj *unstructured.Unstructured, gk schema.GroupKind, key string) (dynamic.ResourceInterface, *unstructured.Unstructured, error) {
	mapping, err := d.mapper.Find(gk, obj.GroupVersionKind().Version)
	if err != nil {
		return nil, nil, err
	}
	client, err := d.as(b)
	if err != nil {
		return nil, nil, err
	}
	if obj, err = d.settleNulls(ctx, obj, mapping); err != nil {
		return nil, nil, err
	}
	api := client.Resource(mapping.Resource)
	if mapping.Scope.Name() != meta.RESTScopeNameRoot {
		if outside := d.unused(obj.GetNamespace()); outside != "" {
			return nil, nil, &drivers.RefusedError{Object: key, Reason: outside}
		}
		return api.Namespace(obj.GetNamespace()), obj, nil
	}
	if err := bounded(b, gk, key); err != nil {
		return nil, nil, err
	}
	if obj.GetNamespace() != "" {
		obj = obj.DeepCopy()
		obj.SetNamespace("")
		manifest.Annotate(obj, manifest.AnnotationKey, key)
	}
	return api, obj, nil
}

// unknownKind distinguishes a kind whose definition was just applied from one that
// nobody has defined.
func (d *Driver) unknownKind(gk schema.GroupKind, key string, err error) error {
	var refused *drivers.RefusedError
	if errors.As(err, &refused) || meta.IsNoMatchError(err) && !d.watches.Defined(gk) {
		return classify(key, d.retired(gk, key, err))
	}
	return fmt.Errorf("look up the kind of %s: %w", key, watched.Unavailable(err))
}

func (d *Driver) patch(ctx context.Context, api dynamic.ResourceInterface, obj *unstructured.Unstructured, dryRun bool) (*unstructured.Unstructured, error) {
	data, err := json.Marshal(obj.Object)
	if err != nil {
		return nil, err
	}
	release, err := d.slot(ctx)
	if err != nil {
		return nil, err
	}
	defer release()
	ctx, cancel := context.WithTimeout(ctx, callPatience)
	defer cancel()
	force := true
	o := metav1.PatchOptions{FieldManager: d.installation.Manager(), Force: &force, FieldValidation: metav1.FieldValidationStrict}
	if dryRun {
		o.DryRun = []string{metav1.DryRunAll}
	}
	return api.Patch(ctx, obj.GetName(), types.ApplyPatchType, data, o)
}
