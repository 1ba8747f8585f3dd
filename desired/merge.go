package desired

import (
	"maps"
	"slices"
	"strings"
)

// MergeInstance makes in theirs, the text of a vnf.yaml, the changes that ours has made since base,
// key by key: maps are merged, a list is one value. Comments, the order of keys and all else are those
// of theirs.
//
// Where both have changed a key to different values, the conflicts are these keys
// ("levels.vdu1_aspect"), and there is no text. Which changes may be merged at all is the caller's to
// know. An error is an [*InvalidError] that says why one of the texts, or the result, is no vnf.yaml.
func MergeInstance(file string, base, ours, theirs []byte) (merged []byte, conflicts []string, err error) {
	m, err := mergeKeys(file, base, ours, theirs)
	if err != nil || len(m.conflicts) > 0 {
		return nil, m.conflicts, err
	}
	merged, err = Edit(file, theirs, m.changes...)
	return merged, nil, err
}

// ChangedKeys are the keys in which two texts of a vnf.yaml differ. An error is that of [MergeInstance].
func ChangedKeys(file string, before, after []byte) ([]string, error) {
	m, err := mergeKeys(file, before, after, before)
	var keys []string
	for _, c := range m.changes {
		keys = append(keys, strings.Join(c.Path, "."))
	}
	return keys, err
}

// keyMerge is what ours has changed and theirs hasn't, and the keys that both have.
type keyMerge struct {
	changes   []KeyValue
	conflicts []string
}

func mergeKeys(file string, base, ours, theirs []byte) (m keyMerge, err error) {
	var values [3]map[string]any
	for i, data := range [][]byte{base, ours, theirs} {
		t, err := readText(file, data)
		if err != nil {
			return m, err
		}
		values[i] = t.value
	}
	m.maps(nil, values[0], values[1], values[2])
	return m, nil
}

func (m *keyMerge) maps(path []string, base, ours, theirs map[string]any) {
	keys := map[string]any{}
	maps.Copy(keys, base)
	maps.Copy(keys, ours)
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		m.value(append(slices.Clip(path), key), base[key], ours[key], theirs[key])
	}
}

// value merges one key; nil is a key that isn't there.
func (m *keyMerge) value(path []string, base, ours, theirs any) {
	b, inBase := base.(map[string]any)
	o, inOurs := ours.(map[string]any)
	t, inTheirs := theirs.(map[string]any)
	nested := (inBase || base == nil) && (inOurs || ours == nil) && (inTheirs || theirs == nil)
	switch {
	case sameAny(base, ours), sameAny(ours, theirs):
	// A map that one side has removed has no keys for the other. But what ours has put into one that
	// theirs removed is neither there nor gone.
	case nested && inBase && inOurs && inTheirs, nested && !sameAny(base, theirs) && (inTheirs || within(o, b)):
		m.maps(path, b, o, t)
	case sameAny(base, theirs):
		m.changes = append(m.changes, KeyValue{Path: path, Value: ours})
		m.maps(path, b, o, t)
	default:
		m.conflicts = append(m.conflicts, strings.Join(path, "."))
	}
}

// within says whether each key of a has the same value in b.
func within(a, b map[string]any) bool {
	for key, value := range a {
		if other, ok := b[key]; !ok || !sameAny(value, other) {
			return false
		}
	}
	return true
}
