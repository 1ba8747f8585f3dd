package desired

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	"github.com/jibe-vnfm/jibe/internal/safeyaml"
)

const (
	// maxFile is the most that a file of the desired repository may hold, in bytes.
	maxFile = 1 << 20
	// maxProblems ends the reading of a file that is wrong all over.
	maxProblems = 20
)

// InvalidError is returned for a file that can't be used, with everything that
// is wrong in it. errors.As finds each [*Problem] too.
type InvalidError struct{ Problems []*Problem }

func (e *InvalidError) Error() string {
	var b strings.Builder
	for i, p := range e.Problems {
		if i > 0 {
			b.WriteByte('\n')
		}
		b.WriteString(p.Error())
	}
	return b.String()
}

// Unwrap gives the problems one by one.
func (e *InvalidError) Unwrap() []error {
	out := make([]error, len(e.Problems))
	for i, p := range e.Problems {
		out[i] = p
	}
	return out
}

// document reads one YAML file strictly, collecting what is wrong with it.
type document struct {
	file     string
	most     int // bytes; 0 is maxFile
	problems []*Problem
}

// err is nil, or everything that was found.
func (d *document) err() error {
	if len(d.problems) == 0 {
		return nil
	}
	return &InvalidError{Problems: d.problems}
}

func (d *document) fail(n *yaml.Node, remedy, format string, args ...any) {
	if len(d.problems) >= maxProblems {
		return
	}
	p := &Problem{File: d.file, Message: clipTo(fmt.Sprintf(format, args...), 400), Remedy: clipTo(remedy, 400)}
	if n != nil {
		p.Line = n.Line
	}
	d.problems = append(d.problems, p)
}

// root parses data into the node of its only document, nil where it is empty or
// unusable.
func (d *document) root(data []byte) *yaml.Node {
	most := d.most
	if most == 0 {
		most = maxFile
	}
	if len(data) > most {
		d.fail(nil, "split it, or move large values into the package",
			"the file has %d bytes; at most %d are read", len(data), most)
		return nil
	}
	if !utf8.Valid(data) {
		line := 1 + bytes.Count(data[:validPrefix(data)], []byte("\n"))
		d.fail(&yaml.Node{Line: line}, "save the file as UTF-8", "the file isn't UTF-8 text")
		return nil
	}
	n, faults := safeyaml.ParsePlain(data)
	for _, f := range faults {
		message, remedy := inWords(f)
		d.fail(&yaml.Node{Line: f.Line}, remedy, "%s", message)
	}
	return n
}

// inWords says what is wrong, and what to do about it.
func inWords(e *safeyaml.Error) (message, remedy string) {
	switch e.Fault {
	case safeyaml.Syntax:
		return "not YAML: " + e.Value, "repair the YAML syntax near this line"
	case safeyaml.PlainDocument:
		return "the file holds several YAML documents", "keep one document a file: remove the \"---\" and what follows it"
	case safeyaml.Depth:
		return fmt.Sprintf("values nest more than %d deep", safeyaml.MaxDepth), "flatten it"
	case safeyaml.PlainAlias:
		return "YAML anchors and aliases are not allowed", "write the value out where it is needed"
	case safeyaml.PlainTag:
		return fmt.Sprintf("the YAML tag %q is not allowed", e.Value), "remove the tag"
	case safeyaml.MergeKey:
		return "the merge key \"<<\" is not allowed", "write the keys out"
	case safeyaml.KeyKind:
		return "a key must be text", "use a plain text key"
	case safeyaml.PlainKey:
		return fmt.Sprintf("key %s isn't text", e.Value), fmt.Sprintf("put it in quotes: %q", e.Value)
	case safeyaml.DuplicateKey:
		return fmt.Sprintf("key %q is given twice, first in line %d", e.Value, e.First), "remove one of them"
	}
	return e.Message, "write plain values"
}

func validPrefix(data []byte) int {
	n := 0
	for n < len(data) {
		r, size := utf8.DecodeRune(data[n:])
		if r == utf8.RuneError && size == 1 {
			break
		}
		n += size
	}
	return n
}

