package auth

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
)

// OIDCConfig says which issuer of OpenID Connect or OAuth 2.0 is believed, and what its tokens
// allow. Issuer, Audience and Roles are required.
type OIDCConfig struct {
	// Issuer is the URL that stands in its tokens as "iss", below which its configuration is
	// found (/.well-known/openid-configuration). It is https, or http on this machine.
	Issuer string
	// Audience is what a token must be for.
	Audience string
	// CACert is PEM; empty means the system's roots.
	CACert []byte
	// NameClaim is the claim that is the caller's name; "" is "sub". Those who have the same
	// are the same caller, so that it has to be one that nobody chooses for themselves.
	NameClaim string
	// RolesClaim is the claim with the caller's roles, a text or a list of them; "" is "roles".
	// Dots lead into objects: "realm_access.roles".
	RolesClaim string
	// ProjectsClaim, if given, is a claim with names of projects. What the roles allow is
	// allowed in these alone: nothing to who hasn't the claim.
	ProjectsClaim string
	// Roles are what those may do here who have a role of the issuer's, by its name. Who has
	// several may do what any of them allows.
	Roles map[string][]Permission
	// IDTokens takes ID tokens as well, for an issuer that gives its clients nothing else for an API.
	IDTokens bool
	Log      *slog.Logger
}

// OIDC is an [Authenticator] for JWTs of an issuer, as SOL013 clause 8.3.2 has clients get them
// by the flow of client credentials. Their signature, issuer, audience and times are checked.
// Nothing is asked of the issuer but its public keys.
type OIDC struct {
	config OIDCConfig
	keys   *keys
	now    func() time.Time
}

// algorithms are those by which a token may be signed: with keys of which the issuer alone has
// the private half. Never "none", and never one by which a public key could be a secret.
func algorithms() []string {
	return []string{oidc.RS256, oidc.RS384, oidc.RS512, oidc.PS256, oidc.PS384, oidc.PS512, oidc.ES256, oidc.ES384, oidc.ES512, oidc.EdDSA}
}

// NewOIDC returns an error that says what is wrong with the configuration. It asks the issuer
// nothing yet, which may be away.
func NewOIDC(c OIDCConfig) (*OIDC, error) {
	if err := checkIssuer(c.Issuer); err != nil {
		return nil, err
	}
	if c.Audience == "" {
		return nil, errors.New("no audience is given: a token that is for another service would be taken")
	}
	if len(c.Roles) == 0 {
		return nil, errors.New("no role of the issuer's is given, so that nobody could do anything: say which stands for viewer, planner, operator, packager and admin")
	}
	if err := checkMapping(c.Roles); err != nil {
		return nil, fmt.Errorf("roles of the issuer's: %w", err)
	}
	if c.NameClaim == "" {
		c.NameClaim = "sub"
	}
	if c.RolesClaim == "" {
		c.RolesClaim = "roles"
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	keys, err := newKeys(c.Issuer, c.CACert, c.Log)
	if err != nil {
		return nil, err
	}
	return &OIDC{config: c, keys: keys, now: time.Now}, nil
}

// checkIssuer accepts only what can't be read or answered by whoever is on the way.
func checkIssuer(issuer string) error {
	u, err := url.Parse(issuer)
	if err != nil || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return errors.New("the issuer isn't an https URL without credentials, query and fragment")
	}
	if u.Scheme != "https" && (u.Scheme != "http" || !onThisMachine(u.Hostname())) {
		return errors.New("the issuer isn't an https URL: whoever is on the way could give keys of their own; http is for an issuer on this machine alone")
	}
	return nil
}

func onThisMachine(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// Authenticate implements [Authenticator]. It returns an error that wraps [ErrUnauthenticated]
// for a token that isn't valid, and [ErrUnavailable] where that can't be told as the issuer's
// keys can't be had. A caller without any role that stands for one here has no permission.
func (o *OIDC) Authenticate(r *http.Request) (Identity, error) {
	token, _ := tokenOf(r)
	return o.whose(r.Context(), token)
}

// claims says whether a token says of itself that it is of the issuer.
func (o *OIDC) claims(token string) bool {
	parts := strings.Split(token, ".")
	if len(parts) != 3 || len(token) > largestToken {
		return false
	}
	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return false
	}
	var said struct {
		Issuer string `json:"iss"`
	}
	return json.Unmarshal(payload, &said) == nil && said.Issuer == o.config.Issuer
}

func (o *OIDC) whose(ctx context.Context, token string) (Identity, error) {
	if !plausible(token) || !o.claims(token) {
		return Identity{}, fmt.Errorf("%w: the token is none of the issuer's", ErrUnauthenticated)
	}
	set, err := o.keys.For(ctx, token)
	if err != nil {
		return Identity{}, err
	}
	verified, err := oidc.NewVerifier(o.config.Issuer, set, &oidc.Config{ClientID: o.config.Audience, SupportedSigningAlgs: algorithms(), Now: o.now}).Verify(ctx, token)
	if err != nil {
		return Identity{}, fmt.Errorf("%w: %s", ErrUnauthenticated, nameOf(err.Error()))
	}
	var claims map[string]any
	if err := verified.Claims(&claims); err != nil {
		return Identity{}, fmt.Errorf("%w: its claims aren't an object", ErrUnauthenticated)
	}
	if err := checkType(token, claims, o.config.IDTokens); err != nil {
		return Identity{}, fmt.Errorf("%w: %w", ErrUnauthenticated, err)
	}
	name, _ := claim(claims, o.config.NameClaim).(string)
	if !goodName(name) {
		return Identity{}, fmt.Errorf("%w: the claim %s is no name, or has invisible characters", ErrUnauthenticated, o.config.NameClaim)
	}
	return Identity{Name: name, Issuer: o.config.Issuer, Permissions: o.permissions(claims)}, nil
}

// permissions are what the roles in the claims allow.
func (o *OIDC) permissions(claims map[string]any) []Permission {
	var all []Permission
	for _, theirs := range texts(claim(claims, o.config.RolesClaim)) {
		all = append(all, o.config.Roles[theirs]...)
	}
	if o.config.ProjectsClaim == "" {
		return all
	}
	in := texts(claim(claims, o.config.ProjectsClaim))
	// An issuer names projects; it is the mapping that gives them all.
	in = slices.DeleteFunc(in, func(project string) bool { return project == AllProjects || !goodName(project) })
	confined := make([]Permission, len(all))
	for i, p := range all {
		confined[i] = Permission{Role: p.Role, Projects: append([]string{}, in...)}
		if !p.Unconfined() {
			confined[i].Projects = slices.DeleteFunc(confined[i].Projects, func(project string) bool { return !slices.Contains(p.Projects, project) })
		}
	}
	return confined
}

// claim is the value of a claim: of that name, else where its dots lead. A name on the way may
// have dots itself, as "kubernetes.io" has; where several are there, the longest counts.
func claim(claims map[string]any, path string) any {
	if v, ok := claims[path]; ok {
		return v
	}
	for end := strings.LastIndex(path, "."); end >= 0; end = strings.LastIndex(path[:end], ".") {
		if inside, ok := claims[path[:end]].(map[string]any); ok {
			return claim(inside, path[end+1:])
		}
	}
	return nil
}

// texts are the texts of a claim that is one, or a list of them.
func texts(v any) []string {
	switch v := v.(type) {
	case string:
		return []string{v}
	case []any:
		var all []string
		for _, e := range v {
			if text, ok := e.(string); ok {
				all = append(all, text)
			}
		}
		return all
	}
	return nil
}
