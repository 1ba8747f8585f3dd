package openstack

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/tokens"

	"github.com/jibe-vnfm/jibe/drivers"
	"github.com/jibe-vnfm/jibe/internal/egress"
)

// service is one API of an OpenStack, by its name in messages.
type service string

const (
	heat    service = "Heat"
	nova    service = "Nova"
	neutron service = "Neutron"
	glance  service = "Glance"
	cinder  service = "Cinder"
)

// computeMicroversion is Nova's 2.69, of Stein. From 2.47 on a server has the name of its
// flavour, and from 2.69 on a server whose cell is down is listed with the status
// UNKNOWN: before, it was left out and looked as if it had been deleted. Nothing later
// is needed, and a later one could change what is read here.
const computeMicroversion = "2.69"

// cloud is the connection: one token, and one client a service, made when it is needed.
type cloud struct {
	vim    drivers.VIM
	http   *http.Client
	redact *strings.Replacer // takes the credentials out of a text

	mu       sync.Mutex
	provider *gophercloud.ProviderClient // nil until Keystone has given a token
	services map[service]*gophercloud.ServiceClient
}

func newCloud(life context.Context, vim drivers.VIM, o Options) (*cloud, error) {
	t := &tls.Config{InsecureSkipVerify: vim.Insecure, MinVersion: tls.VersionTLS12} // only where a vims/ file asks for it, or a request that may
	if len(vim.CACert) > 0 {
		t.RootCAs = x509.NewCertPool()
		if !t.RootCAs.AppendCertsFromPEM(vim.CACert) {
			return nil, errors.New("caCert holds no certificate in PEM")
		}
	}
	c := &cloud{vim: vim, services: map[service]*gophercloud.ServiceClient{}}
	var line http.RoundTripper = &http.Transport{
		Proxy:               o.Egress.ProxyFor,
		DialContext:         o.Egress.DialContext(10 * time.Second),
		TLSClientConfig:     t,
		TLSHandshakeTimeout: 10 * time.Second,
		MaxIdleConnsPerHost: o.Parallel,
		IdleConnTimeout:     90 * time.Second,
	}
	if o.Wrap != nil {
		line = o.Wrap(line)
	}
	c.http = &http.Client{
		Timeout:       o.RequestTimeout,
		CheckRedirect: egress.SameServer,
		Transport:     newRetryTransport(life, &confidential{guard: o.Egress, next: egress.AnswerBound{Most: maxAnswer}.Bound(line)}, o.Parallel),
	}
	var secrets []string
	for _, s := range []string{vim.Password, vim.ApplicationCredentialSecret, vim.Token} {
		if s != "" {
			secrets = append(secrets, s, "***")
		}
	}
	c.redact = strings.NewReplacer(secrets...)
	return c, nil
}

func (c *cloud) close() { c.http.CloseIdleConnections() }

// client is the one for the service, with a token.
func (c *cloud) client(ctx context.Context, s service) (*gophercloud.ServiceClient, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if found := c.services[s]; found != nil {
		return found, nil
	}
	if c.provider == nil {
		p, err := c.authenticate(ctx)
		if err != nil {
			return nil, c.unavailable("Keystone", err)
		}
		c.provider = p
	}
	endpoint, err := c.locate(s)
	if err != nil {
		return nil, err
	}
	found := &gophercloud.ServiceClient{ProviderClient: c.provider, Endpoint: endpoint, Type: catalogued[s].kind}
	if s == nova {
		found.Microversion = computeMicroversion
	}
	c.services[s] = found
	return found, nil
}

// maxAnswer is how many bytes of one answer are read: lists come in pages.
const maxAnswer = 64 << 20

// catalogued is how Keystone's catalogue calls a service, and the version of its API that the
// driver speaks, which an endpoint may contain or leave out. The driver doesn't ask a service
// for its versions: behind a proxy the documents that list them are often missing.
var catalogued = map[service]struct{ kind, version string }{
	heat: {"orchestration", ""}, nova: {"compute", "v2.1"}, neutron: {"network", "v2.0"}, glance: {"image", "v2"},
	cinder: {"volumev3", ""},
}

