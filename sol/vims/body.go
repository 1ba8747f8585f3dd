package vims

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/sol/rest"
)

// mask stands in answers where a credential is.
const mask = "***"

// onlyNamespace is the one name that the project of a Kubernetes cluster may have: clients
// must give one, and each VNF instance chooses its namespace itself.
const onlyNamespace = "default"

// request is what clients send as "vim". nil is what they leave out.
type request struct {
	Name        *string        `json:"name"`
	Description *string        `json:"description"`
	Type        *string        `json:"type"`
	AuthURL     *string        `json:"auth_url"`
	AuthCred    *credentials   `json:"auth_cred"`
	Project     *project       `json:"vim_project"`
	IsDefault   *bool          `json:"is_default"`
	Extra       map[string]any `json:"extra"`
	// TenantID is taken and means nothing: who may do what is said by roles.
	TenantID *string `json:"tenant_id"`
}

// credentials are those of either type of VIM. "" is as if it were left out, as the client
// sends it so.
type credentials struct {
	Username   string `json:"username"`
	Password   string `json:"password"`
	UserDomain string `json:"user_domain_name"`
	CertVerify any    `json:"cert_verify"`
	Token      string `json:"bearer_token"`
	CACert     string `json:"ssl_ca_cert"`
	// By OpenID Connect, which Jibe doesn't do.
	OIDC         string `json:"oidc_token_url"`
	ClientID     string `json:"client_id"`
	ClientSecret string `json:"client_secret"`
}

type project struct {
	Name   string `json:"name"`
	Domain string `json:"project_domain_name"`
}

func read(w http.ResponseWriter, r *http.Request) (*request, error) {
	var b struct {
		VIM *request `json:"vim"`
	}
	if err := rest.Read(w, r, &b); err != nil {
		return nil, err
	}
	if b.VIM == nil {
		return nil, bad("vim is missing: the body is {\"vim\": {…}}")
	}
	if len(b.VIM.Extra) > 0 {
		return nil, bad("extra: nothing of it is supported: leave it out")
	}
	if c := b.VIM.AuthCred; c != nil {
		return b.VIM, c.check()
	}
	return b.VIM, nil
}

func bad(format string, args ...any) error {
	return rest.Problem(http.StatusBadRequest, format, args...)
}

// check refuses what can't be kept, whatever the VIM.
func (c *credentials) check() error {
	if c.OIDC != "" || c.ClientID != "" || c.ClientSecret != "" {
		return bad("auth_cred.oidc_token_url, client_id and client_secret are not supported: give bearer_token")
	}
	for attribute, s := range map[string]string{"password": c.Password, "bearer_token": c.Token} {
		switch {
		case s == mask:
			return bad("auth_cred.%s is %q, which stands for it in answers: give the real one, or leave it out to keep it", attribute, mask)
		case desired.IsRef(s):
			return bad("auth_cred.%s is a reference: through the API credentials are given in clear (they are encrypted before they are stored)", attribute)
		}
	}
	if c.CACert != "" && desired.IsRef(c.CACert) {
		return bad("auth_cred.ssl_ca_cert must be the PEM certificate itself")
	}
	if _, err := c.insecure(); err != nil {
		return err
	}
	return nil
}

// insecure says whether the VIM's certificate isn't to be checked; nil where nothing is said.
func (c *credentials) insecure() (*bool, error) {
	var insecure bool
	switch v := c.CertVerify.(type) {
	case nil:
		return nil, nil
	case bool:
		insecure = !v
	case string:
		switch strings.ToLower(v) {
		case "":
			return nil, nil
		case "true":
		case "false":
			insecure = true
		default:
			return nil, bad("auth_cred.cert_verify must be True or False")
		}
	default:
		return nil, bad("auth_cred.cert_verify must be True or False")
	}
	return &insecure, nil
}

// complete refuses the registration of a VIM without what it needs.
func (r *request) complete() error {
	for attribute, missing := range map[string]bool{"name": r.Name == nil || *r.Name == "", "type": r.Type == nil, "auth_url": r.AuthURL == nil,
		"auth_cred": r.AuthCred == nil, "vim_project": r.Project == nil} {
		if missing {
			return bad("vim.%s is missing", attribute)
		}
	}
	return nil
}

