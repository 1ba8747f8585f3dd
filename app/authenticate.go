package app

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"

	"github.com/jibe-vnfm/jibe/auth"
)

// Keystone is how callers with tokens of OpenStack's Keystone are let in. Without a URL they
// aren't.
type Keystone struct {
	URL    string
	CAFile string // PEM; "" means the system's roots
	// Roles are those of Keystone's that stand for roles here, as [auth.ParseMapping] reads
	// them, and Projects the ones whose tokens are taken: see [auth.KeystoneConfig].
	Roles    []string
	Projects []string
}

// OIDC is how callers with JWTs of an issuer are let in. Without an issuer they aren't.
type OIDC struct {
	Issuer, Audience string
	CAFile           string // PEM; "" means the system's roots
	// The claims are those of [auth.OIDCConfig]. Roles are what [auth.ParseMapping] reads, and
	// RolesFile has more of them.
	NameClaim, RolesClaim, ProjectsClaim string
	IDTokens                             bool
	Roles                                []string
	RolesFile                            string
}

// authenticator finds out who callers are, in all the ways that the options name.
func (s *host) authenticator() (auth.Authenticator, error) {
	if s.InsecureDev {
		if s.Keystone.URL != "" || s.OIDC.Issuer != "" || s.ClientCA != "" {
			return nil, errors.New("--insecure-dev lets everyone in, which --keystone, --oidc-issuer and --client-ca are to prevent: leave it out, or them")
		}
		return auth.Anyone{}, nil
	}
	var err error
	if s.identities, err = auth.OpenIdentities(s.tokensFile(), s.Log); err != nil {
		return nil, err
	}
	s.identities.OnReload(s.audit.IdentitiesChanged)
	callers := &auth.Callers{Identities: s.identities}
	if s.ClientCA != "" {
		if s.TLSCert == "" {
			return nil, errors.New("--client-ca needs --tls-cert and --tls-key: callers show certificates where the API is served by TLS")
		}
		if s.clientCAs, err = auth.OpenClientCAs(s.ClientCA, s.Log); err != nil {
			return nil, fmt.Errorf("--client-ca: %w", err)
		}
		callers.ClientCAs = s.clientCAs
	}
	if callers.OIDC, err = s.OIDC.open(s); err != nil {
		return nil, err
	}
	if callers.Keystone, err = s.Keystone.open(s); err != nil {
		return nil, err
	}
	s.entrance.Knows(callers.Genuine)
	return callers, nil
}

func (k *Keystone) open(s *host) (*auth.Keystone, error) {
	if k.URL == "" {
		if k.CAFile != "" || len(k.Roles) > 0 || len(k.Projects) > 0 {
			return nil, errors.New("--keystone-ca, --keystone-role and --keystone-project need --keystone")
		}
		return nil, nil
	}
	config := auth.KeystoneConfig{URL: k.URL, Projects: k.Projects, Log: s.Log}
	var err error
	if config.Roles, err = auth.ParseMapping(k.Roles); err != nil {
		return nil, fmt.Errorf("--keystone-role: %w", err)
	}
	if k.CAFile != "" {
		if config.CACert, err = os.ReadFile(k.CAFile); err != nil {
			return nil, fmt.Errorf("--keystone-ca: %w", err)
		}
	}
	keystone, err := auth.NewKeystone(config)
	if err != nil {
		return nil, fmt.Errorf("--keystone: %w", err)
	}
	return keystone, nil
}

func (o *OIDC) open(s *host) (*auth.OIDC, error) {
	if o.Issuer == "" {
		if cmp.Or(o.Audience, o.CAFile, o.NameClaim, o.RolesClaim, o.ProjectsClaim, o.RolesFile) != "" || len(o.Roles) > 0 || o.IDTokens {
			return nil, errors.New("the flags that begin with --oidc- need --oidc-issuer")
		}
		return nil, nil
	}
	config := auth.OIDCConfig{Issuer: o.Issuer, Audience: o.Audience, NameClaim: o.NameClaim, RolesClaim: o.RolesClaim, ProjectsClaim: o.ProjectsClaim, IDTokens: o.IDTokens, Log: s.Log}
	var err error
	if config.Roles, err = auth.ParseMapping(o.Roles); err != nil {
		return nil, fmt.Errorf("--oidc-role: %w", err)
	}
	if o.RolesFile != "" {
		text, err := os.ReadFile(o.RolesFile)
		if err != nil {
			return nil, fmt.Errorf("--oidc-roles: %w", err)
		}
		more, err := auth.ParseMappingFile(text)
		if err != nil {
			return nil, fmt.Errorf("--oidc-roles: %s: %w", o.RolesFile, err)
		}
		for _, theirs := range slices.Sorted(maps.Keys(more)) {
			config.Roles[theirs] = append(config.Roles[theirs], more[theirs]...)
		}
	}
	if o.CAFile != "" {
		if config.CACert, err = os.ReadFile(o.CAFile); err != nil {
			return nil, fmt.Errorf("--oidc-ca: %w", err)
		}
	}
	issuer, err := auth.NewOIDC(config)
	if err != nil {
		return nil, fmt.Errorf("--oidc-issuer: %w", err)
	}
	return issuer, nil
}
