package management

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/jibe-vnfm/jibe/desired"
)

const (
	// hidden stands where a secret stood.
	hidden = "***"
	// minSecret is the least that is taken for a secret: with less, every text would
	// be riddled with holes that tell where it stood.
	minSecret = 3
	// minLine is the least of a line of a secret that is hidden by itself.
	minLine = 8
)

// mask hides secrets in what programs write.
type mask struct {
	secrets  []string // the longest first
	replacer *strings.Replacer
}

// newMask knows the secrets that the program was given.
func newMask(c Call) *mask {
	found := map[string]bool{}
	add := func(s string) {
		if s = strings.TrimSpace(s); len(s) < minSecret {
			return
		}
		put := func(s string) {
			for _, form := range spelled(s) {
				found[form] = true
			}
		}
		put(s)
		if strings.Contains(s, "\n") {
			for line := range strings.Lines(s) {
				if line = strings.TrimSpace(line); len(line) >= minLine && !strings.HasPrefix(line, "-----") {
					put(line)
				}
			}
		}
	}
	for _, s := range c.Secrets {
		add(s)
	}
	in := c.Input
	for _, v := range []any{in.Params, in.CoordinationParams, in.Instance.Metadata, in.Instance.Extensions, decoded(in.Operation.Params)} {
		secretsIn(v, false, add)
	}
	for _, data := range c.Files {
		secretsIn(decoded(data), false, add)
	}
	m := &mask{secrets: slices.SortedFunc(maps.Keys(found), func(a, b string) int {
		return cmp.Or(cmp.Compare(len(b), len(a)), cmp.Compare(a, b))
	})}
	var pairs []string
	for _, s := range m.secrets {
		pairs = append(pairs, s, hidden)
	}
	m.replacer = strings.NewReplacer(pairs...)
	return m
}

// spelled is s as it is, and as it stands in JSON and in quotes: programs like to show
// what they were given.
func spelled(s string) []string {
	forms := []string{s, inner(strconv.Quote(s)), inner(strconv.QuoteToASCII(s))}
	if data, err := json.Marshal(s); err == nil {
		forms = append(forms, inner(string(data)))
	}
	return forms
}

func inner(quoted string) string { return quoted[1 : len(quoted)-1] }

// decoded is JSON as a value, and nil where it isn't JSON.
func decoded(data []byte) any {
	var v any
	if json.Unmarshal(data, &v) != nil {
		return nil
	}
	return v
}

// secretsIn calls add with the values that stand under the names of credentials; all
// of v's do where secret is true.
func secretsIn(v any, secret bool, add func(string)) {
	switch v := v.(type) {
	case string:
		if secret {
			add(v)
		}
		return
	case float64:
		if secret {
			add(strconv.FormatFloat(v, 'f', -1, 64))
		}
		return
	}
	r := reflect.ValueOf(v)
	switch r.Kind() {
	case reflect.Map:
		for it := r.MapRange(); it.Next(); {
			secretsIn(it.Value().Interface(), secret || desired.IsSecretKey(fmt.Sprint(it.Key().Interface())), add)
		}
	case reflect.Slice:
		for i := range r.Len() {
			secretsIn(r.Index(i).Interface(), secret, add)
		}
	default:
		if secret && r.CanInt() {
			add(fmt.Sprint(v))
		}
	}
}

// hide is text without secrets. cutStart and cutEnd say that it is part of a longer
// text, so that a part of a secret may stand at that end.
func (m *mask) hide(text string, cutStart, cutEnd bool) string {
	start, end := 0, 0
	for _, s := range m.secrets {
		if (cutStart || cutEnd) && len(text) >= minSecret && len(text) < len(s) && strings.Contains(s, text) {
			return hidden
		}
		for k := min(len(s)-1, len(text)); cutStart && k > start; k-- {
			if strings.HasPrefix(text, s[len(s)-k:]) {
				start = k
			}
		}
		for k := min(len(s)-1, len(text)); cutEnd && k > end; k-- {
			if strings.HasSuffix(text, s[:k]) {
				end = k
			}
		}
	}
	head, foot := "", ""
	if start >= minSecret {
		text, head = text[start:], hidden
	}
	if end >= minSecret && end <= len(text) {
		text, foot = text[:len(text)-end], hidden
	}
	return head + m.replacer.Replace(text) + foot
}

// Revealed are the strings of clear that stood otherwise in sealed: what was encrypted,
// or a reference, and is in clear now. It is for [Call.Secrets].
func Revealed(sealed, clear any) []string {
	switch now := clear.(type) {
	case string:
		if was, ok := sealed.(string); !ok || was != now {
			return []string{now}
		}
	case map[string]any:
		was, _ := sealed.(map[string]any)
		var out []string
		for _, k := range slices.Sorted(maps.Keys(now)) {
			out = append(out, Revealed(was[k], now[k])...)
		}
		return out
	case []any:
		was, _ := sealed.([]any)
		var out []string
		for i, e := range now {
			var former any
			if i < len(was) {
				former = was[i]
			}
			out = append(out, Revealed(former, e)...)
		}
		return out
	}
	return nil
}
