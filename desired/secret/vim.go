package secret

import (
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"strings"

	"github.com/jibe-vnfm/jibe/desired"
)

// Connection is how a VIM is reached, with its credentials in clear. It prints and logs without
// them.
type Connection struct {
	// Name is that of the file under vims/, or the key in vimConnectionInfo.
	Name     string
	Type     string // desired.VIMKubernetes, …
	Endpoint string
	CACert   []byte // PEM; empty means the system's roots
	Insecure bool
	// InCluster says that Token is that of Jibe's own pod.
	InCluster bool
	// Namespaces are those that may be used there; none means all.
	Namespaces []string
	// Kubeconfig, if set, replaces everything but Name and Type.
	Kubeconfig []byte
	Token      []byte
	Username   []byte
	Password   []byte
	ClientCert []byte // PEM
	ClientKey  []byte // PEM
	// What OpenStack has beside them: names or ids. An application credential, by its id,
	// takes the place of Username, Password, Project and the domains.
	Region, Project, ProjectDomain, UserDomain string
	ApplicationCredential                      string
	ApplicationCredentialSecret                []byte
}

// ErrConnection is returned for vimConnectionInfo with which no VIM can be reached.
var ErrConnection = errors.New("vimConnectionInfo can't be used")

// String names the VIM and nothing else of it.
func (v Connection) String() string {
	return fmt.Sprintf("VIM %s (%s at %s)", v.Name, v.Type, v.Endpoint)
}

// GoString keeps credentials from %#v.
func (v Connection) GoString() string { return v.String() }

// LogValue keeps credentials from logs.
func (v Connection) LogValue() slog.Value { return slog.StringValue(v.String()) }

// ResolveVIM resolves the references of a vims/ file. An error names the field. A
// reference, or a kubeconfig behind one, that the keeper's [Reach] rules out is a
// [*ForbiddenError].
func (k *Keeper) ResolveVIM(v *desired.VIM) (Connection, error) {
	if v.Clouds != "" {
		return k.resolveCloud(v)
	}
	if v.InCluster {
		return k.resolveInCluster(v)
	}
	out := Connection{Name: v.Name, Type: v.Type, Endpoint: v.Endpoint, Insecure: v.Insecure, Username: []byte(v.Credentials.Username),
		Region: v.Region, Project: v.Project, ProjectDomain: v.ProjectDomain, UserDomain: v.UserDomain,
		ApplicationCredential: v.Credentials.ApplicationCredentialID, Namespaces: v.Namespaces}
	if v.CACert != "" && !IsRef(v.CACert) {
		out.CACert = []byte(v.CACert)
		v = &desired.VIM{Name: v.Name, Kubeconfig: v.Kubeconfig, Credentials: v.Credentials}
	}
	for _, f := range []struct {
		name, ref string
		to        *[]byte
	}{
		{"caCert", v.CACert, &out.CACert},
		{"kubeconfig", v.Kubeconfig, &out.Kubeconfig},
		{"credentials.token", v.Credentials.Token, &out.Token},
		{"credentials.password", v.Credentials.Password, &out.Password},
		{"credentials.clientCert", v.Credentials.ClientCert, &out.ClientCert},
		{"credentials.clientKey", v.Credentials.ClientKey, &out.ClientKey},
		{"credentials.applicationCredentialSecret", v.Credentials.ApplicationCredentialSecret, &out.ApplicationCredentialSecret},
	} {
		if f.ref == "" {
			continue
		}
		s, err := k.For(ForVIMs()).Resolve(f.ref)
		if err == nil && f.name == "kubeconfig" {
			err = k.harmless([]byte(s))
		}
		if err != nil {
			return Connection{}, fmt.Errorf("resolve VIM %s: %w", v.Name, of(f.name, err))
		}
		*f.to = []byte(s)
	}
	return out, nil
}

// of says which field of a VIM the error is about.
func of(field string, err error) error {
	if no, ok := errors.AsType[*ForbiddenError](err); ok {
		return &ForbiddenError{Field: field, Reason: no.Reason, Remedy: no.Remedy}
	}
	return fmt.Errorf("%s: %w", field, err)
}

