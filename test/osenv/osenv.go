// Package osenv hands a test the real OpenStack that "make test-all" started. It never starts or stops
// one: that is test/openstack's work. A test that needs a cloud calls [OpenStack] first, and so is
// skipped by a plain "go test" and can't be skipped by "make test-all".
package osenv

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"
	"go.yaml.in/yaml/v3"
)

const (
	// EnvCloud names the environment variable that holds the name of the cloud to test
	// with, as clouds.yaml has it.
	EnvCloud = "JIBE_TEST_OS_CLOUD"
	// EnvCloudFile names the environment variable that holds the path of clouds.yaml, as
	// all of OpenStack's clients know it.
	EnvCloudFile = "OS_CLIENT_CONFIG_FILE"
	// EnvRequireCloud names the environment variable that, when "1", makes a missing
	// cloud fail a test instead of skipping it.
	EnvRequireCloud = "JIBE_TEST_REQUIRE_OPENSTACK"
)

// Cloud is an OpenStack to test with. What test/openstack starts has the images img1 and
// img2, the flavours m1.tiny and m1.small, the network net0 with subnet0, and the external
// network ext0 with extsubnet0.
type Cloud struct {
	// File is the path of a clouds.yaml, Name the cloud's name in it.
	File, Name string
}

// VIM is the text of a vims/ file for the cloud.
func (c Cloud) VIM() string {
	return fmt.Sprintf("type: openstack\nclouds: file:%s\ncloud: %s\n", c.File, c.Name)
}

// OpenStack returns the cloud to test with. It skips the test where there is none, or
// fails it if [EnvRequireCloud] is "1".
func OpenStack(t testing.TB) Cloud {
	t.Helper()
	c, err := FindCloud()
	switch {
	case err == nil:
	case os.Getenv(EnvRequireCloud) == "1":
		t.Fatalf("no OpenStack to test with: %s=1, but %v", EnvRequireCloud, err)
	default:
		t.Skipf("no OpenStack to test with: %v (run make test-openstack; or start one with "+
			"test/openstack/openstack start, which prints what %s has to be, and set %s=jibe)", err, EnvCloudFile, EnvCloud)
	}
	return c
}

// EnvFull names the environment variable that, when "1", has tests do at a real cloud also what its stand-in has
// been held to by other tests.
const EnvFull = "JIBE_TEST_OS_FULL"

// Full reports whether [EnvFull] is "1".
func Full() bool { return os.Getenv(EnvFull) == "1" }

// NeedFull skips a test of which a twin runs at a fake cloud, unless [EnvFull] is "1".
func NeedFull(t testing.TB) {
	t.Helper()

	if !Full() {
		t.Skipf("its twin runs at a fake cloud: make test-openstack does it at a real one, and so does go test with %s=1", EnvFull)
	}
}

// FindCloud returns the cloud that the environment names. Without [EnvCloudFile] its file
// is where OpenStack's clients look for it: in the user's or the system's configuration.
func FindCloud() (Cloud, error) {
	c := Cloud{File: os.Getenv(EnvCloudFile), Name: os.Getenv(EnvCloud)}
	if c.Name == "" {
		return Cloud{}, fmt.Errorf("%s is not set", EnvCloud)
	}
	if c.File != "" {
		return c, nil
	}
	places := []string{"/etc/openstack"}
	if dir, err := os.UserConfigDir(); err == nil {
		places = append([]string{filepath.Join(dir, "openstack")}, places...)
	}
	for _, dir := range places {
		c.File = filepath.Join(dir, "clouds.yaml")
		if _, err := os.Stat(c.File); err == nil {
			return c, nil
		}
	}
	return Cloud{}, fmt.Errorf("%s is set, but neither %s nor a clouds.yaml in %v is there", EnvCloud, EnvCloudFile, places)
}

// entry is what is read of a cloud in clouds.yaml.
type entry struct {
	Region string `yaml:"region_name"`
	CACert string `yaml:"cacert"`
	Verify *bool  `yaml:"verify"`
	Auth   struct {
		URL           string `yaml:"auth_url"`
		Username      string `yaml:"username"`
		Password      string `yaml:"password"`
		Project       string `yaml:"project_name"`
		ProjectDomain string `yaml:"project_domain_name"`
		UserDomain    string `yaml:"user_domain_name"`
		AppID         string `yaml:"application_credential_id"`
		AppSecret     string `yaml:"application_credential_secret"`
	} `yaml:"auth"`
}

// Connect logs in and returns a bare client's connection, and how it finds the services
// in the catalogue.
func (c Cloud) Connect(ctx context.Context) (*gophercloud.ProviderClient, gophercloud.EndpointOpts, error) {
	e, err := c.entry()
	if err != nil {
		return nil, gophercloud.EndpointOpts{}, fmt.Errorf("cloud %s of %s: %w", c.Name, c.File, err)
	}
	where := gophercloud.EndpointOpts{Region: e.Region}
	p, err := openstack.NewClient(e.Auth.URL)
	if err == nil {
		p.HTTPClient, err = e.client()
	}
	if err == nil {
		err = openstack.Authenticate(ctx, p, e.options())
	}
	if err != nil {
		return nil, where, fmt.Errorf("log in to cloud %s of %s: %w", c.Name, c.File, err)
	}
	return p, where, nil
}

func (c Cloud) entry() (e entry, err error) {
	text, err := os.ReadFile(c.File)
	if err != nil {
		return e, err
	}
	var file struct {
		Clouds map[string]entry `yaml:"clouds"`
	}
	if err := yaml.Unmarshal(text, &file); err != nil {
		return e, err
	}
	e, ok := file.Clouds[c.Name]
	if !ok {
		return e, errors.New("there is no such cloud in the file")
	}
	return e, nil
}

func (e entry) options() gophercloud.AuthOptions {
	o := gophercloud.AuthOptions{IdentityEndpoint: e.Auth.URL, AllowReauth: true}
	if e.Auth.AppID != "" {
		o.ApplicationCredentialID, o.ApplicationCredentialSecret = e.Auth.AppID, e.Auth.AppSecret
		return o
	}
	o.Username, o.Password, o.DomainName = e.Auth.Username, e.Auth.Password, e.Auth.UserDomain
	o.Scope = &gophercloud.AuthScope{ProjectName: e.Auth.Project, DomainName: e.Auth.ProjectDomain}
	return o
}

func (e entry) client() (http.Client, error) {
	t := &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: e.Verify != nil && !*e.Verify} // where clouds.yaml says so
	if e.CACert != "" {
		pem, err := os.ReadFile(e.CACert)
		if err != nil {
			return http.Client{}, err
		}
		t.RootCAs = x509.NewCertPool()
		if !t.RootCAs.AppendCertsFromPEM(pem) {
			return http.Client{}, fmt.Errorf("%s holds no certificate in PEM", e.CACert)
		}
	}
	return http.Client{Transport: &http.Transport{Proxy: http.ProxyFromEnvironment, TLSClientConfig: t}}, nil
}
