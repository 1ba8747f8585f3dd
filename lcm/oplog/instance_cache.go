package oplog

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/jibe-vnfm/jibe/lcm"
	"github.com/jibe-vnfm/jibe/store"
)

// memo remembers what the instance records that were read last say. One operation
// reads its instance's record some ten times, and under load the decoding of it was
// an eighth of all work. It is no cache of the store: every read still asks the
// store, and only a text that is the same byte for byte isn't decoded again.
type memo struct {
	mu sync.Mutex
	// The older half goes when the younger is full, but for what was read meanwhile.
	young, old map[string]remembered
}

type remembered struct {
	text []byte
	inst lcm.Instance
}

// memoSize is how many records each half holds: more than are worked on at once.
const memoSize = 1024

// instance decodes a record. The result is the caller's to change, but for what
// stands behind the pointers of its units and resources.
func (m *memo) instance(rec store.Record) (*lcm.Instance, error) {
	m.mu.Lock()
	known, ok := m.young[rec.Key]
	if !ok {
		if known, ok = m.old[rec.Key]; ok {
			m.keep(rec.Key, known)
		}
	}
	m.mu.Unlock()
	if !ok || !bytes.Equal(known.text, rec.Value) {
		known = remembered{text: rec.Value}
		if err := json.Unmarshal(rec.Value, &known.inst); err != nil {
			return nil, fmt.Errorf("instance %s: the record in the store can't be read: %w", strings.TrimPrefix(rec.Key, instancePrefix), err)
		}
		m.mu.Lock()
		m.keep(rec.Key, known)
		m.mu.Unlock()
	}
	inst := known.inst
	inst.Units, inst.Resources = slices.Clone(inst.Units), slices.Clone(inst.Resources)
	return &inst, nil
}

// keep needs mu.
func (m *memo) keep(key string, r remembered) {
	if m.young == nil || len(m.young) >= memoSize {
		m.old, m.young = m.young, make(map[string]remembered)
	}
	m.young[key] = r
}
