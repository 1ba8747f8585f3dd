package kubernetes

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/drivers"
	"github.com/jibe-vnfm/jibe/drivers/kubernetes/fields"
	"github.com/jibe-vnfm/jibe/drivers/kubernetes/manifest"
	"github.com/jibe-vnfm/jibe/drivers/kubernetes/raw"
)

// redact is the value at the path without what may be a secret, by its name or by what it
// is. The contents of Secrets are redacted as a whole, before.
func redact(names desired.SecretNames, gk schema.GroupKind, path fieldpath.Path, value any) any {
	if secretAt(names, gk, path) {
		return redacted
	}
	switch value := value.(type) {
	case map[string]any:
		shown := make(map[string]any, len(value))
		for name, part := range value {
			shown[name] = redact(names, gk, slices.Concat(path, fieldpath.Path{fieldpath.FieldNameElement(name)}), part)
		}
		return shown
	case []any:
		shown := make([]any, len(value))
		for i, item := range value {
			name := fieldpath.IndexElement(i)
			if m, ok := item.(map[string]any); ok {
				name = fieldpath.KeyElementByFields("name", raw.String(m, "name"))
			}
			shown[i] = redact(names, gk, slices.Concat(path, fieldpath.Path{name}), item)
		}
		if isArguments(path) {
			redactArguments(names, shown)
		}
		return shown
	case string:
		if desired.IsSecretValue(value) {
			return redacted
		}
	}
	return value
}

// secretAt says whether the names on the path are those of a secret's value.
func secretAt(names desired.SecretNames, gk schema.GroupKind, path fieldpath.Path) bool {
	info, builtIn := manifest.Kinds[gk]
	builtIn = builtIn && !info.Posted // a TokenReview holds a token
	last := lastField(path)
	before := ""
	for _, part := range path {
		name, item := fields.FieldName(part), fields.KeyName(part)
		switch {
		case name == lastApplied:
			return true
		case name != "" && builtIn && slices.Contains(freeMaps, before) && names.Match(name):
			return true
		case name != "" && !builtIn && names.Match(name) && !isReference(name):
			return true
		case item != "" && last == "value" && names.Match(item):
			return true // env[name=DB_PASSWORD].value
		}
		before = name
	}
	return false
}

// freeMaps are the fields of Kubernetes' own kinds whose parts authors name; the
// other names say what Kubernetes means by them ("secretName").
var freeMaps = []string{"data", "binaryData", "annotations", "labels", "parameters", "volumeAttributes", "options"}

// isReference says whether the field of the name, in Kubernetes' own kinds and in those that
// hold parts of them, only refers to a token that the cluster makes.
func isReference(name string) bool {
	return name == "serviceAccountToken" || name == "automountServiceAccountToken"
}

// secretNames is the rule by which the names of secrets are recognised.
func secretNames(src drivers.Source) desired.SecretNames {
	var names desired.SecretNames
	if src.Package != nil && src.Package.VNFD != nil {
		names = names.With(src.Package.VNFD.SecretParams...)
	}
	return names
}

func isArguments(path fieldpath.Path) bool {
	last := lastField(path)
	return last == "args" || last == "command"
}

// lastField is the name of the field to which the path leads, "" where it leads to an item
// of a list.
func lastField(path fieldpath.Path) string {
	if len(path) == 0 {
		return ""
	}
	return fields.FieldName(path[len(path)-1])
}

// redactArguments hides the values of arguments that look secret: "--password=…", and
// what follows "--password".
func redactArguments(names desired.SecretNames, arguments []any) {
	follows := false
	for i, x := range arguments {
		s, _ := x.(string)
		name, _, given := strings.Cut(s, "=")
		switch {
		case follows && !strings.HasPrefix(s, "-"):
			arguments[i] = redacted
		case given && names.Match(name):
			arguments[i] = name + "=" + redacted
		}
		follows = !given && strings.HasPrefix(s, "-") && names.Match(s)
	}
}
