package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/drivers"
	"github.com/jibe-vnfm/jibe/drivers/kubernetes/manifest"
	"github.com/jibe-vnfm/jibe/drivers/kubernetes/raw"
	"github.com/jibe-vnfm/jibe/drivers/kubernetes/watched"
	"github.com/jibe-vnfm/jibe/plan"
)

const (
	// maxPreviewed bounds how many fields are reported of one object that changes.
	maxPreviewed = 100
	// maxFields bounds how many fields are reported of one object that is made.
	maxFields = 200
)

// Preview reports field by field what the steps would change: it compares as Examine
// does, and remembers nothing.
func (d *Driver) Preview(ctx context.Context, rendering drivers.Rendering, steps ...plan.Step) ([]drivers.Deviation, error) {
	src, want, r := rendering.Source, rendering.Desired, formOf(rendering)
	wanted := make(map[string]bool, len(want.Objects))
	for _, x := range want.Objects {
		wanted[x.Key] = true
	}
	found := make([][]drivers.Deviation, len(steps))
	goes := map[string]bool{} // by an earlier step
	var calls []func() error
	for _, s := range firstOfNamespaces(r, steps) {
		calls = append(calls, func() error { return d.namespaceTakes(ctx, src, r, s) })
	}
	for i, s := range steps {
		switch s.Action {
		case plan.Delete, plan.DeleteUnit:
			found[i] = []drivers.Deviation{unwanted(s, wanted[s.Object])}
			goes[s.Object] = true
		case plan.Post:
			calls = append(calls, func() error {
				obj, _, err := sized(r, s)
				if err == nil {
					found[i] = everyField(secretNames(src), s.Object, obj)
				}
				return err
			})
		case plan.Apply, plan.Scale:
			gone := goes[s.Object]
			calls = append(calls, func() (err error) {
				found[i], err = d.preview(ctx, src, r, s, gone)
				return err
			})
		}
	}
	if err := together(calls); err != nil {
		return nil, fmt.Errorf("preview of instance %s at VIM %s: %w", src.Instance.ID, d.vim.Name, err)
	}
	return slices.Concat(found...), nil
}

// firstOfNamespaces returns a step of each namespace that doesn't come with the same steps, of a kind that doesn't
// either: it is asked whether there is such a namespace at all.
func firstOfNamespaces(r *manifest.Form, steps []plan.Step) (first []plan.Step) {
	known := map[string]bool{"": true}
	defined := map[schema.GroupKind]bool{}
	for _, s := range steps {
		gk, _, name, _ := manifest.SplitKey(s.Object)
		switch obj, _, err := sized(r, s); {
		case s.Action != plan.Apply || err != nil:
		case gk == manifest.KindNamespace:
			known[name] = true
		case gk == manifest.KindCRD:
			kind, _ := manifest.Definition(obj)
			defined[kind] = true
		}
	}
	for _, s := range steps {
		gk, namespace, _, ok := manifest.SplitKey(s.Object)
		if !ok || s.Action != plan.Apply || known[namespace] || defined[gk] {
			continue
		}
		known[namespace] = true
		first = append(first, s)
	}

	return first
}

// namespaceTakes refuses a step in a namespace that doesn't exist: what is made isn't asked about otherwise, and the
// operation would be rolled back.
func (d *Driver) namespaceTakes(ctx context.Context, src drivers.Source, r *manifest.Form, s plan.Step) error {
	obj, gk, err := sized(r, s)
	if err != nil {
		return err
	}
	api, sent, err := d.resource(ctx, src.Bounds, obj, gk, s.Object)
	if err != nil {
		return nil // which the preview of the step itself reports
	}
	// Another thing may be missing too, such as the role of a binding, which comes with the same plan.
	_, err = d.patch(ctx, api, sent, true)
	if status, ok := errors.AsType[*apierrors.StatusError](err); ok && apierrors.IsNotFound(err) && status.ErrStatus.Details != nil && status.ErrStatus.Details.Kind == "namespaces" {
		return drivers.About("dry run of "+s.Object, classifyAs(src.Bounds, s.Object, err))
	}

	return nil
}

