// Package safeyaml parses YAML of hostile origin into nodes.
//
// It refuses what makes a small text expensive or ambiguous to read: size,
// depth, many aliases, merge keys and keys that stand twice. It never expands
// an alias and never gives the text a meaning.
package safeyaml

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"iter"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// The limits of Parse.
const (
	MaxDepth     = 64   // of nested collections
	MaxAliases   = 32   // in a file
	MaxDocuments = 1000 // in a file
)

// Error is one thing wrong in the text.
type Error struct {
	Line    int // from 1; 0 is the whole text
	Message string
}

func (e *Error) Error() string {
	if e.Line > 0 {
		return fmt.Sprintf("line %d: %s", e.Line, e.Message)
	}
	return e.Message
}

// Parse returns the root nodes of the documents in data, leaving out empty
// ones. The error is an [*Error].
func Parse(data []byte) ([]*yaml.Node, error) {
	var docs []*yaml.Node
	dec := yaml.NewDecoder(bytes.NewReader(data))
	c := checker{}
	for n := 0; ; n++ {
		if n == MaxDocuments {
			return nil, &Error{Message: fmt.Sprintf("holds more than %d YAML documents: split the file", MaxDocuments)}
		}
		var doc yaml.Node
		err := dec.Decode(&doc)
		if errors.Is(err, io.EOF) {
			return docs, nil
		}
		if err != nil {
			return nil, syntax(err)
		}
		if doc.Kind != yaml.DocumentNode || len(doc.Content) == 0 || Null(doc.Content[0]) {
			continue
		}
		if err := c.check(doc.Content[0], 0); err != nil {
			return nil, err
		}
		docs = append(docs, doc.Content[0])
	}
}

var atLine = regexp.MustCompile(`^yaml: (?:line (\d+): )?(.*)$`)

// syntax takes the line out of the parser's message.
func syntax(err error) *Error {
	e := &Error{Message: "isn't valid YAML: " + strings.TrimPrefix(err.Error(), "yaml: ")}
	if m := atLine.FindStringSubmatch(err.Error()); m != nil {
		e.Line, _ = strconv.Atoi(m[1])
		e.Message = "isn't valid YAML: " + m[2]
	}
	return e
}

type checker struct{ aliases int }

func (c *checker) check(n *yaml.Node, depth int) error {
	if depth > MaxDepth {
		return &Error{n.Line, fmt.Sprintf("is nested more than %d deep", MaxDepth)}
	}
	switch n.Kind {
	case yaml.AliasNode:
		// The alias is not followed: its target is checked where it stands.
		if c.aliases++; c.aliases > MaxAliases {
			return &Error{n.Line, fmt.Sprintf("more than %d aliases (*%s): write the values out", MaxAliases, n.Value)}
		}
	case yaml.MappingNode:
		seen := make(map[string]int, len(n.Content)/2)
		for i := 0; i+1 < len(n.Content); i += 2 {
			k := n.Content[i]
			switch {
			case k.Kind != yaml.ScalarNode:
				return &Error{k.Line, "a key isn't a plain word"}
			case k.Tag == "!!merge":
				return &Error{k.Line, "merge keys (<<) aren't supported: write the keys out"}
			}
			if first, ok := seen[k.Value]; ok {
				return &Error{k.Line, fmt.Sprintf("key %q already stands at line %d", k.Value, first)}
			}
			seen[k.Value] = k.Line
		}
	}
	for _, m := range n.Content {
		if err := c.check(m, depth+1); err != nil {
			return err
		}
	}
	return nil
}

// Deref returns what an alias stands for, and every other node as it is.
func Deref(n *yaml.Node) *yaml.Node {
	for range 8 {
		if n == nil || n.Kind != yaml.AliasNode {
			return n
		}
		n = n.Alias
	}
	return nil
}

// Null says whether there is no value: no node, or null.
func Null(n *yaml.Node) bool {
	n = Deref(n)
	return n == nil || n.Kind == 0 || n.Kind == yaml.ScalarNode && n.Tag == "!!null"
}

// Get returns the value under the keys, one inside the other, or nil.
func Get(n *yaml.Node, keys ...string) *yaml.Node {
	n = Deref(n)
next:
	for _, key := range keys {
		for k, v := range Pairs(n) {
			if k.Value == key {
				n = v
				continue next
			}
		}
		return nil
	}
	return n
}

// Pairs yields the keys and values of a mapping in order; nothing for any
// other node.
func Pairs(n *yaml.Node) iter.Seq2[*yaml.Node, *yaml.Node] {
	return func(yield func(k, v *yaml.Node) bool) {
		n = Deref(n)
		if n == nil || n.Kind != yaml.MappingNode {
			return
		}
		for i := 0; i+1 < len(n.Content); i += 2 {
			if !yield(n.Content[i], Deref(n.Content[i+1])) {
				return
			}
		}
	}
}

// Items yields the items of a sequence; nothing for any other node.
func Items(n *yaml.Node) iter.Seq[*yaml.Node] {
	return func(yield func(*yaml.Node) bool) {
		n = Deref(n)
		if n == nil || n.Kind != yaml.SequenceNode {
			return
		}
		for _, m := range n.Content {
			if !yield(Deref(m)) {
				return
			}
		}
	}
}

// Text is the scalar as it is written, so that 1.10 stays "1.10".
func Text(n *yaml.Node) (string, bool) {
	n = Deref(n)
	if Null(n) || n.Kind != yaml.ScalarNode {
		return "", false
	}
	return n.Value, true
}
