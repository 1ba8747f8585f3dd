package oplog

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/jibe-vnfm/jibe/lcm"
	"github.com/jibe-vnfm/jibe/store"
)

// instanceCache keeps the instance records that were decoded last. One operation reads its
// instance's record some ten times, and under load decoding took an eighth of all
// work. It is no cache of the store: every read still asks the store, and only a text that
// is the same byte for byte isn't decoded again.
type instanceCache struct{ *lru.Cache[string, decoded] }

type decoded struct {
	text []byte
	inst lcm.Instance
}

// cacheSize is how many records are kept: more than are worked on at once.
const cacheSize = 2048

func newInstanceCache() instanceCache {
	c, err := lru.New[string, decoded](cacheSize)
	if err != nil {
		panic(err) // only for a size that isn't positive
	}
	return instanceCache{c}
}

// instance decodes a record. The caller may change the result, but not what the maps and
// slices of its units and resources hold.
func (c instanceCache) instance(rec store.Record) (*lcm.Instance, error) {
	known, ok := c.Get(rec.Key)
	if !ok || !bytes.Equal(known.text, rec.Value) {
		known = decoded{text: rec.Value}
		if err := json.Unmarshal(rec.Value, &known.inst); err != nil {
			return nil, fmt.Errorf("instance %s: the record in the store can't be read: %w", strings.TrimPrefix(rec.Key, instancePrefix), err)
		}
		c.Add(rec.Key, known)
	}
	inst := known.inst
	inst.Units, inst.Resources = slices.Clone(inst.Units), slices.Clone(inst.Resources)
	return &inst, nil
}
