package kubernetes

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"

	"github.com/jibe-vnfm/jibe/drivers"
	"github.com/jibe-vnfm/jibe/drivers/kubernetes/manifest"
	"github.com/jibe-vnfm/jibe/drivers/kubernetes/watched"
	"github.com/jibe-vnfm/jibe/plan"
)

// Verify dry-runs what would be applied: as a creation where the object that is there
// goes first, else as a change of it. It leaves out objects in a namespace, or of a kind,
// that comes with the same steps, as the server can't answer yet; changes of numbers,
// of which there is nothing to ask; and what another instance of the package asked a moment
// ago ([Driver.sameFor]). What the server would refuse for the sake of one name or namespace
// alone (a quota, a webhook that looks at names) may therefore show only when it is applied.
// That an object's name is taken shows here.
func (d *Driver) Verify(ctx context.Context, rendering drivers.Rendering, steps ...plan.Step) error {
	src, r := rendering.Source, formOf(rendering)
	if err := d.canSwitchTraffic(src, r, steps); err != nil {
		return fmt.Errorf("VIM %s: %w", d.vim.Name, err)
	}
	coming := map[string]bool{}
	defined := map[schema.GroupKind]bool{}
	for _, s := range steps {
		gk, _, name, _ := manifest.SplitKey(s.Object)
		if s.Action != plan.Apply {
			continue
		}
		switch obj, _, _ := sized(r, s); {
		case gk == manifest.KindNamespace:
			coming[name] = true
		case gk == manifest.KindCRD && obj != nil:
			kind, _ := manifest.Definition(obj)
			defined[kind] = true
		}
	}
	var calls []func() error
	for _, s := range steps {
		gk, namespace, _, ok := manifest.SplitKey(s.Object)
		if ok && s.Action == plan.Post && !coming[namespace] {
			calls = append(calls, func() error {
				return retryDenied(ctx, func() error { return d.post(ctx, src, r, s, true) })
			})
		}
		if !ok || s.Action != plan.Apply || coming[namespace] || defined[gk] {
			continue
		}
		calls = append(calls, func() error { return d.verify(ctx, rendering, s) })
	}
	if err := together(calls); err != nil {
		return fmt.Errorf("VIM %s: %w", d.vim.Name, err)
	}
	return nil
}

// A webhook that denies now and then would never let all objects pass at one look,
// as every look asks about all of them: what it denies is asked again, soon.
func denialBackoff() wait.Backoff {
	return wait.Backoff{Duration: 50 * time.Millisecond, Factor: 1.5, Steps: 5}
}

// retryDenied repeats ask while the answer is a refusal that may pass.
func retryDenied(ctx context.Context, ask func() error) error {
	var err error
	ended := wait.ExponentialBackoffWithContext(ctx, denialBackoff(), func(context.Context) (bool, error) {
		err = ask()
		var refused *drivers.RefusedError
		return !errors.As(err, &refused) || !refused.MayPass, nil
	})
	if err == nil {
		return ended // nil, or why ctx ended before anything was asked
	}
	return err
}

func (d *Driver) dryRun(ctx context.Context, src drivers.Source, r *manifest.Form, s plan.Step) error {
	obj, gk, err := sized(r, s)
	if err != nil {
		return err
	}
	api, obj, err := d.resource(ctx, src.Bounds, obj, gk, s.Object)
	if err != nil {
		d.watches.Await(src.Instance.ID, "", err)
		return d.unknownKind(gk, s.Object, err)
	}
	instance := src.Instance.ID
	if f := d.watches.Get(gk, s.Object); d.watches.Owns(f, instance) && d.mustReplace(src, r, f) && nameable(gk) {
		return d.dryCreation(ctx, src.Bounds, api, obj, s.Object, f)
	}
	answer, err := d.patch(ctx, api, obj, true)
	if err != nil {
		d.watches.Await(instance, obj.GetNamespace(), err)
		// The object may be somebody else's: then that is what is wrong, and not that the
		// server finds a field of it immutable.
		if !d.mine(gk, s.Object, instance) && !manifest.InfoOf(gk).Shared && !lacksRight(err) {
			var refused *drivers.RefusedError
			if owner := d.checkOwner(ctx, src, api, obj, s.Object); errors.As(owner, &refused) {
				return owner
			}
		}
		said := classifyAs(src.Bounds, s.Object, err)
		var refused *drivers.RefusedError
		if overQuota(err) && errors.As(said, &refused) {
			refused.MayPass = false // nothing goes while it is asked, that could make room
		}
		return drivers.About("dry run of "+s.Object, said)
	}
	if d.mine(gk, s.Object, instance) || manifest.InfoOf(gk).Shared {
		return nil
	}
	// An object that has a version exists already: it wouldn't be created.
	if answer.GetResourceVersion() != "" {
		return d.checkOwner(ctx, src, api, obj, s.Object)
	}
	return nil
}

