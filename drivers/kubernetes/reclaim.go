package kubernetes

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/jibe-vnfm/jibe/drivers/kubernetes/fields"
	"github.com/jibe-vnfm/jibe/drivers/kubernetes/manifest"
	"github.com/jibe-vnfm/jibe/drivers/kubernetes/raw"
)

// reclaim makes way for an apply that was refused because a list holds items of
// others beside the rendered ones: whoever changes the number of a Service's port
// makes another port of it, and two of one name are invalid. Such items become
// Jibe's in the managed fields, so that the next apply, which hasn't got them,
// removes them. It says whether there were any.
func (d *Driver) reclaim(ctx context.Context, api dynamic.ResourceInterface, rendered *unstructured.Unstructured, key string, refusal error) (bool, error) {
	lists := mixedLists(refusal)
	if len(lists) == 0 {
		return false, nil
	}
	live, err := d.look(ctx, api, rendered.GetName(), key)
	if err != nil || live == nil {
		return false, err
	}
	entries, found := reclaimed(live, rendered, lists)
	if !found {
		return false, nil
	}
	patch, err := json.Marshal([]map[string]any{
		{"op": "replace", "path": "/metadata/managedFields", "value": entries},
		{"op": "replace", "path": "/metadata/resourceVersion", "value": live.GetResourceVersion()},
	})
	if err != nil {
		return false, fmt.Errorf("reclaim %s: %w", key, err)
	}
	release, err := d.slot(ctx)
	if err != nil {
		return false, err
	}
	defer release()
	ctx, cancel := context.WithTimeout(ctx, callPatience)
	defer cancel()
	_, err = api.Patch(ctx, rendered.GetName(), types.JSONPatchType, patch, metav1.PatchOptions{FieldManager: manifest.FieldManager})
	if err != nil {
		return false, fmt.Errorf("reclaim %s: %w", key, classify(key, err))
	}
	d.log.Info("items that others put into a rendered list are removed, as the API server wants no such mixture", "object", key, "lists", lists)
	return true, nil
}

var index = regexp.MustCompile(`\[[^\]]*\]`)

// mixedLists are the lists that hold too much, as the server's refusal names them:
// "spec.ports" of "spec.ports[1].name: Duplicate value".
func mixedLists(refusal error) []string {
	var status apierrors.APIStatus
	if !apierrors.IsInvalid(refusal) || !errors.As(refusal, &status) || status.Status().Details == nil {
		return nil
	}
	var lists []string
	for _, cause := range status.Status().Details.Causes {
		at := strings.LastIndex(cause.Field, "[")
		mixture := cause.Type == metav1.CauseTypeFieldValueDuplicate || cause.Type == metav1.CauseTypeFieldValueRequired
		if list := index.ReplaceAllString(cause.Field[:max(at, 0)], ""); mixture && list != "" && !slices.Contains(lists, list) {
			lists = append(lists, list)
		}
	}
	return lists
}

// reclaimed are the managed fields of the live object after what others have in the
// lists beside the rendered items has become Jibe's.
func reclaimed(live, rendered *unstructured.Unstructured, lists []string) (entries []metav1.ManagedFieldsEntry, found bool) {
	entries = live.GetManagedFields()
	ours := -1
	sets, changed := make([]fields.Set, len(entries)), map[int]bool{}
	for i, m := range entries {
		sets[i] = fields.Of(m)
		if fields.IsOurs(m) {
			ours = i
		}
	}
	if ours < 0 {
		return nil, false
	}
	for i := range entries {
		if i == ours || entries[i].Subresource != "" {
			continue
		}
		left, taken := split(nil, sets[i], fields.Union(sets...), rendered.Object, lists)
		if len(taken) == 0 {
			continue
		}
		found, changed[i], changed[ours] = true, true, true
		sets[i], sets[ours] = left, fields.Union(sets[ours], taken)
	}
	if !found {
		return nil, false
	}
	var kept []metav1.ManagedFieldsEntry
	for i, m := range entries {
		if changed[i] && len(sets[i]) == 0 {
			continue
		}
		if changed[i] {
			m.FieldsV1 = metav1.NewFieldsV1(raw.JSON(sets[i]))
		}
		kept = append(kept, m)
	}
	return kept, true
}

// split divides the set: what is in items of the lists that aren't rendered is
// taken, the rest is left.
func split(path []string, set, shape fields.Set, rendered any, lists []string) (left, taken fields.Set) {
	left, taken = maps.Clone(set), fields.Set{}
	isList := slices.Contains(lists, strings.Join(path, "."))
	object, _ := rendered.(map[string]any)
	items, _ := rendered.([]any)
	by, _ := fields.ByName(shape, items, nil)
	for name, part := range set {
		sub, _ := part.(fields.Set)
		inShape, _ := shape[name].(fields.Set)
		kind, field, _ := strings.Cut(name, ":")
		value, at := by[name], path
		switch {
		case kind == "f":
			value, at = object[field], slices.Concat(path, []string{field})
		case kind == "k" && isList && value == nil:
			taken[name] = part
			delete(left, name)
			continue
		case kind != "k":
			continue
		}
		if value == nil {
			continue // nothing in it is rendered
		}
		subLeft, subTaken := split(at, sub, inShape, value, lists)
		if len(subTaken) > 0 {
			taken[name] = subTaken
			// An empty set would mean the field as a whole.
			if left[name] = subLeft; len(subLeft) == 0 {
				delete(left, name)
			}
		}
	}
	return left, taken
}
