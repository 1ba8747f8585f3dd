// Package fields reads metadata.managedFields: who manages which fields of a Kubernetes
// object. It is pure.
package fields

import (
	"bytes"
	"encoding/json"
	"hash/fnv"
	"io"
	"slices"
	"strconv"
	"strings"
	"unique"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/jibe-vnfm/jibe/drivers/kubernetes/manifest"
	"github.com/jibe-vnfm/jibe/drivers/kubernetes/raw"
)

// Managed reads who manages what of the object: the fields that Jibe has applied
// and still owns, and a mark that changes whenever somebody else touches the
// object (but for its status and scale).
func Managed(gk schema.GroupKind, u *unstructured.Unstructured) (fields unique.Handle[string], touched uint64) {
	mark := fnv.New64a()
	ours := ""
	for _, m := range u.GetManagedFields() {
		if m.Subresource != "" || m.FieldsV1 == nil {
			continue
		}
		if IsOurs(m) {
			ours = compact(m.FieldsV1.GetRawBytes())
			continue
		}
		at := ""
		if m.Time != nil { // who writes managedFields may leave it out
			at = m.Time.UTC().String()
		}
		for _, part := range []string{m.Manager, string(m.Operation), at, m.FieldsV1.GetRawString()} {
			_, _ = io.WriteString(mark, part) // a hash doesn't fail
			_, _ = mark.Write([]byte{0})
		}
	}
	// The entries tell time by the second. What has no status moves its version only
	// when its content changes; the other kinds count generations of their specs.
	version := strconv.FormatInt(u.GetGeneration(), 10)
	if _, status := u.Object["status"]; u.GetGeneration() == 0 && (!status || gk == manifest.KindService) {
		version = u.GetResourceVersion()
	}
	_, _ = io.WriteString(mark, version)
	return unique.Make(ours), mark.Sum64()
}

// IsOurs tells what Jibe applied from what others wrote, and from what admission
// webhooks made of Jibe's requests, which the server notes as updates of Jibe's.
func IsOurs(m metav1.ManagedFieldsEntry) bool {
	return m.Manager == manifest.FieldManager && m.Operation == metav1.ManagedFieldsOperationApply && m.Subresource == ""
}

// Own says whether the set of managed fields (FieldsV1) has every field of the
// object but its identity.
func Own(fieldsV1 string, obj *unstructured.Unstructured) bool {
	if fieldsV1 == "" {
		return false
	}
	var set Set
	if json.Unmarshal([]byte(fieldsV1), &set) != nil {
		return false
	}
	_, builtIn := manifest.Kinds[obj.GroupVersionKind().GroupKind()]
	for field, value := range obj.Object {
		owned, has := set["f:"+field]
		switch field {
		case "apiVersion", "kind":
			continue
		case "metadata":
			meta, _ := value.(map[string]any)
			inMeta, _ := owned.(Set)
			for part, x := range meta {
				if part == "name" || part == "namespace" {
					continue
				}
				if owned, has := inMeta["f:"+part]; !ownsValue(owned, has, x, builtIn) {
					return false
				}
			}
			continue
		}
		if !ownsValue(owned, has, value, builtIn) {
			return false
		}
	}
	return true
}

// Set is a set of fields as FieldsV1 writes it: "f:" and a field's name,
// "k:" and the keys of a list's item, "v:" and a value; an empty one is a field
// as a whole.
type Set = map[string]any

// ownsValue compares one field. An empty set owns its field as a whole. Of a custom
// resource, whose schema may not tell a whole from its parts, it may as well be what
// is left of a map whose fields others took: that is a suspicion.
func ownsValue(owned any, has bool, value any, builtIn bool) bool {
	if value == nil {
		return true
	}
	if !has {
		m, isMap := value.(map[string]any)
		return isMap && len(m) == 0
	}
	set, _ := owned.(Set)
	if len(set) == 0 {
		m, isMap := value.(map[string]any)
		return builtIn || !isMap || len(m) == 0
	}
	switch value := value.(type) {
	case map[string]any:
		for k, v := range value {
			part, has := set["f:"+k]
			if !ownsValue(part, has, v, builtIn) {
				return false
			}
		}
	case []any:
		for _, item := range value {
			name, has := itemName(set, item)
			if !has || !ownsValue(set[name], true, item, builtIn) {
				return false
			}
		}
	}
	return true
}

