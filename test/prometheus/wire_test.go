package prometheus

import (
	"net/url"
	"path/filepath"
	"testing"

	"k8s.io/client-go/tools/clientcmd"

	"github.com/jibe-vnfm/jibe/test/kit"
)

// through is the path of a copy of a kubeconfig that leads through a wire.
func through(t *testing.T, w *kit.Wire, path string) string {
	t.Helper()
	config, err := clientcmd.LoadFromFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := clientcmd.ResolveLocalPaths(config); err != nil {
		t.Fatal(err)
	}

	for _, c := range config.Clusters {
		u, err := url.Parse(c.Server)
		if err != nil {
			t.Fatal(err)
		}
		w.Lead(u.Host)
		c.TLSServerName = u.Hostname()
		c.Server = "https://" + w.Address
	}

	to := filepath.Join(t.TempDir(), "far-kubeconfig")
	if err := clientcmd.WriteToFile(*config, to); err != nil {
		t.Fatal(err)
	}
	return to
}
