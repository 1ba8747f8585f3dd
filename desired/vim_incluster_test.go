package desired_test

import (
	"strings"
	"testing"

	"github.com/jibe-vnfm/jibe/desired"
)

func TestInClusterStandsForAWholeConnectionAndForKubernetesAlone(t *testing.T) {
	const file = "vims/local.yaml"
	good := "# here\ntype: kubernetes\ndefault: true\ninCluster: true\n"
	v, err := desired.ParseVIM(file, []byte(good))
	if err != nil || !v.InCluster || !v.Default || v.Type != desired.VIMKubernetes {
		t.Fatalf("%+v, %v", v, err)
	}
	v.Description = "the cluster in Hall 3"
	if text, err := desired.EditVIM(v, []byte(good)); err != nil || string(text) != good+"description: the cluster in Hall 3\n" {
		t.Errorf("edited it is %q, %v", text, err)
	}
	for _, more := range []string{"kubeconfig: file:/x\n", "endpoint: https://h\n", "insecure: true\n", "credentials: {token: 'file:/x'}\n", "caCert: file:/x\n"} {
		if _, err := desired.ParseVIM(file, []byte(good+more)); err == nil || !strings.Contains(err.Error(), `"inCluster" replaces everything else`) {
			t.Errorf("%s: %v", more, err)
		}
	}
	for text, want := range map[string]string{
		"type: openstack\ninCluster: true\n":             `"inCluster" is for Kubernetes only`,
		"type: sim\ninCluster: true\n":                   `"inCluster" is for Kubernetes only`,
		"type: kubernetes\ninCluster: true\nregion: a\n": `"region" is for OpenStack only`,
		"type: kubernetes\ninCluster: perhaps\n":         "inCluster",
		"type: kubernetes\ninCluster: false\n":           `"endpoint" is missing`,
	} {
		if _, err := desired.ParseVIM(file, []byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}

func TestAVIMNamesTheNamespacesInWhichItIsUsed(t *testing.T) {
	t.Parallel()
	const file, base = "vims/edge.yaml", "type: kubernetes\nkubeconfig: file:/k\n"
	v, err := desired.ParseVIM(file, []byte(base+"namespaces: [vnfs, edge-1]\n"))
	if err != nil || strings.Join(v.Namespaces, " ") != "edge-1 vnfs" {
		t.Fatalf("%+v, %v", v, err)
	}
	v.Description = "the cluster in Hall 3"
	if text, err := desired.EditVIM(v, []byte(base+"namespaces: [vnfs, edge-1]\n")); err != nil || !strings.Contains(string(text), "namespaces: [vnfs, edge-1]\n") {
		t.Errorf("edited it is %q, %v", text, err)
	}

	for list, want := range map[string]string{
		"[]":               `"namespaces" names none`,
		"[a, a]":           "namespace a is named twice",
		"['site-*']":       "is not the name of a namespace",
		"[A]":              "is not the name of a namespace",
		"[vnfs, '']":       "namespaces",
		"[kube-system]":    "no VNF may be in namespace kube-system",
		"vnfs":             "namespaces",
		"[" + many() + "]": "101 namespaces are named, and 100 may be",
	} {
		if _, err := desired.ParseVIM(file, []byte(base+"namespaces: "+list+"\n")); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", list, err, want)
		}
	}
	if _, err := desired.ParseVIM(file, []byte("type: sim\nnamespaces: [a]\n")); err == nil || !strings.Contains(err.Error(), `"namespaces" is for Kubernetes only`) {
		t.Errorf("of another type: %v", err)
	}
}

// many are names of more namespaces than a VIM may name.
func many() string {
	names := make([]string, desired.MaxVIMNamespaces+1)
	for i := range names {
		names[i] = "n" + strings.Repeat("x", i%50) + string(rune('a'+i/50))
	}
	return strings.Join(names, ", ")
}
