package openstack

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/drivers"
	"github.com/jibe-vnfm/jibe/drivers/openstack/hot"
	"github.com/jibe-vnfm/jibe/plan"
)

// isThere is what an object as a whole should be.
const isThere = "present"

// Examine implements [drivers.Driver]. Most of it is in the steps. For a template that was
// changed by hand, Examine composes the request that would repair it, and compares.
func (d *Driver) Examine(ctx context.Context, r drivers.Rendering, steps ...plan.Step) ([]drivers.Deviation, error) {
	var found []drivers.Deviation
	known := map[string]bool{}
	for _, s := range steps {
		if known[s.Object] && s.Action != plan.Scale {
			continue
		}
		switch s.Action {
		case plan.Apply:
			more, err := d.examine(ctx, r, s)
			if err != nil {
				return nil, fmt.Errorf("VIM %s: %w", d.vim.Name, err)
			}
			found = append(found, more...)
		case plan.Scale:
			found = append(found, drivers.Deviation{Object: s.Object, Field: "VDU " + s.VDU + " VNFCs", Want: fmt.Sprint(s.To), Have: fmt.Sprint(s.From)})
		case plan.DeleteUnit:
			found = append(found, drivers.Deviation{Object: s.Object, Want: isThere, Have: s.Reason})
		case plan.Renew:
			found = append(found, drivers.Deviation{Object: s.Object, Want: "as rendered", Have: s.Reason})
		case plan.Stop, plan.Start:
			found = append(found, powered(s))
		case plan.Delete:
			found = append(found, drivers.Deviation{Object: s.Object, Have: isThere})
		default:
			continue
		}
		known[s.Object] = true
	}
	return found, nil
}

// examine reports where the stack differs from its rendering.
func (d *Driver) examine(ctx context.Context, r drivers.Rendering, s plan.Step) ([]drivers.Deviation, error) {
	w := &work{name: strings.TrimPrefix(s.Object, "Stack/"), apply: true}
	found, err := d.named(d.cloud.stackNamed(ctx, w.name))
	if err != nil {
		return nil, err
	}
	if found == nil {
		return []drivers.Deviation{{Object: s.Object, Want: isThere}}, nil
	}
	if found.deleting() || found.failed() {
		return []drivers.Deviation{{Object: s.Object, Want: isThere, Have: found.Status + ": " + short(found.StatusReason), At: found.UpdatedTime}}, nil
	}
	rendered, err := templatesOf(r)
	if err != nil {
		return nil, err
	}
	p, err := d.fetch(ctx, found)
	if err != nil {
		return nil, err
	}
	differ, err := d.differ(s.Object, rendered, p, w)
	if err != nil {
		return nil, err
	}
	for _, n := range p.tree.all {
		if n.Type == typePort && p.withoutAddress[n.Physical] {
			differ = append(differ, drivers.Deviation{Object: s.Object, Field: n.Name + ".fixed_ips", Want: "an address", Have: "none"})
		}
	}
	for i := range differ {
		differ[i].At = found.UpdatedTime
	}
	if len(differ) == 0 && found.tag(tagDigest) != rendered.Digest {
		differ = append(differ, drivers.Deviation{Object: s.Object, Field: "tags", Want: tagDigest + rendered.Digest, Have: tagDigest + found.tag(tagDigest)})
	}
	return differ, nil
}

// differ composes what the work would make of the stack, and compares.
func (d *Driver) differ(key string, rendered *hot.Rendered, p *present, w *work) ([]drivers.Deviation, error) {
	c := p.compare(rendered, w)
	body, err := rendered.Update(hot.Live{Template: p.live.Template, Files: p.live.Files, Members: c.members}, c.want)
	if err != nil {
		return nil, &drivers.RefusedError{Object: key, Reason: err.Error()}
	}
	return differences(key, p.live, &liveBody{Template: body.Template, Files: body.Files, Parameters: body.Parameters})
}

// differences are where a stack differs from what it should be made of.
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
	differing(nil, a, b, func(path []string, have, want any) {
		if len(found) < mostDifferences {
			found = append(found, drivers.Deviation{Object: key, Field: strings.Join(path, "."), Have: shown(path, have), Want: shown(path, want)})
		}
	})
	return found, nil
}

// mostDifferences bounds how many differences of one stack are reported.
const mostDifferences = 50

// differing walks both values and reports where they differ.
func differing(path []string, a, b any, report func(path []string, a, b any)) {
	if reflect.DeepEqual(a, b) {
		return
	}
	x, ok := a.(map[string]any)
	y, ok2 := b.(map[string]any)
	if !ok || !ok2 {
		report(path, a, b)
		return
	}
	keys := maps.Clone(x)
	maps.Copy(keys, y)
	for _, k := range slices.Sorted(maps.Keys(keys)) {
		differing(append(slices.Clone(path), k), x[k], y[k], report)
	}
}

// mayHoldSecrets says whether the property's value is redacted, so that only the fact that it
// differs is reported: it has the name of a secret, or machines are set up with it. Parameters
// and files are redacted anyhow.
func mayHoldSecrets(name string) bool {
	return name == "config" || name == "personality" || strings.Contains(name, "user_data") || desired.IsSecretKey(name)
}

// longestValue bounds, in bytes, what is reported of a value.
const longestValue = 120

// shown is the value as it is reported: shortened, and redacted where it may be a secret.
func shown(path []string, v any) string {
	switch {
	case v == nil:
		return ""
	case path[0] != "template" || slices.ContainsFunc(path, mayHoldSecrets):
		return "(not shown)"
	}
	if m, ok := v.(map[string]any); ok {
		if kind, ok := m["type"].(string); ok { // a whole resource
			return kind
		}
		return "(not shown)"
	}
	text, err := json.Marshal(desired.SecretNames{}.Strip(v))
	if s, ok := v.(string); err != nil || ok && desired.IsSecretValue(s) {
		return "(not shown)"
	}
	if len(text) > longestValue {
		return strings.ToValidUTF8(string(text[:longestValue]), "") + "…"
	}
	return string(text)
}
