package auth

import (
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"github.com/go-jose/go-jose/v4"
	"golang.org/x/sync/singleflight"
)

const (
	// keysFresh is how long keys are believed before they are asked for again, so that one that
	// the issuer has taken back ends; keysOld how long they are while the issuer is away.
	keysFresh = 5 * time.Minute
	keysOld   = time.Hour
	// keysPause is the least time between two questions, whatever kid a stranger's token names.
	keysPause = 10 * time.Second
	// keysTimeout bounds a question.
	keysTimeout = 5 * time.Second
	largestKeys = 256 << 10 // bytes of an answer
	mostKeys    = 100
)

// keys are an issuer's public keys.
type keys struct {
	issuer string
	client *http.Client
	log    *slog.Logger
	now    func() time.Time
	flight singleflight.Group

	mu    sync.Mutex
	known []jose.JSONWebKey
	got   time.Time // when known was got
	asked time.Time // when the issuer was asked last
}

func newKeys(issuer string, ca []byte, log *slog.Logger) (*keys, error) {
	t := &tls.Config{MinVersion: tls.VersionTLS12}
	if len(ca) > 0 {
		t.RootCAs = x509.NewCertPool()
		if !t.RootCAs.AppendCertsFromPEM(ca) {
			return nil, errors.New("the CA of the issuer holds no certificate in PEM")
		}
	}
	return &keys{issuer: issuer, log: log, now: time.Now, client: &http.Client{
		Timeout:       keysTimeout,
		Transport:     &http.Transport{Proxy: http.ProxyFromEnvironment, TLSClientConfig: t, IdleConnTimeout: time.Minute},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}, nil
}

// For returns the keys by which the token may be verified. Keys are asked for where there are
// none, where they are old, and where none is the one that the token names; never more often
// than keysPause. An error wraps [ErrUnavailable].
func (k *keys) For(ctx context.Context, token string) (oidc.KeySet, error) {
	kid := kidOf(token)
	k.mu.Lock()
	known, age, rested := k.known, k.now().Sub(k.got), k.now().Sub(k.asked) >= keysPause
	k.mu.Unlock()
	if (known == nil || age >= keysFresh || !has(known, kid)) && rested {
		// Whoever waits for keys waits for the same answer, which nobody's leaving ends.
		asked := k.flight.DoChan("", func() (any, error) { return nil, k.ask(context.WithoutCancel(ctx)) })
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-asked:
		}
		k.mu.Lock()
		known, age = k.known, k.now().Sub(k.got)
		k.mu.Unlock()
	}
	if known == nil || age >= keysOld {
		return nil, fmt.Errorf("%w: the keys of the issuer of tokens can't be had", ErrUnavailable)
	}
	return keySet(known), nil
}

// ask asks the issuer for its keys.
func (k *keys) ask(ctx context.Context) error {
	known, err := k.fetch(ctx)
	k.mu.Lock()
	defer k.mu.Unlock()
	k.asked = k.now()
	if err != nil {
		k.log.WarnContext(ctx, "the keys of the issuer of tokens can't be had", "issuer", k.issuer, "error", err)
		return err
	}
	k.known, k.got = known, k.asked
	return nil
}

// fetch finds the keys as OpenID Connect Discovery 1.0 clause 4 says.
func (k *keys) fetch(ctx context.Context) ([]jose.JSONWebKey, error) {
	var about struct {
		Issuer string `json:"issuer"`
		Keys   string `json:"jwks_uri"`
	}
	if err := k.get(ctx, strings.TrimSuffix(k.issuer, "/")+"/.well-known/openid-configuration", &about); err != nil {
		return nil, err
	}
	if about.Issuer != k.issuer {
		return nil, fmt.Errorf("the configuration is that of the issuer %.200q", about.Issuer)
	}
	from, err := url.Parse(about.Keys)
	if err != nil || from.Host == "" || from.Scheme != "https" && !(from.Scheme == "http" && onThisMachine(from.Hostname())) {
		return nil, fmt.Errorf("jwks_uri is no https URL: %.200q", about.Keys)
	}
	var set struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := k.get(ctx, about.Keys, &set); err != nil {
		return nil, err
	}
	if len(set.Keys) > mostKeys {
		return nil, fmt.Errorf("there are %d keys, and may be %d", len(set.Keys), mostKeys)
	}
	var good []jose.JSONWebKey
	for _, text := range set.Keys {
		var key jose.JSONWebKey
		// One of a kind that isn't known is somebody else's.
		if json.Unmarshal(text, &key) == nil && usable(&key) {
			good = append(good, key)
		}
	}
	if len(good) == 0 {
		return nil, errors.New("there is no key that can be used")
	}
	return good, nil
}

// usable says whether signatures are believed that the key verifies. A symmetric key, which
// whoever can verify with can sign with, is none.
func usable(key *jose.JSONWebKey) bool {
	if !key.Valid() || key.Use != "" && key.Use != "sig" {
		return false
	}
	switch k := key.Key.(type) {
	case *rsa.PublicKey:
		return k.N.BitLen() >= 2048
	case *ecdsa.PublicKey, ed25519.PublicKey:
		return true
	}
	return false
}

func (k *keys) get(ctx context.Context, from string, into any) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, from, nil)
	if err != nil {
		return err
	}
	resp, err := k.client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("GET %s: %s", from, resp.Status)
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, largestKeys+1))
	if err != nil {
		return fmt.Errorf("GET %s: %w", from, err)
	}
	if len(body) > largestKeys {
		return fmt.Errorf("GET %s: the answer is larger than %d bytes", from, largestKeys)
	}
	if err := json.Unmarshal(body, into); err != nil {
		return fmt.Errorf("GET %s: the answer isn't what it should be: %w", from, err)
	}
	return nil
}

// keySet verifies signatures by keys at one moment.
type keySet []jose.JSONWebKey

// VerifySignature implements [oidc.KeySet].
func (s keySet) VerifySignature(_ context.Context, token string) ([]byte, error) {
	var allowed []jose.SignatureAlgorithm
	for _, a := range algorithms() {
		allowed = append(allowed, jose.SignatureAlgorithm(a))
	}
	jws, err := jose.ParseSignedCompact(token, allowed)
	if err != nil {
		return nil, errors.New("it is signed in no way that is believed")
	}
	kid := jws.Signatures[0].Header.KeyID
	for i := range s {
		key := &s[i]
		if kid != "" && key.KeyID != kid || key.Algorithm != "" && key.Algorithm != jws.Signatures[0].Header.Algorithm {
			continue
		}
		if payload, err := jws.Verify(key.Key); err == nil {
			return payload, nil
		}
	}
	return nil, errors.New("no key of the issuer's has signed it")
}

// kidOf is which key a token says that it was signed with, "" where it names none or can't be
// read.
func kidOf(token string) string {
	var allowed []jose.SignatureAlgorithm
	for _, a := range algorithms() {
		allowed = append(allowed, jose.SignatureAlgorithm(a))
	}
	jws, err := jose.ParseSignedCompact(token, allowed)
	if err != nil {
		return ""
	}
	return jws.Signatures[0].Header.KeyID
}

func has(known []jose.JSONWebKey, kid string) bool {
	if kid == "" {
		return true
	}
	for i := range known {
		if known[i].KeyID == kid {
			return true
		}
	}
	return false
}
