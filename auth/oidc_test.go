package auth

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
)

// issuer says what a real one can't be made to say. The real one is the cluster of
// TestTokensOfAKubernetesClusterAreTakenForThisServerAlone.
type issuer struct {
	*httptest.Server
	key   *rsa.PrivateKey
	kid   string
	jwks  atomic.Pointer[[]byte]
	asked atomic.Int32
	away  atomic.Bool
}

func newIssuer(t *testing.T) *issuer {
	t.Helper()
	i := &issuer{}
	mux := http.NewServeMux()
	mux.HandleFunc("/.well-known/openid-configuration", func(w http.ResponseWriter, _ *http.Request) {
		if i.away.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintf(w, `{"issuer": %q, "jwks_uri": %q}`, i.URL, i.URL+"/keys")
	})
	mux.HandleFunc("/keys", func(w http.ResponseWriter, _ *http.Request) {
		i.asked.Add(1)
		_, _ = w.Write(*i.jwks.Load())
	})
	i.Server = httptest.NewServer(mux)
	t.Cleanup(i.Close)
	i.rotate(t, "one")
	return i
}

// rotate gives the issuer another key, and takes the former one back.
func (i *issuer) rotate(t *testing.T, kid string) {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	i.key, i.kid = key, kid
	i.serve(t, jose.JSONWebKey{Key: &key.PublicKey, KeyID: kid, Algorithm: "RS256", Use: "sig"})
}

func (i *issuer) serve(t *testing.T, keys ...jose.JSONWebKey) {
	t.Helper()
	text, err := json.Marshal(jose.JSONWebKeySet{Keys: keys})
	if err != nil {
		t.Fatal(err)
	}
	i.jwks.Store(&text)
}

// claimsOf are the claims of a good token, changed.
func (i *issuer) claimsOf(change map[string]any) map[string]any {
	claims := map[string]any{"iss": i.URL, "aud": "jibe", "sub": "ann", "exp": time.Now().Add(time.Hour).Unix(), "iat": time.Now().Unix(), "roles": []string{"noc"}}
	for name, v := range change {
		claims[name] = v
		if v == nil {
			delete(claims, name)
		}
	}
	return claims
}

func signed(t *testing.T, alg jose.SignatureAlgorithm, key any, kid string, claims map[string]any) string {
	t.Helper()
	return signedWith(t, alg, key, kid, nil, claims)
}

func signedWith(t *testing.T, alg jose.SignatureAlgorithm, key any, kid string, options *jose.SignerOptions, claims map[string]any) string {
	t.Helper()
	s, err := jose.NewSigner(jose.SigningKey{Algorithm: alg, Key: jose.JSONWebKey{Key: key, KeyID: kid}}, options)
	if err != nil {
		t.Fatal(err)
	}
	payload, err := json.Marshal(claims)
	if err != nil {
		t.Fatal(err)
	}
	jws, err := s.Sign(payload)
	if err != nil {
		t.Fatal(err)
	}
	token, err := jws.CompactSerialize()
	if err != nil {
		t.Fatal(err)
	}
	return token
}

func (i *issuer) token(t *testing.T, change map[string]any) string {
	t.Helper()
	return signed(t, jose.RS256, i.key, i.kid, i.claimsOf(change))
}

