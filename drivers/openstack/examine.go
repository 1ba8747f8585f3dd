package openstack

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"

	"github.com/jibe-vnfm/jibe/drivers"
	"github.com/jibe-vnfm/jibe/drivers/openstack/hot"
	"github.com/jibe-vnfm/jibe/reconciler/plan"
)

// isThere is what an object as a whole should be.
const isThere = "present"

// Examine implements [drivers.Examiner]. The cache knows most of it; only of a template
// that was changed by hand the request that would mend it is composed and compared.
func (d *Driver) Examine(ctx context.Context, src drivers.Source, _ plan.Desired, steps ...plan.Step) ([]drivers.Deviation, error) {
	var found []drivers.Deviation
	known := map[string]bool{}
	for _, s := range steps {
		if known[s.Object] && s.Action != plan.Scale {
			continue
		}
		switch s.Action {
		case plan.Apply:
			more, err := d.examine(ctx, src, s)
			if err != nil {
				return nil, fmt.Errorf("examine instance %s at VIM %s: %w", src.Instance.ID, d.vim.Name, err)
			}
			found = append(found, more...)
		case plan.Scale:
			found = append(found, drivers.Deviation{Object: s.Object, Field: "VDU " + s.VDU + " VNFCs", Want: fmt.Sprint(s.To), Have: fmt.Sprint(s.From)})
		case plan.DeleteUnit:
			found = append(found, drivers.Deviation{Object: s.Object, Want: isThere, Have: s.Reason})
		case plan.Renew:
			found = append(found, drivers.Deviation{Object: s.Object, Want: "as rendered", Have: s.Reason})
		case plan.Delete:
			found = append(found, drivers.Deviation{Object: s.Object, Have: isThere})
		default:
			continue
		}
		known[s.Object] = true
	}
	return found, nil
}

// examine tells in what the stack differs from its render.
func (d *Driver) examine(ctx context.Context, src drivers.Source, s plan.Step) ([]drivers.Deviation, error) {
	w := &work{name: s.Object[len("Stack/"):], apply: true}
	found, err := d.cloud.findStack(ctx, w.name)
	if err != nil {
		return nil, err
	}
	if found == nil {
		return []drivers.Deviation{{Object: s.Object, Want: isThere}}, nil
	}
	if found.deleting() || found.failed() {
		return []drivers.Deviation{{Object: s.Object, Want: isThere, Have: found.Status + ": " + short(found.Reason), At: parseTime(found.Updated)}}, nil
	}
	rendered, err := d.rendered(src)
	if err != nil {
		return nil, err
	}
	p, err := d.fetch(ctx, found)
	if err != nil {
		return nil, err
	}
	body, err := rendered.Update(hot.Live{Template: p.live.Template, Files: p.live.Files, Members: p.members(rendered)}, p.compare(rendered, w).want)
	if err != nil {
		return nil, &drivers.RefusedError{Object: s.Object, Reason: err.Error()}
	}
	differ, err := differences(s.Object, p.live, &liveBody{Template: body.Template, Files: body.Files, Parameters: body.Parameters})
	if err != nil {
		return nil, err
	}
	for i := range differ {
		differ[i].At = parseTime(found.Updated)
	}
	if len(differ) == 0 && found.tag(tagDigest) != rendered.Digest {
		differ = append(differ, drivers.Deviation{Object: s.Object, Field: "tags", Want: tagDigest + rendered.Digest, Have: tagDigest + found.tag(tagDigest)})
	}
	return differ, nil
}

// differences are the resources, files and parameters in which a stack differs from what
// it should be made of. What of a template may be secret (a parameter, user data) is not
// told, only where it is.
func differences(key string, have, want *liveBody) ([]drivers.Deviation, error) {
	a, err := plain(map[string]any{"parameters": nonNil(have.Parameters), "files": nonNil(have.Files), "template": have.Template})
	if err != nil {
		return nil, err
	}
	b, err := plain(map[string]any{"parameters": nonNil(want.Parameters), "files": nonNil(want.Files), "template": want.Template})
	if err != nil {
		return nil, err
	}
	var found []drivers.Deviation
	differing("", a, b, 3, func(path string, has, wants bool) {
		d := drivers.Deviation{Object: key, Field: path}
		if has {
			d.Have = "something else"
		}
		if wants {
			d.Want = "as rendered"
		}
		found = append(found, d)
	})
	return found, nil
}

// differing walks both values down to the depth and tells where they differ.
func differing(path string, a, b any, depth int, tell func(path string, has, wants bool)) {
	if reflect.DeepEqual(a, b) {
		return
	}
	x, ok := a.(map[string]any)
	y, ok2 := b.(map[string]any)
	if !ok || !ok2 || depth == 0 {
		tell(path, a != nil, b != nil)
		return
	}
	keys := map[string]bool{}
	for k := range x {
		keys[k] = true
	}
	for k := range y {
		keys[k] = true
	}
	for _, k := range slices.Sorted(maps.Keys(keys)) {
		below := k
		if path != "" {
			below = path + "." + k
		}
		differing(below, x[k], y[k], depth-1, tell)
	}
}
