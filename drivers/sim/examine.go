package sim

import (
	"context"
	"fmt"
	"strconv"

	"github.com/jibe-vnfm/jibe/drivers"
	"github.com/jibe-vnfm/jibe/plan"
)

// present is the value of an object as a whole.
const present = "present"

// Examine implements [drivers.Driver]. An object has a content and a count, and no other
// fields.
func (d *Driver) Examine(ctx context.Context, r drivers.Rendering, steps ...plan.Step) ([]drivers.Deviation, error) {
	if err := d.reach(ctx); err != nil {
		return nil, err
	}
	o, err := d.cloud.observe(r.Source.Instance.ID)
	if err != nil {
		return nil, fmt.Errorf("VIM %s: %w", d.vim.Name, err)
	}
	now := make(map[string]plan.ObservedObject, len(o.Objects))
	for _, x := range o.Objects {
		now[x.Key] = x
	}
	var found []drivers.Deviation
	known := map[string]bool{}
	for _, s := range steps {
		if known[s.Object] {
			continue
		}
		x, exists := now[s.Object]
		digest, wanted := digestOf(r.Desired, s.Object)
		v := drivers.Deviation{Object: s.Object}
		if wanted {
			v.Want = present
		}
		switch {
		case s.Action == plan.Wait && (!exists || !x.Deleting):
			continue // it isn't ready yet, which is no difference
		case s.Action == plan.Wait:
			v.Have = x.Reason
		case s.Action == plan.Delete || s.Action == plan.DeleteUnit:
			v.Have = s.Reason
		case s.Action == plan.Scale || s.Action == plan.Apply && exists && x.Digest == digest:
			if x.Count == s.To {
				continue
			}
			v.Field, v.Want, v.Have = "count", strconv.Itoa(s.To), strconv.Itoa(x.Count)
		case s.Action == plan.Apply && exists:
			v.Field, v.Want, v.Have = "content", strconv.Quote(digest), strconv.Quote(x.Digest)
			who := d.cloud.changedBy(r.Source.Instance.ID, s.Object)
			v.By, v.At = who.by, who.at
		case s.Action != plan.Apply:
			continue
		}
		found, known[s.Object] = append(found, v), true
	}
	return found, nil
}

// digestOf is the digest of the desired object; false where none is desired.
func digestOf(want plan.Desired, key string) (string, bool) {
	for _, x := range want.Objects {
		if x.Key == key {
			return x.Digest, true
		}
	}
	return "", false
}

// Explain implements [drivers.Driver].
func (d *Driver) Explain(_ context.Context, r drivers.Rendering, key string) string {
	return d.cloud.explain(r.Source.Instance.ID, key)
}

// changedBy is who changed the object last without Jibe.
func (c *Cloud) changedBy(instance, key string) changed {
	c.mu.Lock()
	defer c.mu.Unlock()
	if x := c.instances[instance][key]; x != nil {
		return c.outside[x.serial]
	}
	return changed{}
}
