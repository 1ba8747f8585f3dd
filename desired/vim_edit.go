package desired

import (
	"bytes"
	"fmt"

	"go.yaml.in/yaml/v3"
)

// EditVIM returns the text of the VIM's file, so that it says what v says. now is the present
// text, whose comments and order stay; nil where there is none. It refuses a VIM that can't be
// one, and a text that can't be read, with an [*InvalidError].
func EditVIM(v *VIM, now []byte) ([]byte, error) {
	file, was := VIMFile(v.Name), &VIM{}
	if d := (&document{file: file}); !settingName.MatchString(v.Name) {
		d.fail(nil, "letters, digits, '-', '_' and single dots", "%q can't name a VIM", clip(v.Name))
		return nil, d.err()
	}
	doc := &yaml.Node{Kind: yaml.DocumentNode, Content: []*yaml.Node{{Kind: yaml.MappingNode, Tag: "!!map"}}}
	if now != nil {
		var err error
		if was, err = ParseVIM(file, now); err != nil {
			return nil, err
		}
		if err := yaml.Unmarshal(now, doc); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
	}
	for _, f := range []struct {
		path    []string
		is, was any
	}{
		{[]string{"type"}, shortVIMType(v.Type), shortVIMType(was.Type)},
		{[]string{"id"}, v.ID, was.ID},
		{[]string{"description"}, v.Description, was.Description},
		{[]string{"default"}, v.Default, was.Default},
		{[]string{"instance"}, v.Instance, was.Instance},
		{[]string{"kubeconfig"}, v.Kubeconfig, was.Kubeconfig},
		{[]string{"inCluster"}, v.InCluster, was.InCluster},
		{[]string{"clouds"}, v.Clouds, was.Clouds},
		{[]string{"cloud"}, v.Cloud, was.Cloud},
		{[]string{"endpoint"}, v.Endpoint, was.Endpoint},
		{[]string{"caCert"}, v.CACert, was.CACert},
		{[]string{"insecure"}, v.Insecure, was.Insecure},
		{[]string{"region"}, v.Region, was.Region},
		{[]string{"project"}, v.Project, was.Project},
		{[]string{"projectDomain"}, v.ProjectDomain, was.ProjectDomain},
		{[]string{"userDomain"}, v.UserDomain, was.UserDomain},
		{[]string{"credentials", "token"}, v.Credentials.Token, was.Credentials.Token},
		{[]string{"credentials", "username"}, v.Credentials.Username, was.Credentials.Username},
		{[]string{"credentials", "password"}, v.Credentials.Password, was.Credentials.Password},
		{[]string{"credentials", "clientCert"}, v.Credentials.ClientCert, was.Credentials.ClientCert},
		{[]string{"credentials", "clientKey"}, v.Credentials.ClientKey, was.Credentials.ClientKey},
		{[]string{"credentials", "applicationCredentialId"}, v.Credentials.ApplicationCredentialID, was.Credentials.ApplicationCredentialID},
		{[]string{"credentials", "applicationCredentialSecret"}, v.Credentials.ApplicationCredentialSecret, was.Credentials.ApplicationCredentialSecret},
	} {
		if f.is == f.was {
			continue
		}
		value := f.is
		if value == "" || value == false {
			value = nil
		}
		if err := set(doc.Content[0], f.path, value); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
	}
	var out bytes.Buffer
	e := yaml.NewEncoder(&out)
	e.SetIndent(2)
	if err := e.Encode(doc); err != nil {
		return nil, fmt.Errorf("write %s: %w", file, err)
	}
	if _, err := ParseVIM(file, out.Bytes()); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// shortVIMType is how files write a type.
func shortVIMType(t string) string {
	switch t {
	case VIMKubernetes:
		return "kubernetes"
	case VIMOpenStack:
		return "openstack"
	}
	return t
}