func isNull(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null" }

// field is one key that a mapping may have.
type field struct {
	key  string
	read func(key, value *yaml.Node)
}

// mapping reads the fields of n; where names n for messages, "" is the file.
// A key without a value is as if it weren't there.
func (d *document) mapping(n *yaml.Node, where string, fields ...field) {
	if n.Kind != yaml.MappingNode {
		d.wrongType(n, where, "a mapping of keys to values")
		return
	}
next:
	for i := 0; i+1 < len(n.Content); i += 2 {
		k, v := n.Content[i], n.Content[i+1]
		for _, f := range fields {
			if f.key == k.Value {
				if !isNull(v) {
					f.read(k, v)
				}
				continue next
			}
		}
		names := make([]string, len(fields))
		for i, f := range fields {
			names[i] = f.key
		}
		remedy := "known keys: " + strings.Join(names, ", ")
		if near := nearest(k.Value, names); near != "" {
			remedy = fmt.Sprintf("did you mean %q?", near)
		}
		d.fail(k, remedy, "unknown key %q", dotted(where, k.Value))
	}
}

func dotted(where, key string) string {
	if where == "" {
		return key
	}
	return where + "." + key
}

func (d *document) wrongType(n *yaml.Node, where, want string) {
	subject := fmt.Sprintf("%q", where)
	if where == "" {
		subject = "the file"
	}
	remedy := "write " + want
	if want == "text" && n.Kind == yaml.ScalarNode {
		remedy = "put the value in quotes"
	}
	d.fail(n, remedy, "%s must be %s, not %s", subject, want, kindOf(n))
}

func kindOf(n *yaml.Node) string {
	switch n.ShortTag() {
	case "!!map":
		return "a mapping"
	case "!!seq":
		return "a list"
	case "!!int", "!!float":
		return "a number"
	case "!!bool":
		return "true or false"
	case "!!null":
		return "empty"
	}
	return "text"
}

// text reads a string of at most most characters; 0 is no limit but the file's.
func (d *document) text(n *yaml.Node, where string, most int) string {
	if n.Kind != yaml.ScalarNode || n.ShortTag() != "!!str" && n.ShortTag() != "!!timestamp" {
		d.wrongType(n, where, "text")
		return ""
	}
	if c := utf8.RuneCountInString(n.Value); most > 0 && c > most {
		d.fail(n, "shorten it", "%q has %d characters; at most %d are allowed", where, c, most)
	}
	return n.Value
}

func (d *document) boolean(n *yaml.Node, where string) bool {
	var b bool
	if n.Kind != yaml.ScalarNode || n.ShortTag() != "!!bool" || n.Decode(&b) != nil {
		d.wrongType(n, where, "true or false")
	}
	return b
}

// oneOf reads a string that must be one of the values.
func (d *document) oneOf(n *yaml.Node, where string, values ...string) string {
	before := len(d.problems)
	s := d.text(n, where, 0)
	if len(d.problems) > before {
		return ""
	}
	if slices.Contains(values, s) {
		return s
	}
	remedy := "allowed: " + strings.Join(values, ", ")
	if near := nearest(s, values); near != "" {
		remedy = fmt.Sprintf("did you mean %q?", near)
	}
	d.fail(n, remedy, "%q can't be %q", where, s)
	return ""
}

// entries calls read for each key of a free mapping.
func (d *document) entries(n *yaml.Node, where string, read func(key, value *yaml.Node)) {
	if n.Kind != yaml.MappingNode {
		d.wrongType(n, where, "a mapping of keys to values")
		return
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == "" {
			d.fail(n.Content[i], "name it", "%q has an empty key", where)
			continue
		}
		read(n.Content[i], n.Content[i+1])
	}
}

// texts reads a mapping of text to text.
func (d *document) texts(n *yaml.Node, where string) map[string]string {
	out := map[string]string{}
	d.entries(n, where, func(k, v *yaml.Node) {
		if !isNull(v) {
			out[k.Value] = d.text(v, dotted(where, k.Value), 0)
		}
	})
	return out
}

// object reads a mapping of free content; see [Instance] for the types in it.
func (d *document) object(n *yaml.Node, where string) map[string]any {
	out := map[string]any{}
	d.entries(n, where, func(k, v *yaml.Node) {
		out[k.Value] = d.value(v, dotted(where, k.Value))
	})
	return out
}

// value reads free content as JSON has it: map[string]any, []any, string, bool,
// nil, int64 for an integer and float64 for any other number.
func (d *document) value(n *yaml.Node, where string) any {
	switch n.Kind {
	case yaml.MappingNode:
		out := make(map[string]any, len(n.Content)/2)
		for i := 0; i+1 < len(n.Content); i += 2 {
			out[n.Content[i].Value] = d.value(n.Content[i+1], dotted(where, n.Content[i].Value))
		}
		return out
	case yaml.SequenceNode:
		out := make([]any, len(n.Content))
		for i, c := range n.Content {
			out[i] = d.value(c, fmt.Sprintf("%s[%d]", where, i))
		}
		return out
	}
	switch n.ShortTag() {
	case "!!null":
		return nil
	case "!!bool":
		return d.boolean(n, where)
	case "!!int":
		var i int64
		if err := n.Decode(&i); err != nil {
			d.fail(n, "put it in quotes, or write it as 1.0e20", "%q is an integer of more than 64 bits", where)
		}
		return i
	case "!!float":
		if strings.Trim(n.Value, "+-0123456789_") == "" {
			d.fail(n, "put it in quotes, or write it as 1.0e20", "%q is an integer of more than 64 bits", where)
			return nil
		}
		var f float64
		if err := n.Decode(&f); err != nil || math.IsNaN(f) || math.IsInf(f, 0) {
			d.fail(n, "put it in quotes", "%q isn't a number that JSON knows", where)
			return nil
		}
		return f
	}
	return n.Value
}

// nearest is the name that s was probably meant to be, or "".
func nearest(s string, names []string) string {
	best, found := max(2, len(s)/3)+1, ""
	for _, name := range names {
		if c := distance(strings.ToLower(s), strings.ToLower(name)); c < best {
			best, found = c, name
		}
	}
	return found
}

// distance is Levenshtein's, of the first 64 bytes.
func distance(a, b string) int {
	a, b = a[:min(len(a), 64)], b[:min(len(b), 64)]
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		last := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := last
			if a[i] != b[j] {
				cost++
			}
			last = row[j+1]
			row[j+1] = min(row[j]+1, last+1, cost)
		}
	}
	return row[len(b)]
}
