package lcm_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/jibe-vnfm/jibe/lcm"
)

func TestEntriesOfHooksAreMergePatchesAndLaterOnesCount(t *testing.T) {
	type m = map[string]any
	first := lcm.Entries{Metadata: m{"a": 1, "b": 2}, Params: m{"nfv": m{"VDU": m{"X": m{"name": "x", "gone": "g"}}}, "site": "north"}}
	second := lcm.Entries{Metadata: m{"b": nil}, Params: m{"nfv": m{"VDU": m{"X": m{"gone": nil}, "Y": m{"name": "y"}}}, "old": nil}}
	all := lcm.Entries{}.With(first).With(second)
	was := m{"nfv": m{"CP": m{"C": m{"network": "n"}}, "VDU": m{"X": m{"gone": "h", "image": "i"}}}, "old": true, "kept": true}
	want := m{"nfv": m{"CP": m{"C": m{"network": "n"}}, "VDU": m{"X": m{"image": "i", "name": "x"}, "Y": m{"name": "y"}}}, "site": "north", "kept": true}
	if diff := cmp.Diff(want, all.Patch(was)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(m{"nfv": m{"CP": m{"C": m{"network": "n"}}, "VDU": m{"X": m{"gone": "h", "image": "i"}}}, "old": true, "kept": true}, was); diff != "" {
		t.Errorf("the params were altered: %s", diff)
	}
	if diff := cmp.Diff(m{"name": "x", "gone": "g"}, first.Params["nfv"].(m)["VDU"].(m)["X"]); diff != "" {
		t.Errorf("the first entries were altered: %s", diff)
	}
	metadata, extensions := all.Apply(m{"b": 3, "c": 4}, nil)
	if diff := cmp.Diff(m{"a": 1, "c": 4}, metadata); diff != "" || len(extensions) > 0 {
		t.Error(diff, extensions)
	}
	if all.IsZero() || !all.OfInstance() || !(lcm.Entries{}).IsZero() || !(lcm.Entries{Params: m{"a": 1}}).OfInstance() {
		t.Error("IsZero or OfInstance is wrong")
	}
}

func TestAnEmptyObjectStaysOneInAJoinedPatch(t *testing.T) {
	type m = map[string]any
	all := lcm.Entries{}.With(lcm.Entries{Params: m{"site": m{}}})
	text, err := json.Marshal(all)
	if err != nil || string(text) != `{"params":{"site":{}}}` {
		t.Errorf("%s, %v: null would remove the entry", text, err)
	}
}
