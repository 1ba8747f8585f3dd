package auth

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/jibe-vnfm/jibe/internal/lru"
)

// ErrUnavailable is returned when it can't be found out now who asks, because Keystone
// doesn't answer. The API answers 503: the same request may succeed later.
var ErrUnavailable = errors.New("who asks can't be found out now")

// KeystoneConfig says which Keystone is believed, and whom it may let in. URL, Roles and
// Projects are required.
type KeystoneConfig struct {
	// URL is Keystone's, with or without "/v3".
	URL string
	// CACert is PEM; empty means the system's roots.
	CACert []byte
	// Roles are what those may do here who have a role of Keystone's, by its name. Who has
	// several may do what any of them allows. Others may do nothing.
	Roles map[string][]Permission
	// Projects are those whose tokens are taken, each by its id or as "name@domain"; "*" is
	// all of them.
	Projects []string
	// Timeout bounds one question; 0 is 5 seconds.
	Timeout time.Duration
	Log     *slog.Logger
}

// Keystone is an [Authenticator] for tokens of OpenStack's Keystone in X-Auth-Token. A token
// validates itself (GET /v3/auth/tokens), which Keystone's rules allow to every token, so
// that no account of a service is needed. Answers are believed for a minute.
type Keystone struct {
	config KeystoneConfig
	url    string
	client *http.Client
	now    func() time.Time
	known  *lru.Cache[verdict]
	flight singleflight.Group
	slots  chan struct{}
	warned atomic.Int64 // when it was last logged that Keystone is away, in nanoseconds
}

// verdict is what Keystone said of a token.
type verdict struct {
	who   Identity
	valid bool
	until time.Time
	// unnamed says that the token is valid, and its user has a name that isn't taken.
	unnamed bool
}

const (
	believed       = time.Minute      // how long a valid token is; a revoked one works for so long
	disbelieved    = 10 * time.Second // how long an invalid one is
	askedAtOnce    = 32               // questions to Keystone; more are refused
	largestToken   = 8 << 10
	largestAnswer  = 1 << 20
	keptAnswers    = 4 << 20 // bytes, in all
	largestVerdict = 4 << 10
	warnings       = 10 * time.Second
)

// NewKeystone returns an error that says what is wrong with the configuration. It asks
// Keystone nothing yet.
func NewKeystone(c KeystoneConfig) (*Keystone, error) {
	u, err := url.Parse(c.URL)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || u.User != nil || u.RawQuery != "" {
		return nil, errors.New("the URL of Keystone isn't an http(s) URL without credentials")
	}
	if len(c.Roles) == 0 {
		return nil, errors.New("no role of Keystone's is given, so that nobody could do anything: say which stands for viewer, planner, operator, packager and admin")
	}
	if err := checkMapping(c.Roles); err != nil {
		return nil, fmt.Errorf("roles of Keystone's: %w", err)
	}
	if len(c.Projects) == 0 || slices.Contains(c.Projects, "") {
		return nil, errors.New("no project is given: say whose tokens are taken, by id or as name@domain, or * for those of all projects")
	}
	t := &tls.Config{MinVersion: tls.VersionTLS12}
	if len(c.CACert) > 0 {
		t.RootCAs = x509.NewCertPool()
		if !t.RootCAs.AppendCertsFromPEM(c.CACert) {
			return nil, errors.New("the CA of Keystone holds no certificate in PEM")
		}
	}
	if c.Timeout <= 0 {
		c.Timeout = 5 * time.Second
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	base := strings.TrimSuffix(strings.TrimRight(u.String(), "/"), "/v3")
	return &Keystone{
		config: c, url: base + "/v3/auth/tokens?nocatalog=1", now: time.Now,
		known: lru.New[verdict](keptAnswers, largestVerdict), slots: make(chan struct{}, askedAtOnce),
		client: &http.Client{
			Timeout:       c.Timeout,
			Transport:     &http.Transport{Proxy: http.ProxyFromEnvironment, TLSClientConfig: t, MaxIdleConnsPerHost: askedAtOnce, IdleConnTimeout: time.Minute},
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }, // the token is for Keystone alone
		},
	}, nil
}

// Authenticate returns an error that wraps [ErrUnauthenticated] for a token that Keystone
// doesn't know, and [ErrUnavailable] where it doesn't answer. A caller without any role that
// stands for one here has no permission.
func (k *Keystone) Authenticate(r *http.Request) (Identity, error) {
	return k.whose(r, r.Header.Get("X-Auth-Token"))
}

func (k *Keystone) whose(r *http.Request, token string) (Identity, error) {
	if !plausible(token) {
		return Identity{}, fmt.Errorf("%w: the token is none of Keystone's", ErrUnauthenticated)
	}
	sum := sha256.Sum256([]byte(token))
	key := hex.EncodeToString(sum[:])
	v, ok := k.recall(key)
	if !ok {
		// Whoever asks with the same token waits for one answer, which nobody's leaving ends.
		asked := k.flight.DoChan(key, func() (any, error) { return k.ask(context.WithoutCancel(r.Context()), key, token) })
		select {
		case <-r.Context().Done():
			return Identity{}, r.Context().Err()
		case got := <-asked:
			if got.Err != nil {
				return Identity{}, got.Err
			}
			v, _ = got.Val.(verdict)
		}
	}
	if v.unnamed {
		return Identity{}, fmt.Errorf("%w: the name of the user or domain at Keystone has characters that are invisible, or control", ErrUnauthenticated)
	}
	if !v.valid {
		return Identity{}, fmt.Errorf("%w: Keystone doesn't know the token, or not any more", ErrUnauthenticated)
	}
	return v.who, nil
}

