package desired

import (
	"slices"
	"strings"
	"unicode"
)

// SecretNames is the one rule that distinguishes names of secrets from others. The value under
// such a name never stands in git in clear and is never shown. The zero value knows the usual
// names; [SecretNames.With] adds those that a VNFD declares.
//
// A name counts word by word, however it is spelled (apiKey, api-key, API_KEY, APIKey). Its
// last word may say that it only describes a secret: passwordPolicy, tokenUrl and secretName
// are no secrets, and neither is publicKey.
type SecretNames struct {
	declared map[string]bool // words, joined by a blank
}

// With returns the rule that counts these names as well, in any spelling.
func (n SecretNames) With(names ...string) SecretNames {
	if len(names) == 0 {
		return n
	}
	all := make(map[string]bool, len(n.declared)+len(names))
	for name := range n.declared {
		all[name] = true
	}
	for _, name := range names {
		if w := wordsOf(name); len(w) > 0 {
			all[strings.Join(w, " ")] = true
		}
	}
	return SecretNames{declared: all}
}

// Match says whether the value under this name is a secret.
func (n SecretNames) Match(name string) bool {
	words := wordsOf(name)
	if len(words) == 0 {
		return false
	}
	if whole := strings.Join(words, " "); n.declared[whole] || isWhole(whole) {
		return true
	}
	// "password_old", "token2", "secretData" are still what they are called.
	for len(words) > 1 && isPart(words[len(words)-1]) {
		words = words[:len(words)-1]
	}
	last := len(words) - 1
	before := ""
	if last > 0 {
		before = words[last-1]
	}
	switch end := words[last]; {
	case isAbout(end), isIdentifier(end) && names(before, identified()):
		return false
	case before == "pull" && names(end, []string{"secret"}), isCounted(words[0]):
		return false // imagePullSecrets are names, max_tokens is a number
	case end == "community":
		return !names(before, routed())
	case names(end, onlyLast()):
		return true
	case isKey(end):
		return names(before, keyOf()) && !slices.Contains(words, "public")
	}
	return slices.ContainsFunc(words, isSecretWord) || hasSecretKey(words)
}

// IsSecretKey is [SecretNames.Match] of the names that are usual.
func IsSecretKey(name string) bool { return SecretNames{}.Match(name) }

// anywhere are words that make a secret of whatever they stand in.
func anywhere() []string {
	return []string{"password", "passwd", "passphrase", "passcode", "secret", "token", "credential", "apikey", "privatekey", "privkey", "sshkey", "secretkey", "accesskey"}
}

// isWhole reports whether the name as a whole, in words, is one of a secret that is no such word in another name: the
// keys of a subscriber's authentication (3GPP TS 33.102, TS 35.206), and what a machine is told at its first start.
func isWhole(name string) bool {
	return slices.Contains([]string{"op", "o pc", "k 4", "user data", "userdata"}, name)
}

// routed are the words that make of a community one of BGP, and not SNMP's password.
func routed() []string { return []string{"bgp", "standard", "extended", "large", "route"} }

// isShortPass finds "pass" behind what it is for ("dbpass").
func isShortPass(word string) bool {
	return strings.HasSuffix(word, "pass") && slices.Contains([]string{"db", "user", "admin", "root", "sql", "mysql", "pg", "redis", "smtp", "ldap", "ftp", "ssh", "http", "web", "my"}, strings.TrimSuffix(word, "pass"))
}

// onlyLast are words that are too short or too common to count but at the end.
func onlyLast() []string {
	return []string{"pin", "pincode", "pass", "pwd", "auth", "authorization", "cred", "psk", "ki", "opc", "otp", "dsn"}
}

// keyOf are the words that make a secret of the key behind them. Others don't: the key
// of an entry, a public or primary key, a key pair's name.
func keyOf() []string {
	return []string{"api", "private", "secret", "ssh", "access", "client", "server", "encryption", "encrypt", "decryption", "signing", "sign", "signature",
		"master", "auth", "authentication", "service", "account", "shared", "preshared", "host", "license", "licence", "tls", "ssl", "rsa", "dsa", "ecdsa",
		"ed25519", "aes", "hmac", "symmetric", "session", "cert", "certificate", "ca", "deploy", "admin", "root", "app", "application", "vpn", "ipsec", "wifi", "node", "subscriber", "transport", "op", "opc", "ki", "k4"}
}

