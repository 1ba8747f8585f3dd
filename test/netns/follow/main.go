// Command follow makes machines for the servers of an OpenStack whose hypervisor is a
// fake: one logs in at the address that it reports. It runs until it is interrupted, and
// takes all machines with it.
//
//	go run ./test/netns/follow -subnet 10.10.0.0/16 -balancer 10.10.0.50
//
// With -nodes the machines can become nodes of a real Kubernetes cluster (package nodes), which
// have the images that it names; with -kubernetes, masters and workers whose kubelets
// are stand-ins (package workers).
//
// It needs root on Linux, and a clouds.yaml where OpenStack's clients look for it, or where
// OS_CLIENT_CONFIG_FILE says.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/jibe-vnfm/jibe/test/netns"
	"github.com/jibe-vnfm/jibe/test/nodes"
	"github.com/jibe-vnfm/jibe/test/osenv"
	"github.com/jibe-vnfm/jibe/test/workers"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "follow:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("follow", flag.ContinueOnError)
	cloud := flags.String("cloud", cmp.Or(os.Getenv("OS_CLOUD"), os.Getenv(osenv.EnvCloud)), "`name` in clouds.yaml")
	subnet := flags.String("subnet", "10.10.0.0/16", "servers with an address in this `subnet` get a machine")
	balancer := flags.String("balancer", "", "`address` of a machine with an haproxy, which no server may have")
	user := flags.String("user", netns.DefaultUser.Name+":"+netns.DefaultUser.Password, "`name:password` of the account of every machine")
	kubernetes := flags.Bool("kubernetes", false, "machines have what the example package of a Kubernetes cluster needs")
	images := flags.String("nodes", "", "machines can be real Kubernetes nodes, with these `images` (names with commas between them), which all run a test program")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *kubernetes && *images != "" {
		return errors.New("-kubernetes and -nodes: machines are either, leave one out")
	}
	prefix, err := netip.ParsePrefix(*subnet)
	if err != nil {
		return fmt.Errorf("-subnet: %w", err)
	}
	name, password, ok := strings.Cut(*user, ":")
	if !ok {
		return errors.New("-user: name:password is needed")
	}
	users := []netns.User{{Name: name, Password: password}}
	if err := os.Setenv(osenv.EnvCloud, *cloud); err != nil {
		return err
	}
	found, err := osenv.FindCloud()
	if err != nil {
		return fmt.Errorf("which cloud to follow: %w; name it with -cloud", err)
	}
	provider, where, err := found.Connect(ctx)
	if err != nil {
		return err
	}
	servers, err := netns.OpenStack(provider, where)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "follow-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	outfit := func(*netns.Spec) {}
	switch {
	case *kubernetes:
		tools, err := workers.Prepare(ctx)
		if err != nil {
			return fmt.Errorf("-kubernetes: %w", err)
		}
		outfit = tools.Outfit
	case *images != "":
		machines, err := nodes.Prepare(ctx, dir, strings.Split(*images, ",")...)
		if err != nil {
			return fmt.Errorf("-nodes: %w", err)
		}
		outfit = machines.Outfit
	}
	lab, err := netns.Open(ctx, prefix)
	if err != nil {
		return err
	}
	defer lab.Close()
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	if *balancer != "" {
		addr, err := netip.ParseAddr(*balancer)
		if err != nil {
			return fmt.Errorf("-balancer: %w", err)
		}
		if _, err := lab.AddBalancer(ctx, addr, netns.Spec{Name: "lb", Users: users}); err != nil {
			return err
		}
		log.Info("added balancer", "address", addr.String(), "port", netns.BalancerPort)
	}
	log.Info("following", "cloud", *cloud, "subnet", lab.Subnet.String(), "gateway", lab.Gateway.String())
	lab.Follow(ctx, servers, netns.Followed{
		Log: log,
		Spec: func(_ netns.Server, spec *netns.Spec) {
			spec.Users = users
			outfit(spec)
		},
	})
	return nil
}
