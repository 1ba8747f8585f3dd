package kubernetes

import (
	"encoding/json"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// veil is the value at the path without what may be a secret, by its name: of
// Secrets, whose contents are hidden as a whole, it needn't know.
func veil(gk schema.GroupKind, path fieldPath, value any) any {
	if secretAt(gk, path) {
		return hidden
	}
	switch value := value.(type) {
	case map[string]any:
		veiled := make(map[string]any, len(value))
		for name, part := range value {
			veiled[name] = veil(gk, slices.Concat(path, fieldPath{"f:" + name}), part)
		}
		return veiled
	case []any:
		veiled := make([]any, len(value))
		for i, item := range value {
			name := "i:"
			if m, ok := item.(map[string]any); ok {
				name = "k:" + inJSON(map[string]any{"name": str(m, "name")})
			}
			veiled[i] = veil(gk, slices.Concat(path, fieldPath{name}), item)
		}
		if isArguments(path) {
			veilArguments(veiled)
		}
		return veiled
	}
	return value
}

// secretAt says whether the names on the path are those of a secret's value.
func secretAt(gk schema.GroupKind, path fieldPath) bool {
	_, builtIn := kinds[gk]
	for i, part := range path {
		kind, name, _ := strings.Cut(part, ":")
		before := ""
		if i > 0 {
			before = path[i-1]
		}
		switch {
		case name == lastApplied:
			return true
		case kind == "f" && builtIn && slices.Contains(freeMaps, before) && looksSecret(name):
			return true
		case kind == "f" && !builtIn && looksSecret(name) && !isReference(name):
			return true
		case kind == "k" && path[len(path)-1] == "f:value":
			var keys map[string]any
			if json.Unmarshal([]byte(name), &keys) != nil {
				continue
			}
			if s, _ := keys["name"].(string); looksSecret(s) {
				return true // env[name=DB_PASSWORD].value
			}
		}
	}
	return false
}

// freeMaps are the fields of Kubernetes' own kinds whose parts authors name; the
// other names say what Kubernetes means by them ("secretName").
var freeMaps = []string{"f:data", "f:binaryData", "f:annotations", "f:labels", "f:parameters", "f:volumeAttributes", "f:options"}

// isReference says whether what has the name says where a secret is.
func isReference(name string) bool {
	name = strings.ToLower(name)
	return slices.ContainsFunc([]string{"secretname", "secretref", "secretkeyref", "secretnamespace", "pullsecrets", "accounttoken"}, func(end string) bool {
		return strings.HasSuffix(name, end)
	})
}

// looksSecret says whether what has this name may be a secret.
func looksSecret(name string) bool {
	name = strings.NewReplacer("-", "", "_", "", ".", "").Replace(strings.ToLower(name))
	return slices.ContainsFunc([]string{"passw", "passphrase", "secret", "token", "credential", "privatekey", "apikey", "accesskey"}, func(word string) bool {
		return strings.Contains(name, word)
	})
}

func isArguments(path fieldPath) bool {
	last := ""
	if len(path) > 0 {
		last = path[len(path)-1]
	}
	return last == "f:args" || last == "f:command"
}

// veilArguments hides the values of arguments that look secret: "--password=…", and
// what follows "--password".
func veilArguments(arguments []any) {
	follows := false
	for i, x := range arguments {
		s, _ := x.(string)
		name, _, given := strings.Cut(s, "=")
		switch {
		case follows && !strings.HasPrefix(s, "-"):
			arguments[i] = hidden
		case given && looksSecret(name):
			arguments[i] = name + "=" + hidden
		}
		follows = !given && strings.HasPrefix(s, "-") && looksSecret(s)
	}
}