// hasSecretKey finds the key of a secret in the middle of a name ("api_key_of_billing").
func hasSecretKey(words []string) bool {
	for i := 1; i < len(words); i++ {
		if isKey(words[i]) && slices.Contains([]string{"api", "private", "secret", "access", "ssh", "encryption", "signing", "master"}, words[i-1]) {
			return !slices.Contains(words, "public")
		}
	}
	return false
}

// identified are the words behind which "id" and the like name one of several secrets, not the
// secret itself.
func identified() []string { return []string{"credential", "credentials", "key", "account"} }

// isSecretWord also finds the word at the end of what is written without a joint
// ("dbpassword"); at its beginning it is another word ("tokenizer").
func isSecretWord(word string) bool {
	return isShortPass(word) || slices.ContainsFunc(anywhere(), func(s string) bool { return strings.HasSuffix(strings.TrimSuffix(word, "s"), s) })
}

func names(word string, list []string) bool {
	return slices.Contains(list, word) || slices.Contains(list, strings.TrimSuffix(word, "s"))
}

func isKey(word string) bool { return word == "key" || word == "keys" }

func isCounted(word string) bool { return word == "max" || word == "min" || word == "num" }

func isIdentifier(word string) bool { return word == "id" || word == "ids" }

// isPart says whether the word behind a secret's name only says which one, or in what form.
func isPart(word string) bool {
	if strings.Trim(word, "0123456789") == "" {
		return true
	}
	switch word {
	case "value", "code", "number", "data", "text", "string", "content", "plain", "clear", "hash", "base64", "b64", "pem", "old", "new", "current", "previous", "default":
		return true
	}
	return false
}

// isAbout says whether a name with this last word describes a secret without being one.
func isAbout(word string) bool {
	switch strings.TrimSuffix(word, "s") {
	case "url", "uri", "endpoint", "path", "name", "namespace", "file", "filename", "folder", "dir", "directory", "ref", "reference", "mount", "volume",
		"length", "len", "size", "count", "limit", "min", "max", "ttl", "lifetime", "expiry", "expiration", "expire", "age", "timeout", "interval",
		"rotation", "second", "minute", "hour", "day", "time", "date", "policy", "rule", "type", "kind", "format", "encoding", "algorithm", "mode", "method",
		"scheme", "enabled", "enable", "disabled", "required", "allowed", "issuer", "audience", "provider", "manager", "backend", "store", "engine", "version",
		"host", "hostname", "port", "server", "service", "user", "username", "role", "scope", "label", "pair", "keypair", "field", "prefix",
		"suffix", "template", "checking", "check", "verification", "agent":
		return true
	}
	return word == "policies" || word == "directories" || word == "expires"
}

// wordsOf takes a name apart at everything that is no letter or digit, where lower case
// meets upper case, before the last letter of capitals that a word follows (APIKey), and
// before digits; in lower case.
func wordsOf(name string) []string {
	var words []string
	var word []rune
	end := func() {
		if len(word) > 0 {
			words = append(words, strings.ToLower(string(word)))
		}
		word = word[:0]
	}
	runes := []rune(name)
	for i, r := range runes {
		switch {
		case !unicode.IsLetter(r) && !unicode.IsDigit(r):
			end()
			continue
		case i == 0:
		case unicode.IsUpper(r) && (unicode.IsLower(runes[i-1]) || unicode.IsDigit(runes[i-1])):
			end()
		case unicode.IsUpper(r) && unicode.IsUpper(runes[i-1]) && i+1 < len(runes) && unicode.IsLower(runes[i+1]):
			// "TOKENs" is a plural, "APIKey" has two words.
			if runes[i+1] != 's' || i+2 < len(runes) && unicode.IsLetter(runes[i+2]) {
				end()
			}
		}
		word = append(word, r)
	}
	end()
	return trailingDigits(words)
}

// trailingDigits has numbers at the end of a word stand alone ("token2"), but for those
// of algorithms ("ed25519", "base64").
func trailingDigits(words []string) []string {
	var out []string
	for _, w := range words {
		stem := strings.TrimRight(w, "0123456789")
		if stem == "" || stem == w || w == "ed25519" || stem == "base" || stem == "b" {
			out = append(out, w)
			continue
		}
		out = append(out, stem, w[len(stem):])
	}
	return out
}
