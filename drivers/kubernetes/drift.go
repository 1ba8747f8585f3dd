package kubernetes

import (
	"encoding/json"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/jibe-vnfm/jibe/drivers"
)

// fieldsKey names a question about managed fields that has one answer for all
// instances of a package: whose values differ, but not the names of their fields.
type fieldsKey struct{ base, flavour, kind, name, fields string }

// drifted says whether someone took over fields that Jibe applied. Whoever
// changes a field's value becomes its manager, so no value has to be kept or
// read: it is enough that each rendered field is still ours.
func (d *Driver) drifted(src drivers.Source, f *fact) bool {
	if src.Package == nil || src.Package.Tree == "" || d.exempt(f) {
		return false
	}
	key := fieldsKey{baseKey(src), src.Instance.Flavour, kindName(f.gk), f.name, f.fields.Value()}
	if f.kinds != "" {
		key.name = "" // the inventory's name is the instance's
	}
	if complete, ok := d.fields.Load(key); ok {
		return !complete.(bool)
	}
	r, err := d.render(src)
	if err != nil || r.objects[f.key] == nil {
		return false
	}
	complete := owns(f.fields.Value(), r.objects[f.key])
	d.fields.Store(key, complete)
	return !complete
}

// exempt are objects whose fields the server keeps otherwise than they were
// sent, as it showed when Jibe wrote them: of them only the digest can tell.
func (d *Driver) exempt(f *fact) bool {
	v, ok := d.fields.Load(exemptKey{string(f.uid), f.digest})
	return ok && v.(bool)
}

type exemptKey struct{ uid, digest string }

// accepted takes note of what the server made of a write.
func (d *Driver) accepted(f *fact, applied *unstructured.Unstructured) {
	if !owns(f.fields.Value(), applied) {
		d.fields.Store(exemptKey{string(f.uid), f.digest}, true)
	}
}

// owns says whether the set of managed fields (FieldsV1) has every field of the
// object but its identity and the number of replicas.
func owns(fieldsV1 string, obj *unstructured.Unstructured) bool {
	if fieldsV1 == "" {
		return false
	}
	var set map[string]any
	if json.Unmarshal([]byte(fieldsV1), &set) != nil {
		return false
	}
	for field, value := range obj.Object {
		switch field {
		case "apiVersion", "kind":
			continue
		case "metadata":
			meta, _ := value.(map[string]any)
			owned, _ := set["f:metadata"].(map[string]any)
			for _, part := range []string{"labels", "annotations"} {
				if !ownsValue(owned["f:"+part], owned != nil && owned["f:"+part] != nil, meta[part]) {
					return false
				}
			}
			continue
		case "spec":
			spec, ok := value.(map[string]any)
			if _, counted := spec["replicas"]; ok && counted {
				without := make(map[string]any, len(spec))
				for k, v := range spec {
					if k != "replicas" {
						without[k] = v
					}
				}
				value = without
			}
		}
		owned, has := set["f:"+field]
		if !ownsValue(owned, has, value) {
			return false
		}
	}
	return true
}

// ownsValue compares one field. An empty set owns its field as a whole.
func ownsValue(owned any, has bool, value any) bool {
	if value == nil {
		return true
	}
	if !has {
		m, isMap := value.(map[string]any)
		return isMap && len(m) == 0
	}
	set, _ := owned.(map[string]any)
	if len(set) == 0 {
		return true
	}
	switch value := value.(type) {
	case map[string]any:
		for k, v := range value {
			part, has := set["f:"+k]
			if !ownsValue(part, has, v) {
				return false
			}
		}
	case []any:
		for _, item := range value {
			if !ownsItem(set, item) {
				return false
			}
		}
	}
	return true
}

// ownsItem looks for the entry of a list: by its keys, or by its value.
func ownsItem(set map[string]any, item any) bool {
	m, isMap := item.(map[string]any)
	for name, part := range set {
		switch {
		case isMap && strings.HasPrefix(name, "k:"):
			var keys map[string]any
			if json.Unmarshal([]byte(name[2:]), &keys) == nil && matches(keys, m) {
				return ownsValue(part, true, item)
			}
		case !isMap && strings.HasPrefix(name, "v:"):
			if b, err := json.Marshal(item); err == nil && string(b) == name[2:] {
				return true
			}
		}
	}
	return false
}

// matches says whether the item has the keys' values; a key that it doesn't
// give was filled in by a default.
func matches(keys, item map[string]any) bool {
	for k, want := range keys {
		got, given := item[k]
		if !given {
			continue
		}
		a, errA := json.Marshal(want)
		b, errB := json.Marshal(got)
		if errA != nil || errB != nil || string(a) != string(b) {
			return false
		}
	}
	return true
}
