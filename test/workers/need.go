package workers

import (
	"os"
	"path/filepath"
	"testing"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/jibe-vnfm/jibe/test/netns"
	"github.com/jibe-vnfm/jibe/test/testenv"
)

// Install is the example package's script that makes a host a node; its head tells how it is
// used.
func Install(t testing.TB) []byte {
	t.Helper()
	script := filepath.Join(testenv.Root(), "examples", "packages", "k8s-cluster-1.0", "Scripts", "install_k8s_cluster.sh")
	text, err := os.ReadFile(script)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// Config leads to the cluster of a host that is a master, without a limit of requests.
func Config(t testing.TB, master *netns.Host) *rest.Config {
	t.Helper()
	admin, err := master.ReadFile("/etc/kubernetes/admin.conf")
	if err != nil {
		t.Fatal(err)
	}
	config, err := clientcmd.RESTConfigFromKubeConfig(admin)
	if err != nil {
		t.Fatal(err)
	}
	config.QPS = -1
	return config
}

// Connect leads to the cluster of a host that is a master.
func Connect(t testing.TB, master *netns.Host) kubernetes.Interface {
	t.Helper()
	client, err := kubernetes.NewForConfig(Config(t, master))
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// Need finds the tools for a test. It skips the test as [testenv.Real] does.
func Need(t testing.TB) *Tools {
	t.Helper()
	testenv.Real(t, "the programs of a control plane")
	testenv.BuildControlPlane(t)
	tools, err := Prepare(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return tools
}