// apply returns v with the change.
func (r *request) apply(v *desired.VIM, keep func(old, plaintext string) (string, error)) (*desired.VIM, error) {
	next := *v
	if r.Type != nil {
		t, ok := desired.NormalVIMType(*r.Type)
		if !ok || t == desired.VIMSim && v.Type == "" {
			return nil, bad("type must be openstack or kubernetes")
		}
		if v.Type != "" && t != v.Type {
			return nil, bad("type: the type of a VIM can't change: register another VIM")
		}
		next.Type = t
	}
	if r.Description != nil {
		next.Description = *r.Description
	}
	if r.AuthURL != nil {
		next.Endpoint = *r.AuthURL
	}
	if r.IsDefault != nil {
		next.Default = *r.IsDefault
	}
	if err := r.Project.apply(&next); err != nil {
		return nil, err
	}
	if err := r.AuthCred.apply(&next, keep); err != nil {
		return nil, err
	}
	return &next, nil
}

func (p *project) apply(v *desired.VIM) error {
	switch {
	case p == nil:
	case v.Type != desired.VIMKubernetes:
		v.Project = p.Name
		if p.Domain != "" {
			v.ProjectDomain = p.Domain
		}
	case p.Domain != "":
		return bad("vim_project.project_domain_name is for OpenStack only")
	case p.Name != "" && p.Name != onlyNamespace:
		return bad("vim_project.name %.64q: a VIM has no namespace, each VNF instance chooses its own (additionalParams.namespace): write %s", p.Name, onlyNamespace)
	}
	return nil
}

func (c *credentials) apply(v *desired.VIM, keep func(old, plaintext string) (string, error)) error {
	if c == nil {
		return nil
	}
	insecure, err := c.insecure()
	if err != nil {
		return err
	}
	if insecure != nil {
		v.Insecure = *insecure
	}
	if c.CACert != "" {
		v.CACert = c.CACert
	}
	if c.UserDomain != "" {
		v.UserDomain = c.UserDomain
	}
	is := &v.Credentials
	if c.Token != "" {
		sealed, err := keep(is.Token, c.Token)
		if err != nil {
			return fmt.Errorf("encrypt the credentials of VIM %s: %w", v.Name, err)
		}
		*is = desired.Credentials{Token: sealed}
	}
	if c.Username != "" || c.Password != "" {
		// In place of whatever else there was, unless it is given too.
		next := desired.Credentials{Username: is.Username, Password: is.Password}
		if c.Token != "" {
			next.Token = is.Token
		}
		if c.Username != "" {
			next.Username = c.Username
		}
		if c.Password != "" {
			if next.Password, err = keep(is.Password, c.Password); err != nil {
				return fmt.Errorf("encrypt the credentials of VIM %s: %w", v.Name, err)
			}
		}
		*is = next
	}
	return nil
}

// body shows a VIM without its credentials.
func body(v *desired.VIM, status string) map[string]any {
	cred := map[string]any{}
	show := func(attribute, value string) {
		if value != "" {
			cred[attribute] = value
		}
	}
	masked := func(attribute, value string) {
		if value != "" {
			cred[attribute] = mask
		}
	}
	show("auth_url", v.Endpoint)
	show("username", v.Credentials.Username)
	masked("password", v.Credentials.Password)
	masked("bearer_token", v.Credentials.Token)
	masked("client_key", v.Credentials.ClientKey)
	show("user_domain_name", v.UserDomain)
	show("project_name", v.Project)
	show("project_domain_name", v.ProjectDomain)
	show("application_credential_id", v.Credentials.ApplicationCredentialID)
	masked("application_credential_secret", v.Credentials.ApplicationCredentialSecret)
	if !desired.IsRef(v.CACert) { // a certificate is no secret, but where files lie is nobody's business
		show("ssl_ca_cert", v.CACert)
	}
	in := map[string]any{"name": v.Project}
	regions := []string{}
	switch v.Type {
	case desired.VIMOpenStack:
		cred["cert_verify"] = "True"
		if v.Insecure {
			cred["cert_verify"] = "False"
		}
		in["project_domain_name"] = v.ProjectDomain
		if v.Region != "" {
			regions = append(regions, v.Region)
		}
	case desired.VIMKubernetes:
		in["name"] = onlyNamespace
		regions = append(regions, onlyNamespace)
	}
	return map[string]any{
		"id": idOf(v), "name": v.Name, "description": v.Description, "tenant_id": "", "type": shortType(v.Type), "auth_url": v.Endpoint,
		"auth_cred": cred, "vim_project": in, "is_default": v.Default, "placement_attr": map[string]any{"regions": regions}, "status": status,
		"created_at": nil, "updated_at": nil, "extra": map[string]any{},
	}
}

func shortType(t string) string {
	switch t {
	case desired.VIMKubernetes:
		return "kubernetes"
	case desired.VIMOpenStack:
		return "openstack"
	}
	return t
}
