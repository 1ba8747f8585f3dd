// Package fields reads metadata.managedFields: who manages which fields of a Kubernetes
// object. It is pure.
package fields

import (
	"bytes"
	"cmp"
	"encoding/json"
	"hash/fnv"
	"io"
	"iter"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unique"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v6/value"

	"github.com/jibe-vnfm/jibe/drivers/kubernetes/manifest"
	"github.com/jibe-vnfm/jibe/drivers/kubernetes/raw"
)

// Managed reads who manages what of the object: the fields that the installation, or a Jibe that
// knew none, has applied and still owns, as FieldsV1 ("" where there are none), and a mark that changes whenever somebody
// else touches the object (but for its status and scale). Objects of one package share
// the text, so that comparing handles compares sets.
func Managed(i manifest.Installation, gk schema.GroupKind, u *unstructured.Unstructured) (ours unique.Handle[string], touched uint64) {
	mark := fnv.New64a()
	set := ""
	for _, m := range u.GetManagedFields() {
		if m.Subresource != "" || m.FieldsV1 == nil {
			continue
		}
		if IsOurs(i, m) {
			set = both(set, compact(m.FieldsV1.GetRawBytes()))
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
	// Entries have their time by the second. Objects without a status move their version
	// only when their content changes; the other kinds count generations of their specs.
	version := strconv.FormatInt(u.GetGeneration(), 10)
	if _, status := u.Object["status"]; u.GetGeneration() == 0 && (!status || gk == manifest.KindService) {
		version = u.GetResourceVersion()
	}
	_, _ = io.WriteString(mark, version)
	return unique.Make(set), mark.Sum64()
}

// both is the union of two sets, as FieldsV1 writes them.
func both(a, b string) string {
	if a == "" || b == "" {
		return a + b
	}
	text, err := Parse(a).Union(Parse(b)).ToJSON()
	if err != nil {
		return b
	}
	return string(text)
}

// compact is JSON without blanks.
func compact(data []byte) string {
	var b bytes.Buffer
	if json.Compact(&b, data) != nil {
		return ""
	}
	return b.String()
}

// IsOurs says whether the entry is of what the installation, or a Jibe that knew none, applied.
// Others' writes aren't, nor is what admission webhooks made of Jibe's requests, which the server
// notes as updates of Jibe's.
func IsOurs(i manifest.Installation, m metav1.ManagedFieldsEntry) bool {
	return IsOf(i, m) || IsOf("", m)
}

// IsOf says whether the entry is of what this very installation applied; "" is a Jibe that knew
// none.
func IsOf(i manifest.Installation, m metav1.ManagedFieldsEntry) bool {
	return m.Manager == i.Manager() && m.Operation == metav1.ManagedFieldsOperationApply && m.Subresource == ""
}

// Of reads the set of an entry. It is empty where the entry has none that can be read.
func Of(m metav1.ManagedFieldsEntry) *fieldpath.Set {
	if m.FieldsV1 == nil {
		return &fieldpath.Set{}
	}
	return Parse(m.FieldsV1.GetRawString())
}

// Parse reads a set as FieldsV1 writes it. It is empty where the text is no set.
func Parse(fieldsV1 string) *fieldpath.Set {
	set := &fieldpath.Set{}
	if set.FromJSON(strings.NewReader(fieldsV1)) != nil {
		return &fieldpath.Set{}
	}
	return set
}

// Part is what the set has of the field: the fields in it, or none where it has the field
// as a whole. has says whether the set has the field or something in it.
func Part(set *fieldpath.Set, field fieldpath.PathElement) (part *fieldpath.Set, has bool) {
	if part, has = set.Children.Get(field); has {
		return part, true
	}
	return &fieldpath.Set{}, set.Members.Has(field)
}

// In says whether the set has the field: itself, the whole that it is part of, or
// something in it.
func In(path fieldpath.Path, set *fieldpath.Set) bool {
	for _, field := range path {
		part, has := Part(set, field)
		if !has {
			return false
		}
		if part.Empty() {
			return true // the field as a whole
		}
		set = part
	}
	return true
}

// Own says whether the set, as FieldsV1 writes it, has every field of the object but its
// identity and the label of the installation, which isn't rendered for but put on.
func Own(fieldsV1 string, obj *unstructured.Unstructured) bool {
	set := Parse(fieldsV1)
	if set.Empty() {
		return false
	}
	_, builtIn := manifest.Kinds[obj.GroupVersionKind().GroupKind()]
	for name, content := range obj.Object {
		switch name {
		case "apiVersion", "kind":
		case "metadata":
			inMeta, _ := Part(set, fieldpath.FieldNameElement(name))
			meta, _ := content.(map[string]any)
			for part, x := range meta {
				if labels, ok := x.(map[string]any); ok && part == "labels" && labels[manifest.LabelInstallation] != nil {
					labels = maps.Clone(labels)
					delete(labels, manifest.LabelInstallation)
					x = labels
				}
				if part != "name" && part != "namespace" && !owns(inMeta, fieldpath.FieldNameElement(part), x, builtIn) {
					return false
				}
			}
		default:
			if !owns(set, fieldpath.FieldNameElement(name), content, builtIn) {
				return false
			}
		}
	}
	return true
}

// owns compares one field. An empty set owns its field as a whole, if the kind is built in.
// The schema of a custom resource may not separate a whole from its parts: there an empty
// set may be the rest of a map whose fields others took, which is a suspicion.
func owns(set *fieldpath.Set, field fieldpath.PathElement, content any, builtIn bool) bool {
	part, has := Part(set, field)
	m, isMap := content.(map[string]any)
	if !has {
		return isMap && len(m) == 0
	}
	if part.Empty() {
		return builtIn || !isMap || len(m) == 0
	}
	for name, x := range m {
		if !owns(part, fieldpath.FieldNameElement(name), x, builtIn) {
			return false
		}
	}
	items, _ := content.([]any)
	for _, item := range items {
		name, has := itemName(part, item)
		if !has || !owns(part, name, item, builtIn) {
			return false
		}
	}
	return true
}

// elements are the names that the set has at its top, some of them twice.
func elements(set *fieldpath.Set) iter.Seq[fieldpath.PathElement] {
	return func(yield func(fieldpath.PathElement) bool) {
		for e := range set.Members.All() {
			if !yield(e) {
				return
			}
		}
		for e := range set.Children.All() {
			if !yield(e) {
				return
			}
		}
	}
}

// IsKeyed says whether the set is that of a list whose items have keys or values for
// names.
func IsKeyed(set *fieldpath.Set) bool {
	for e := range elements(set) {
		if e.Key != nil || e.Value != nil {
			return true
		}
	}
	return false
}

// itemName finds the entry of the set that names the item of a list: by its keys, or by
// its value.
func itemName(set *fieldpath.Set, item any) (name fieldpath.PathElement, found bool) {
	m, isMap := item.(map[string]any)
	if !isMap {
		name = valueElement(item)
		_, found = Part(set, name)
		return name, found
	}
	best := -1
	for e := range elements(set) {
		if e.Key == nil {
			continue
		}
		// Several may be meant, as a key that isn't given has its default: the one that has
		// most of what is given is.
		if given, ok := matches(*e.Key, m); ok && (given > best || given == best && e.Less(name)) {
			best, name = given, e
		}
	}
	return name, best >= 0
}

// matches says whether the item has the keys' values, and how many of them it
// gives; a key that it doesn't give was filled in by a default.
func matches(keys value.FieldList, item map[string]any) (given int, ok bool) {
	for _, key := range keys {
		have, has := keyOf(item, key.Name)
		if !has {
			continue
		}
		if !value.Equals(key.Value, value.NewValueInterface(have)) {
			return 0, false
		}
		given++
	}
	return given, true
}

// keyOf is the item's value of the key, with the one default that Kubernetes has everywhere.
func keyOf(item map[string]any, key string) (any, bool) {
	have, has := item[key]
	if !has && key == "protocol" {
		return "TCP", true
	}
	return have, has
}

// newItemName names an item that no manager has, as the list's other items are named.
func newItemName(set *fieldpath.Set, item any) fieldpath.PathElement {
	m, isMap := item.(map[string]any)
	for e := range elements(set) {
		if e.Key == nil || !isMap {
			continue
		}
		var keys []value.Field
		for _, key := range *e.Key {
			if have, has := keyOf(m, key.Name); has {
				keys = append(keys, value.Field{Name: key.Name, Value: value.NewValueInterface(have)})
			}
		}
		return fieldpath.KeyElement(keys...)
	}
	return valueElement(item)
}

func valueElement(item any) fieldpath.PathElement {
	return fieldpath.ValueElement(value.NewValueInterface(item))
}

// Items are the items of a list by the names that the set of its managers gives them, and
// the names in the order of the items.
func Items(set *fieldpath.Set, items []any) (by fieldpath.PathElementMap, names []fieldpath.PathElement) {
	by = fieldpath.MakePathElementMap(len(items))
	for _, item := range items {
		name, ok := itemName(set, item)
		if !ok {
			name = newItemName(set, item)
		}
		by.Insert(name, item)
		names = append(names, name)
	}
	return by, names
}

// Compare orders the names of fields and items by the text that FieldsV1 has for them.
func Compare(a, b fieldpath.PathElement) int {
	x, errX := fieldpath.SerializePathElement(a)
	y, errY := fieldpath.SerializePathElement(b)
	if errX != nil || errY != nil {
		return a.Compare(b) // FieldsV1 has no text for one of them
	}
	return cmp.Compare(x, y)
}

// FieldName is the name of the field that the element leads to, "" where it leads to an
// item of a list.
func FieldName(e fieldpath.PathElement) string {
	if e.FieldName == nil {
		return ""
	}
	return *e.FieldName
}

// KeyName is the value of the key "name" by which the element leads to an item of a list,
// "" where it does otherwise.
func KeyName(e fieldpath.PathElement) string {
	if e.Key == nil {
		return ""
	}
	for _, key := range *e.Key {
		if key.Name == "name" && key.Value.IsString() {
			return key.Value.AsString()
		}
	}
	return ""
}

// String is the path as people read it: "spec.containers[name=web].image",
// "metadata.labels[example.com/x]".
func String(path fieldpath.Path) string {
	var b strings.Builder
	for _, e := range path {
		switch {
		case e.FieldName != nil:
			name := *e.FieldName
			if b.Len() > 0 && strings.ContainsAny(name, "./[]=") || name == "" {
				b.WriteString("[" + name + "]")
				continue
			}
			if b.Len() > 0 {
				b.WriteByte('.')
			}
			b.WriteString(name)
		case e.Key != nil:
			var pairs []string
			for _, key := range *e.Key {
				s, ok := key.Value.Unstructured().(string)
				if !ok {
					s = raw.JSON(key.Value.Unstructured())
				}
				pairs = append(pairs, key.Name+"="+s)
			}
			slices.Sort(pairs)
			b.WriteString("[" + strings.Join(pairs, ",") + "]")
		case e.Value != nil:
			b.WriteString("[" + strings.Trim(raw.JSON((*e.Value).Unstructured()), `"`) + "]")
		case e.Index != nil:
			b.WriteString("[" + strconv.Itoa(*e.Index) + "]")
		}
	}
	return b.String()
}
