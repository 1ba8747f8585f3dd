// Package filter implements attribute-based filtering and attribute selectors of
// ETSI NFV-SOL013 v3.3.1 clauses 5.2 and 5.3 over decoded JSON.
//
// It parses what a client wrote and judges values; it never reads a store, knows
// no resource type and does no I/O.
package filter

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// ErrSyntax is returned for a filter or selector that can't be understood. The
// API answers 400.
var ErrSyntax = errors.New("not a valid attribute filter or selector")

// ErrStructure is returned when a filter doesn't fit the attributes that it is
// applied to: it goes below a simple value, or compares a structure or a value
// of another type. The API answers 400.
var ErrStructure = errors.New("attribute filter or selector does not fit the resource")

// Filter is a conjunction of expressions. The zero value matches everything.
type Filter struct{ exprs []Expr }

// Expr is one simple filter expression: "(eq,name,a)".
type Expr struct {
	Op     string   // eq, neq, gt, gte, lt, lte, in, nin, cont or ncont
	Path   []string // the attribute, from the top; "@key" stands for the keys of a map
	Values []string // one for eq to lte, at least one for the others
}

const keyOf = "@key"

// Parse reads the value of the "filter" URI parameter, percent-decoded.
// The empty string is the filter that matches everything.
func Parse(s string) (Filter, error) {
	var f Filter
	for rest := s; rest != ""; {
		e, tail, err := parseExpr(rest)
		if err != nil {
			return Filter{}, fmt.Errorf("%w: filter, at character %d: %w", ErrSyntax, len(s)-len(rest)+1, err)
		}
		f.exprs = append(f.exprs, e)
		if tail == "" {
			break
		}
		if tail[0] != ';' || len(tail) == 1 {
			return Filter{}, fmt.Errorf("%w: filter, at character %d: expressions are separated by ';'", ErrSyntax, len(s)-len(tail)+1)
		}
		rest = tail[1:]
	}
	return f, nil
}

// Empty says whether the filter matches everything.
func (f Filter) Empty() bool { return len(f.exprs) == 0 }

// OneOf returns the values of which the attribute must have one for the filter to match, if
// the filter says so: a caller may look them up instead of searching.
func (f Filter) OneOf(attr string) ([]string, bool) {
	for _, e := range f.exprs {
		if (e.Op == "eq" || e.Op == "in") && len(e.Path) == 1 && e.Path[0] == attr {
			return e.Values, true
		}
	}
	return nil, false
}

// Attributes returns the top-level attributes that the filter compares.
func (f Filter) Attributes() []string {
	var names []string
	for _, e := range f.exprs {
		names = append(names, e.Path[0])
	}
	return names
}

// String returns the filter in the form that [Parse] reads.
func (f Filter) String() string {
	var b strings.Builder
	for i, e := range f.exprs {
		if i > 0 {
			b.WriteByte(';')
		}
		b.WriteString("(" + e.Op + ",")
		for j, p := range e.Path {
			if j > 0 {
				b.WriteByte('/')
			}
			if p == keyOf {
				b.WriteString(p)
			} else {
				b.WriteString(escape(p))
			}
		}
		for _, v := range e.Values {
			b.WriteString(",'" + strings.ReplaceAll(v, "'", "''") + "'")
		}
		b.WriteByte(')')
	}
	return b.String()
}

