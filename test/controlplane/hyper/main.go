// Command hyper is all programs of a Kubernetes cluster in one binary: etcd, etcdctl,
// kube-apiserver, kube-controller-manager, kube-scheduler, kube-proxy, kubelet, kubeadm and kubectl; the name
// that it is called by (a link to it) chooses which.
// One binary links once and shares its pages, where nine would take nine times the disk.
// It adds nothing of its own to any of them.
package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	_ "time/tzdata" // CronJobs name time zones, and the host may have no zone files

	"github.com/spf13/cobra"
	"go.etcd.io/etcd/etcdctl/v3/ctlv3"
	"go.etcd.io/etcd/server/v3/etcdmain"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	kubectl "k8s.io/kubectl/pkg/cmd"
	kubectlutil "k8s.io/kubectl/pkg/cmd/util"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllers "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	proxy "k8s.io/kubernetes/cmd/kube-proxy/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
	kubeadm "k8s.io/kubernetes/cmd/kubeadm/app"
	kubeadmerrors "k8s.io/kubernetes/cmd/kubeadm/app/util/errors"
	kubelet "k8s.io/kubernetes/cmd/kubelet/app"
)

func main() {
	var server *cobra.Command
	switch name := filepath.Base(os.Args[0]); name {
	case "etcdctl":
		ctlv3.MustStart()
		return
	case "kubeadm":
		kubeadmerrors.HandleError(kubeadm.Run())
		return
	case "etcd":
		etcdmain.Main(os.Args)
		return
	case "kubectl":
		if err := cli.RunNoErrOutput(kubectl.NewDefaultKubectlCommand()); err != nil {
			kubectlutil.CheckErr(err)
		}
		return
	case "kube-apiserver":
		server = apiserver.NewAPIServerCommand()
	case "kube-controller-manager":
		server = controllers.NewControllerManagerCommand()
	case "kube-scheduler":
		server = scheduler.NewSchedulerCommand()
	case "kube-proxy":
		server = proxy.NewProxyCommand()
	case "kubelet":
		server = kubelet.NewKubeletCommand(context.Background())
	default:
		fmt.Fprintf(os.Stderr, "hyper: called as %q: call it by a link named etcd, etcdctl, kube-apiserver, kube-controller-manager, kube-scheduler, kube-proxy, kubelet, kubeadm or kubectl\n", name)
		os.Exit(2)
	}
	os.Exit(cli.Run(server))
}
