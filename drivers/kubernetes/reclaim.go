package kubernetes

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/jibe-vnfm/jibe/drivers"
	"github.com/jibe-vnfm/jibe/drivers/kubernetes/fields"
	"github.com/jibe-vnfm/jibe/drivers/kubernetes/manifest"
)

// reclaim makes way for an apply that was refused because a list holds items of
// others beside the rendered ones: whoever changes the number of a Service's port
// makes another port of it, and two of one name are invalid. Such items become
// Jibe's in the managed fields, so that the next apply, which hasn't got them,
// removes them. It says whether there were any.
func (d *Driver) reclaim(ctx context.Context, b *drivers.Bounds, api dynamic.ResourceInterface, rendered *unstructured.Unstructured, key string, refusal error) (bool, error) {
	lists := mixedLists(refusal)
	if len(lists) == 0 {
		return false, nil
	}
	live, err := d.look(ctx, b, api, rendered.GetName(), key)
	if err != nil || live == nil {
		return false, err
	}
	entries, found := reclaimed(d.installation, live, rendered, lists)
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
	_, err = api.Patch(ctx, rendered.GetName(), types.JSONPatchType, patch, metav1.PatchOptions{FieldManager: d.installation.Manager()})
	if err != nil {
		return false, fmt.Errorf("reclaim %s: %w", key, classifyAs(b, key, err))
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
func reclaimed(installation manifest.Installation, live, rendered *unstructured.Unstructured, lists []string) (entries []metav1.ManagedFieldsEntry, found bool) {
	entries = live.GetManagedFields()
	ours := -1
	sets, changed, all := make([]*fieldpath.Set, len(entries)), map[int]bool{}, &fieldpath.Set{}
	for i, m := range entries {
		sets[i] = fields.Of(m)
		all = all.Union(sets[i])
		if fields.IsOurs(installation, m) {
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
		taken := unrendered(nil, sets[i], all, rendered.Object, lists)
		if taken.Empty() {
			continue
		}
		found, changed[i], changed[ours] = true, true, true
		sets[i], sets[ours] = sets[i].Difference(taken), sets[ours].Union(taken)
	}
	if !found {
		return nil, false
	}
	var kept []metav1.ManagedFieldsEntry
	for i, m := range entries {
		if changed[i] && sets[i].Empty() {
			continue
		}
		if changed[i] {
			content, err := sets[i].ToJSON()
			if err != nil {
				return nil, false
			}
			m.FieldsV1 = metav1.NewFieldsV1(string(content))
		}
		kept = append(kept, m)
	}
	return kept, true
}

// unrendered is what the set has in items of the lists that aren't rendered. all is the set
// of all managers, which says by which keys items differ.
func unrendered(path []string, set, all *fieldpath.Set, rendered any, lists []string) *fieldpath.Set {
	taken := &fieldpath.Set{}
	isList := slices.Contains(lists, strings.Join(path, "."))
	object, _ := rendered.(map[string]any)
	items, _ := rendered.([]any)
	by, _ := fields.Items(all, items)
	for e := range set.Children.All() {
		part, _ := fields.Part(set, e)
		value, at := any(nil), path
		switch {
		case e.FieldName != nil:
			value, at = object[*e.FieldName], slices.Concat(path, []string{*e.FieldName})
		case e.Key != nil:
			value, _ = by.Get(e)
			if isList && value == nil {
				*taken.Children.Descend(e) = *part
				continue
			}
		}
		if value == nil {
			continue // nothing in it is rendered
		}
		inAll, _ := fields.Part(all, e)
		if sub := unrendered(at, part, inAll, value, lists); !sub.Empty() {
			*taken.Children.Descend(e) = *sub
		}
	}
	for e := range set.Members.All() {
		if _, known := by.Get(e); isList && e.Key != nil && !known {
			taken.Members.Insert(e)
		}
	}
	return taken
}