// mustReplace says whether the object can only be made again when this incarnation is gone.
func (d *Driver) mustReplace(src drivers.Source, r *manifest.Form, f *watched.Fact) bool {
	if !f.TopLevel() || manifest.InfoOf(f.GroupKind).Shared {
		return false
	}
	if f.Deleting || f.Dead || src.Instance.Condemned[f.Key] == string(f.UID) {
		return true
	}
	return slices.ContainsFunc(r.Desired.Objects, func(x plan.Object) bool { return x.Key == f.Key && f.Outgrown(r, x) != "" })
}

// nameable says whether an object of the kind would be as right under another name,
// beside the one that is there. That isn't known of a custom resource; an APIService is
// named after what it serves, and one PriorityClass may be the default.
func nameable(gk schema.GroupKind) bool {
	_, builtIn := manifest.Kinds[gk]
	return builtIn && gk.Group != "apiregistration.k8s.io" && gk.Group != manifest.GroupScheduling
}

// dryCreation asks whether the object could be made that takes the place of one that
// is still there: under a name that is free, as that is what it will be then.
func (d *Driver) dryCreation(ctx context.Context, b *drivers.Bounds, api dynamic.ResourceInterface, obj *unstructured.Unstructured, key string, now *watched.Fact) error {
	probe := obj.DeepCopy()
	sum := sha256.Sum256([]byte(now.UID))
	const room = 40 // for the longest of names that everything may have, and the sum
	name := obj.GetName()
	probe.SetName(strings.TrimRight(name[:min(len(name), room)], "-.") + "-" + hex.EncodeToString(sum[:4]))
	_, err := d.patch(ctx, api, probe, true)
	if isTaken(err) || overQuota(err) {
		return nil // by the incarnation that goes first
	}
	var refused *drivers.RefusedError
	if err = classifyAs(b, key, err); errors.As(err, &refused) {
		named := *refused
		named.Reason = strings.ReplaceAll(named.Reason, probe.GetName(), name)
		err = &named
	}
	if err != nil {
		return drivers.About("dry run of "+key, err)
	}
	return nil
}

// overQuota says whether there is no room for the object beside what is there.
func overQuota(err error) bool {
	return apierrors.IsForbidden(err) && strings.Contains(err.Error(), "exceeded quota")
}

// canSwitchTraffic refuses to switch traffic to another generation where nobody could see
// that it went there.
func (d *Driver) canSwitchTraffic(src drivers.Source, r *manifest.Form, steps []plan.Step) error {
	directs := func(s plan.Step) bool { return s.Directs }
	if r == nil || !slices.ContainsFunc(steps, directs) {
		return nil
	}
	if !d.watches.OtherGeneration(src.Instance.ID, r.Desired.Generation) {
		return nil
	}
	for _, s := range steps {
		_, namespace, _, _ := manifest.SplitKey(s.Object)
		if why, _ := d.watches.Unseen(manifest.KindSlice, namespace); why != "" && s.Directs {
			return &drivers.RefusedError{Field: "update.strategy", Reason: "a blue-green change can't be seen through here: " + why}
		}
	}
	return nil
}
