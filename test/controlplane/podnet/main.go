// Command podnet is the pod network of test clusters whose nodes are on one subnet: on each
// node it tells the runtime to connect pods to a bridge with addresses of the node's
// subnet of pods (plugins bridge, host-local and portmap), and keeps a route to the subnet of
// every other node by that node's address. What pods send to addresses outside of the
// cluster's pods has the node's address. It is a DaemonSet's, with the host's network; NODE is
// its node's name, POD_CIDR the subnet of all pods.
package main

import (
	"context"
	"fmt"
	"log"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/vishvananda/netlink"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
)

const conflist = `{
  "cniVersion": "0.4.0",
  "name": "podnet",
  "plugins": [
    {"type": "bridge", "bridge": "cni0", "isGateway": true, "hairpinMode": true,
     "ipam": {"type": "host-local", "ranges": [[{"subnet": %q}]], "routes": [{"dst": "0.0.0.0/0"}], "dataDir": "/run/cni-ipam"}},
    {"type": "portmap", "capabilities": {"portMappings": true}}
  ]
}
`

// configDir is where the runtime looks for pod networks.
const configDir = "/etc/cni/net.d"

func main() {
	config, err := rest.InClusterConfig()
	if err != nil {
		log.Fatal(err)
	}
	// Until kube-proxy leads to the API server, nobody answers.
	config.Dial = (&net.Dialer{Timeout: time.Second, KeepAlive: 30 * time.Second}).DialContext
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		log.Fatal(err)
	}
	own := os.Getenv("NODE")
	if err := masquerade(os.Getenv("POD_CIDR")); err != nil {
		log.Fatal(err)
	}
	factory := informers.NewSharedInformerFactory(client, time.Minute)
	_, err = factory.Core().V1().Nodes().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(o any) { follow(own, o) },
		UpdateFunc: func(_, o any) { follow(own, o) },
		DeleteFunc: func(o any) {
			if last, ok := o.(cache.DeletedFinalStateUnknown); ok {
				o = last.Obj
			}
			n, ok := o.(*corev1.Node)
			if !ok || n.Name == own || n.Spec.PodCIDR == "" {
				return
			}
			if r, err := route(n); err == nil {
				log.Printf("node %s is gone: %v", n.Name, netlink.RouteDel(r))
			}
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	factory.Start(context.Background().Done())
	select {}
}

// masquerade gives what pods send to others than pods the node's address.
func masquerade(pods string) error {
	rule := []string{"POSTROUTING", "-s", pods, "!", "-d", pods, "-j", "MASQUERADE"}
	if exec.Command("iptables", append([]string{"-t", "nat", "-C"}, rule...)...).Run() == nil {
		return nil
	}
	if out, err := exec.Command("iptables", append([]string{"-t", "nat", "-A"}, rule...)...).CombinedOutput(); err != nil {
		return fmt.Errorf("iptables: %w: %s", err, out)
	}
	return nil
}

// follow does what a node asks for. What fails is done again at the next look, a minute
// later at the latest.
func follow(own string, o any) {
	n, ok := o.(*corev1.Node)
	if !ok || n.Spec.PodCIDR == "" {
		return
	}
	if n.Name == own {
		if err := connectPods(n.Spec.PodCIDR); err != nil {
			log.Printf("pods of this node: %v", err)
		}
		return
	}
	r, err := route(n)
	if err == nil {
		err = netlink.RouteReplace(r)
	}
	if err != nil {
		log.Printf("route to the pods of node %s: %v", n.Name, err)
	}
}

// connectPods writes the configuration, whole or not at all.
func connectPods(subnet string) error {
	name := filepath.Join(configDir, "10-podnet.conflist")
	want := fmt.Sprintf(conflist, subnet)
	if is, err := os.ReadFile(name); err == nil && string(is) == want {
		return nil
	}
	part := filepath.Join(configDir, ".podnet")
	if err := os.WriteFile(part, []byte(want), 0o644); err != nil {
		return err
	}
	log.Printf("pods of this node get addresses of %s", subnet)
	return os.Rename(part, name)
}

// route leads to the pods of a node.
func route(n *corev1.Node) (*netlink.Route, error) {
	_, subnet, err := net.ParseCIDR(n.Spec.PodCIDR)
	if err != nil {
		return nil, err
	}
	for _, a := range n.Status.Addresses {
		if a.Type == corev1.NodeInternalIP {
			return &netlink.Route{Dst: subnet, Gw: net.ParseIP(a.Address)}, nil
		}
	}
	return nil, fmt.Errorf("node %s has no internal address", n.Name)
}
