package auth

import (
	"errors"
	"strings"
	"testing"
)

// lookAlikes are names that a person takes for ann.
func lookAlikes() map[string]string {
	return map[string]string{
		"right-to-left override": "\u202enna", "embedding": "a\u202ann", "isolate": "\u2066ann\u2069", "mark": "ann\u200e", "Arabic mark": "ann\u061c",
		"no width": "an\u200bn", "joiner": "an\u200dn", "no-break": "\ufeffann", "word joiner": "a\u2060nn", "soft hyphen": "a\u00adnn", "filler": "ann\u3164", "blank of Braille": "ann\u2800",
		"variation": "ann\ufe0f", "tag": "ann\U000e0041", "control": "ann\u0085", "line": "ann\u2028", "line feed": "an\nn", "blank": "ann ", "no UTF-8": "ann\xff", "NUL": "ann\x00",
	}
}

func TestNamesThatLookLikeOthersAreRefused(t *testing.T) {
	i := newIssuer(t)
	o := believing(t, i, func(c *OIDCConfig) { c.ProjectsClaim = "projects" })
	k := configured(t, KeystoneConfig{URL: "https://keystone"})
	for what, name := range lookAlikes() {
		if goodName(name) {
			t.Errorf("%s: %q is a good name", what, name)
		}
		quoted := strings.NewReplacer("\n", "\\n", "\x00", "\\u0000").Replace(name)
		if _, err := Parse([]byte("tokens: [{name: \"" + quoted + "\", role: viewer, token: 0123456789abcdef}]")); err == nil {
			t.Errorf("%s: a token file has it", what)
		}
		if who, err := o.Authenticate(bearer(i.token(t, map[string]any{"sub": name}))); !errors.Is(err, ErrUnauthenticated) {
			t.Errorf("%s: a JWT: %+v, %v", what, who, err)
		}
		if who, err := o.Authenticate(bearer(i.token(t, map[string]any{"projects": []string{name}}))); err != nil || who.MayAnywhere(Viewer) {
			t.Errorf("%s: a project of a JWT: %+v, %v", what, who, err)
		}
		for _, answer := range []string{
			`{"token": {"expires_at": "9999-12-31T23:59:59Z", "user": {"id": "u", "name": "` + quoted + `", "domain": {"id": "d", "name": "D"}}, "project": {"id": "p", "name": "vnf"}, "roles": [{"name": "member"}]}}`,
			`{"token": {"expires_at": "9999-12-31T23:59:59Z", "user": {"id": "u", "name": "ann", "domain": {"id": "d", "name": "` + quoted + `"}}, "project": {"id": "p", "name": "vnf"}, "roles": [{"name": "member"}]}}`,
		} {
			if v, err := k.judge([]byte(answer)); err == nil && v.valid {
				t.Errorf("%s: Keystone: %+v", what, v.who)
			}
		}
	}
	for _, name := range []string{"ann", "Jürgen Müller", "王小明", "عمر", "ann@example.com", "system:serviceaccount:jibe:ci", "o'neil", "emoji 🚀"} {
		if !goodName(name) {
			t.Errorf("%q is refused", name)
		}
	}
}