// preview reports what one step would change of its object; gone says that an earlier
// step removes what is there.
func (d *Driver) preview(ctx context.Context, src drivers.Source, r *manifest.Form, s plan.Step, gone bool) ([]drivers.Deviation, error) {
	obj, gk, err := sized(r, s)
	if err != nil {
		return nil, err
	}
	now := d.watches.Get(gk, s.Object)
	if !d.watches.Owns(now, src.Instance.ID) {
		now = nil
	}
	if gone || now != nil && d.mustReplace(src, r, now) {
		return everyField(secretNames(src), s.Object, obj), nil
	}
	api, sent, err := d.resource(ctx, src.Bounds, obj, gk, s.Object)
	if meta.IsNoMatchError(err) {
		var refused *drivers.RefusedError
		if old := d.retired(gk, s.Object, err); errors.As(old, &refused) && !refused.Awaited {
			return nil, old
		}
		return everyField(secretNames(src), s.Object, obj), nil // its definition comes first
	}
	if err != nil {
		return nil, fmt.Errorf("look up the kind of %s: %w", s.Object, watched.Unavailable(err))
	}
	for try := 1; ; try++ {
		live, err := d.look(ctx, src.Bounds, api, sent.GetName(), s.Object)
		if err != nil {
			return nil, err
		}
		if live == nil || live.GetDeletionTimestamp() != nil {
			return everyField(secretNames(src), s.Object, obj), nil
		}
		if err := d.ownedBy(live, sent, s.Object, src.Instance.ID); err != nil {
			if manifest.InfoOf(gk).Shared {
				return nil, nil // used as it stands
			}
			return nil, err
		}
		dry, err := d.dryApply(ctx, api, gk, live, sent)
		switch {
		case apierrors.IsConflict(err) && try < tries:
			continue
		case err != nil && (len(mixedLists(err)) > 0 || strings.Contains(err.Error(), "does not support dry run")):
			dry = sent // it can be applied all the same
		case err != nil:
			return nil, drivers.About("dry run of "+s.Object, classifyAs(src.Bounds, s.Object, err))
		}
		if s.Action == plan.Scale {
			return scaled(gk, live, s), nil // whatever else differs isn't what the step is for
		}
		return slices.DeleteFunc(differing(d.installation, secretNames(src), gk, s.Object, live, dry, sent, maxPreviewed), bookkeeping), nil
	}
}

// bookkeeping says whether the field is one in which Jibe notes what it applied.
func bookkeeping(x drivers.Deviation) bool {
	const annotation = "metadata.annotations["
	return x.Field == annotation+manifest.AnnotationDigest+"]" || x.Field == annotation+manifest.AnnotationImmutable+"]"
}

// everyField reports an object that is made: each of its fields, in their order.
func everyField(names desired.SecretNames, key string, obj *unstructured.Unstructured) []drivers.Deviation {
	d := &difference{names: names, gk: obj.GroupVersionKind().GroupKind(), key: key, most: maxFields}
	d.flatten(nil, obj.Object)
	d.found = slices.DeleteFunc(d.found, bookkeeping)
	if d.more > 0 {
		d.found = append(d.found, drivers.Deviation{Object: key, Field: "…", Want: fmt.Sprintf("%d more fields", d.more)})
	}
	return d.found
}

// flatten reports every field of the value. Items of a list are named where
// they have one.
func (d *difference) flatten(path fieldpath.Path, value any) {
	switch value := value.(type) {
	case map[string]any:
		if len(value) == 0 {
			d.report(path, fieldState{dry: value})
		}
		for _, name := range slices.Sorted(maps.Keys(value)) {
			if at := slices.Concat(path, fieldpath.Path{fieldpath.FieldNameElement(name)}); isContent(at) {
				d.flatten(at, value[name])
			}
		}
	case []any:
		for i, item := range value {
			m, isMap := item.(map[string]any)
			if !isMap {
				d.report(path, fieldState{dry: value}) // a list of plain values is reported as one
				return
			}
			name := fieldpath.IndexElement(i)
			if s := raw.String(m, "name"); s != "" {
				name = fieldpath.KeyElementByFields("name", s)
			}
			d.flatten(slices.Concat(path, fieldpath.Path{name}), item)
		}
		if len(value) == 0 {
			d.report(path, fieldState{dry: value})
		}
	default:
		d.report(path, fieldState{dry: value})
	}
}
