package kubernetes

import (
	"fmt"
	"os"
	"strings"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/yaml"

	"github.com/jibe-vnfm/jibe/drivers"
)

// accessVariable is the environment variable that every Kubernetes client heeds.
const accessVariable = "KUBECONFIG"

// Access implements [drivers.Driver]: a kubeconfig with everything in it, written as
// JSON. That is YAML too, so that any client reads it, and so does a script that has
// no library for YAML. Contexts that aren't the current one are left out.
func (d *Driver) Access() (map[string][]byte, error) {
	config, err := selfContained(d.vim)
	if err != nil {
		return nil, fmt.Errorf("VIM %s: kubeconfig for a hook: %w", d.vim.Name, err)
	}
	return d.accessFile(config)
}

// accessFile is the connection as the file that a hook finds.
func (d *Driver) accessFile(config *clientcmdapi.Config) (map[string][]byte, error) {
	text, err := clientcmd.Write(*config)
	if err != nil {
		return nil, fmt.Errorf("VIM %s: kubeconfig for a hook: %w", d.vim.Name, err)
	}
	data, err := yaml.YAMLToJSON(text)
	if err != nil {
		return nil, fmt.Errorf("VIM %s: kubeconfig for a hook: %w", d.vim.Name, err)
	}
	return map[string][]byte{accessVariable: data}, nil
}

// selfContained is the connection as a kubeconfig that refers to no file: a hook has
// neither Jibe's files nor its directory.
func selfContained(vim drivers.VIM) (*clientcmdapi.Config, error) {
	if len(vim.Kubeconfig) == 0 {
		return connection(vim), nil
	}
	config, err := clientcmd.Load(vim.Kubeconfig)
	if err != nil {
		return nil, err
	}
	if err := clientcmdapi.MinifyConfig(config); err != nil {
		return nil, err
	}
	if err := clientcmdapi.FlattenConfig(config); err != nil {
		return nil, err
	}
	for _, user := range config.AuthInfos {
		if user.TokenFile == "" {
			continue
		}
		// Clients take the content of the file where both are given.
		token, err := os.ReadFile(user.TokenFile)
		if err != nil {
			return nil, err
		}
		user.Token, user.TokenFile = strings.TrimSpace(string(token)), ""
	}
	return config, nil
}

// connection is the VIM's own fields as a kubeconfig.
func connection(vim drivers.VIM) *clientcmdapi.Config {
	config := clientcmdapi.NewConfig()
	config.Clusters["vim"] = &clientcmdapi.Cluster{Server: vim.Endpoint, InsecureSkipTLSVerify: vim.Insecure}
	if !vim.Insecure { // clients refuse both
		config.Clusters["vim"].CertificateAuthorityData = vim.CACert
	}
	config.AuthInfos["vim"] = &clientcmdapi.AuthInfo{
		Token: vim.Token, Username: vim.Username, Password: vim.Password,
		ClientCertificateData: vim.ClientCert, ClientKeyData: vim.ClientKey,
	}
	config.Contexts["vim"] = &clientcmdapi.Context{Cluster: "vim", AuthInfo: "vim"}
	config.CurrentContext = "vim"
	return config
}