func parseExpr(s string) (Expr, string, error) {
	if s[0] != '(' {
		return Expr{}, "", errors.New("an expression starts with '('")
	}
	op, rest, ok := strings.Cut(s[1:], ",")
	if !ok {
		return Expr{}, "", errors.New("an expression has the form (operator,attribute,value)")
	}
	e := Expr{Op: op}
	var many bool
	switch op {
	case "eq", "neq", "gt", "gte", "lt", "lte":
	case "in", "nin", "cont", "ncont":
		many = true
	default:
		return Expr{}, "", fmt.Errorf("unknown operator %q; there are eq, neq, gt, gte, lt, lte, in, nin, cont, ncont", op)
	}
	i := strings.IndexAny(rest, ",;()'")
	if i < 0 || rest[i] != ',' {
		return Expr{}, "", errors.New("an attribute is followed by ',' and a value")
	}
	path, err := parsePath(rest[:i])
	if err != nil {
		return Expr{}, "", err
	}
	e.Path = path
	for rest = rest[i:]; ; {
		if rest == "" {
			return Expr{}, "", errors.New("the expression isn't closed by ')'")
		}
		if rest[0] == ')' {
			break
		}
		if rest[0] != ',' {
			return Expr{}, "", errors.New("a quoted value is followed by ',' or ')'")
		}
		var v string
		if v, rest, err = parseValue(rest[1:]); err != nil {
			return Expr{}, "", err
		}
		e.Values = append(e.Values, v)
	}
	if !many && len(e.Values) != 1 {
		return Expr{}, "", fmt.Errorf("operator %s takes one value, not %d", op, len(e.Values))
	}
	return e, rest[1:], nil
}

func parseValue(s string) (value, rest string, err error) {
	if s == "" || s[0] != '\'' {
		i := strings.IndexAny(s, ",)")
		if i < 0 {
			return "", "", errors.New("the expression isn't closed by ')'")
		}
		if j := strings.IndexAny(s[:i], "('"); j >= 0 {
			return "", "", fmt.Errorf("a value that contains %q is enclosed in single quotes", s[j])
		}
		return s[:i], s[i:], nil
	}
	var b strings.Builder
	for i := 1; i < len(s); i++ {
		if s[i] != '\'' {
			b.WriteByte(s[i])
			continue
		}
		if i+1 < len(s) && s[i+1] == '\'' {
			b.WriteByte('\'')
			i++
			continue
		}
		return b.String(), s[i+1:], nil
	}
	return "", "", errors.New("a quoted value isn't closed by a single quote")
}

// parsePath splits "a/b~1c" into its attribute names.
func parsePath(s string) ([]string, error) {
	parts := strings.Split(s, "/")
	for i, p := range parts {
		if p == "" {
			return nil, errors.New("an attribute name is empty")
		}
		if p == keyOf {
			if i == 0 || i != len(parts)-1 {
				return nil, errors.New("@key stands last, behind the name of a map")
			}
			continue
		}
		name, err := unescape(p)
		if err != nil {
			return nil, err
		}
		parts[i] = name
	}
	return parts, nil
}

func escape(s string) string {
	return strings.NewReplacer("~", "~0", "/", "~1", ",", "~a", "@", "~b", ";", "~c", "(", "~d", ")", "~e", "'", "~f").Replace(s)
}

// unescape resolves the escapes of SOL013 clause 5.2.2 (~0 ~1 ~a ~b), and ~c to
// ~f for the characters that otherwise end an attribute name here.
func unescape(s string) (string, error) {
	if !strings.Contains(s, "~") {
		return s, nil
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != '~' {
			b.WriteByte(s[i])
			continue
		}
		i++
		if i == len(s) {
			return "", errors.New("'~' stands at the end of an attribute name; it is written ~0")
		}
		switch s[i] {
		case '0':
			b.WriteByte('~')
		case '1':
			b.WriteByte('/')
		case 'a':
			b.WriteByte(',')
		case 'b':
			b.WriteByte('@')
		case 'c':
			b.WriteByte(';')
		case 'd':
			b.WriteByte('(')
		case 'e':
			b.WriteByte(')')
		case 'f':
			b.WriteByte('\'')
		default:
			return "", fmt.Errorf("unknown escape ~%c in an attribute name", s[i])
		}
	}
	return b.String(), nil
}

// Match says whether v, a value as encoding/json decodes objects (numbers may be
// float64 or json.Number), passes every expression. An attribute that is missing
// fails its expression; an array passes if one of its elements does.
func (f Filter) Match(v map[string]any) (bool, error) {
	for _, e := range f.exprs {
		ok, err := e.match(v, e.Path)
		if err != nil {
			return false, fmt.Errorf("%w: %s: %w", ErrStructure, strings.Join(e.Path, "/"), err)
		}
		if !ok {
			return false, nil
		}
	}
	return true, nil
}