func believing(t *testing.T, i *issuer, change func(*OIDCConfig)) *OIDC {
	t.Helper()
	c := OIDCConfig{Issuer: i.URL, Audience: "jibe", Roles: map[string][]Permission{"noc": {{Operator, nil}}, "east": {{Operator, []string{"east"}}}}}
	if change != nil {
		change(&c)
	}
	o, err := NewOIDC(c)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func TestAJWTIsTakenOnlyAsItsIssuerMadeItForThisServer(t *testing.T) {
	i := newIssuer(t)
	o := believing(t, i, nil)
	if who, err := o.Authenticate(bearer(i.token(t, nil))); err != nil || who.String() != "ann ("+i.URL+")" || !who.May(Operator, "") || who.MayAnywhere(Admin) {
		t.Fatalf("%+v, %v", who, err)
	}
	other, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKIXPublicKey(&i.key.PublicKey)
	if err != nil {
		t.Fatal(err)
	}
	public := pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})
	jwk, err := (&jose.JSONWebKey{Key: &i.key.PublicKey, KeyID: "one"}).MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	good := i.token(t, nil)
	parts := strings.Split(good, ".")
	none := "eyJhbGciOiJub25lIn0." + parts[1] + "."
	for what, token := range map[string]string{
		"expired":                         i.token(t, map[string]any{"exp": time.Now().Add(-time.Minute).Unix()}),
		"without an end":                  i.token(t, map[string]any{"exp": nil}),
		"not yet valid":                   i.token(t, map[string]any{"nbf": time.Now().Add(time.Hour).Unix()}),
		"for another service":             i.token(t, map[string]any{"aud": "other"}),
		"for nobody":                      i.token(t, map[string]any{"aud": nil}),
		"of another issuer":               i.token(t, map[string]any{"iss": "https://other.example"}),
		"of another issuer's slash":       i.token(t, map[string]any{"iss": i.URL + "/"}),
		"without a name":                  i.token(t, map[string]any{"sub": nil}),
		"with a name of two lines":        i.token(t, map[string]any{"sub": "ann\nRequested-By: admin"}),
		"with a mail in its name":         i.token(t, map[string]any{"sub": "ann <admin@example>"}),
		"with a long name":                i.token(t, map[string]any{"sub": strings.Repeat("x", 5000)}),
		"signed by another key":           signed(t, jose.RS256, other, "one", i.claimsOf(nil)),
		"of a kid that isn't known":       signed(t, jose.RS256, other, "two", i.claimsOf(nil)),
		"HS256 with the public key (PEM)": signed(t, jose.HS256, public, "one", i.claimsOf(nil)),
		"HS256 with the public key (JWK)": signed(t, jose.HS256, jwk, "one", i.claimsOf(nil)),
		"HS256 with the modulus":          signed(t, jose.HS256, i.key.N.Bytes(), "one", i.claimsOf(nil)),
		"alg none":                        none,
		"alg none with the signature":     none + parts[2],
		"altered":                         parts[0] + "." + strings.Split(i.token(t, map[string]any{"sub": "admin"}), ".")[1] + "." + parts[2],
		"without its signature":           parts[0] + "." + parts[1] + ".",
		"two parts":                       parts[0] + "." + parts[1],
		"with a blank":                    good + " x",
		"nonsense":                        "a.b.c",
		"huge":                            i.token(t, map[string]any{"roles": strings.Repeat("x", 9<<10)}),
	} {
		if who, err := o.Authenticate(bearer(token)); !errors.Is(err, ErrUnauthenticated) || errors.Is(err, ErrUnavailable) {
			t.Errorf("%s: %+v, %v", what, who, err)
		}
	}
	if n := i.asked.Load(); n != 1 {
		t.Errorf("the issuer was asked %d times for its keys: strangers' tokens must not make it more", n)
	}
}

