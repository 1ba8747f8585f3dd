package main

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
)

// unit is what the numbers of a figure are.
type unit int

const (
	seconds unit = iota
	mebibytes
	perSecond // more is better
	bytesEach
)

// work is what a figure's work grows with.
type work int

const (
	steady  work = iota // with nothing: it should cost the same at any size
	growing             // with the size
)

// figure is a line of a table.
type figure struct {
	name string
	unit unit
	work work
	// limit is what the figure is held against at a size; 0 is nothing. nil has no limit.
	limit func(size int) float64
}

// suspicious is how much faster than its work a figure may grow from one size to the next
// before the table points at it.
const suspicious = 1.5

// table holds figures at several sizes, one column a size.
type table struct {
	sizes []int
	rows  []*row
	// failed are what couldn't be measured, and why, in order.
	failed []string
}

type row struct {
	figure
	at []float64 // by column; NaN is missing
}

// set puts a number where it belongs. The lines stand in the order in which they come.
func (t *table) set(column int, f figure, v float64) {
	i := slices.IndexFunc(t.rows, func(r *row) bool { return r.name == f.name })
	if i < 0 {
		i = len(t.rows)
		r := &row{figure: f, at: make([]float64, len(t.sizes))}
		for c := range r.at {
			r.at[c] = math.NaN()
		}
		t.rows = append(t.rows, r)
	}
	t.rows[i].at[column] = v
}

func (t *table) duration(column int, f figure, d time.Duration) { t.set(column, f, d.Seconds()) }

// print prints the table. Each growth is the figure's own, from one size to the next,
// divided by that of its work: 1 is what it should be, and more is worse.
func (t *table) print(r *report) {
	head := fmt.Sprintf("  %-58s", "")
	for _, n := range t.sizes {
		head += fmt.Sprintf(" %10d", n)
	}
	r.line(head + "   grows, by its work")
	for _, x := range t.rows {
		line := fmt.Sprintf("  %-58s", x.name)
		var growths []string
		var missed []int
		bound, met := false, true
		for i, n := range t.sizes {
			line += fmt.Sprintf(" %10s", x.text(x.at[i]))
			if i > 0 {
				growths = append(growths, x.growth(i, float64(n)/float64(t.sizes[i-1])))
			}
			if x.limit == nil || x.limit(n) == 0 || math.IsNaN(x.at[i]) {
				continue
			}
			bound = true
			if over := x.at[i] > x.limit(n); over != (x.unit == perSecond) && x.at[i] != x.limit(n) {
				met, missed = false, append(missed, n)
			}
		}
		line += fmt.Sprintf("   %-24s", strings.Join(growths, " "))
		if bound {
			line += " " + r.verdict(met, x.bounds(t.sizes, missed))
		}
		r.line(strings.TrimRight(line, " "))
	}
	for _, why := range t.failed {
		r.note("FAILED %s", why)
	}
}

func (x *row) growth(i int, size float64) string {
	now, was := x.at[i], x.at[i-1]
	if math.IsNaN(now) || math.IsNaN(was) || was == 0 || now == 0 {
		return "-"
	}
	g := now / was
	if x.unit == perSecond {
		g = was / now
	}
	if x.work == growing {
		g /= size
	}
	if g > suspicious {
		return fmt.Sprintf("%.2f(!)", g)
	}
	return fmt.Sprintf("%.2f", g)
}

// bounds says what the line was held against, and where it was missed.
func (x *row) bounds(sizes, missed []int) string {
	var parts []string
	last := 0.0
	for _, n := range sizes {
		l := x.limit(n)
		if l == 0 || l == last {
			continue
		}
		last = l
		sign := "<="
		if x.unit == perSecond {
			sign = ">="
		}
		parts = append(parts, fmt.Sprintf("%s %s from %d", sign, x.text(l), n))
	}
	text := strings.Join(parts, ", ")
	if len(missed) > 0 {
		text += fmt.Sprintf("; not at %v", missed)
	}
	return text
}

func (x *row) text(v float64) string {
	switch {
	case math.IsNaN(v):
		return "-"
	case x.unit == seconds:
		return short(time.Duration(v * float64(time.Second)))
	case x.unit == mebibytes:
		return fmt.Sprintf("%.0f MiB", v/(1<<20))
	case x.unit == perSecond:
		return fmt.Sprintf("%.0f/s", v)
	}
	return fmt.Sprintf("%.0f B", v)
}

// most is a limit that is the same at any size, from such a size on.
func most(v float64, from int) func(int) float64 {
	return func(size int) float64 {
		if size < from {
			return 0
		}
		return v
	}
}

// within is [most] of a time.
func within(d time.Duration) func(int) float64 { return most(d.Seconds(), 0) }