func (e Expr) match(v any, path []string) (bool, error) {
	switch v := v.(type) {
	case []any:
		for _, el := range v {
			ok, err := e.match(el, path)
			if ok || err != nil {
				return ok, err
			}
		}
		return false, nil
	case map[string]any:
		if len(path) == 0 {
			return false, errors.New("is a structure and can't be compared")
		}
		if path[0] == keyOf {
			for k := range v {
				if ok, err := e.compare(k); ok || err != nil {
					return ok, err
				}
			}
			return false, nil
		}
		next, ok := v[path[0]]
		if !ok || next == nil {
			return false, nil
		}
		return e.match(next, path[1:])
	case nil:
		return false, nil
	}
	if len(path) > 0 {
		return false, fmt.Errorf("%q lies below a simple value", path[0])
	}
	return e.compare(v)
}

// compare applies the operator to one simple value.
func (e Expr) compare(v any) (bool, error) {
	switch e.Op {
	case "cont", "ncont":
		s, ok := v.(string)
		if !ok {
			return false, fmt.Errorf("operator %s is for strings", e.Op)
		}
		return e.contains(s), nil
	case "in", "nin":
		for _, want := range e.Values {
			c, err := order(v, want)
			if err != nil {
				return false, err
			}
			if c == 0 {
				return e.Op == "in", nil
			}
		}
		return e.Op == "nin", nil
	}
	c, err := order(v, e.Values[0])
	if err != nil {
		return false, err
	}
	return e.holds(c), nil
}

// contains is the answer of cont and ncont for one text.
func (e Expr) contains(s string) bool {
	for _, want := range e.Values {
		if strings.Contains(s, want) {
			return e.Op == "cont"
		}
	}
	return e.Op == "ncont"
}

// holds is the answer of an operator with one value, whose order to the attribute's is c.
func (e Expr) holds(c int) bool {
	switch e.Op {
	case "eq":
		return c == 0
	case "neq":
		return c != 0
	case "gt":
		return c > 0
	case "gte":
		return c >= 0
	case "lt":
		return c < 0
	default:
		return c <= 0
	}
}

// order compares a simple value with its counterpart in a filter, by the type of
// the value: -1, 0 or 1.
func order(v any, want string) (int, error) {
	switch v := v.(type) {
	case bool:
		switch want {
		case strconv.FormatBool(v):
			return 0, nil
		case "true":
			return -1, nil
		case "false":
			return 1, nil
		}
		return 0, fmt.Errorf("is compared with true or false, not %q", want)
	case string:
		return orderText(v, want), nil
	case float64:
		return orderNumber(v, want)
	case fmt.Stringer: // json.Number
		f, err := strconv.ParseFloat(v.String(), 64)
		if err != nil {
			return 0, fmt.Errorf("holds %q, which is no number", v)
		}
		return orderNumber(f, want)
	}
	return 0, fmt.Errorf("has type %T, which can't be compared", v)
}

// orderText compares texts, or moments where both texts are one.
func orderText(v, want string) int {
	if MaybeTime(v) && MaybeTime(want) {
		if t, err := time.Parse(time.RFC3339Nano, v); err == nil {
			if u, err := time.Parse(time.RFC3339Nano, want); err == nil {
				return t.Compare(u)
			}
		}
	}
	return strings.Compare(v, want)
}

// MaybeTime says false of texts that time.Parse would refuse, for most of them: it is much
// cheaper, and nearly all texts that are compared are names.
func MaybeTime(s string) bool {
	const shortest = len("2006-01-02T3:04:05Z")
	return len(s) >= shortest && s[4] == '-' && s[7] == '-' && s[10] == 'T'
}

func orderNumber(v float64, want string) (int, error) {
	f, err := strconv.ParseFloat(want, 64)
	if err != nil || f != f {
		return 0, fmt.Errorf("is a number and can't be compared with %q", want)
	}
	switch {
	case v < f:
		return -1, nil
	case v > f:
		return 1, nil
	}
	return 0, nil
}