func TestClaimsLeadToRolesAndProjects(t *testing.T) {
	i := newIssuer(t)
	for what, c := range map[string]struct {
		claims map[string]any
		config func(*OIDCConfig)
		want   []Permission
	}{
		"a list":              {map[string]any{"roles": []string{"noc", "other", "east"}}, nil, []Permission{{Operator, nil}, {Operator, []string{"east"}}}},
		"a text":              {map[string]any{"roles": "east"}, nil, []Permission{{Operator, []string{"east"}}}},
		"no role":             {map[string]any{"roles": nil}, nil, nil},
		"something else":      {map[string]any{"roles": map[string]any{"noc": true}}, nil, nil},
		"a path":              {map[string]any{"realm_access": map[string]any{"roles": []any{"noc", 7}}}, func(c *OIDCConfig) { c.RolesClaim = "realm_access.roles" }, []Permission{{Operator, nil}}},
		"a name with dots":    {map[string]any{"https://example.com/roles": []string{"east"}}, func(c *OIDCConfig) { c.RolesClaim = "https://example.com/roles" }, []Permission{{Operator, []string{"east"}}}},
		"a client with dots":  {map[string]any{"clients": map[string]any{"vnfm.east": map[string]any{"roles": []any{"east"}}, "vnfm": map[string]any{"east": map[string]any{"roles": "noc"}}}}, func(c *OIDCConfig) { c.RolesClaim = "clients.vnfm.east.roles" }, []Permission{{Operator, []string{"east"}}}},
		"projects":            {map[string]any{"projects": []string{"west", "*", ""}}, func(c *OIDCConfig) { c.ProjectsClaim = "projects" }, []Permission{{Operator, []string{"west"}}}},
		"projects not theirs": {map[string]any{"roles": "east", "projects": []string{"west"}}, func(c *OIDCConfig) { c.ProjectsClaim = "projects" }, []Permission{{Operator, []string{}}}},
		"no projects":         {nil, func(c *OIDCConfig) { c.ProjectsClaim = "projects" }, []Permission{{Operator, []string{}}}},
	} {
		who, err := believing(t, i, c.config).Authenticate(bearer(i.token(t, c.claims)))
		if err != nil || !reflect.DeepEqual(who.Permissions, c.want) {
			t.Errorf("%s: %+v, %v; want %+v", what, who.Permissions, err, c.want)
		}
	}
}

func TestAnIssuerMayBeAwayAndChangeItsKeys(t *testing.T) {
	i := newIssuer(t)
	i.away.Store(true)
	o := believing(t, i, nil)
	now := time.Now()
	o.keys.now = func() time.Time { return now }
	try := func(step, token string, want error) {
		t.Helper()
		if _, err := o.Authenticate(bearer(token)); !errors.Is(err, want) || want == nil && err != nil {
			t.Errorf("%s: %v, want %v", step, err, want)
		}
	}
	first := i.token(t, nil)
	try("the issuer is away at the start", first, ErrUnavailable)
	i.away.Store(false)
	try("it isn't asked again at once", first, ErrUnavailable)
	now = now.Add(keysPause)
	try("it is back", first, nil)
	now = now.Add(keysPause)
	i.rotate(t, "two")
	second := i.token(t, nil)
	try("a new key", second, nil)
	try("the former key was taken back", first, ErrUnauthenticated)
	i.away.Store(true)
	now = now.Add(keysOld - time.Minute)
	try("away, and the keys are remembered", second, nil)
	now = now.Add(2 * time.Minute)
	try("away for too long", second, ErrUnavailable)
	i.away.Store(false)
	now = now.Add(keysPause)
	try("back again", second, nil)
	asked := i.asked.Load()
	now = now.Add(keysFresh)
	try("keys are asked for again before long", second, nil)
	if i.asked.Load() != asked+1 {
		t.Error("a key that was taken back would be believed for ever")
	}
}

