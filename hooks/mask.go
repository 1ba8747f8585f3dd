package hooks

import (
	"encoding/json"
	"maps"
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
	secrets []string
	names   desired.SecretNames
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
	for _, v := range []any{in.Params, in.CoordinationParams, in.Instance.Metadata, in.Instance.Extensions, decoded(in.Operation.Params), decoded(in.HandOver)} {
		secretsIn(c.Names, v, add)
	}
	for _, data := range c.Files {
		secretsIn(c.Names, decoded(data), add)
	}
	return &mask{secrets: slices.Collect(maps.Keys(found)), names: c.Names}
}

// Hide is text without the secrets, of which a part may stand at its end.
func Hide(text string, secrets []string) string {
	if len(secrets) == 0 {
		return text
	}
	return newMask(Call{Secrets: secrets}).hide(text, false, true)
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

// secretsIn calls add with the values of v that are secrets by the rule.
func secretsIn(names desired.SecretNames, v any, add func(string)) {
	for _, s := range names.Find(v) {
		add(s.Value)
	}
}

// hide is text without secrets. cutStart and cutEnd say that it is part of a longer
// text, so that a part of a secret may stand at that end.
func (m *mask) hide(text string, cutStart, cutEnd bool) string {
	covered := make([]bool, len(text))
	cover := func(from, to int) {
		for i := from; i < to; i++ {
			covered[i] = true
		}
	}
	for _, s := range m.secrets {
		if len(text) < len(s) && len(text) >= minSecret && (cutStart || cutEnd) && strings.Contains(s, text) {
			return hidden
		}
		// Occurrences may overlap, each other and those of other secrets.
		for from, until := 0, 0; ; from++ {
			at := strings.Index(text[from:], s)
			if at < 0 {
				break
			}
			from += at
			cover(max(from, until), from+len(s))
			until = from + len(s)
		}
		for k := min(len(s)-1, len(text)); cutStart && k >= minSecret; k-- {
			if strings.HasPrefix(text, s[len(s)-k:]) {
				cover(0, k)
				break
			}
		}
		for k := min(len(s)-1, len(text)); cutEnd && k >= minSecret; k-- {
			if strings.HasSuffix(text, s[:k]) {
				cover(len(text)-k, len(text))
				break
			}
		}
	}
	var out strings.Builder
	for i := range len(text) {
		switch {
		case !covered[i]:
			out.WriteByte(text[i])
		case i == 0 || !covered[i-1]:
			out.WriteString(hidden)
		}
	}
	return out.String()
}

// beginning is at most n characters of text without secrets.
func (m *mask) beginning(text string, n int) string {
	most := max(n, maxLine)
	shown := []rune(m.hide(text[:min(len(text), most)], false, len(text) > most))
	return string(shown[:min(len(shown), n)])
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
