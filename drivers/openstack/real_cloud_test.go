package openstack_test

import (
	"os"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/jibe-vnfm/jibe/drivers"
	"github.com/jibe-vnfm/jibe/drivers/openstack"
	"github.com/jibe-vnfm/jibe/test/osenv"
)

// lab is the real OpenStack that tests run on, as its clouds.yaml says.
func lab(t *testing.T) drivers.VIM {
	t.Helper()
	cloud := osenv.OpenStack(t)
	text, err := os.ReadFile(cloud.File)
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Clouds map[string]struct {
			Auth   map[string]string `yaml:"auth"`
			Region string            `yaml:"region_name"`
			CACert string            `yaml:"cacert"`
		} `yaml:"clouds"`
	}
	if err := yaml.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	c := file.Clouds[cloud.Name]
	vim := drivers.VIM{
		Name: "lab", Type: openstack.Type, Endpoint: c.Auth["auth_url"], Region: c.Region,
		Username: c.Auth["username"], Password: c.Auth["password"], UserDomain: c.Auth["user_domain_name"],
		Project: c.Auth["project_name"], ProjectDomain: c.Auth["project_domain_name"],
		ApplicationCredential: c.Auth["application_credential_id"], ApplicationCredentialSecret: c.Auth["application_credential_secret"],
	}
	if c.CACert != "" {
		if vim.CACert, err = os.ReadFile(c.CACert); err != nil {
			t.Fatal(err)
		}
	}
	return vim
}
