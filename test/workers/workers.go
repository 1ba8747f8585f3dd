// Package workers makes hosts of a test (package netns) able to become nodes of a Kubernetes
// cluster, whose control plane is a real one on the host that is the master.
//
// install_k8s_cluster.sh of the example package of a cluster is what runs on each host over
// SSH. It calls kubeadm, which is a stand-in there: [Tools] puts one on the PATH of each host, beside
// stand-ins of other programs that need a whole machine (systemctl, kubelet, the container runtime). It
// starts the control plane of test/controlplane in the host's namespaces, and joins and
// registers as kubeadm and a kubelet do (bin/join). Nodes and pods are played by kwok, which
// runs beside the control plane: a node stays Ready until it is deleted, even if its host
// is gone.
package workers

import (
	"context"
	"path/filepath"

	"github.com/jibe-vnfm/jibe/test/netns"
	"github.com/jibe-vnfm/jibe/test/testenv"
)

// Tools are what hosts need to become masters and workers.
type Tools struct {
	mounts map[string]string
}

// Prepare finds the tools. It doesn't build a control plane, which takes minutes.
func Prepare(ctx context.Context) (*Tools, error) {
	here := filepath.Join(testenv.Root(), "test", "workers")
	plane := filepath.Join(here, "..", "controlplane")
	binaries, err := testenv.ControlPlane(ctx)
	if err != nil {
		return nil, err
	}
	bin := filepath.Join(here, "bin")
	mounts := map[string]string{
		"/opt/jibe-test/join":         filepath.Join(bin, "join"),
		"/opt/jibe-test/controlplane": plane,
		"/usr/local/bin/kubeadm":      filepath.Join(bin, "kubeadm"),
		"/usr/local/bin/systemctl":    filepath.Join(bin, "systemctl"),
		"/usr/local/bin/kubectl":      filepath.Join(binaries, "kubectl"),
		// The stand-in finds its binaries in a cache of that form.
		"/opt/jibe-test/cache/controlplane/" + filepath.Base(binaries): binaries,
	}
	// What would change this machine, which lends its kernel to the hosts, or be missing.
	for _, name := range []string{"kubelet", "containerd", "conntrack", "iptables", "modprobe", "swapoff"} {
		mounts["/usr/local/sbin/"+name] = filepath.Join(bin, "there")
	}
	mounts["/opt/cni/bin/loopback"] = filepath.Join(bin, "there")
	return &Tools{mounts: mounts}, nil
}

// Outfit adds the tools to a host that is going to be made.
func (t *Tools) Outfit(spec *netns.Spec) { spec.Lend(t.mounts, nil) }
