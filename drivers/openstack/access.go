package openstack

import (
	"encoding/json"
	"fmt"
	"strings"
)

// accessVariable is the environment variable that OpenStack's clients look into for the
// path of clouds.yaml.
const accessVariable = "OS_CLIENT_CONFIG_FILE"

// caVariable is the environment variable in which OpenStack's clients look for the path of
// CAs. They have one of their own, OS_CACERT, too, but with that one set they take the
// environment for one more cloud beside those of clouds.yaml.
const caVariable = "REQUESTS_CA_BUNDLE"

// Access implements [drivers.Driver]: a clouds.yaml, written as JSON, which is YAML too.
// Its only cloud is called openstack: libraries take the only one, but the command-line client
// needs its name. A private CA is a file of its own, as clients read it from one.
func (d *Driver) Access() (map[string][]byte, error) {
	auth := map[string]string{"auth_url": d.vim.Endpoint}
	cloud := map[string]any{"auth": auth, "identity_api_version": "3"}
	if d.vim.ApplicationCredential != "" {
		cloud["auth_type"] = "v3applicationcredential"
		auth["application_credential_id"] = d.vim.ApplicationCredential
		auth["application_credential_secret"] = d.vim.ApplicationCredentialSecret
	} else {
		cloud["auth_type"] = "password"
		auth["username"], auth["password"] = d.vim.Username, d.vim.Password
		setDomain(auth, "user_domain", d.vim.UserDomain)
		if isID(d.vim.Project) {
			auth["project_id"] = d.vim.Project
		} else {
			auth["project_name"] = d.vim.Project
			setDomain(auth, "project_domain", d.vim.ProjectDomain)
		}
	}
	if d.vim.Region != "" {
		cloud["region_name"] = d.vim.Region
	}
	if d.vim.Insecure {
		cloud["verify"] = false
	}
	text, err := json.MarshalIndent(map[string]any{"clouds": map[string]any{"openstack": cloud}}, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("VIM %s: clouds.yaml for a hook: %w", d.vim.Name, err)
	}
	files := map[string][]byte{accessVariable: append(text, '\n')}
	if ca := strings.TrimSpace(string(d.vim.CACert)); ca != "" && !d.vim.Insecure {
		files[caVariable] = []byte(ca + "\n")
	}
	return files, nil
}

// setDomain names a domain by its id or its name.
func setDomain(auth map[string]string, of, is string) {
	id, name := domain(is)
	if id != "" {
		auth[of+"_id"] = id
	} else {
		auth[of+"_name"] = name
	}
}