// recall is what Keystone said of a token, as long as that is believed.
func (k *Keystone) recall(key string) (verdict, bool) {
	v, ok := k.known.Get(key)
	return v, ok && k.now().Before(v.until)
}

// plausible says whether a text may be a token at all, and so be sent.
func plausible(token string) bool {
	return token != "" && len(token) <= largestToken && !strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' })
}

// ask asks Keystone and remembers the answer.
func (k *Keystone) ask(ctx context.Context, key, token string) (verdict, error) {
	if v, ok := k.recall(key); ok { // a question that has just ended
		return v, nil
	}
	select {
	case k.slots <- struct{}{}:
		defer func() { <-k.slots }()
	default:
		return verdict{}, fmt.Errorf("%w: too many questions to Keystone are under way", ErrUnavailable)
	}
	v, err := k.validate(ctx, token)
	if err != nil {
		// What the error names is none of a stranger's business.
		if now := k.now().UnixNano(); now-k.warned.Swap(now) > int64(warnings) {
			k.config.Log.WarnContext(ctx, "Keystone can't say whose token a request has", "error", err)
		}
		return verdict{}, fmt.Errorf("%w: Keystone doesn't answer as it should", ErrUnavailable)
	}
	k.known.Add(key, v, len(v.who.Name)+len(v.who.ID))
	return v, nil
}

// validate asks Keystone whose token it is (Identity API v3, "Validate and show information
// for token").
func (k *Keystone) validate(ctx context.Context, token string) (verdict, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, k.url, nil)
	if err != nil {
		return verdict{}, err
	}
	req.Header.Set("X-Auth-Token", token)
	req.Header.Set("X-Subject-Token", token)
	req.Header.Set("Accept", "application/json")
	resp, err := k.client.Do(req)
	if err != nil {
		return verdict{}, err
	}
	defer resp.Body.Close()
	switch resp.StatusCode {
	case http.StatusOK:
	case http.StatusUnauthorized, http.StatusNotFound:
		return verdict{until: k.now().Add(disbelieved)}, nil
	case http.StatusForbidden:
		return verdict{}, errors.New("Keystone answers 403: its rule identity:validate_token must allow tokens to validate themselves (token_subject), as it does by default")
	default:
		return verdict{}, fmt.Errorf("Keystone answers %s", resp.Status)
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, largestAnswer+1))
	if err != nil {
		return verdict{}, fmt.Errorf("answer of Keystone: %w", err)
	}
	if len(body) > largestAnswer {
		return verdict{}, fmt.Errorf("answer of Keystone is larger than %d bytes", largestAnswer)
	}
	return k.judge(body)
}

// shown is what of a token counts.
type shown struct {
	Token struct {
		Expires time.Time `json:"expires_at"`
		User    named     `json:"user"`
		Project named     `json:"project"`
		Roles   []named   `json:"roles"`
	} `json:"token"`
}

type named struct {
	ID     string `json:"id"`
	Name   string `json:"name"`
	Domain struct {
		ID   string `json:"id"`
		Name string `json:"name"`
	} `json:"domain"`
}

// judge reads Keystone's answer about a valid token.
func (k *Keystone) judge(body []byte) (verdict, error) {
	var s shown
	if err := json.Unmarshal(body, &s); err != nil {
		return verdict{}, fmt.Errorf("answer of Keystone isn't what its API says: %w", err)
	}
	t := s.Token
	if t.User.Name == "" || t.User.ID == "" || t.User.Domain.ID == "" || t.User.Domain.Name == "" || t.Expires.IsZero() {
		return verdict{}, errors.New("answer of Keystone has no name or id of a user or its domain, or no end of the token")
	}
	now := k.now()
	if !now.Before(t.Expires) {
		return verdict{until: now.Add(disbelieved)}, nil
	}
	// A name is unique within its domain. The last @ is the one before the domain.
	name := t.User.Name + "@" + strings.NewReplacer("%", "%25", "@", "%40").Replace(t.User.Domain.Name)
	if !goodName(name) || !goodName(t.User.Name) || !goodName(t.User.Domain.Name) {
		return verdict{unnamed: true, until: now.Add(disbelieved)}, nil
	}
	v := verdict{valid: true, until: now.Add(believed), who: Identity{Name: name, ID: t.User.ID + "@" + t.User.Domain.ID, Issuer: IssuerKeystone}}
	if t.Expires.Before(v.until) {
		v.until = t.Expires
	}
	if !k.takes(t.Project) {
		return v, nil
	}
	for _, r := range t.Roles {
		v.who.Permissions = append(v.who.Permissions, k.config.Roles[r.Name]...)
	}
	return v, nil
}

// takes says whether tokens of the project are taken. One that is for no project is for a
// domain or the whole of the cloud.
func (k *Keystone) takes(p named) bool {
	return p.ID != "" && slices.ContainsFunc(k.config.Projects, func(want string) bool {
		return want == "*" || want == p.ID || want == p.Name+"@"+p.Domain.Name
	})
}

// nameOf is a name as it can stand in commits: without what a commit's author can't have, and
// of a bounded length.
func nameOf(text string) string {
	clean := func(r rune) rune {
		if badInName(r) {
			return '_'
		}
		return r
	}
	const longest = 200
	name := []rune(strings.Map(clean, text))
	return string(name[:min(len(name), longest)])
}
