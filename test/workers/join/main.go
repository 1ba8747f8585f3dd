// Command join makes a host a node of a Kubernetes cluster, where the host has neither
// kubeadm nor a kubelet: a host of a test's (test/netns). It does what "kubeadm join" and a
// starting kubelet do at the API server (discovery of the CA, bootstrap token, certificate
// signing request, registration of the Node), and leaves the kubelet.conf that they leave.
// It runs no pods and tells the cluster nothing after it has ended: the Node and its pods
// are played by kwok, also when the host is gone.
//
//	JIBE_K8S_TOKEN=… join join -endpoint 10.0.0.1:6443 -ca-hash sha256:… -name w1 -address 10.0.0.2
//	join token                writes the manifest of $JIBE_K8S_TOKEN, for a day
//	join hash  -conf FILE     prints the hash of the CA of a kubeconfig
//	join reset                forgets the cluster on this host, as "kubeadm reset" does
//
// The token comes through the environment, so that no list of processes shows it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
)

// envToken names the environment variable that holds the bootstrap token.
const envToken = "JIBE_K8S_TOKEN"

// kubeletConf is where kubeadm has the kubelet's kubeconfig.
const kubeletConf = "/etc/kubernetes/kubelet.conf"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "join:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	verb := ""
	if len(args) > 0 {
		verb, args = args[0], args[1:]
	}
	j := joining{token: os.Getenv(envToken)}
	flags := flag.NewFlagSet("join "+verb, flag.ContinueOnError)
	flags.StringVar(&j.conf, "conf", kubeletConf, "the kubeconfig `file`")
	switch verb {
	case "join":
		return join(ctx, &j, flags, args)
	case "token":
		if err := flags.Parse(args); err != nil {
			return err
		}
		return printToken(j.token, time.Now().Add(24*time.Hour))
	case "hash":
		if err := flags.Parse(args); err != nil {
			return err
		}
		return printHash(j.conf)
	case "reset":
		if err := flags.Parse(args); err != nil {
			return err
		}
		if err := os.Remove(j.conf); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
		return nil
	}
	return errors.New("want: join | token | hash | reset")
}

func join(ctx context.Context, j *joining, flags *flag.FlagSet, args []string) error {
	flags.StringVar(&j.endpoint, "endpoint", "", "`host:port` of the API server")
	flags.StringVar(&j.caHash, "ca-hash", "", "sha256:… of the public key of the cluster's CA, as kubeadm prints it")
	flags.StringVar(&j.node.name, "name", "", "the node's `name`")
	flags.StringVar(&j.node.address, "address", "", "the node's `address`")
	cpu := flags.String("cpu", "4", "the node's processors")
	memory := flags.String("memory", "8Gi", "the node's memory")
	pods := flags.String("pods", "110", "how many pods the node takes")
	wait := flags.Duration("timeout", 2*time.Minute, "how long to try")
	if err := flags.Parse(args); err != nil {
		return err
	}
	for _, q := range []struct {
		to   *resource.Quantity
		text string
	}{{&j.node.cpu, *cpu}, {&j.node.memory, *memory}, {&j.node.pods, *pods}} {
		var err error
		if *q.to, err = resource.ParseQuantity(q.text); err != nil {
			return fmt.Errorf("%q: %w", q.text, err)
		}
	}
	if err := j.check(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, *wait)
	defer cancel()
	if err := j.do(ctx); err != nil {
		return fmt.Errorf("node %s doesn't join the cluster at %s: %w", j.node.name, j.endpoint, err)
	}
	fmt.Printf("node %s is Ready in the cluster at %s\n", j.node.name, j.endpoint)
	return nil
}
