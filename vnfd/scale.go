package vnfd

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Errors that callers decide on. The API answers 400 to them and to [*RangeError].
var (
	// ErrUnknownAspect is returned for a scaling aspect that the flavour doesn't have.
	ErrUnknownAspect = errors.New("unknown scaling aspect")
	// ErrUnknownLevel is returned for an instantiation level that the flavour doesn't have.
	ErrUnknownLevel = errors.New("unknown instantiation level")
)

// RangeError is returned for a number outside the bounds that the VNFD sets.
type RangeError struct {
	What     string // "scale level of aspect vdu1_aspect"
	Value    int
	Min, Max int // Max -1 means unbounded
	// Remedy is what to do about it beyond asking for another value, or "".
	Remedy string
}

func (e *RangeError) Error() string {
	bounds := fmt.Sprintf("must be within %d..%d", e.Min, e.Max)
	if e.Max < 0 {
		bounds = fmt.Sprintf("must be at least %d", e.Min)
	}
	if e.Remedy != "" {
		bounds += ": " + e.Remedy
	}
	return fmt.Sprintf("%s is %d, %s", e.What, e.Value, bounds)
}

// Flavour finds a deployment flavour by its id.
func (v *VNFD) Flavour(id string) (*Flavour, bool) {
	return find(v.Flavours, id, func(f *Flavour) string { return f.ID })
}

// VDU finds a VDU by its id, which is not its name.
func (f *Flavour) VDU(id string) (*VDU, bool) {
	return find(f.VDUs, id, func(v *VDU) string { return v.ID })
}

// Aspect finds a scaling aspect by its id.
func (f *Flavour) Aspect(id string) (*Aspect, bool) {
	return find(f.Aspects, id, func(a *Aspect) string { return a.ID })
}

// Level finds an instantiation level by its id.
func (f *Flavour) Level(id string) (*Level, bool) {
	return find(f.Levels, id, func(l *Level) string { return l.ID })
}

func find[T any](list []T, id string, key func(*T) string) (*T, bool) {
	for i := range list {
		if key(&list[i]) == id {
			return &list[i], true
		}
	}
	return nil, false
}

// level returns the named instantiation level. For "" it returns the default level, or nil
// where the flavour has none.
func (f *Flavour) level(id string) (*Level, error) {
	if id == "" {
		id = f.DefaultLevel
	}
	if id == "" {
		return nil, nil
	}
	if l, ok := f.Level(id); ok {
		return l, nil
	}
	return nil, fmt.Errorf("%w %q in flavour %q: it has %s", ErrUnknownLevel, id, f.ID,
		names(f.Levels, func(l Level) string { return l.ID }))
}

// ScaleLevels returns the absolute scale level of every aspect: the override, else that of
// the instantiation level's scale_info ("" is the default level), else 0. Its errors,
// [ErrUnknownLevel], [ErrUnknownAspect] and [*RangeError], say what is wrong and what is
// possible.
func (f *Flavour) ScaleLevels(instLevel string, overrides map[string]int) (map[string]int, error) {
	level, err := f.level(instLevel)
	if err != nil {
		return nil, err
	}
	for _, id := range slices.Sorted(maps.Keys(overrides)) {
		if _, ok := f.Aspect(id); !ok {
			return nil, fmt.Errorf("%w %q in flavour %q: it has %s", ErrUnknownAspect, id, f.ID,
				names(f.Aspects, func(a Aspect) string { return a.ID }))
		}
	}
	levels := make(map[string]int, len(f.Aspects))
	for _, a := range f.Aspects {
		n, ok := overrides[a.ID]
		if !ok && level != nil {
			n = level.Aspects[a.ID]
		}
		if n < 0 || n > a.MaxLevel {
			return nil, &RangeError{What: "scale level of aspect " + a.ID, Value: n, Min: 0, Max: a.MaxLevel}
		}
		levels[a.ID] = n
	}
	return levels, nil
}

// Count returns the number of VNFCs of the VDU. If VduInstantiationLevels has a number for
// the instantiation level ("" is the default level), that number holds at the level's own
// scale levels, whatever the VDU's other numbers add up to, and steps from there add to it or
// subtract from it. Else it is the initial delta, or min_number_of_instances of the profile
// where there is none, plus level × delta for each aspect that scales the VDU. levels are
// overrides as in [Flavour.ScaleLevels]. Count returns a [*RangeError] for a number outside
// vdu_profile.
func (f *Flavour) Count(vdu *VDU, instLevel string, levels map[string]int) (int, error) {
	level, err := f.level(instLevel)
	if err != nil {
		return 0, err
	}
	all, err := f.ScaleLevels(instLevel, levels)
	if err != nil {
		return 0, err
	}
	return f.count(vdu, level, all)
}

// count does the same for a known level (or nil) and the scale levels of every aspect.
func (f *Flavour) count(vdu *VDU, level *Level, all map[string]int) (int, error) {
	count := vdu.added(all)
	if said, ok := vdu.said(level); ok {
		count = said
		for aspect, delta := range vdu.Deltas {
			count += (all[aspect] - level.Aspects[aspect]) * delta
		}
	}
	if count < vdu.Min || vdu.Max >= 0 && count > vdu.Max || count < 0 {
		return 0, &RangeError{"number of instances of VDU " + vdu.ID, count, max(vdu.Min, 0), vdu.Max,
			"ask for another level, or correct vdu_profile, VduInitialDelta or VduInstantiationLevels of the VNFD"}
	}
	return count, nil
}

// said is the VDU's number in VduInstantiationLevels at the level, which may be nil.
func (v *VDU) said(level *Level) (number int, ok bool) {
	if level == nil {
		return 0, false
	}
	number, ok = v.Levels[level.ID]
	return number, ok
}

// added is what the number that the VDU starts from and its steps add up to.
func (v *VDU) added(all map[string]int) int {
	count := v.Initial
	if count < 0 {
		count = v.Min
	}
	for aspect, delta := range v.Deltas {
		count += all[aspect] * delta
	}
	return count
}

// names lists the choices for an error, at most 20 of them.
func names[T any](list []T, key func(T) string) string {
	if len(list) == 0 {
		return "none"
	}
	var ids []string
	for i, x := range list {
		if i == 20 {
			ids = append(ids, fmt.Sprintf("and %d more", len(list)-i))
			break
		}
		ids = append(ids, key(x))
	}
	return strings.Join(ids, ", ")
}
