package filter

import (
	"fmt"
	"strings"
	"time"
)

// Value is the simple value of one attribute. The zero Value is an attribute that is
// absent.
type Value struct {
	kind kind
	text string
	yes  bool
	time time.Time
}

type kind uint8

const (
	absent kind = iota
	text
	boolean
	moment
)

// Text is a string.
func Text(s string) Value { return Value{kind: text, text: s} }

// Optional is a string that is absent where it is empty.
func Optional(s string) Value {
	if s == "" {
		return Value{}
	}
	return Text(s)
}

// Bool is a boolean.
func Bool(b bool) Value { return Value{kind: boolean, yes: b} }

// Time is a moment, which the resource has as RFC 3339 in UTC.
func Time(t time.Time) Value { return Value{kind: moment, time: t} }

// Decided is the part of a filter that is decided on single values, before the resource
// is made of which they are. The zero value matches everything.
type Decided struct{ exprs []decided }

// decided is one expression on one value.
type decided struct {
	Expr
	attr  string   // as [Split]'s known named it
	below []string // what the filter looks for below the simple value
	times []at     // Values, as moments
}

// at is a value of a filter as a moment, where it is one.
type at struct {
	time.Time
	ok bool
}

// Split takes the filter apart. known says how many elements of a path name an attribute
// that is known without the resource and has a simple value; 0 is none. Together, the two
// parts match what the filter matches. An error that one expression causes for a resource
// is not seen where the other part has rejected the resource already.
func (f Filter) Split(known func(path []string) int) (Decided, Filter) {
	var d Decided
	var rest Filter
	for _, e := range f.exprs {
		n := known(e.Path)
		if n == 0 {
			rest.exprs = append(rest.exprs, e)
			continue
		}
		x := decided{Expr: e, attr: strings.Join(e.Path[:n], "/"), below: e.Path[n:]}
		for _, v := range e.Values {
			t, err := time.Parse(time.RFC3339Nano, v)
			x.times = append(x.times, at{t, err == nil})
		}
		d.exprs = append(d.exprs, x)
	}
	return d, rest
}

// Match says whether the resource passes, of which of returns a value by its attribute's
// path ("id", "jibe/directory"). It answers exactly as [Filter.Match] does for the whole
// resource.
func (d Decided) Match(of func(attr string) Value) (bool, error) {
	for i := range d.exprs {
		ok, err := d.exprs[i].match(of(d.exprs[i].attr))
		if err != nil {
			return false, fmt.Errorf("%w: %s: %w", ErrStructure, strings.Join(d.exprs[i].Path, "/"), err)
		}
		if !ok {
			return false, nil
		}
	}
	return true, nil
}

// Needs says whether the attribute is compared.
func (d Decided) Needs(attr string) bool {
	for i := range d.exprs {
		if d.exprs[i].attr == attr {
			return true
		}
	}
	return false
}

func (x *decided) match(v Value) (bool, error) {
	switch {
	case v.kind == absent:
		return false, nil
	case len(x.below) > 0:
		return false, fmt.Errorf("%q lies below a simple value", x.below[0])
	}
	switch v.kind {
	case boolean:
		return x.compare(v.yes)
	case moment:
		return x.compareTime(v.time), nil
	}
	switch x.Op {
	case "cont", "ncont":
		return x.contains(v.text), nil
	case "in", "nin":
		for _, want := range x.Values {
			if orderText(v.text, want) == 0 {
				return x.Op == "in", nil
			}
		}
		return x.Op == "nin", nil
	}
	return x.holds(orderText(v.text, x.Values[0])), nil
}

func (x *decided) compareTime(t time.Time) bool {
	shown := func() string { return t.UTC().Format(time.RFC3339Nano) }
	order := func(i int) int {
		if x.times[i].ok {
			return t.Compare(x.times[i].Time)
		}
		return strings.Compare(shown(), x.Values[i])
	}
	switch x.Op {
	case "cont", "ncont":
		return x.contains(shown())
	case "in", "nin":
		for i := range x.Values {
			if order(i) == 0 {
				return x.Op == "in"
			}
		}
		return x.Op == "nin"
	}
	return x.holds(order(0))
}

// Between returns bounds of a moment outside of which the filter matches nothing: from is
// within, before isn't. The zero time is no bound.
func (d Decided) Between(attr string) (from, before time.Time) {
	for i := range d.exprs {
		x := &d.exprs[i]
		if x.attr != attr || len(x.below) > 0 || !x.times[0].ok {
			continue
		}
		t := x.times[0].Time
		if x.Op == "eq" || x.Op == "gt" || x.Op == "gte" {
			if from.IsZero() || t.After(from) {
				from = t
			}
		}
		if x.Op == "eq" || x.Op == "lte" || x.Op == "lt" {
			end := t
			if x.Op != "lt" {
				end = t.Add(1) // nothing is between two nanoseconds
			}
			if before.IsZero() || end.Before(before) {
				before = end
			}
		}
	}
	return from, before
}