var versioned = regexp.MustCompile(`/v[0-9][0-9.]*/?$`)

// locate is the service's endpoint in the token's catalogue.
func (c *cloud) locate(s service) (string, error) {
	token, ok := c.provider.GetAuthResult().(tokens.CreateResult)
	if !ok {
		return "", fmt.Errorf("%w: Keystone gave no token", drivers.ErrUnavailable)
	}
	catalogue, err := token.ExtractServiceCatalog()
	if err != nil {
		return "", c.unavailable("Keystone", err)
	}
	for _, entry := range catalogue.Entries {
		if entry.Type != catalogued[s].kind {
			continue
		}
		for _, e := range entry.Endpoints {
			if e.Interface != "public" || c.vim.Region != "" && e.Region != c.vim.Region && e.RegionID != c.vim.Region {
				continue
			}
			if version := catalogued[s].version; version != "" && !versioned.MatchString(e.URL) {
				return gophercloud.NormalizeURL(e.URL) + version + "/", nil
			}
			return gophercloud.NormalizeURL(e.URL), nil
		}
	}
	region := ""
	if c.vim.Region != "" {
		region = " of region " + c.vim.Region
	}
	return "", fmt.Errorf("%w: Keystone's catalogue has no public endpoint%s for %s (%s)", drivers.ErrUnavailable, region, s, catalogued[s].kind)
}

// authenticate asks Keystone for a token. The client asks for another when a service refuses it.
func (c *cloud) authenticate(ctx context.Context) (*gophercloud.ProviderClient, error) {
	p, err := openstack.NewClient(c.vim.Endpoint)
	if err != nil {
		return nil, err
	}
	p.HTTPClient = *c.http
	p.UserAgent.Prepend("jibe")
	return p, openstack.AuthenticateV3(ctx, p, authOptions(c.vim), gophercloud.EndpointOpts{})
}

func authOptions(vim drivers.VIM) *gophercloud.AuthOptions {
	o := &gophercloud.AuthOptions{AllowReauth: true}
	if vim.ApplicationCredential != "" {
		o.ApplicationCredentialID, o.ApplicationCredentialSecret = vim.ApplicationCredential, vim.ApplicationCredentialSecret
		return o
	}
	o.Username, o.Password = vim.Username, vim.Password
	o.DomainID, o.DomainName = domain(vim.UserDomain)
	o.Scope = &gophercloud.AuthScope{}
	if isID(vim.Project) {
		o.Scope.ProjectID = vim.Project
		return o
	}
	o.Scope.ProjectName = vim.Project
	o.Scope.DomainID, o.Scope.DomainName = domain(vim.ProjectDomain)
	return o
}

// domain says whether a domain is given by its id or by its name. The one that every Keystone
// has from the beginning has the id "default".
func domain(d string) (id, name string) {
	switch {
	case d == "":
		return "", "Default"
	case d == "default" || isID(d):
		return d, ""
	}
	return "", d
}

var idPattern = regexp.MustCompile(`^([0-9a-f]{32}|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12})$`)

func isID(s string) bool { return idPattern.MatchString(s) }

// call asks the service, mostly through one of gophercloud's typed packages. Its error says
// which service it was, says whether the same request may succeed later, and holds no credential.
func (c *cloud) call(ctx context.Context, s service, ask func(client *gophercloud.ServiceClient) error) error {
	client, err := c.client(ctx, s)
	if err != nil {
		return err
	}
	return c.classify(s, ask(client))
}

// get reads what the typed packages can't, or can't well; each caller says why.
func (c *cloud) get(ctx context.Context, s service, answer any, query string, path ...string) error {
	return c.call(ctx, s, func(client *gophercloud.ServiceClient) error {
		url := client.ServiceURL(path...)
		if query != "" {
			url += "?" + query
		}
		_, err := client.Get(ctx, url, answer, nil) //nolint:bodyclose // gophercloud closes it where nobody asks to keep it
		return err
	})
}
