package reconciler

import (
	"strings"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/drivers"
	"github.com/jibe-vnfm/jibe/hooks"
)

// redact takes the values out of a deviation whose field may hold a secret, as deviations are
// shown and recorded. (Drivers leave out the values that they know to be secret themselves.) secrets are what references of the instance stand for.
func redact(d *drivers.Deviation, names desired.SecretNames, secrets []string) {
	for _, v := range []*string{&d.Want, &d.Have} {
		if *v != "" && (secretField(names, d.Field) || desired.IsSecretValue(*v) || hooks.Redact(*v, secrets) != *v) {
			*v = "(hidden)"
		}
	}
}

// hidden returns a copy of the value, of which no text holds one of the secrets.
func hidden(value any, secrets []string) any {
	switch value := value.(type) {
	case map[string]any:
		shown := make(map[string]any, len(value))
		for name, part := range value {
			shown[name] = hidden(part, secrets)
		}
		return shown
	case []any:
		shown := make([]any, len(value))
		for i, item := range value {
			shown[i] = hidden(item, secrets)
		}
		return shown
	case string:
		if hooks.Redact(value, secrets) != value {
			return "(hidden)"
		}
	}
	return value
}

// secretField reports whether a name on the way to the field is that of a secret. An item of
// a list may be called as it likes, but for the variable whose value is meant.
func secretField(names desired.SecretNames, field string) bool {
	_, last, isValue := strings.Cut(field, "].value")
	for part := range strings.FieldsFuncSeq(field, func(r rune) bool { return r == '.' || r == '[' || r == ']' }) {
		key, item, isItem := strings.Cut(part, "=")
		if isItem && isValue && last == "" && key == "name" {
			key = item
		} else if isItem {
			continue
		}
		if names.Match(key) {
			return true
		}
	}
	return false
}
