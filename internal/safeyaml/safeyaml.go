// Package safeyaml parses YAML of hostile origin into nodes: the one reader of every
// YAML file that Jibe is given.
//
// It refuses what makes a small text expensive or ambiguous to read: depth, many
// aliases, merge keys and keys that stand twice. [ParsePlain] refuses all that isn't
// plain values besides. It never expands an alias and never gives the text a meaning.
package safeyaml

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"iter"
	"regexp"
	"strconv"

	"go.yaml.in/yaml/v3"
)

// The limits.
const (
	MaxDepth     = 64   // of nested collections
	MaxAliases   = 32   // in a file, of Parse
	MaxDocuments = 1000 // in a file, of Parse
	maxFaults    = 20   // that ParsePlain reports
)

// Fault is a kind of what can be wrong in a text.
type Fault int

// The faults. Those from PlainDocument on are only ParsePlain's.
const (
	Syntax Fault = iota
	Documents
	Depth
	Aliases
	MergeKey
	KeyKind      // a key isn't a scalar
	DuplicateKey // Error.First is where it stands first
	PlainDocument
	PlainAlias // an anchor or an alias
	PlainTag   // Error.Value
	PlainKey   // Error.Value is a key that isn't text
)

// Error is one thing wrong in the text.
type Error struct {
	Line    int // from 1; 0 is the whole text
	Fault   Fault
	Value   string // the key or tag that is wrong, the parser's words for Syntax
	First   int    // line
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
	docs, bad := decode(data, MaxDocuments)
	switch {
	case bad != nil:
		return nil, bad
	case len(docs) > MaxDocuments:
		return nil, &Error{Fault: Documents, Message: fmt.Sprintf("holds more than %d YAML documents: split the file", MaxDocuments)}
	}
	c := checker{most: 1}
	var out []*yaml.Node
	for _, doc := range docs {
		if len(doc.Content) == 0 || Null(doc.Content[0]) {
			continue
		}
		if c.check(doc.Content[0], 0); len(c.faults) > 0 {
			return nil, c.faults[0]
		}
		out = append(out, doc.Content[0])
	}
	return out, nil
}

// ParsePlain returns the root node of the only document in data, nil where it is empty
// or something is wrong. What it returns holds no anchors, no aliases and no tags but
// those of JSON's types and timestamps, and every key is text.
func ParsePlain(data []byte) (*yaml.Node, []*Error) {
	docs, bad := decode(data, 1)
	switch {
	case bad != nil:
		return nil, []*Error{bad}
	case len(docs) > 1:
		return nil, []*Error{{Line: docs[1].Line, Fault: PlainDocument, Message: "holds several YAML documents"}}
	case len(docs) == 0 || len(docs[0].Content) == 0:
		return nil, nil
	}
	c := checker{plain: true, most: maxFaults}
	n := docs[0].Content[0]
	if c.check(n, 0); len(c.faults) > 0 || Null(n) {
		return nil, c.faults
	}
	return n, nil
}

// decode returns the documents, and no more than one above most. The YAML library is known to panic on some
// malformed input; that is an error here.
func decode(data []byte, most int) (docs []*yaml.Node, bad *Error) {
	defer func() {
		if r := recover(); r != nil {
			docs, bad = nil, syntax(fmt.Errorf("yaml: unreadable: %v", r))
		}
	}()
	dec := yaml.NewDecoder(bytes.NewReader(data))
	for len(docs) <= most {
		var doc yaml.Node
		err := dec.Decode(&doc)
		switch {
		case errors.Is(err, io.EOF):
			return docs, nil
		case err != nil:
			return nil, syntax(err)
		}
		docs = append(docs, &doc)
	}
	return docs, nil
}

var atLine = regexp.MustCompile(`(?s)^(?:yaml: )?(?:line (\d+): )?(.*)$`)

// syntax takes the line out of the parser's message.
func syntax(err error) *Error {
	m := atLine.FindStringSubmatch(err.Error())
	line, _ := strconv.Atoi(m[1])
	return &Error{Line: line, Fault: Syntax, Value: m[2], Message: "isn't valid YAML: " + m[2]}
}

// checker finds what is wrong, wherever it stands.
type checker struct {
	plain   bool // refuse what isn't plain values
	most    int  // faults
	aliases int
	faults  []*Error
}

func (c *checker) fail(e Error) {
	if len(c.faults) < c.most {
		c.faults = append(c.faults, &e)
	}
}

func (c *checker) check(n *yaml.Node, depth int) {
	switch {
	case len(c.faults) == c.most:
		return
	case depth > MaxDepth:
		c.fail(Error{Line: n.Line, Fault: Depth, Message: fmt.Sprintf("is nested more than %d deep", MaxDepth)})
		return
	case c.plain && (n.Kind == yaml.AliasNode || n.Anchor != ""):
		c.fail(Error{Line: n.Line, Fault: PlainAlias, Message: "anchors and aliases aren't allowed"})
		return
	case c.plain && !plainTag(n):
		c.fail(Error{Line: n.Line, Fault: PlainTag, Value: n.Tag, Message: fmt.Sprintf("the tag %q isn't allowed", n.Tag)})
		return
	case n.Kind == yaml.AliasNode:
		// The alias is not followed: its target is checked where it stands.
		if c.aliases++; c.aliases > MaxAliases {
			c.fail(Error{Line: n.Line, Fault: Aliases, Value: n.Value, Message: fmt.Sprintf("more than %d aliases (*%s): write the values out", MaxAliases, n.Value)})
		}
		return
	case n.Kind != yaml.MappingNode:
		for _, m := range n.Content {
			c.check(m, depth+1)
		}
		return
	}
	seen := make(map[string]int, len(n.Content)/2)
	for i := 0; i+1 < len(n.Content); i += 2 {
		k, v := n.Content[i], n.Content[i+1]
		if e := c.key(k, seen); e != nil {
			c.fail(*e)
			continue
		}
		seen[k.Value] = k.Line
		c.check(v, depth+1)
	}
}

// key is what is wrong with a key, where seen are those before it.
func (c *checker) key(k *yaml.Node, seen map[string]int) *Error {
	tag := k.ShortTag()
	switch {
	case k.Kind == yaml.ScalarNode && tag == "!!merge":
		return &Error{Line: k.Line, Fault: MergeKey, Message: "merge keys (<<) aren't supported: write the keys out"}
	case k.Kind != yaml.ScalarNode, c.plain && k.Anchor != "":
		return &Error{Line: k.Line, Fault: KeyKind, Message: "a key isn't a plain word"}
	case c.plain && tag != "!!str" && tag != "!!timestamp":
		return &Error{Line: k.Line, Fault: PlainKey, Value: k.Value, Message: fmt.Sprintf("the key %s isn't text", k.Value)}
	}
	if first, ok := seen[k.Value]; ok {
		return &Error{Line: k.Line, Fault: DuplicateKey, Value: k.Value, First: first, Message: fmt.Sprintf("key %q already stands at line %d", k.Value, first)}
	}
	return nil
}

func plainTag(n *yaml.Node) bool {
	switch n.ShortTag() {
	case "!!map", "!!seq", "!!str", "!!int", "!!float", "!!bool", "!!null", "!!timestamp":
		return true
	}
	return false
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
	return n == nil || n.Kind == 0 || n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null"
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