// ResolveConnection resolves one VimConnectionInfo (SOL003 v3.3.1 clause 4.4.1.6),
// with the keys that today's clients use: interfaceInfo endpoint and ssl_ca_cert
// (PEM whose line ends may have been folded to blanks), accessInfo bearer_token,
// or username and password, or client_cert and client_key (PEM). For OpenStack these
// are username, password, project, userDomain and projectDomain, or
// applicationCredentialId and applicationCredentialSecret; and region. Without ssl_ca_cert the
// system's roots are asked. interfaceInfo.skipCertificateVerification switches the check off
// where the keeper's [Reach] allows it, and counts for nothing where it doesn't.
//
// An error wraps [ErrConnection], or what Resolve returned, and names the field.
func (k *Keeper) ResolveConnection(name string, c desired.VIMConnection) (Connection, error) {
	bad := func(format string, args ...any) (Connection, error) {
		return Connection{}, fmt.Errorf("%w: %s: %s", ErrConnection, name, fmt.Sprintf(format, args...))
	}
	t, ok := desired.NormalVIMType(c.VimType)
	if !ok {
		return bad("vimType %q isn't known: use %s or %s", c.VimType, desired.VIMKubernetes, desired.VIMOpenStack)
	}
	out := Connection{Name: name, Type: t, Endpoint: c.InterfaceInfo["endpoint"]}
	secrets := k.For(ForConnection("", out.Endpoint)) // its project was judged when it came
	if t == desired.VIMSim {
		return out, nil
	}
	if out.Endpoint == "" {
		return bad("interfaceInfo.endpoint is missing")
	}
	u, err := url.Parse(out.Endpoint)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || u.User != nil {
		return Connection{}, fmt.Errorf("%w: %s: interfaceInfo.endpoint isn't an http(s) URL without credentials", ErrConnection, name)
	}
	if out.CACert, err = connectionCA(secrets, name, c.InterfaceInfo["ssl_ca_cert"]); err != nil {
		return Connection{}, err
	}
	skip, err := c.SkipsVerification()
	if err != nil {
		return bad("%v", err)
	}
	out.Insecure = skip && k.reach.SkipVerification
	access, err := connectionAccess(secrets, name, c.AccessInfo)
	if err != nil {
		return Connection{}, err
	}

	out.Token = []byte(access["bearer_token"])
	out.Username, out.Password = []byte(access["username"]), []byte(access["password"])
	out.ClientCert, out.ClientKey = []byte(access["client_cert"]), []byte(access["client_key"])
	if t == desired.VIMOpenStack {
		if gap, _ := (desired.VIMConnection{VimType: t, InterfaceInfo: c.InterfaceInfo, AccessInfo: access}).Gap(); gap != "" {
			return bad("%s", gap)
		}
		out.Region, out.Project, out.ProjectDomain, out.UserDomain = access["region"], access["project"], access["projectDomain"], access["userDomain"]
		out.ApplicationCredential, out.ApplicationCredentialSecret = access["applicationCredentialId"], []byte(access["applicationCredentialSecret"])
		return out, nil
	}
	switch {
	case (len(out.Username) == 0) != (len(out.Password) == 0):
		return bad("accessInfo.username and accessInfo.password belong together")
	case (len(out.ClientCert) == 0) != (len(out.ClientKey) == 0):
		return bad("accessInfo.client_cert and accessInfo.client_key belong together")
	case len(out.Token)+len(out.Username)+len(out.ClientCert) == 0:
		return bad("accessInfo has neither bearer_token, nor username and password, nor client_cert and client_key")
	}
	return out, nil
}

// connectionCA is the certificate of interfaceInfo.ssl_ca_cert, nil where none is given.
func connectionCA(secrets Scoped, name, pem string) (ca []byte, err error) {
	if pem == "" {
		return nil, nil
	}
	if IsRef(pem) {
		if pem, err = secrets.Resolve(pem); err != nil {
			return nil, fmt.Errorf("resolve VIM %s: %w", name, of("interfaceInfo.ssl_ca_cert", err))
		}
	}
	if ca = unfold(pem); ca == nil {
		return nil, fmt.Errorf("%w: %s: interfaceInfo.ssl_ca_cert isn't a PEM certificate", ErrConnection, name)
	}
	return ca, nil
}

// connectionAccess is accessInfo with its references resolved.
func connectionAccess(secrets Scoped, name string, info map[string]string) (access map[string]string, err error) {
	access = map[string]string{}
	for key, value := range info {
		if desired.IsSecretKey(key) && value != "" || IsRef(value) {
			if value, err = secrets.Resolve(value); err != nil {
				return nil, fmt.Errorf("resolve VIM %s: %w", name, of("accessInfo."+key, err))
			}
		}
		access[key] = value
	}
	if access["oidc_token_url"] != "" {
		return nil, fmt.Errorf("%w: %s: accessInfo.oidc_token_url: tokens of an identity provider aren't fetched: give bearer_token", ErrConnection, name)
	}
	return access, nil
}

// unfold restores PEM certificates whose line ends became blanks; nil where
// there is none.
func unfold(s string) []byte {
	const begin, end = "-----BEGIN CERTIFICATE-----", "-----END CERTIFICATE-----"
	s = strings.NewReplacer(`\r`, " ", `\n`, " ").Replace(s) // escaped twice on the way
	var out strings.Builder
	for {
		_, rest, ok := strings.Cut(s, begin)
		if !ok {
			break
		}
		body, rest, ok := strings.Cut(rest, end)
		if !ok {
			return nil
		}
		body = strings.Join(strings.Fields(body), "")
		if _, err := base64.StdEncoding.DecodeString(body); err != nil || body == "" {
			return nil
		}
		out.WriteString(begin + "\n")
		for len(body) > 64 {
			out.WriteString(body[:64] + "\n")
			body = body[64:]
		}
		out.WriteString(body + "\n" + end + "\n")
		s = rest
	}
	if out.Len() == 0 {
		return nil
	}
	return []byte(out.String())
}
