package desired

import (
	"bytes"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// Format writes a new vnf.yaml: the fields in their order, without comments, and without
// fields that are absent or have their default (state is always written). It parses the result
// before it returns it; the error names content that no file may hold.
func Format(in *Instance) ([]byte, error) {
	if in == nil {
		return nil, fmt.Errorf("format %s: no instance", InstanceFile)
	}
	full := withDefaults(in)
	v := reflect.ValueOf(full)
	root := &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map"}
	for _, f := range instanceFields() {
		value := v.Field(f.index)
		switch f.key {
		case "update":
			if reflect.DeepEqual(full.Update, UpdatePolicy{Strategy: Rolling}) {
				continue
			}
		case "drift":
			if full.Drift == DriftCorrect {
				continue
			}
		}
		if empty(plain(value)) {
			continue
		}
		n, err := node(value)
		if err != nil {
			return nil, fmt.Errorf("format %s: %s: %w", InstanceFile, f.key, err)
		}
		root.Content = append(root.Content, fieldNode(f.key), n)
	}
	out, err := encode(root, 2, false)
	if err != nil {
		return nil, fmt.Errorf("format %s: %w", InstanceFile, err)
	}
	back, err := ParseInstance(APIDir(full.ID)+"/"+InstanceFile, out)
	if err != nil {
		return nil, fmt.Errorf("format %s: %w", InstanceFile, err)
	}
	if full.ID == "" {
		back.ID = ""
	}
	if differ := Changed(in, back); len(differ) > 0 {
		return nil, fmt.Errorf("format %s: these can't be written as YAML: %s", InstanceFile, strings.Join(differ, ", "))
	}
	return out, nil
}

func encode(n *yaml.Node, indent int, compact bool) ([]byte, error) {
	var b bytes.Buffer
	e := yaml.NewEncoder(&b)
	e.SetIndent(indent)
	if compact {
		e.CompactSeqIndent()
	}
	if err := e.Encode(n); err != nil {
		return nil, err
	}
	if err := e.Close(); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// node makes the YAML of a value: struct fields in their order, keys of
// mappings sorted.
func node(v reflect.Value) (*yaml.Node, error) {
	for v.Kind() == reflect.Interface || v.Kind() == reflect.Pointer {
		v = v.Elem()
	}
	switch v.Kind() {
	case reflect.Struct:
		out := &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map"}
		for i := range v.NumField() {
			if empty(plain(v.Field(i))) {
				continue
			}
			n, err := node(v.Field(i))
			if err != nil {
				return nil, err
			}
			key, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ",")
			out.Content = append(out.Content, fieldNode(key), n)
		}
		return out, nil
	case reflect.Map:
		out := &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map"}
		keys := v.MapKeys()
		slices.SortFunc(keys, func(a, b reflect.Value) int { return strings.Compare(a.String(), b.String()) })
		for _, k := range keys {
			n, err := node(v.MapIndex(k))
			if err != nil {
				return nil, err
			}
			if !utf8.ValidString(k.String()) {
				return nil, fmt.Errorf("a key isn't UTF-8 text")
			}
			out.Content = append(out.Content, keyNode(k.String()), n)
		}
		return out, nil
	case reflect.Slice, reflect.Array:
		out := &yaml.Node{Kind: yaml.SequenceNode, Tag: "!!seq"}
		for i := range v.Len() {
			n, err := node(v.Index(i))
			if err != nil {
				return nil, err
			}
			out.Content = append(out.Content, n)
		}
		return out, nil
	}
	out := &yaml.Node{}
	switch p := plain(v).(type) {
	case string:
		if !utf8.ValidString(p) {
			return nil, fmt.Errorf("the text isn't UTF-8")
		}
		return textNode(p), nil
	case float64:
		if math.IsNaN(p) || math.IsInf(p, 0) {
			return nil, fmt.Errorf("%v isn't a number that JSON knows", p)
		}
		return out, out.Encode(p)
	default:
		return out, out.Encode(p)
	}
}

// textNode quotes text where it would be read as something else.
func textNode(s string) *yaml.Node {
	if plainWord(s) {
		return fieldNode(s)
	}
	n := &yaml.Node{}
	if err := n.Encode(s); err != nil || n.ShortTag() != "!!str" {
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Style: yaml.DoubleQuotedStyle, Value: s}
	}
	if strings.ContainsFunc(s, special) {
		n.Style = yaml.DoubleQuotedStyle
	}
	// Block style is for ordinary lines only: blanks at the edges don't survive in it.
	if n.Style&yaml.LiteralStyle != 0 {
		for line := range strings.SplitSeq(s, "\n") {
			if line != "" && strings.TrimLeft(line, " ") == "" {
				n.Style = yaml.DoubleQuotedStyle
			}
		}
		if strings.HasPrefix(s, " ") || strings.HasPrefix(s, "\n") || strings.HasSuffix(s, "\n\n") {
			n.Style = yaml.DoubleQuotedStyle
		}
	}
	return n
}

// plainWord says whether s can only be read as text. Most text is of that kind, and an encoder
// would cost as much as parsing a whole file.
func plainWord(s string) bool {
	for i, r := range []byte(s) {
		letter := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z'
		if !letter && (i == 0 || r != '-' && r != '_' && (r < '0' || r > '9')) {
			return false
		}
	}
	switch strings.ToLower(s) {
	case "", "y", "n", "yes", "no", "on", "off", "true", "false", "null", "nan", "inf":
		return false
	}
	return true
}

// keyNode is text that stays on one line.
func keyNode(s string) *yaml.Node {
	n := textNode(s)
	if n.Style&(yaml.LiteralStyle|yaml.FoldedStyle) != 0 {
		n.Style = yaml.DoubleQuotedStyle
	}
	return n
}

// special says whether r looks like nothing, or like an end of line, in a file.
func special(r rune) bool {
	return r != '\n' && (r < ' ' || r >= 0x7f && r <= 0xa0 || r == 0x2028 || r == 0x2029 || r == 0xfeff)
}

// fieldNode is the key of a struct's field, which needs no quotes.
func fieldNode(key string) *yaml.Node {
	return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: key}
}
