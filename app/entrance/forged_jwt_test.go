package entrance

import (
	"crypto/rand"
	"crypto/rsa"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/jibe-vnfm/jibe/audit"
	"github.com/jibe-vnfm/jibe/auth"
)

// jwts is an issuer of JWTs.
type jwts struct {
	*httptest.Server
	key *rsa.PrivateKey
}

func newJWTs(t *testing.T) *jwts {
	t.Helper()
	i := &jwts{}
	var err error
	if i.key, err = rsa.GenerateKey(rand.Reader, 2048); err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/.well-known/openid-configuration", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, `{"issuer": %q, "jwks_uri": %q}`, i.URL, i.URL+"/keys")
	})
	mux.HandleFunc("/keys", func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: &i.key.PublicKey, KeyID: "one", Algorithm: "RS256", Use: "sig"}}})
	})
	i.Server = httptest.NewServer(mux)
	t.Cleanup(i.Close)
	return i
}

// token is one of ann's, signed by a key.
func (i *jwts) token(t *testing.T, key *rsa.PrivateKey, number int) string {
	t.Helper()
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.RS256, Key: jose.JSONWebKey{Key: key, KeyID: "one"}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	claims, err := json.Marshal(map[string]any{"iss": i.URL, "aud": "jibe", "sub": "ann", "exp": time.Now().Add(time.Hour).Unix(), "jti": fmt.Sprint(number), "roles": []string{"noc"}})
	if err != nil {
		t.Fatal(err)
	}
	jws, err := signer.Sign(claims)
	if err != nil {
		t.Fatal(err)
	}
	text, err := jws.CompactSerialize()
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func TestForgedJWTsLockNobodyOut(t *testing.T) {
	t.Parallel()

	i := newJWTs(t)
	forger, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	issuer, err := auth.NewOIDC(auth.OIDCConfig{Issuer: i.URL, Audience: "jibe", Roles: map[string][]auth.Permission{"noc": {{Role: auth.Viewer}}}})
	if err != nil {
		t.Fatal(err)
	}
	identities, err := auth.OpenIdentities(t.TempDir()+"/tokens.yaml", nil)
	if err != nil {
		t.Fatal(err)
	}
	callers := &auth.Callers{Identities: identities, OIDC: issuer}
	e := &Entrance{throttle: newThrottle(throttleMemory), audit: newRecorder(&audit.Memory{}, false), spool: newSpoolBound(), log: slog.New(slog.DiscardHandler)}
	e.throttle.genuine = callers.Genuine
	fresh, err := New(nil, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	e.failures, e.lines = fresh.failures, fresh.lines
	served := e.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := (Judged{callers}).Authenticate(r); err != nil {
			w.WriteHeader(http.StatusUnauthorized)
		}
	}))
	try := func(token, source string, basic bool) int {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.RemoteAddr = source + ":99"
		if r.Header.Set("Authorization", "Bearer "+token); basic {
			r.SetBasicAuth("ann", token)
		}
		w := httptest.NewRecorder()
		served.ServeHTTP(w, r)
		return w.Code
	}

	forged := i.token(t, forger, 0)
	refused := 0
	for n := range 400 { // from many addresses, and many from that of a NAT behind which ann is as well
		source := "192.0.2.1"
		if n%2 == 0 {
			source = fmt.Sprintf("198.51.100.%d", n%250)
		}
		// Each is another text: another character of the payload's issuer would be another issuer's.
		switch code := try(forged[:len(forged)-8]+fmt.Sprintf("%08d", n), source, n%3 == 0); code {
		case http.StatusTooManyRequests:
			refused++
		case http.StatusUnauthorized:
		default:
			t.Fatalf("a forged JWT is answered with %d", code)
		}
	}
	if refused < 100 {
		t.Errorf("of 200 forged ones from one address %d had to wait", refused)
	}
	for n := range 25 {
		for _, source := range []string{"192.0.2.1", "203.0.113.1"} {
			if code := try(i.token(t, i.key, n), source, n%2 == 0); code != http.StatusOK {
				t.Fatalf("valid JWT %d from %s is answered with %d", n, source, code)
			}
		}
	}
}
