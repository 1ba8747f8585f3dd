package kubernetes_test

import (
	"testing"

	"github.com/jibe-vnfm/jibe/drivers"
	"github.com/jibe-vnfm/jibe/drivers/kubernetes"
)

func TestNewRefusesWhatIsNoConnection(t *testing.T) {
	for name, vim := range map[string]drivers.VIM{
		"no endpoint":       {},
		"no URL":            {Endpoint: "kube-a:6443"},
		"broken kubeconfig": {Kubeconfig: []byte("{{")},
		"kubeconfig, command": {Kubeconfig: []byte("apiVersion: v1\nkind: Config\ncurrent-context: c\ncontexts: [{name: c, context: {cluster: c, user: u}}]\n" +
			"clusters: [{name: c, cluster: {server: 'https://127.0.0.1:1'}}]\nusers: [{name: u, user: {exec: {command: id, apiVersion: client.authentication.k8s.io/v1, interactiveMode: Never}}}]\n")},
		"broken CA":           {Endpoint: "https://127.0.0.1:1", CACert: []byte("no PEM")},
		"certificate, no key": {Endpoint: "https://127.0.0.1:1", ClientCert: []byte("x")},
	} {
		if _, err := kubernetes.New(vim, kubernetes.Options{}); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
