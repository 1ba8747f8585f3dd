package secret

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/jibe-vnfm/jibe/desired"
)

// cloud is one entry of a clouds.yaml: the part of it that says how to reach a cloud.
type cloud struct {
	Auth struct {
		AuthURL                     string `yaml:"auth_url"`
		Username                    string `yaml:"username"`
		Password                    string `yaml:"password"`
		ProjectName                 string `yaml:"project_name"`
		ProjectID                   string `yaml:"project_id"`
		ProjectDomainName           string `yaml:"project_domain_name"`
		ProjectDomainID             string `yaml:"project_domain_id"`
		UserDomainName              string `yaml:"user_domain_name"`
		UserDomainID                string `yaml:"user_domain_id"`
		DomainName                  string `yaml:"domain_name"`
		DomainID                    string `yaml:"domain_id"`
		ApplicationCredentialID     string `yaml:"application_credential_id"`
		ApplicationCredentialSecret string `yaml:"application_credential_secret"`
	} `yaml:"auth"`
	Region string `yaml:"region_name"`
	CACert string `yaml:"cacert"`
	Verify *bool  `yaml:"verify"`
}

// resolveCloud is the connection that an entry of a clouds.yaml describes. Errors
// never quote the file.
func (k *Keeper) resolveCloud(v *desired.VIM) (Connection, error) {
	bad := func(err error) (Connection, error) {
		return Connection{}, fmt.Errorf("resolve VIM %s: %w", v.Name, of("clouds", err))
	}
	text, err := k.For(ForVIMs()).Resolve(v.Clouds)
	if err != nil {
		return bad(err)
	}
	var file struct {
		Clouds map[string]cloud `yaml:"clouds"`
	}
	if yaml.Unmarshal([]byte(text), &file) != nil {
		return bad(errors.New("the file isn't a clouds.yaml"))
	}
	c, ok := file.Clouds[v.Cloud]
	if !ok {
		return bad(fmt.Errorf("the file has no entry %q; it has %s", v.Cloud, strings.Join(slices.Sorted(maps.Keys(file.Clouds)), ", ")))
	}
	a := c.Auth
	domain := cmp.Or(a.DomainName, a.DomainID)
	out := Connection{
		Name: v.Name, Type: v.Type, Endpoint: a.AuthURL, Insecure: c.Verify != nil && !*c.Verify,
		Username: []byte(a.Username), Password: []byte(a.Password),
		Region: c.Region, Project: cmp.Or(a.ProjectName, a.ProjectID),
		ProjectDomain:         cmp.Or(a.ProjectDomainName, a.ProjectDomainID, domain),
		UserDomain:            cmp.Or(a.UserDomainName, a.UserDomainID, domain),
		ApplicationCredential: a.ApplicationCredentialID, ApplicationCredentialSecret: []byte(a.ApplicationCredentialSecret),
	}
	if out.ApplicationCredential != "" {
		out.Username, out.Password, out.Project, out.ProjectDomain, out.UserDomain = nil, nil, "", "", ""
	}
	if c.CACert != "" && !out.Insecure {
		pem, err := k.outer(desired.RefFile + c.CACert)
		if err != nil {
			return Connection{}, fmt.Errorf("resolve VIM %s: %w", v.Name, of("cacert of cloud "+v.Cloud, err))
		}
		out.CACert = []byte(pem)
	}
	whole := desired.VIMConnection{VimType: v.Type, InterfaceInfo: map[string]string{"endpoint": a.AuthURL}, AccessInfo: map[string]string{
		"username": string(out.Username), "password": string(out.Password), "project": out.Project,
		"applicationCredentialId": out.ApplicationCredential, "applicationCredentialSecret": string(out.ApplicationCredentialSecret)}}
	if gap, _ := whole.Gap(); gap != "" {
		return bad(fmt.Errorf("entry %q lacks what Keystone asks for: auth_url, and username, password and project_name, or application_credential_id and application_credential_secret", v.Cloud))
	}
	return out, nil
}