func TestKeysThatAreNoneAreRefused(t *testing.T) {
	weak, err := rsa.GenerateKey(rand.Reader, 1024)
	if err != nil {
		t.Fatal(err)
	}
	elliptic, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	secret := []byte("0123456789abcdef0123456789abcdef")
	i := newIssuer(t)
	for what, c := range map[string]struct {
		alg  jose.SignatureAlgorithm
		key  any
		jwk  jose.JSONWebKey
		want error
	}{
		"an elliptic curve": {jose.ES256, elliptic, jose.JSONWebKey{Key: &elliptic.PublicKey, KeyID: "k"}, nil},
		"symmetric":         {jose.HS256, secret, jose.JSONWebKey{Key: secret, KeyID: "k", Algorithm: "HS256"}, ErrUnavailable},
		"for encryption":    {jose.ES256, elliptic, jose.JSONWebKey{Key: &elliptic.PublicKey, KeyID: "k", Use: "enc"}, ErrUnavailable},
		"of 1024 bits":      {jose.RS256, weak, jose.JSONWebKey{Key: &weak.PublicKey, KeyID: "k"}, ErrUnavailable},
	} {
		i.serve(t, c.jwk)
		_, err := believing(t, i, nil).Authenticate(bearer(signed(t, c.alg, c.key, "k", i.claimsOf(nil))))
		if !errors.Is(err, c.want) || c.want == nil && err != nil {
			t.Errorf("%s: %v, want %v", what, err, c.want)
		}
	}
	for what, text := range map[string][]byte{
		"no JSON": []byte("<html>"), "nothing": []byte(`{"keys": []}`), "too many": fmt.Appendf(nil, `{"keys": [%s{}]}`, strings.Repeat("{},", 1000)),
		"endless": append([]byte(`{"keys": [], "x": "`), bytes.Repeat([]byte("x"), 1<<20)...),
	} {
		i.jwks.Store(&text)
		if _, err := believing(t, i, nil).Authenticate(bearer(i.token(t, nil))); !errors.Is(err, ErrUnavailable) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func TestAnIssuerThatCouldNotBeBelievedIsRefusedAtTheStart(t *testing.T) {
	for want, spoil := range map[string]func(*OIDCConfig){
		"isn't an https URL:":     func(c *OIDCConfig) { c.Issuer = "http://idp.example" },
		"isn't an https URL with": func(c *OIDCConfig) { c.Issuer = "https://u:p@idp.example" },
		"no audience is given":    func(c *OIDCConfig) { c.Audience = "" },
		"no role of the issuer's": func(c *OIDCConfig) { c.Roles = nil },
		"which is none of viewer": func(c *OIDCConfig) { c.Roles = map[string][]Permission{"x": {{Role: "boss"}}} },
		"no certificate in PEM":   func(c *OIDCConfig) { c.CACert = []byte("x") },
	} {
		c := OIDCConfig{Issuer: "https://idp.example", Audience: "jibe", Roles: map[string][]Permission{"noc": {{Role: Operator}}}}
		spoil(&c)
		if _, err := NewOIDC(c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

func TestATokenGoesToNobodyButWhoMadeIt(t *testing.T) {
	i := newIssuer(t)
	keystone := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		t.Error("Keystone was sent another's token")
		w.WriteHeader(http.StatusNotFound)
	}))
	defer keystone.Close()
	callers := &Callers{Identities: identities(t, "tokens: [{name: nfvo, role: viewer, token: 0123456789abcdef}]"),
		OIDC: believing(t, i, nil), Keystone: configured(t, KeystoneConfig{URL: keystone.URL})}
	good, bad := i.token(t, nil), i.token(t, map[string]any{"aud": "other"})
	basic := httptest.NewRequest(http.MethodGet, "/", nil)
	basic.SetBasicAuth("git", good)
	for what, c := range map[string]struct {
		r    *http.Request
		want string
	}{
		"a bearer token": {bearer(good), "ann"}, "a password": {basic, "ann"}, "X-Auth-Token": {with(good), "ann"},
		"a bad bearer token": {bearer(bad), ""}, "bad in X-Auth-Token": {with(bad), ""}, "static": {bearer("0123456789abcdef"), "nfvo"},
	} {
		if who, err := callers.Authenticate(c.r); who.Name != c.want || (err == nil) != (c.want != "") {
			t.Errorf("%s: %v, %v", what, who, err)
		}
	}
}

func FuzzAJWTIsReadOrRefused(f *testing.F) {
	f.Add("eyJhbGciOiJub25lIn0.eyJpc3MiOiJodHRwczovL2lkcC5leGFtcGxlIn0.")
	f.Add("a.b.c")
	o, err := NewOIDC(OIDCConfig{Issuer: "https://idp.example", Audience: "jibe", Roles: map[string][]Permission{"noc": {{Role: Operator}}}})
	if err != nil {
		f.Fatal(err)
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		f.Fatal(err)
	}
	o.keys.known, o.keys.got, o.keys.asked = []jose.JSONWebKey{{Key: &key.PublicKey, KeyID: "k"}}, time.Now(), time.Now()
	f.Fuzz(func(t *testing.T, token string) {
		if who, err := o.Authenticate(bearer(token)); err == nil {
			t.Errorf("%q is %v", token, who)
		}
	})
}
