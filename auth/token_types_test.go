package auth

import (
	"errors"
	"testing"

	"github.com/go-jose/go-jose/v4"
)

func TestATokenOfAnotherTypeIsRefused(t *testing.T) {
	i := newIssuer(t)
	o, lenient := believing(t, i, nil), believing(t, i, func(c *OIDCConfig) { c.IDTokens = true })
	typed := func(header string, claims map[string]any) string {
		t.Helper()
		options := &jose.SignerOptions{}
		if header != "" {
			options = options.WithType(jose.ContentType(header))
		}
		return signedWith(t, jose.RS256, i.key, i.kid, options, i.claimsOf(claims))
	}
	type claims = map[string]any
	logout := claims{"events": claims{"http://schemas.openid.net/event/backchannel-logout": claims{}}, "sid": "s"}
	for what, c := range map[string]struct {
		token        string
		taken, asAID bool
	}{
		"no type":                       {typed("", nil), true, true},
		"JWT":                           {typed("JWT", nil), true, true},
		"at+jwt":                        {typed("at+jwt", nil), true, true},
		"application/at+jwt":            {typed("application/AT+JWT", claims{"nonce": "n"}), true, true},
		"Keycloak's access token":       {typed("JWT", claims{"typ": "Bearer", "nonce": "n", "azp": "nfvo"}), true, true},
		"Kubernetes":                    {typed("", claims{"kubernetes.io": claims{"namespace": "jibe"}}), true, true},
		"a job of GitLab's":             {typed("JWT", claims{"project_path": "net/vnfs", "ref": "main"}), true, true},
		"a logout token":                {typed("logout+jwt", logout), false, false},
		"a logout token without a type": {typed("", logout), false, false},
		"one that is an access token":   {typed("at+jwt", logout), false, false},
		"a security event":              {typed("secevent+jwt", nil), false, false},
		"a proof of possession":         {typed("dpop+jwt", nil), false, false},
		"Keycloak's ID token":           {typed("JWT", claims{"typ": "ID"}), false, true},
		"Keycloak's refresh token":      {typed("JWT", claims{"typ": "Refresh"}), false, false},
		"Keycloak's logout token":       {typed("JWT", claims{"typ": "Logout"}), false, false},
		"an ID token with a nonce":      {typed("JWT", claims{"nonce": "n"}), false, true},
		"one with at_hash":              {typed("", claims{"at_hash": "h"}), false, true},
		"one with c_hash":               {typed("", claims{"c_hash": "h"}), false, true},
	} {
		if _, err := o.Authenticate(bearer(c.token)); (err == nil) != c.taken || err != nil && !errors.Is(err, ErrUnauthenticated) {
			t.Errorf("%s: %v", what, err)
		}
		if _, err := lenient.Authenticate(bearer(c.token)); (err == nil) != c.asAID {
			t.Errorf("%s, where ID tokens are taken: %v", what, err)
		}
	}
}
