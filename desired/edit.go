package desired

import (
	"bytes"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// KeyValue is one change of a vnf.yaml: the value that Path, a key a segment,
// is to have. nil removes it. Maps that are missing on the way are made, and a
// value on the way that isn't a map gives place to one.
type KeyValue struct {
	Path  []string
	Value any
}

// Edit makes the changes in the text of a vnf.yaml and leaves everything else as
// a person wrote it: comments, order of keys, blank lines, quotes, line ends. A
// single value is replaced where it stands; else only the top-level entry that
// holds the path is written anew, its comments kept. New top-level keys stand in
// the order of [Instance]'s fields. Setting what a key has already, or removing
// what isn't there, leaves the text byte for byte.
//
// The result is parsed: an error is an [*InvalidError] that says why it, or the
// text before, is no vnf.yaml.
func Edit(file string, data []byte, changes ...KeyValue) ([]byte, error) {
	out, _, err := EditInstance(file, data, changes...)
	return out, err
}

// EditInstance is [Edit] that also returns what the result says, as
// [ParseInstance] would.
func EditInstance(file string, data []byte, changes ...KeyValue) ([]byte, *Instance, error) {
	t, err := readText(file, data)
	if err != nil {
		return nil, nil, err
	}
	for _, c := range changes {
		if len(c.Path) == 0 || slices.Contains(c.Path, "") {
			return nil, nil, fmt.Errorf("edit %s: a change without a key", file)
		}
		if t, err = t.edit(file, c); err != nil {
			return nil, nil, err
		}
	}
	d := &document{file: file}
	in := d.instance(t.root)
	if err := d.err(); err != nil {
		return nil, nil, err
	}
	in.identify(file)
	return t.data, in, nil
}

// edit returns the text with the change, or t itself where that changes nothing.
func (t *text) edit(file string, c KeyValue) (*text, error) {
	value := plain(reflect.ValueOf(c.Value))
	want := with(t.value, c.Path, value).(map[string]any)
	if sameAny(t.value, want) || isDefault(t.value, c.Path, value) {
		return t, nil
	}
	// From the least invasive way to the most. Each proves itself: what it wrote
	// must read as what is wanted.
	for i, way := range []func(*text, []string, any) ([]byte, error){(*text).inPlace, (*text).entry, (*text).whole} {
		if i > 1 {
			var err error
			if t, err = readText(file, t.data); err != nil { // entry worked on its nodes
				return nil, err
			}
		}
		out, err := way(t, c.Path, c.Value)
		if err != nil {
			return nil, fmt.Errorf("edit %s: %s: %w", file, strings.Join(c.Path, "."), err)
		}
		if out == nil {
			continue
		}
		if got, err := readText(file, out); err == nil && sameAny(got.value, want) {
			return got, nil
		}
	}
	return nil, fmt.Errorf("edit %s: %s can't be set to this value in the present text", file, strings.Join(c.Path, "."))
}

// isDefault says whether the change would only write out what an absent key means.
func isDefault(have map[string]any, path []string, value any) bool {
	switch strings.Join(path, ".") {
	case "state":
		return have["state"] == nil && value == Instantiated
	case "drift":
		return have["drift"] == nil && value == DriftCorrect
	case "update.strategy":
		return have["update"] == nil && value == Rolling
	}
	return have[path[0]] == nil && len(path) == 1 && empty(value)
}

// with is the tree after the change. It shares what didn't change.
func with(tree any, path []string, value any) any {
	if len(path) == 0 {
		return value
	}
	old, _ := tree.(map[string]any)
	out := maps.Clone(old)
	if out == nil {
		out = map[string]any{}
	}
	child, had := out[path[0]]
	switch {
	case len(path) == 1 && value == nil:
		delete(out, path[0])
	case value == nil && !had:
	case value == nil:
		if _, ok := child.(map[string]any); ok {
			out[path[0]] = with(child, path[1:], nil)
		}
	default:
		out[path[0]] = with(child, path[1:], value)
	}
	return out
}

// text is a vnf.yaml as it was written.
type text struct {
	data  []byte
	lines []string   // with their ends
	root  *yaml.Node // a mapping; of no document, if that was empty
	value map[string]any
}

func readText(file string, data []byte) (*text, error) {
	d := &document{file: file}
	t := &text{data: data, lines: splitLines(string(data))}
	if t.root = d.root(data); t.root == nil {
		if err := d.err(); err != nil {
			return nil, err
		}
		t.root = &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map"}
	}
	if t.root.Kind != yaml.MappingNode {
		d.wrongType(t.root, "", "a mapping of keys to values")
		return nil, d.err()
	}
	t.value = d.value(t.root, "").(map[string]any)
	return t, d.err()
}

// splitLines splits where YAML counts lines, and keeps the ends.
func splitLines(s string) []string {
	var out []string
	for s != "" {
		at := strings.IndexAny(s, "\n\r\u0085\u2028\u2029")
		if at < 0 {
			return append(out, s)
		}
		_, size := utf8.DecodeRuneInString(s[at:])
		if strings.HasPrefix(s[at:], "\r\n") {
			size = 2
		}
		out = append(out, s[:at+size])
		s = s[at+size:]
	}
	return out
}

// child is the index of the key's value in the mapping n, or -1.
func child(n *yaml.Node, key string) int {
	if n.Kind == yaml.MappingNode {
		for i := 0; i+1 < len(n.Content); i += 2 {
			if n.Content[i].Value == key {
				return i + 1
			}
		}
	}
	return -1
}

// inPlace replaces the characters of one value on one line; nil where the change
// is of another kind.
func (t *text) inPlace(path []string, value any) ([]byte, error) {
	n := t.root
	for _, key := range path {
		i := child(n, key)
		if i < 0 {
			return nil, nil
		}
		n = n.Content[i]
	}
	if n.Kind != yaml.ScalarNode || n.Line < 1 || n.Line > len(t.lines) || value == nil {
		return nil, nil
	}
	fresh, err := node(reflect.ValueOf(value))
	if err != nil {
		return nil, err
	}
	if fresh.Kind != yaml.ScalarNode {
		return nil, nil
	}
	if quotes := n.Style & (yaml.DoubleQuotedStyle | yaml.SingleQuotedStyle); quotes != 0 && fresh.ShortTag() == "!!str" {
		fresh.Style = quotes
	}
	out, err := encode(fresh, 2, false)
	if err != nil {
		return nil, err
	}
	token := strings.TrimSuffix(string(out), "\n")
	line := t.lines[n.Line-1]
	from := byteColumn(line, n.Column)
	size := tokenSize(line[from:], n)
	if size <= 0 || strings.Contains(token, "\n") {
		return nil, nil
	}
	lines := slices.Clone(t.lines)
	lines[n.Line-1] = line[:from] + token + line[from+size:]
	return []byte(strings.Join(lines, "")), nil
}

// byteColumn turns YAML's column, in characters from 1, into a byte offset.
func byteColumn(line string, column int) int {
	at := 0
	for ; column > 1 && at < len(line); column-- {
		_, size := utf8.DecodeRuneInString(line[at:])
		at += size
	}
	return at
}

// tokenSize is how many bytes of rest the scalar n takes; 0 where it isn't one
// token of one line.
func tokenSize(rest string, n *yaml.Node) int {
	switch {
	case n.Style&yaml.DoubleQuotedStyle != 0 && strings.HasPrefix(rest, `"`):
		for i := 1; i < len(rest); i++ {
			switch rest[i] {
			case '\\':
				i++
			case '"':
				return i + 1
			}
		}
	case n.Style&yaml.SingleQuotedStyle != 0 && strings.HasPrefix(rest, "'"):
		for i := 1; i < len(rest); i++ {
			if rest[i] != '\'' {
				continue
			}
			if i+1 >= len(rest) || rest[i+1] != '\'' {
				return i + 1
			}
			i++
		}
	case n.Style == 0 && strings.HasPrefix(rest, n.Value):
		return len(n.Value)
	}
	return 0
}

// entry writes the top-level entry of the path anew, and no other line.
func (t *text) entry(path []string, value any) ([]byte, error) {
	if t.root.Style&yaml.FlowStyle != 0 {
		return nil, nil
	}
	at := child(t.root, path[0])
	if at < 0 {
		if value == nil {
			return nil, nil
		}
		n := &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map"}
		if err := set(n, path, value); err != nil {
			return nil, err
		}
		fresh, err := t.render(n)
		if err != nil {
			return nil, err
		}
		line := t.insertAt(path[0])
		return t.splice(line, line, fresh), nil
	}
	start, end := t.extent(at)
	if start < 0 {
		return nil, nil
	}
	key := *t.root.Content[at-1]
	key.HeadComment = "" // stands above the lines that are replaced
	n := &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map", Content: []*yaml.Node{&key, t.root.Content[at]}}
	dropFoot(n)
	if err := set(n, path, value); err != nil {
		return nil, err
	}
	if len(n.Content) == 0 {
		return t.splice(start, end, nil), nil
	}
	fresh, err := t.render(n)
	if err != nil {
		return nil, err
	}
	return t.splice(start, end, fresh), nil
}

// extent is the range of lines, from 0, of the top-level entry whose value is
// t.root.Content[at], without comments and blank lines after it; -1 if unclear.
func (t *text) extent(at int) (int, int) {
	start, end := t.root.Content[at-1].Line-1, len(t.lines)
	if at+1 < len(t.root.Content) {
		end = t.root.Content[at+1].Line - 1
	}
	if start < 0 || end <= start || end > len(t.lines) {
		return -1, -1
	}
	for end > start+1 {
		s := strings.TrimSpace(t.lines[end-1])
		if s != "" && s != "..." && s != "---" && !strings.HasPrefix(s, "#") {
			break
		}
		end--
	}
	if last := lastLeaf(t.root.Content[at]); last.Style&(yaml.LiteralStyle|yaml.FoldedStyle) != 0 {
		for end < len(t.lines) && strings.TrimSpace(t.lines[end]) == "" {
			end++ // may be part of the block ("|+")
		}
	}
	return start, end
}

// insertAt is the line, from 0, before which a new top-level key belongs.
func (t *text) insertAt(key string) int {
	order := instanceFields()
	rank := func(key string) int {
		return slices.IndexFunc(order, func(f keyed) bool { return f.key == key })
	}
	after := -1
	for i := 0; i+1 < len(t.root.Content); i += 2 {
		if rank(t.root.Content[i].Value) < rank(key) {
			after = i + 1
		}
	}
	if after < 0 && len(t.root.Content) > 0 {
		// It would be the first. A comment right above the present first key belongs
		// to that key and must not be parted from it.
		first := t.root.Content[0].Line - 1
		if first == 0 || first <= len(t.lines) && !strings.HasPrefix(strings.TrimSpace(t.lines[first-1]), "#") {
			return max(first, 0)
		}
		after = 1
	}
	if after < 0 {
		return len(t.lines)
	}
	if _, end := t.extent(after); end >= 0 {
		return end
	}
	return len(t.lines)
}

// splice puts fresh in the place of the lines from start to before end.
func (t *text) splice(start, end int, fresh []byte) []byte {
	var b bytes.Buffer
	for _, l := range t.lines[:start] {
		b.WriteString(l)
	}
	if b.Len() > 0 && !bytes.HasSuffix(b.Bytes(), []byte("\n")) {
		b.WriteString(t.lineEnd())
	}
	b.WriteString(strings.ReplaceAll(string(fresh), "\n", t.lineEnd()))
	for _, l := range t.lines[end:] {
		b.WriteString(l)
	}
	return b.Bytes()
}

func (t *text) lineEnd() string {
	if len(t.lines) > 0 && strings.HasSuffix(t.lines[0], "\r\n") {
		return "\r\n"
	}
	return "\n"
}

// whole writes all of the file anew. Comments stay, blank lines may not.
func (t *text) whole(path []string, value any) ([]byte, error) {
	if err := set(t.root, path, value); err != nil {
		return nil, err
	}
	if t.root.Style&yaml.FlowStyle != 0 && len(t.root.Content) > 0 && t.root.Content[0].Style&yaml.DoubleQuotedStyle != 0 {
		quote(t.root) // JSON stays JSON
	}
	out, err := t.render(t.root)
	if err != nil {
		return nil, err
	}
	return []byte(strings.ReplaceAll(string(out), "\n", t.lineEnd())), nil
}

// quote puts all text into double quotes and everything on JSON's brackets.
func quote(n *yaml.Node) {
	switch n.Kind {
	case yaml.ScalarNode:
		if n.ShortTag() == "!!str" {
			n.Style = yaml.DoubleQuotedStyle
		}
	default:
		n.Style |= yaml.FlowStyle
	}
	for _, c := range n.Content {
		quote(c)
	}
}

// render writes n with the file's own indentation.
func (t *text) render(n *yaml.Node) ([]byte, error) {
	l := layout{indent: 2}
	l.learn(t.root)
	return encode(n, l.indent, l.compact)
}

// layout is how a person indents.
type layout struct {
	indent  int
	known   bool
	compact bool // "- " stands under its key's first letter
}

func (l *layout) learn(n *yaml.Node) {
	if n.Kind == yaml.MappingNode && n.Style&yaml.FlowStyle == 0 {
		for i := 0; i+1 < len(n.Content); i += 2 {
			k, v := n.Content[i], n.Content[i+1]
			if v.Line == k.Line || v.Style&yaml.FlowStyle != 0 {
				continue
			}
			if by := v.Column - k.Column; v.Kind == yaml.MappingNode && !l.known && by >= 2 && by <= 9 {
				l.indent, l.known = by, true
			}
			if v.Kind == yaml.SequenceNode && v.Column == k.Column {
				l.compact = true
			}
		}
	}
	for _, c := range n.Content {
		l.learn(c)
	}
}
