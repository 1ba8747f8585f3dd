package window

import (
	"time"
)

// Lookahead is how far ahead an end is looked for: windows that follow each other without a gap are one.
const Lookahead = Longest

// State is what a time meets.
type State struct {
	// Open says that work may begin.
	Open bool
	// Until is when it closes; zero where it is closed, or stays open for [Lookahead] at least.
	Until time.Time
	// Next is when it opens next, which is after Until where it is open; zero is never, and where
	// Until is zero while it is open.
	Next time.Time
}

// At says what a time meets in a list of windows, of which one that is open suffices. A window is open
// from its beginning on, and at its end no longer. None at all are always open.
func At(windows []Window, t time.Time) State {
	if len(windows) == 0 {
		return State{Open: true}
	}
	end, open := time.Time{}, false
	for _, w := range windows {
		if s := w.first(t.Add(-w.lasts), t); !s.IsZero() {
			open = true
			end = later(end, w.run(s, t))
		}
	}
	if !open {
		return State{Next: earliest(windows, t)}
	}
	limit := t.Add(Lookahead)
	for grown := true; grown; {
		grown = false
		for _, w := range windows {
			if s := w.first(end.Add(-w.lasts), end); !s.IsZero() {
				end, grown = w.run(s, end), true
			}
		}
		if end.After(limit) {
			return State{Open: true}
		}
	}
	return State{Open: true, Until: end, Next: earliest(windows, end)}
}

// run is the end of the window that began at s, or of a later one of the same rule that has begun at t.
// It looks in the second half first: what ends later is what matters.
func (w Window) run(s, t time.Time) time.Time {
	if half := w.first(t.Add(-w.lasts/2), t); !half.IsZero() {
		s = half
	}
	return s.Add(w.lasts)
}

// earliest is when one of the windows begins next after a time.
func earliest(windows []Window, t time.Time) time.Time {
	var next time.Time
	for _, w := range windows {
		if s := w.first(t, time.Time{}); !s.IsZero() && (next.IsZero() || s.Before(next)) {
			next = s
		}
	}
	return next
}

// Freeze is a time in which nothing begins, whatever windows say.
type Freeze struct {
	// From is when it begins, zero is ever since; at Until it is over.
	From  time.Time `json:"from,omitzero"`
	Until time.Time `json:"until"`
	// Reason is for people.
	Reason string `json:"reason,omitempty"`
}

func (f Freeze) holds(t time.Time) bool { return !t.Before(f.From) && t.Before(f.Until) }

// Calendar is what one author says: windows of which one must be open, and freezes.
type Calendar struct {
	Windows []Window
	Freezes []Freeze
}

// Wait is what work that is to begin meets.
type Wait struct {
	// Open says that it may begin now.
	Open bool
	// Until is when it may begin; zero is never, or not in the years that are looked at.
	Until time.Time
	// Freeze is what holds now, nil where it is a window.
	Freeze *Freeze
	// Short says that it is open now, and closes before the work would be done.
	Short bool
}

// turns bounds the search for a time that suits all calendars.
const turns = 2000

// Ask says whether work that takes some time may begin at t by all the calendars, and else when. A freeze
// in any of them holds; work that would reach into one, or past the end of a window, waits.
func Ask(calendars []Calendar, t time.Time, takes time.Duration) Wait {
	var w Wait
	at := t
	for range turns {
		open, until, next, freeze := meets(calendars, at)
		fits := open && (until.IsZero() || !until.Before(at.Add(takes)))
		if at.Equal(t) {
			w.Freeze, w.Short, w.Open = freeze, open && !fits, fits
		}
		if fits {
			w.Until = at
			return w
		}
		if next.IsZero() {
			return w
		}
		at = next
	}
	return w
}

// meets says what a time meets in all the calendars: until is the first end where it is open, and next is
// a later time before which nothing changes for the better.
func meets(calendars []Calendar, at time.Time) (open bool, until, next time.Time, freeze *Freeze) {
	for _, c := range calendars {
		for _, f := range c.Freezes {
			if f.holds(at) {
				if freeze == nil || f.Until.After(freeze.Until) {
					freeze = &f
				}
			} else if f.From.After(at) {
				until = sooner(until, f.From)
			}
		}
	}
	if freeze != nil {
		return false, time.Time{}, freeze.Until, freeze
	}
	for _, c := range calendars {
		s := At(c.Windows, at)
		if !s.Open {
			return false, time.Time{}, s.Next, nil
		}
		until = sooner(until, s.Until)
	}
	return true, until, until, nil
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// sooner is the earlier of two times of which zero is none.
func sooner(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}
