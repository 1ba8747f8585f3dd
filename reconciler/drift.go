package reconciler

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/jibe-vnfm/jibe/drivers"
)

// Drift is what of one instance differs from what git says while no operation
// is open, or in spite of one that failed to repair it.
type Drift struct {
	Instance string `json:"instance"`
	Dir      string `json:"dir"`
	// State says what is done about it.
	State DriftState `json:"state"`
	// Since is when the first of the deviations was seen.
	Since time.Time `json:"since"`
	// Next is when the next repair is tried, where it is known.
	Next time.Time `json:"next,omitzero"`
	// Refused is why no repair begins, in the state DriftRefused.
	Refused string `json:"refused,omitempty"`
	// Operation is the HEAL that repairs it, if one is open.
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
	DriftRepairing DriftState = "mending"   // a HEAL is under way
	DriftFailing   DriftState = "failing"   // the HEAL failed and will be tried again
	DriftContended DriftState = "fight"     // somebody else undoes every repair
	DriftRefused   DriftState = "refused"   // the HEAL needs hooks that may not run
)

// drifts holds the drift of every instance that has one. It is a view of facts:
// a restart sees them anew.
type drifts struct {
	mu sync.Mutex
	of map[string]noted
}

type noted struct {
	Drift
	// signature and examined say what was examined, and when.
	signature uint64
	examined  time.Time
}

func newDrifts() *drifts { return &drifts{of: make(map[string]noted)} }

// examineAgain is after how long a drift that is only shown is examined anew
// although it looks the same: the digest says that an object differs, not in what.
const examineAgain = 10 * time.Second

// known says whether this very drift was examined a moment ago.
func (d *drifts) known(id string, signature uint64, now time.Time) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	x, ok := d.of[id]
	return ok && x.signature == signature && now.Sub(x.examined) < examineAgain
}

// note takes a drift down. Its age counts from the first deviation.
func (d *drifts) note(x Drift, signature uint64, now time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	x.Since = now
	for _, v := range x.Deviations {
		if !v.At.IsZero() && v.At.Before(x.Since) {
			x.Since = v.At
		}
	}
	if was, ok := d.of[x.Instance]; ok {
		if was.Since.Before(x.Since) {
			x.Since = was.Since
		}
		if was.State == DriftRefused {
			x.State, x.Refused = was.State, was.Refused // until that is asked again
		}
	}
	d.of[x.Instance] = noted{x, signature, now}
}

// state says what is done about the drift, if there is one.
func (d *drifts) state(id string, s DriftState, operation string, next time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if x, ok := d.of[id]; ok {
		x.State, x.Operation, x.Next, x.Refused = s, operation, next, ""
		d.of[id] = x
	}
}

// refused says that no repair begins, and why. It returns false where that was known.
func (d *drifts) refused(id, why string) (news bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	x, ok := d.of[id]
	if !ok {
		return false
	}
	news = x.State != DriftRefused || x.Refused != why
	x.State, x.Operation, x.Next, x.Refused = DriftRefused, "", time.Time{}, why
	d.of[id] = x
	return news
}

// since says that the drift is older than it looks: a repair that doesn't last
// doesn't make it new.
func (d *drifts) since(id string, t time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if x, ok := d.of[id]; ok && t.Before(x.Since) {
		x.Since = t
		d.of[id] = x
	}
}

func (d *drifts) clear(id string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.of, id)
}

// storyMost bounds how many deviations a story names.
const storyMost = 3

// story describes the drift in one line.
func (d *drifts) story(id string) string {
	d.mu.Lock()
	defer d.mu.Unlock()
	list := d.of[id].Deviations
	var said []string
	for _, v := range list[:min(len(list), storyMost)] {
		said = append(said, v.String())
	}
	if more := len(list) - len(said); more > 0 {
		said = append(said, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(said, "; ")
}

// absences are the VIMs that were found away, and until when nobody looks again.
type absences struct {
	mu    sync.Mutex
	until map[drivers.Driver]time.Time
}

func newAbsences() *absences { return &absences{until: make(map[drivers.Driver]time.Time)} }

func (a *absences) left(drv drivers.Driver, now time.Time) time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.until[drv].Sub(now)
}

// mark sets until when; the zero time says that the VIM is there.
func (a *absences) mark(drv drivers.Driver, until time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if until.IsZero() {
		delete(a.until, drv)
		return
	}
	a.until[drv] = until
}

// Drift lists the instances that have drifted, by directory.
func (v *View) Drift() []Drift {
	d := v.r.drifts
	d.mu.Lock()
	defer d.mu.Unlock()
	list := make([]Drift, 0, len(d.of))
	for _, x := range d.of {
		list = append(list, x.Drift)
	}
	slices.SortFunc(list, func(a, b Drift) int {
		return cmp.Or(strings.Compare(a.Dir, b.Dir), strings.Compare(a.Instance, b.Instance))
	})
	return list
}

// DriftOf is the drift of one instance, if it has any.
func (v *View) DriftOf(instance string) (Drift, bool) {
	d := v.r.drifts
	d.mu.Lock()
	defer d.mu.Unlock()
	x, ok := d.of[instance]
	return x.Drift, ok
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
