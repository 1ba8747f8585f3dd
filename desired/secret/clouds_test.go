package secret_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/desired/secret"
)

func TestTheWaysToKeystoneAreResolvedAlike(t *testing.T) {
	dir := t.TempDir()
	k := reaching(t, dir)
	t.Setenv("JIBE_TEST_SECRET", "s3cret")
	ca := filepath.Join(dir, "ca.pem")
	if err := os.WriteFile(ca, []byte(certificate()), 0o600); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "clouds.yaml")
	if err := os.WriteFile(file, []byte(`clouds:
  password:
    auth: {auth_url: "https://keystone:5000/v3", username: u, password: s3cret, project_name: p, user_domain_name: ud, project_domain_id: pd}
    region_name: r
    cacert: `+ca+`
  application:
    auth_type: v3applicationcredential
    auth: {auth_url: "https://keystone:5000/v3", application_credential_id: i, application_credential_secret: s3cret, project_name: p}
    verify: false
  half:
    auth: {auth_url: "https://keystone:5000/v3", username: hunter2}
`), 0o600); err != nil {
		t.Fatal(err)
	}
	password := secret.Connection{Name: "core", Type: desired.VIMOpenStack, Endpoint: "https://keystone:5000/v3", Username: []byte("u"), Password: []byte("s3cret"),
		Region: "r", Project: "p", UserDomain: "ud", ProjectDomain: "pd", CACert: []byte(strings.TrimSpace(certificate()))}
	application := secret.Connection{Name: "core", Type: desired.VIMOpenStack, Endpoint: "https://keystone:5000/v3",
		ApplicationCredential: "i", ApplicationCredentialSecret: []byte("s3cret")}
	insecure := application
	insecure.Insecure = true
	same := func(what string, got secret.Connection, err error, want secret.Connection) {
		t.Helper()
		got.CACert = []byte(strings.TrimSpace(string(got.CACert)))
		want.CACert = []byte(strings.TrimSpace(string(want.CACert)))
		for _, b := range []*[]byte{&got.Username, &got.Password, &got.Token, &got.ClientCert, &got.ClientKey, &got.ApplicationCredentialSecret} {
			if len(*b) == 0 {
				*b = nil
			}
		}
		if d := cmp.Diff(want, got); err != nil || d != "" {
			t.Errorf("%s: %v\n%s", what, err, d)
		}
	}
	vim := func(cloud string) *desired.VIM {
		return &desired.VIM{Name: "core", Type: desired.VIMOpenStack, Clouds: "file:" + file, Cloud: cloud}
	}
	v, err := k.ResolveVIM(vim("password"))
	same("an entry of clouds.yaml", v, err, password)
	v, err = k.ResolveVIM(vim("application"))
	same("an application credential in clouds.yaml", v, err, insecure)
	v, err = k.ResolveVIM(&desired.VIM{Name: "core", Type: desired.VIMOpenStack, Endpoint: password.Endpoint, CACert: "file:" + ca, Region: "r", Project: "p",
		UserDomain: "ud", ProjectDomain: "pd", Credentials: desired.Credentials{Username: "u", Password: "env:JIBE_TEST_SECRET"}})
	same("a file under vims/", v, err, password)
	v, err = k.ResolveVIM(&desired.VIM{Name: "core", Type: desired.VIMOpenStack, Endpoint: password.Endpoint,
		Credentials: desired.Credentials{ApplicationCredentialID: "i", ApplicationCredentialSecret: "env:JIBE_TEST_SECRET"}})
	same("an application credential under vims/", v, err, application)
	v, err = k.ResolveConnection("core", desired.VIMConnection{VimType: "openstack", InterfaceInfo: map[string]string{"endpoint": password.Endpoint, "ssl_ca_cert": certificate()},
		AccessInfo: map[string]string{"username": "u", "password": "env:JIBE_TEST_SECRET", "project": "p", "region": "r", "userDomain": "ud", "projectDomain": "pd"}})
	same("a connection", v, err, password)
	v, err = k.ResolveConnection("core", desired.VIMConnection{VimType: "openstack", InterfaceInfo: map[string]string{"endpoint": password.Endpoint},
		AccessInfo: map[string]string{"applicationCredentialId": "i", "applicationCredentialSecret": "env:JIBE_TEST_SECRET"}})
	same("an application credential in a connection", v, err, application)

	for cloud, want := range map[string]string{"half": "lacks what Keystone asks for", "other": "it has application, half, password"} {
		if _, err := k.ResolveVIM(vim(cloud)); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v", cloud, err)
		}
	}
}
