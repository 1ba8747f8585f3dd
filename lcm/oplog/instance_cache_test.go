package oplog

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/jibe-vnfm/jibe/lcm"
	"github.com/jibe-vnfm/jibe/plan"
	"github.com/jibe-vnfm/jibe/store"
)

func TestACachedInstanceIsWhatTheTextSaysWhateverItsVersion(t *testing.T) {
	c := newInstanceCache()
	rec := func(id string, seq uint64) store.Record {
		text, err := json.Marshal(lcm.Instance{ID: id, Seq: seq, Units: []plan.Unit{{ID: "u"}}})
		if err != nil {
			t.Fatal(err)
		}
		// A record that was removed and made again has the same version with another text.
		return store.Record{Key: instancePrefix + id, Version: 1, Value: text}
	}
	for round := range uint64(2) {
		for i := range 2 * cacheSize {
			id := fmt.Sprint(i)
			for range 2 {
				in, err := c.instance(rec(id, round))
				if err != nil || in.ID != id || in.Seq != round || len(in.Units) != 1 || in.Units[0].ID != "u" {
					t.Fatalf("%+v, %v, want instance %s with Seq %d", in, err, id, round)
				}
				in.Seq, in.Units[0].ID = 99, "changed" // it is the caller's
			}
		}
	}
	if n := c.Len(); n > cacheSize {
		t.Errorf("%d records are kept", n)
	}
	if _, err := c.instance(store.Record{Key: instancePrefix + "0", Value: []byte("{")}); err == nil {
		t.Error("a text that is no record was taken for the one that is kept")
	}
}