// itemName finds the entry that names the item of a list: by its keys, or by its
// value.
func itemName(set Set, item any) (name string, found bool) {
	m, isMap := item.(map[string]any)
	if !isMap {
		b, err := json.Marshal(item)
		_, has := set["v:"+string(b)]
		return "v:" + string(b), err == nil && has
	}
	best := -1
	for entry := range set {
		if !strings.HasPrefix(entry, "k:") {
			continue
		}
		var keys map[string]any
		if json.Unmarshal([]byte(entry[2:]), &keys) != nil {
			continue
		}
		// Of several that may be meant (a key that isn't given has its default), the
		// one with the default that Kubernetes has everywhere: protocol TCP.
		given, ok := matches(keys, m)
		if ok && (given > best || given == best && entry < name) {
			best, name = given, entry
		}
	}
	return name, best >= 0
}

// matches says whether the item has the keys' values, and how many of them it
// gives; a key that it doesn't give was filled in by a default.
func matches(keys, item map[string]any) (given int, ok bool) {
	for k, want := range keys {
		got, has := item[k]
		if !has && k == "protocol" {
			got, has = "TCP", true
		}
		if !has {
			continue
		}
		a, errA := json.Marshal(want)
		b, errB := json.Marshal(got)
		if errA != nil || errB != nil || string(a) != string(b) {
			return 0, false
		}
		given++
	}
	return given, true
}

// Union is everything that is in any of the sets. It alters none of them.
func Union(sets ...Set) Set {
	all := Set{}
	for _, set := range sets {
		for name, part := range set {
			sub, _ := part.(Set)
			if known, ok := all[name].(Set); ok {
				sub = Union(known, sub)
			}
			all[name] = sub
		}
	}
	return all
}

// Of reads the set of an entry.
func Of(m metav1.ManagedFieldsEntry) Set {
	var set Set
	if m.FieldsV1 == nil || json.Unmarshal(m.FieldsV1.GetRawBytes(), &set) != nil {
		return nil
	}
	return set
}

// In says whether the set has the field: itself, the whole that it is part of, or
// something in it.
func (p Path) In(set Set) bool {
	for _, name := range p {
		part, ok := set[name]
		if !ok {
			return false
		}
		sub, _ := part.(Set)
		if len(sub) == 0 {
			return true // the field as a whole
		}
		set = sub
	}
	return true
}

// Path leads to a field by the names that FieldsV1 gives: "f:spec",
// `k:{"name":"web"}`, `v:"x"`.
type Path []string

// String is the path as people read it: "spec.containers[name=web].image",
// "metadata.labels[example.com/x]".
func (p Path) String() string {
	var b strings.Builder
	for _, name := range p {
		kind, value, _ := strings.Cut(name, ":")
		switch {
		case kind == "f" && (b.Len() > 0 && strings.ContainsAny(value, "./[]=") || value == ""):
			b.WriteString("[" + value + "]")
		case kind == "f":
			if b.Len() > 0 {
				b.WriteByte('.')
			}
			b.WriteString(value)
		case kind == "k":
			var keys map[string]any
			if json.Unmarshal([]byte(value), &keys) != nil {
				b.WriteString("[" + value + "]")
				continue
			}
			var pairs []string
			for k, v := range keys {
				s, ok := v.(string)
				if !ok {
					s = raw.JSON(v)
				}
				pairs = append(pairs, k+"="+s)
			}
			slices.Sort(pairs)
			b.WriteString("[" + strings.Join(pairs, ",") + "]")
		default:
			b.WriteString("[" + strings.Trim(value, `"`) + "]")
		}
	}
	return b.String()
}

// IsKeyed says whether a list's items are told apart by keys or values.
func IsKeyed(shape Set) bool {
	for name := range shape {
		if strings.HasPrefix(name, "k:") || strings.HasPrefix(name, "v:") {
			return true
		}
	}
	return false
}

func ByName(shape Set, items []any, names []string) (map[string]any, []string) {
	by := make(map[string]any, len(items))
	for _, item := range items {
		name, ok := itemName(shape, item)
		if !ok {
			name = newItemName(shape, item)
		}
		by[name] = item
		names = append(names, name)
	}
	return by, names
}

// newItemName names an item that no manager has, as the list's other items are named.
func newItemName(shape Set, item any) string {
	m, _ := item.(map[string]any)
	for name := range shape {
		var keys map[string]any
		if m == nil || !strings.HasPrefix(name, "k:") || json.Unmarshal([]byte(name[2:]), &keys) != nil {
			continue
		}
		for k := range keys {
			switch value, given := m[k]; {
			case given:
				keys[k] = value
			case k == "protocol":
				keys[k] = "TCP"
			default:
				delete(keys, k)
			}
		}
		return "k:" + raw.JSON(keys)
	}
	return "v:" + raw.JSON(item)
}

// compact is JSON without blanks.
func compact(data []byte) string {
	var b bytes.Buffer
	if json.Compact(&b, data) != nil {
		return ""
	}
	return b.String()
}
