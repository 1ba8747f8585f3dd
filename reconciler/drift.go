package reconciler

import (
	"cmp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/jibe-vnfm/jibe/drivers"
)

// Drift is what of one instance differs from what git says while no operation
// is open, or in spite of one that failed to mend it.
type Drift struct {
	Instance string `json:"instance"`
	Dir      string `json:"dir"`
	// State says what is done about it.
	State DriftState `json:"state"`
	// Since is when the first of the deviations was seen.
	Since time.Time `json:"since"`
	// Next is when the next repair is tried, where it is known.
	Next time.Time `json:"next,omitzero"`
	// Operation is the HEAL that mends it, if one is open.
	Operation  string              `json:"operation,omitempty"`
	Deviations []drivers.Deviation `json:"deviations"`
}

// DriftState says what is done about a drift.
type DriftState string

// The states of a drift.
const (
	DriftReported  DriftState = "reported"  // drift: report
	DriftSuspended DriftState = "suspended" // suspend: true
	DriftHeld      DriftState = "held"      // an operation was failed; the next change lifts it
	DriftMending   DriftState = "mending"   // a HEAL is under way
	DriftFailing   DriftState = "failing"   // the HEAL failed and will be tried again
	DriftFight     DriftState = "fight"     // somebody else undoes every repair
)

// drifts holds the drift of every instance that has one. It is a view of facts:
// a restart sees them anew.
type drifts struct {
	mu sync.Mutex
	of map[string]Drift
}

// Drift lists the instances that have drifted, by directory.
func (v *View) Drift() []Drift {
	d := v.r.drifts
	d.mu.Lock()
	defer d.mu.Unlock()
	list := make([]Drift, 0, len(d.of))
	for _, x := range d.of {
		list = append(list, x)
	}
	slices.SortFunc(list, func(a, b Drift) int { return cmp.Or(strings.Compare(a.Dir, b.Dir), strings.Compare(a.Instance, b.Instance)) })
	return list
}

// Drifted are the keys of the instance's objects that are known to differ.
func (v *View) Drifted(instance string) []string {
	d := v.r.drifts
	d.mu.Lock()
	defer d.mu.Unlock()
	var keys []string
	for _, x := range d.of[instance].Deviations {
		keys = append(keys, x.Object)
	}
	slices.Sort(keys)
	return slices.Compact(keys)
}
