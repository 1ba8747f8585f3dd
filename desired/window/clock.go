package window

import "time"

// nearby is more than any change of clocks: one zone has skipped a whole day.
const nearby = 25 * time.Hour

// first is the earliest beginning after a time and not after end; a zero end is no end, and the
// zero result is none.
func (w Window) first(after, end time.Time) time.Time {
	if w.starts == nil {
		return time.Time{}
	}
	var best, limit time.Time
	end = sooner(w.until, end)
	for at := w.before(after); ; {
		at = w.starts.next(at)
		// Beginnings in a gap of the clock are moved past it, where they may come later than one that
		// is after the gap on the clock; otherwise the first that is found is the earliest.
		if at.IsZero() || !best.IsZero() && !at.Before(limit) {
			return best
		}
		s := instant(at, w.zone)
		if !end.IsZero() && s.After(end) {
			if at.After(wall(end, w.zone)) {
				return best
			}
			continue
		}
		if s.After(after) && (best.IsZero() || s.Before(best)) {
			best, limit = s, wall(s, w.zone)
		}
	}
}

// before is a time on the wall clock that no beginning after the instant is at or before.
func (w Window) before(after time.Time) time.Time {
	at := wall(after, w.zone)
	// Beginnings in a gap of the last hours may still be to come.
	if changed, _ := after.In(w.zone).ZoneBounds(); !changed.IsZero() && after.Sub(changed) < nearby {
		if by := after.Add(offset(changed.Add(-time.Second))).UTC(); by.Before(at) {
			return by
		}
	}
	return at
}

// wall is what the clocks of a zone show, as a time of UTC.
func wall(t time.Time, zone *time.Location) time.Time {
	t = t.In(zone)
	return t.Add(offset(t)).UTC()
}

func offset(t time.Time) time.Duration {
	_, seconds := t.Zone()
	return time.Duration(seconds) * time.Second
}

// instant is when the clocks of a zone show a time, as RFC 5545 section 3.3.5 reads it.
func instant(at time.Time, zone *time.Location) time.Time {
	y, m, d := at.Date()
	h, min, s := at.Clock()
	// Where the clocks change, the library may answer by the offset before or after.
	t := time.Date(y, m, d, h, min, s, 0, zone)
	switch shown := wall(t, zone); {
	case shown.After(at): // in a gap, by the offset before it
		return t
	case shown.Before(at): // in a gap, by the offset after it
		return at.Add(-offset(t)).In(zone)
	}
	if changed, _ := t.ZoneBounds(); !changed.IsZero() {
		earlier := at.Add(-offset(changed.Add(-time.Second))).In(zone)
		if earlier.Before(changed) {
			return earlier // it occurs twice, and this is the first
		}
	}
	return t
}
