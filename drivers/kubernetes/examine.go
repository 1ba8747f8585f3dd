package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/jibe-vnfm/jibe/drivers"
	"github.com/jibe-vnfm/jibe/drivers/kubernetes/manifest"
	"github.com/jibe-vnfm/jibe/drivers/kubernetes/watched"
	"github.com/jibe-vnfm/jibe/plan"
)

// present and foreignObject are what an object as a whole is, or should be.
const (
	present       = "present"
	foreignObject = "an object that isn't this instance's"
)

// Examine compares what is to be repaired with the render, field by field: it reads
// the live object and asks the API server what an apply would make of it. The
// answer is remembered until the object changes.
func (d *Driver) Examine(ctx context.Context, rendering drivers.Rendering, steps ...plan.Step) ([]drivers.Deviation, error) {
	src, want, r := rendering.Source, rendering.Desired, formOf(rendering)
	digests := make(map[string]string, len(want.Objects))
	for _, x := range want.Objects {
		digests[x.Key] = x.Digest
	}
	found := make([][]drivers.Deviation, len(steps))
	known := map[string]bool{}
	var calls []func() error
	for i, s := range steps {
		gk, _, _, ok := manifest.SplitKey(s.Object)
		if !ok || known[s.Object] {
			continue // an earlier step is about the object as a whole, which is enough
		}
		_, wanted := digests[s.Object]
		switch s.Action {
		case plan.Apply, plan.Scale:
			calls = append(calls, func() (err error) {
				found[i], err = d.examine(ctx, src, r, digests[s.Object], s)
				return err
			})
		case plan.Delete, plan.DeleteUnit:
			found[i] = []drivers.Deviation{unwanted(s, wanted)}
		case plan.Wait:
			f := d.watches.Get(gk, s.Object)
			if f == nil || !f.Deleting || !wanted && !f.TopLevel() {
				continue // it isn't ready yet, which is no difference
			}
			found[i] = []drivers.Deviation{leavingObject(s.Object, f.Reason, wanted)}
		default:
			continue
		}
		known[s.Object] = true
	}
	if err := together(calls); err != nil {
		return nil, fmt.Errorf("VIM %s: %w", d.vim.Name, err)
	}
	return slices.Concat(found...), nil
}

// unwanted is the deviation of an incarnation that must go.
func unwanted(s plan.Step, wanted bool) drivers.Deviation {
	if wanted {
		return drivers.Deviation{Object: s.Object, Want: present, Have: s.Reason} // dead, or condemned
	}
	have := present
	if s.Action == plan.DeleteUnit {
		have = s.Reason
	}
	return drivers.Deviation{Object: s.Object, Have: have}
}

func leavingObject(key, reason string, wanted bool) drivers.Deviation {
	x := drivers.Deviation{Object: key, Have: reason}
	if wanted {
		x.Want = present
	}
	return x
}

// examine finds what of one object differs, from memory if nothing moved since.
func (d *Driver) examine(ctx context.Context, src drivers.Source, r *manifest.Form, want string, s plan.Step) ([]drivers.Deviation, error) {
	obj, gk, err := sized(r, s)
	if err != nil {
		return nil, err
	}
	f := d.watches.Get(gk, s.Object)
	if !d.watches.Owns(f, src.Instance.ID) {
		f = nil
	}
	if found, ok := d.findings.get(f, want, s); ok {
		return found, nil
	}
	missing := []drivers.Deviation{{Object: s.Object, Want: present}}
	api, obj, err := d.resource(ctx, src.Bounds, obj, gk, s.Object)
	if meta.IsNoMatchError(err) {
		return missing, nil // its kind is gone, and it went with it
	}
	if err != nil {
		return nil, d.unknownKind(gk, s.Object, err)
	}
	live, found, err := d.compare(ctx, api, gk, src, obj, s)
	if err != nil {
		return nil, err
	}
	if live == nil && found == nil {
		found = missing
	}
	known := finding{want: want, to: s.To, scale: s.Action == plan.Scale, deviations: found}
	if live != nil {
		now := watched.FactOf(d.installation, gk, live)
		known.state, known.count = stateOf(now), now.Count
	}
	if f == nil || live == nil {
		known.until = time.Now().Add(missingFor)
	}
	d.findings.put(s.Object, known, d.watches)
	return found, nil
}

// tries bounds how often an object that changes while it is compared is looked
// at again.
const tries = 4

// compare looks at the live object, nil if there is none of this instance, and
// finds what an apply would change of it.
func (d *Driver) compare(ctx context.Context, api dynamic.ResourceInterface, gk schema.GroupKind, src drivers.Source, obj *unstructured.Unstructured, s plan.Step) (*unstructured.Unstructured, []drivers.Deviation, error) {
	for try := 1; ; try++ {
		live, err := d.look(ctx, src.Bounds, api, obj.GetName(), s.Object)
		if err != nil || live == nil {
			return nil, nil, err
		}
		if d.ownedBy(live, obj, s.Object, src.Instance.ID) != nil {
			return nil, []drivers.Deviation{{Object: s.Object, Want: present, Have: foreignObject}}, nil
		}
		if live.GetDeletionTimestamp() != nil {
			return live, []drivers.Deviation{leavingObject(s.Object, watched.FactOf(d.installation, gk, live).Reason, true)}, nil
		}
		if s.Action == plan.Scale {
			return live, scaled(gk, live, s), nil
		}
		dry, err := d.dryApply(ctx, api, gk, live, obj)
		if err == nil {
			return live, differing(d.installation, secretNames(src), gk, s.Object, live, dry, obj, maxDeviations), nil
		}
		if apierrors.IsConflict(err) && try < tries {
			continue
		}
		err = classifyAs(src.Bounds, s.Object, err)
		var refused *drivers.RefusedError
		if !errors.As(err, &refused) {
			return nil, nil, fmt.Errorf("dry run of %s: %w", s.Object, err)
		}
		// The repair will meet the same server that wouldn't take the render, or the same
		// webhook that knows no dry run; what isn't Jibe's is known without either.
		return live, disowned(d.installation, secretNames(src), gk, s.Object, live, obj), nil
	}
}

// dryApply asks what an apply would make of the live object. Its version makes sure
// that the answer is about the object that was read: else it is a conflict.
func (d *Driver) dryApply(ctx context.Context, api dynamic.ResourceInterface, gk schema.GroupKind, live, obj *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	same := watched.StillCounted(obj, watched.FactOf(d.installation, gk, live)).DeepCopy()
	same.SetResourceVersion(live.GetResourceVersion())
	return d.patch(ctx, api, same, true)
}

// scaled is the deviation of a number of units that isn't the rendered one.
func scaled(gk schema.GroupKind, live *unstructured.Unstructured, s plan.Step) []drivers.Deviation {
	have, found, err := unstructured.NestedInt64(live.Object, "spec", "replicas")
	if err != nil || !found {
		have = 1 // the default of every kind that has the number
	}
	if have == int64(s.To) {
		return nil
	}
	d := &difference{gk: gk, key: s.Object, most: maxDeviations}
	d.begin(live, live)
	d.report(fieldpath.MakePathOrDie("spec", "replicas"), fieldState{live: have, dry: int64(s.To)})
	return d.result()
}
