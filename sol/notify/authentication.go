package notify

import (
	"crypto/sha256"
	"crypto/tls"
	"encoding/base64"
	"fmt"
	"strings"
)

// The authentication types that Jibe has towards subscribers (SOL013 clause 8.3.4). TLSCert is
// only said to be a client certificate for the callback: where Jibe has one, every server that
// asks for it gets it.
const (
	Basic             = "BASIC"
	ClientCredentials = "OAUTH2_CLIENT_CREDENTIALS"
	ClientCert        = "OAUTH2_CLIENT_CERT"
	TLSCert           = "TLS_CERT"
)

// thumbprint is the one type of certificateRef that is defined: the SHA-256 of the certificate
// in DER, base64url without padding (RFC 8705 clause 3.1).
const thumbprint = "x5t#256"

// Certificate returns the certificate that Jibe shows as a client, with its key. It is asked
// anew for each connection, so that a renewed one is used. A nil Certificate is none.
type Certificate func() (*tls.Certificate, error)

// Authentication is SubscriptionAuthentication (SOL013 clause 8.3.4). In a stored
// record, both passwords are encrypted.
type Authentication struct {
	AuthType          []string                 `json:"authType"`
	Basic             *BasicParams             `json:"paramsBasic,omitempty"`
	ClientCredentials *ClientCredentialsParams `json:"paramsOauth2ClientCredentials,omitempty"`
	ClientCert        *ClientCertParams        `json:"paramsOauth2ClientCert,omitempty"`
}

// BasicParams are the parameters of BASIC.
type BasicParams struct {
	UserName string `json:"userName"`
	Password string `json:"password"`
}

// ClientCredentialsParams are the parameters of OAUTH2_CLIENT_CREDENTIALS.
type ClientCredentialsParams struct {
	ClientID       string `json:"clientId"`
	ClientPassword string `json:"clientPassword"`
	TokenEndpoint  string `json:"tokenEndpoint"`
}

// ClientCertParams are the parameters of OAUTH2_CLIENT_CERT: the token endpoint knows Jibe by
// its client certificate (RFC 8705 clause 2).
type ClientCertParams struct {
	ClientID      string         `json:"clientId"`
	Reference     CertificateRef `json:"certificateRef"`
	TokenEndpoint string         `json:"tokenEndpoint"`
}

// CertificateRef names a certificate.
type CertificateRef struct {
	Type  string `json:"type"`
	Value string `json:"value"`
}

// String keeps credentials out of logs and errors.
func (a *Authentication) String() string { return fmt.Sprint("authentication by ", a.AuthType) }

// GoString returns the same as String.
func (a *Authentication) GoString() string { return a.String() }

// Secrets encrypts what must not be stored in clear, and gives it back.
type Secrets interface {
	// Encrypt returns an "age:" reference that holds the secret unreadably.
	Encrypt(clear string) (reference string, err error)
	// Resolve returns the secret that a reference stands for.
	Resolve(reference string) (clear string, err error)
}

// noCertificate is why a request for a client certificate is refused where there is none.
const noCertificate = "this VNFM has no client certificate: start it with --notify-client-cert and --notify-client-key, or use another authType"

func (a *Authentication) validate(callback string, certificate Certificate) error {
	if a == nil {
		return nil
	}
	if len(a.AuthType) == 0 {
		return fmt.Errorf("%w: authentication.authType is missing", ErrInvalid)
	}
	for _, t := range a.AuthType {
		if err := a.validateType(t, callback, certificate); err != nil {
			return err
		}
	}
	return nil
}

func (a *Authentication) validateType(t, callback string, certificate Certificate) error {
	switch t {
	case Basic:
		if a.Basic == nil || a.Basic.UserName == "" {
			return fmt.Errorf("%w: authentication.paramsBasic with userName and password must go with authType %s", ErrInvalid, t)
		}
		if strings.Contains(a.Basic.UserName, ":") {
			return fmt.Errorf("%w: authentication.paramsBasic.userName must not contain a colon (RFC 7617)", ErrInvalid)
		}
	case ClientCredentials:
		p := a.ClientCredentials
		if p == nil || p.ClientID == "" {
			return fmt.Errorf("%w: authentication.paramsOauth2ClientCredentials with clientId, clientPassword and tokenEndpoint must go with authType %s", ErrInvalid, t)
		}
		return checkURI("authentication.paramsOauth2ClientCredentials.tokenEndpoint", p.TokenEndpoint)
	case ClientCert:
		return a.ClientCert.validate(certificate)
	case TLSCert:
		if certificate == nil {
			return fmt.Errorf("%w: authentication.authType %s: %s", ErrInvalid, t, noCertificate)
		}
		if !strings.HasPrefix(strings.ToLower(callback), "https:") {
			return fmt.Errorf("%w: authentication.authType %s needs a callbackUri that begins with https://", ErrInvalid, t)
		}
	default:
		return fmt.Errorf("%w: authentication.authType %.64q is not supported; use %s, %s, %s or %s", ErrInvalid, t, Basic, ClientCredentials, ClientCert, TLSCert)
	}
	return nil
}

func (p *ClientCertParams) validate(certificate Certificate) error {
	const attribute = "authentication.paramsOauth2ClientCert"
	if p == nil || p.ClientID == "" {
		return fmt.Errorf("%w: %s with clientId, certificateRef and tokenEndpoint must go with authType %s", ErrInvalid, attribute, ClientCert)
	}
	if err := checkURI(attribute+".tokenEndpoint", p.TokenEndpoint); err != nil {
		return err
	}
	if !strings.HasPrefix(strings.ToLower(p.TokenEndpoint), "https:") {
		return fmt.Errorf("%w: %s.tokenEndpoint must begin with https://, as the certificate is shown there", ErrInvalid, attribute)
	}
	if certificate == nil {
		return fmt.Errorf("%w: authentication.authType %s: %s", ErrInvalid, ClientCert, noCertificate)
	}
	if p.Reference.Type != thumbprint {
		return fmt.Errorf("%w: %s.certificateRef.type %.64q is not supported; use %s", ErrInvalid, attribute, p.Reference.Type, thumbprint)
	}
	have, err := certificate()
	if err != nil {
		return fmt.Errorf("client certificate towards subscribers: %w", err)
	}
	sum := sha256.Sum256(have.Certificate[0])
	if own := base64.RawURLEncoding.EncodeToString(sum[:]); strings.TrimRight(p.Reference.Value, "=") != own {
		return fmt.Errorf("%w: %s.certificateRef.value is not the thumbprint of this VNFM's client certificate, which is %s", ErrInvalid, attribute, own)
	}
	return nil
}

// sealed returns a with its passwords encrypted.
func (s *Service) sealed(a *Authentication) (*Authentication, error) {
	if a == nil {
		return nil, nil
	}
	out := &Authentication{AuthType: a.AuthType, ClientCert: a.ClientCert}
	seal := func(clear string) (string, error) {
		if clear == "" {
			return "", nil
		}
		sealed, err := s.Secrets.Encrypt(clear)
		if err != nil {
			return "", fmt.Errorf("encrypt the subscriber's credentials: %w", err)
		}
		return sealed, nil
	}
	var err error
	if a.Basic != nil {
		p := *a.Basic
		if p.Password, err = seal(p.Password); err != nil {
			return nil, err
		}
		out.Basic = &p
	}
	if a.ClientCredentials != nil {
		p := *a.ClientCredentials
		if p.ClientPassword, err = seal(p.ClientPassword); err != nil {
			return nil, err
		}
		out.ClientCredentials = &p
	}
	return out, nil
}
