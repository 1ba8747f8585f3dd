package hot

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"

	"github.com/jibe-vnfm/jibe/internal/safeyaml"
	"go.yaml.in/yaml/v3"
)

// Error is returned for what is wrong in a file of the package, and says what to do about it.
type Error struct {
	File    string // in the package
	Line    int    // from 1; 0 is the whole file
	Message string
}

// Where is the file and the line: "BaseHOT/simple/top.yaml:12".
func (e *Error) Where() string {
	if e.Line > 0 {
		return fmt.Sprintf("%s:%d", e.File, e.Line)
	}
	return e.File
}

func (e *Error) Error() string { return e.Where() + ": " + e.Message }

// givenError is an [Error] of a value that an instance may give otherwise.
type givenError struct{ error }

func (e *givenError) Unwrap() error { return e.error }

// maxNodes bounds what a template holds when its aliases are written out.
const maxNodes = 50_000

// decoder gives YAML the meaning that Heat gives it: that of YAML 1.1 (yes and on are true, 010
// is eight), in which dates stay texts.
type decoder struct {
	file  string
	nodes int
}

func (d *decoder) fail(n *yaml.Node, format string, args ...any) error {
	return &Error{d.file, n.Line, fmt.Sprintf(format, args...)}
}

func (d *decoder) value(n *yaml.Node) (any, error) {
	if d.nodes++; d.nodes > maxNodes {
		return nil, d.fail(n, "holds more than %d values: make it smaller", maxNodes)
	}
	at := n
	if n = safeyaml.Deref(n); n == nil {
		return nil, d.fail(at, "an alias leads to nothing: write the value out")
	}
	switch n.Kind {
	case yaml.MappingNode:
		out := make(map[string]any, len(n.Content)/2)
		for k, v := range safeyaml.Pairs(n) {
			x, err := d.value(v)
			if err != nil {
				return nil, err
			}
			out[k.Value] = x
		}
		return out, nil
	case yaml.SequenceNode:
		out := make([]any, 0, len(n.Content))
		for v := range safeyaml.Items(n) {
			x, err := d.value(v)
			if err != nil {
				return nil, err
			}
			out = append(out, x)
		}
		return out, nil
	case yaml.ScalarNode:
		return d.scalar(n)
	}
	return nil, d.fail(at, "holds something that is no value")
}

// The types of plain scalars in YAML 1.1, as the parser that Heat uses recognises them.
var (
	boolWord  = regexp.MustCompile(`^(?:yes|Yes|YES|no|No|NO|true|True|TRUE|false|False|FALSE|on|On|ON|off|Off|OFF)$`)
	nullWord  = regexp.MustCompile(`^(?:~|null|Null|NULL|)$`)
	intWord   = regexp.MustCompile(`^[-+]?(?:0b[0-1_]+|0[0-7_]+|(?:0|[1-9][0-9_]*)|0x[0-9a-fA-F_]+|[1-9][0-9_]*(?::[0-5]?[0-9])+)$`)
	floatWord = regexp.MustCompile(`^(?:[-+]?[0-9][0-9_]*\.[0-9_]*(?:[eE][-+][0-9]+)?|\.[0-9][0-9_]*(?:[eE][-+][0-9]+)?)$`)
)

func (d *decoder) scalar(n *yaml.Node) (any, error) {
	if n.Style&yaml.TaggedStyle != 0 && n.Tag != "!!str" || n.Tag == "!!binary" {
		return nil, d.fail(n, "tag %s isn't supported: write the value without it", n.Tag)
	}
	if n.Style&(yaml.TaggedStyle|yaml.DoubleQuotedStyle|yaml.SingleQuotedStyle|yaml.LiteralStyle|yaml.FoldedStyle) != 0 {
		return n.Value, nil
	}
	word := n.Value
	switch {
	case nullWord.MatchString(word):
		return nil, nil
	case boolWord.MatchString(word):
		switch strings.ToLower(word) {
		case "yes", "true", "on":
			return true, nil
		}
		return false, nil
	case intWord.MatchString(word):
		i, err := integer(word)
		if err != nil {
			return nil, d.fail(n, "%.40s isn't a number that can be used: quote it if it is a text", word)
		}
		return i, nil
	case floatWord.MatchString(word):
		f, err := strconv.ParseFloat(strings.ReplaceAll(word, "_", ""), 64)
		if err != nil || math.IsInf(f, 0) || math.IsNaN(f) {
			return nil, d.fail(n, "%.40s isn't a number that can be used: quote it if it is a text", word)
		}
		return f, nil
	}
	return word, nil
}

// integer reads a number of YAML 1.1, one in base 60 too (1:30 is 90).
func integer(word string) (int64, error) {
	s := strings.ReplaceAll(word, "_", "")
	if !strings.Contains(s, ":") {
		if digits := strings.TrimLeft(s, "+-"); len(digits) > 1 && digits[0] == '0' && digits[1] >= '0' && digits[1] <= '7' {
			return strconv.ParseInt(s, 8, 64)
		}
		return strconv.ParseInt(s, 0, 64)
	}
	sign := int64(1)
	if s[0] == '-' {
		sign = -1
	}
	total := int64(0)
	for _, part := range strings.Split(strings.TrimLeft(s, "+-"), ":") {
		n, err := strconv.ParseInt(part, 10, 32)
		if err != nil || total > math.MaxInt64/60-60 {
			return 0, strconv.ErrRange
		}
		total = total*60 + n
	}
	return sign * total, nil
}
