// Package mergepatch applies JSON merge patches (RFC 7396) to decoded documents. It
// leaves the rules to github.com/evanphx/json-patch, and is pure.
//
// json-patch merges text. It would turn 1.0 into 1, and it removes nulls from lists, which
// the RFC has a patch replace as they are. So it gets only the objects of both documents:
// whatever else they hold is kept aside as a Go value, and stands in the text as its number.
package mergepatch

import (
	"encoding/json"
	"fmt"

	jsonpatch "github.com/evanphx/json-patch/v5"
)

// Apply returns target as patch changes it: an object of patch is merged into that of
// target, null removes a member, and anything else takes the place of what target has. The
// result is never nil. Neither argument is altered; lists are shared with the result.
func Apply(target, patch map[string]any) map[string]any {
	var kept values
	return kept.merge(kept.outline(target, false), kept.outline(patch, true))
}

// Join returns the patch that changes a document as earlier and then later do. Unlike
// [Apply] it keeps a null of later, so that the member is removed from the document too.
func Join(earlier, later map[string]any) map[string]any {
	var kept values
	return kept.merge(kept.outline(earlier, false), kept.outline(later, false))
}

// values are what documents hold beside objects.
type values []any

// outline returns the objects of a document, with the numbers of the values in their
// members. Where nulls is true, a null stays one and so removes a member.
func (k *values) outline(object map[string]any, nulls bool) map[string]any {
	out := make(map[string]any, len(object))
	for name, v := range object {
		inner, isObject := v.(map[string]any)
		switch {
		case isObject:
			out[name] = k.outline(inner, nulls)
		case v == nil && nulls:
			out[name] = nil
		default:
			out[name] = len(*k)
			*k = append(*k, v)
		}
	}
	return out
}

func (k values) merge(target, patch map[string]any) map[string]any {
	var merged map[string]any
	text, err := jsonpatch.MergePatch(encode(target), encode(patch))
	if err == nil {
		err = json.Unmarshal(text, &merged)
	}
	if err != nil {
		panic(fmt.Sprintf("mergepatch: objects of numbers can't be merged: %v", err))
	}
	k.fill(merged)
	return merged
}

// fill puts the values back in the place of their numbers.
func (k values) fill(outline map[string]any) {
	for name, v := range outline {
		switch v := v.(type) {
		case map[string]any:
			k.fill(v)
		case float64:
			outline[name] = k[int(v)]
		}
	}
}

// encode can't fail: an outline holds objects, whole numbers and nulls.
func encode(outline map[string]any) []byte {
	text, err := json.Marshal(outline)
	if err != nil {
		panic(fmt.Sprintf("mergepatch: %v", err))
	}
	return text
}
