package kubernetes

import (
	"encoding/json"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/drivers"
	"github.com/jibe-vnfm/jibe/drivers/kubernetes/fields"
	"github.com/jibe-vnfm/jibe/drivers/kubernetes/manifest"
	"github.com/jibe-vnfm/jibe/drivers/kubernetes/raw"
)

// redact is the value at the path without what may be a secret, by its name or by what it
// is: of Secrets, whose contents are hidden as a whole, it needn't know.
func redact(names desired.SecretNames, gk schema.GroupKind, path fields.Path, value any) any {
	if secretAt(names, gk, path) {
		return redacted
	}
	switch value := value.(type) {
	case map[string]any:
		veiled := make(map[string]any, len(value))
		for name, part := range value {
			veiled[name] = redact(names, gk, slices.Concat(path, fields.Path{"f:" + name}), part)
		}
		return veiled
	case []any:
		veiled := make([]any, len(value))
		for i, item := range value {
			name := "i:"
			if m, ok := item.(map[string]any); ok {
				name = "k:" + raw.JSON(map[string]any{"name": raw.String(m, "name")})
			}
			veiled[i] = redact(names, gk, slices.Concat(path, fields.Path{name}), item)
		}
		if isArguments(path) {
			redactArguments(names, veiled)
		}
		return veiled
	case string:
		if desired.IsSecretValue(value) {
			return redacted
		}
	}
	return value
}

// secretAt says whether the names on the path are those of a secret's value.
func secretAt(names desired.SecretNames, gk schema.GroupKind, path fields.Path) bool {
	_, builtIn := manifest.Kinds[gk]
	for i, part := range path {
		kind, name, _ := strings.Cut(part, ":")
		before := ""
		if i > 0 {
			before = path[i-1]
		}
		switch {
		case name == lastApplied:
			return true
		case kind == "f" && builtIn && slices.Contains(freeMaps, before) && names.Match(name):
			return true
		case kind == "f" && !builtIn && names.Match(name) && !isReference(name):
			return true
		case kind == "k" && path[len(path)-1] == "f:value":
			var keys map[string]any
			if json.Unmarshal([]byte(name), &keys) != nil {
				continue
			}
			if s, _ := keys["name"].(string); names.Match(s) {
				return true // env[name=DB_PASSWORD].value
			}
		}
	}
	return false
}

// freeMaps are the fields of Kubernetes' own kinds whose parts authors name; the
// other names say what Kubernetes means by them ("secretName").
var freeMaps = []string{"f:data", "f:binaryData", "f:annotations", "f:labels", "f:parameters", "f:volumeAttributes", "f:options"}

// isReference says whether what has the name in Kubernetes' own kinds, and in those that
// hold parts of them, tells of a token that the cluster makes.
func isReference(name string) bool {
	return name == "serviceAccountToken" || name == "automountServiceAccountToken"
}

// secretNames is the rule by which what may be a secret is told from other things.
func secretNames(src drivers.Source) desired.SecretNames {
	var names desired.SecretNames
	if src.Package != nil && src.Package.VNFD != nil {
		names = names.With(src.Package.VNFD.SecretParams...)
	}
	return names
}

func isArguments(path fields.Path) bool {
	last := ""
	if len(path) > 0 {
		last = path[len(path)-1]
	}
	return last == "f:args" || last == "f:command"
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
