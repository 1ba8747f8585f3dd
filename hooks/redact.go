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
	// redacted stands where a secret stood.
	redacted = "***"
	// minSecret is the least that is taken for a secret: with less, every text would
	// be riddled with holes that tell where it stood.
	minSecret = 3
	// minLine is the least of a line of a secret that is redacted by itself.
	minLine = 8
)

// redactor takes secrets out of what hooks write.
type redactor struct {
	secrets []string
	names   desired.SecretNames
}

// newRedactor returns a redactor of the secrets that the hook was given.
func newRedactor(c Call) *redactor {
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
	for _, answered := range in.Coordinations {
		secretsIn(c.Names, answered.Outputs, add)
	}
	for _, data := range c.Files {
		secretsIn(c.Names, decoded(data), add)
	}
	return &redactor{secrets: slices.Collect(maps.Keys(found)), names: c.Names}
}

// Redact returns text without the secrets. At its end may be the beginning of a secret.
func Redact(text string, secrets []string) string {
	if len(secrets) == 0 {
		return text
	}
	return newRedactor(Call{Secrets: secrets}).redact(text, false, true)
}

// spelled returns s as it is, and as it stands in JSON and in quotes: hooks like to show
// what they were given.
func spelled(s string) []string {
	forms := []string{s, inner(strconv.Quote(s)), inner(strconv.QuoteToASCII(s))}
	if data, err := json.Marshal(s); err == nil {
		forms = append(forms, inner(string(data)))
	}
	return forms
}

func inner(quoted string) string { return quoted[1 : len(quoted)-1] }

// decoded returns JSON as a value, and nil where data isn't JSON.
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

// redact returns text without secrets. cutStart and cutEnd say that it is part of a longer
// text, so that a part of a secret may stand at that end.
func (r *redactor) redact(text string, cutStart, cutEnd bool) string {
	covered := make([]bool, len(text))
	cover := func(from, to int) {
		for i := from; i < to; i++ {
			covered[i] = true
		}
	}
	for _, s := range r.secrets {
		if len(text) < len(s) && len(text) >= minSecret && (cutStart || cutEnd) && strings.Contains(s, text) {
			return redacted
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
			out.WriteString(redacted)
		}
	}
	return out.String()
}

// beginning returns at most n characters of text, without secrets.
func (r *redactor) beginning(text string, n int) string {
	most := max(n, maxLine)
	shown := []rune(r.redact(text[:min(len(text), most)], false, len(text) > most))
	return string(shown[:min(len(shown), n)])
}

// Revealed returns the strings of clear that differ from those of sealed, for
// [Call.Secrets]: they were encrypted there, or references.
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
