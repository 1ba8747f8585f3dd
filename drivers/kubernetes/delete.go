package kubernetes

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync/atomic"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/jibe-vnfm/jibe/drivers"
	"github.com/jibe-vnfm/jibe/drivers/kubernetes/manifest"
	"github.com/jibe-vnfm/jibe/drivers/kubernetes/raw"
	"github.com/jibe-vnfm/jibe/drivers/kubernetes/watched"
	"github.com/jibe-vnfm/jibe/plan"
)

// paramGrace is how many seconds the pods get to end when they are deleted.
const paramGrace = "gracefulTerminationTimeout"

// delete ends one incarnation. Its absence, and a successor, mean that it is done.
// It sets later where the claims of a StatefulSet must be freed of it first: the
// step is due again at the next look.
func (d *Driver) delete(ctx context.Context, src drivers.Source, r *manifest.Form, gk schema.GroupKind, namespace, name string, s plan.Step, later *atomic.Bool) error {
	if s.Incarnation == "" {
		return fmt.Errorf("delete %s: no incarnation is given", s.Object)
	}
	mapping, err := d.mapper.Find(gk)
	if meta.IsNoMatchError(err) {
		return nil // a kind that isn't served has no objects
	}
	if err != nil {
		return fmt.Errorf("delete %s: %w", s.Object, watched.Unavailable(err))
	}
	client, err := d.as(src.Bounds)
	if err != nil {
		return err
	}
	var api dynamic.ResourceInterface = client.Resource(mapping.Resource)
	if mapping.Scope.Name() != meta.RESTScopeNameRoot {
		api = client.Resource(mapping.Resource).Namespace(namespace)
	}
	uid := types.UID(s.Incarnation)
	propagation := metav1.DeletePropagationBackground
	if manifest.InfoOf(gk).Class == manifest.ClassWorkloads && gk != manifest.KindPod {
		// A workload is gone when its pods are. Nothing below a pod runs: there the garbage
		// collector's turn would only make the successor wait.
		propagation = metav1.DeletePropagationForeground
	}
	o := metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}, PropagationPolicy: &propagation}
	if grace, ok := raw.Seconds(src.Instance.Params[paramGrace]); ok && gk == manifest.KindPod {
		o.GracePeriodSeconds = &grace
	}
	if s.Within != nil {
		grace := int64(*s.Within)
		o.GracePeriodSeconds = &grace
	}
	release, err := d.slot(ctx)
	if err != nil {
		return err
	}
	defer release()
	ctx, cancel := context.WithTimeout(ctx, callPatience)
	defer cancel()
	if gk == manifest.KindStatefulSet {
		if comesBack(r, s.Object) {
			free, err := d.freeClaims(ctx, client, api, src.Instance.ID, namespace, name, uid)
			if err != nil {
				return fmt.Errorf("free the claims of %s: %w", s.Object, classifyAs(src.Bounds, s.Object, err))
			}
			if !free {
				later.Store(true)
				return nil
			}
		}
	}
	d.watches.DeleteIssued(gk, s.Object, uid) // before the watch brings that it is gone
	err = api.Delete(ctx, name, o)
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	if err != nil {
		return drivers.About("delete "+s.Object, classifyAs(src.Bounds, s.Object, err))
	}
	d.watches.Deleting(gk, s.Object, uid)
	return nil
}

// comesBack says whether the object is deleted only to be made anew.
func comesBack(r *manifest.Form, key string) bool { return r != nil && r.Objects[key] != nil }

// freeClaims sees to it that the claims of a StatefulSet outlive this incarnation
// of it, whatever its persistentVolumeClaimRetentionPolicy: that is meant for the
// end of the instance. It asks the server and not the cache, as data are at stake.
// false means: not yet, the StatefulSet's controller must take note first.
func (d *Driver) freeClaims(ctx context.Context, client dynamic.Interface, api dynamic.ResourceInterface, instance, namespace, name string, uid types.UID) (bool, error) {
	set, err := api.Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	if set.GetUID() != uid || set.GetDeletionTimestamp() != nil || len(raw.Maps(set.Object, "spec", "volumeClaimTemplates")) == 0 {
		return true, nil
	}
	if raw.String(set.Object, "spec", "persistentVolumeClaimRetentionPolicy", "whenDeleted") == "Delete" {
		written, err := d.change(ctx, api, set, map[string]any{
			"spec": map[string]any{"persistentVolumeClaimRetentionPolicy": map[string]any{"whenDeleted": "Retain"}},
		})
		if err == nil {
			d.watches.Written(manifest.KindStatefulSet, written)
		}
		return false, err
	}
	if observed, _, _ := unstructured.NestedInt64(set.Object, "status", "observedGeneration"); observed < set.GetGeneration() {
		return false, nil // its controller might still make the claims its own
	}
	// The controller looks after the claims of pods that there are; those that a
	// scale-in left behind still name the set as their owner.
	mapping, err := d.mapper.Find(manifest.KindClaim)
	if err != nil {
		return false, err
	}
	claims := client.Resource(mapping.Resource).Namespace(namespace)
	found, err := claims.List(ctx, metav1.ListOptions{LabelSelector: manifest.LabelInstance + "=" + instance})
	if err != nil {
		return false, err
	}
	for i := range found.Items {
		claim := &found.Items[i]
		owners := claim.GetOwnerReferences()
		left := slices.DeleteFunc(slices.Clone(owners), func(r metav1.OwnerReference) bool { return r.UID == uid })
		if len(left) == len(owners) {
			continue
		}
		if _, err := d.change(ctx, claims, claim, map[string]any{"metadata": map[string]any{"ownerReferences": left}}); err != nil {
			return false, err
		}
	}
	return true, nil
}

// change merges the fields into the version of the object that was read, and
// into no other.
func (d *Driver) change(ctx context.Context, api dynamic.ResourceInterface, read *unstructured.Unstructured, fields map[string]any) (*unstructured.Unstructured, error) {
	m, _ := fields["metadata"].(map[string]any)
	if m == nil {
		m = map[string]any{}
		fields["metadata"] = m
	}
	m["uid"], m["resourceVersion"] = read.GetUID(), read.GetResourceVersion()
	data, err := json.Marshal(fields)
	if err != nil {
		return nil, err
	}
	return api.Patch(ctx, read.GetName(), types.MergePatchType, data, metav1.PatchOptions{FieldManager: d.installation.Manager()})
}
