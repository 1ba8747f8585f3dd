package desired

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

const (
	// beginEncoded is how base64 of a PEM block begins.
	beginEncoded = "LS0tLS1CRUdJTi"
	// labelEncoded is how much of such base64 holds the block's label.
	labelEncoded = 80
	// shortestSecret is less than any key or token has, in bytes.
	shortestSecret = 16
	// maxEncoded is the longest text that is decoded as a whole, in bytes.
	maxEncoded = 256 << 10
)

var (
	privateKey = regexp.MustCompile(`-----BEGIN [A-Z0-9 ]*PRIVATE KEY( BLOCK)?-----|AGE-SECRET-KEY-1|PuTTY-User-Key-File-`)
	webToken   = regexp.MustCompile(`eyJ[A-Za-z0-9_-]{5,}\.[A-Za-z0-9_-]{5,}\.[A-Za-z0-9_-]*`)
)

// IsSecretValue says whether s is or holds a secret whatever its name is: a private key
// (PEM, OpenSSH, PGP, age, PuTTY), also in base64 and in the middle of other text, or a
// JSON web token (RFC 7519).
func IsSecretValue(s string) bool {
	if len(s) < shortestSecret {
		return false
	}
	if holdsSecret(s) {
		return true
	}
	if len(s) > maxEncoded || !isEncoded(s) {
		return false
	}
	clear, ok := decode64(s)
	return ok && holdsSecret(clear)
}

// HoldsSecret says whether s has a private key or a JSON web token somewhere in it. It is
// [IsSecretValue] for whole files, of any size.
func HoldsSecret(s string) bool { return len(s) >= shortestSecret && holdsSecret(s) }

func holdsSecret(s string) bool {
	if (strings.Contains(s, "KEY") || strings.Contains(s, "PuTTY")) && privateKey.MatchString(s) {
		return true
	}
	for rest := s; ; {
		at := strings.Index(rest, beginEncoded)
		if at < 0 {
			break
		}
		rest = rest[at:]
		if label, ok := decode64(rest[:min(len(rest), labelEncoded)]); ok && strings.Contains(label, "PRIVATE KEY") {
			return true
		}
		rest = rest[len(beginEncoded):]
	}
	if !strings.Contains(s, "eyJ") {
		return false
	}
	for _, t := range webToken.FindAllString(s, -1) {
		head, _, _ := strings.Cut(t, ".")
		var h struct {
			Alg string `json:"alg"`
		}
		if b, err := base64.RawURLEncoding.DecodeString(head); err == nil && json.Unmarshal(b, &h) == nil && h.Alg != "" {
			return true
		}
	}
	return false
}

// isEncoded says whether all of s may be base64.
func isEncoded(s string) bool {
	return strings.IndexFunc(strings.TrimRight(s, "= \r\n"), func(r rune) bool { return !in64(r) && !strings.ContainsRune("-_ \r\n", r) }) < 0
}

func in64(r rune) bool {
	return r >= 'A' && r <= 'Z' || r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '+' || r == '/'
}

// decode64 decodes as much of s as is base64, in either alphabet.
func decode64(s string) (string, bool) {
	s = strings.NewReplacer("\n", "", "\r", "", " ", "", "-", "+", "_", "/").Replace(s)
	if end := strings.IndexFunc(s, func(r rune) bool { return !in64(r) }); end >= 0 {
		s = s[:end]
	}
	if len(s)%4 == 1 {
		s = s[:len(s)-1]
	}
	b, err := base64.RawStdEncoding.DecodeString(s)
	return string(b), err == nil
}

// Strip returns a deep copy of a JSON-like value without its secrets: entries with secret
// names and everything below them, values that are secrets whatever their name is, and
// references to secrets. Records, notifications and the API may show the result.
func (n SecretNames) Strip(v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := make(map[string]any, len(v))
		pair := n.Pair(v)
		for k, e := range v {
			if !(n.Match(k) || k == pair) || !isSecret(e) {
				if !isShut(e) {
					out[k] = n.Strip(e)
				}
			}
		}
		return out
	case []any:
		out := make([]any, 0, len(v))
		for _, e := range v {
			if !isShut(e) {
				out = append(out, n.Strip(e))
			}
		}
		return out
	}
	return v
}

// StripJSON is [SecretNames.Strip] of an encoded object; nil where it can't be read.
func (n SecretNames) StripJSON(data json.RawMessage) json.RawMessage {
	if len(data) == 0 {
		return data
	}
	dec := json.NewDecoder(strings.NewReader(string(data)))
	dec.UseNumber()
	var v any
	if dec.Decode(&v) != nil {
		return nil
	}
	b, err := json.Marshal(n.Strip(v))
	if err != nil {
		return nil
	}
	return b
}

// isShut says whether the value isn't shown whatever its name is.
func isShut(v any) bool {
	s, ok := v.(string)
	return ok && (IsRef(s) || strings.HasPrefix(s, RefAge) || IsSecretValue(s))
}

// isSecret says whether a value under the name of a secret may be one: yes, no and
// nothing are none.
func isSecret(v any) bool {
	switch v := v.(type) {
	case nil, bool:
		return false
	case string:
		return v != ""
	}
	return true
}

// Pair is "value" where a map is an entry of a list that names what is in it, as
// {name: DB_PASSWORD, value: …} does: the value is then a secret. Else it is "".
func (n SecretNames) Pair(m map[string]any) string {
	if _, ok := m["value"]; !ok {
		return ""
	}
	for _, key := range []string{"name", "key"} {
		if s, ok := m[key].(string); ok && n.Match(s) {
			return "value"
		}
	}
	return ""
}

// Secret is a scalar in a value that is a secret, or a reference to one.
type Secret struct {
	// Path leads to it: names of entries, and indexes of lists in decimal.
	Path []string
	// Value is it as text; a number is in decimal.
	Value string
}

// Where is the path as people write it: "params.users[0].password".
func (s Secret) Where() string {
	var b strings.Builder
	for i, part := range s.Path {
		switch _, err := strconv.Atoi(part); {
		case err == nil && i > 0:
			b.WriteString("[" + part + "]")
		case i > 0:
			b.WriteString("." + part)
		default:
			b.WriteString(part)
		}
	}
	return b.String()
}

// Find returns the secrets in a JSON-like value by the rule of [SecretNames.Strip], sorted
// by path, each scalar below a secret's name by itself. References are among them.
func (n SecretNames) Find(v any) []Secret { return n.find(nil, v, false, nil) }

func (n SecretNames) find(path []string, v any, secret bool, found []Secret) []Secret {
	switch v := v.(type) {
	case map[string]any:
		pair := n.Pair(v)
		for _, k := range slices.Sorted(maps.Keys(v)) {
			found = n.find(append(slices.Clone(path), k), v[k], secret || n.Match(k) || k == pair, found)
		}
	case []any:
		for i, e := range v {
			found = n.find(append(slices.Clone(path), strconv.Itoa(i)), e, secret, found)
		}
	case map[string]string:
		for _, k := range slices.Sorted(maps.Keys(v)) {
			found = n.find(append(slices.Clone(path), k), v[k], secret || n.Match(k), found)
		}
	case string:
		if v != "" && (secret || IsRef(v) || IsSecretValue(v)) {
			found = append(found, Secret{path, v})
		}
	case nil, bool:
	default:
		if secret {
			found = append(found, Secret{path, Decimal(v)})
		}
	}
	return found
}

// Decimal is a number as text, as it stands in a file.
func Decimal(number any) string {
	if f, ok := number.(float64); ok {
		return strconv.FormatFloat(f, 'f', -1, 64)
	}
	return fmt.Sprint(number)
}
