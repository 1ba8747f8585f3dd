package sol

import (
	"maps"
	"reflect"
	"slices"

	"github.com/jibe-vnfm/jibe/desired"
)

// differences returns the edits that make now into next. Maps are edited key by key, so
// that comments in them stay. The id is written into every file that Jibe edits, so that the
// VNF stays the same when its directory is moved.
func differences(now, next *desired.Instance) []desired.KeyValue {
	edits := []desired.KeyValue{{Path: []string{"id"}, Value: now.ID}}
	text := func(key, was, is string) {
		if was == is {
			return
		}
		var v any // nil removes the key
		if is != "" {
			v = is
		}
		edits = append(edits, desired.KeyValue{Path: []string{key}, Value: v})
	}
	text("name", now.Name, next.Name)
	text("description", now.Description, next.Description)
	text("vnfdId", now.VnfdID, next.VnfdID)
	text("package", now.Package, next.Package)
	text("base", now.Base, next.Base)
	text("generation", now.Generation, next.Generation)
	text("state", now.State, next.State)
	text("flavour", now.Flavour, next.Flavour)
	text("instantiationLevel", now.InstantiationLevel, next.InstantiationLevel)
	text("vim", now.VIM, next.VIM)
	text("held", now.Held, next.Held)
	edits = append(edits, updates(now, next)...)
	edits = append(edits, entries("levels", now.Levels, next.Levels)...)
	edits = append(edits, entries("vimConnectionInfo", now.VIMConnections, next.VIMConnections)...)
	edits = append(edits, entries("placement", now.Placement, next.Placement)...)
	edits = append(edits, list("extVirtualLinks", now.ExtVirtualLinks, next.ExtVirtualLinks)...)
	edits = append(edits, list("extManagedVirtualLinks", now.ExtManagedVirtualLinks, next.ExtManagedVirtualLinks)...)
	edits = append(edits, entries("params", now.Params, next.Params)...)
	edits = append(edits, entries("condemned", now.Condemned, next.Condemned)...)
	edits = append(edits, entries("metadata", now.Metadata, next.Metadata)...)
	edits = append(edits, entries("extensions", now.Extensions, next.Extensions)...)
	return append(edits, entries("vnfConfigurableProperties", now.ConfigurableProperties, next.ConfigurableProperties)...)
}

// updates returns the edits of the keys for changes of package and container updates.
func updates(now, next *desired.Instance) []desired.KeyValue {
	edits := list("overlays", now.Overlays, next.Overlays)
	edits = append(edits, entries("vdus", now.VDUs, next.VDUs)...)
	was, is := now.Update, next.Update
	for _, e := range list("vdus", was.VDUs, is.VDUs) {
		edits = append(edits, desired.KeyValue{Path: []string{"update", "vdus"}, Value: e.Value})
	}
	for _, text := range [][3]string{{"strategy", was.Strategy, is.Strategy}, {"drain", was.Drain, is.Drain}} {
		if text[1] != text[2] {
			edits = append(edits, desired.KeyValue{Path: []string{"update", text[0]}, Value: text[2]})
		}
	}
	if !reflect.DeepEqual(was.Coordinate, is.Coordinate) {
		e := desired.KeyValue{Path: []string{"update", "coordinate"}}
		if !reflect.DeepEqual(is.Coordinate, desired.Coordination{}) {
			e.Value = is.Coordinate
		}
		edits = append(edits, e)
	}
	return edits
}

// list returns the edit of a list, which is written as a whole.
func list[V any](key string, now, next []V) []desired.KeyValue {
	if len(now) == 0 && len(next) == 0 || reflect.DeepEqual(now, next) {
		return nil
	}
	e := desired.KeyValue{Path: []string{key}}
	if len(next) > 0 {
		e.Value = next
	}
	return []desired.KeyValue{e}
}

func entries[V any](key string, now, next map[string]V) []desired.KeyValue {
	if len(next) == 0 {
		if len(now) == 0 {
			return nil
		}
		return []desired.KeyValue{{Path: []string{key}}}
	}
	if len(now) == 0 {
		return []desired.KeyValue{{Path: []string{key}, Value: next}}
	}
	var edits []desired.KeyValue
	for _, k := range slices.Sorted(maps.Keys(now)) {
		if _, ok := next[k]; !ok {
			edits = append(edits, desired.KeyValue{Path: []string{key, k}})
		}
	}
	for _, k := range slices.Sorted(maps.Keys(next)) {
		if was, ok := now[k]; !ok || !reflect.DeepEqual(was, next[k]) {
			edits = append(edits, desired.KeyValue{Path: []string{key, k}, Value: next[k]})
		}
	}
	return edits
}
