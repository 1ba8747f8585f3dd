// Package workers makes hosts of a test (package netns) able to become nodes of a Kubernetes
// cluster, whose control plane is a real one on the host that is the master.
//
// install_k8s_cluster.sh of the example package of a cluster is what runs on each host over
// SSH. Where a host has no kubeadm it uses two stand-ins, which [Tools] gives it: jibe-test-kubernetes starts the
// control plane of test/controlplane in the host's namespaces, jibe-test-join (package join)
// joins and registers as kubeadm and a kubelet do. Nodes and pods are played by kwok, which
// runs beside the control plane: a node stays Ready until it is deleted, even if its host
// is gone.
package workers

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/jibe-vnfm/jibe/test/netns"
)

// ErrNotBuilt is returned when the control plane's binaries aren't built on this machine.
var ErrNotBuilt = errors.New("the binaries of a control plane are not built yet: run test/controlplane/controlplane build")

// Tools are what hosts need to become masters and workers.
type Tools struct {
	mounts map[string]string
	held   string // hosts don't join as long as the file is there
}

// Prepare builds the tools in dir, which must stay while hosts are made. It doesn't build a
// control plane, which takes minutes: where that isn't done yet, it returns [ErrNotBuilt].
func Prepare(ctx context.Context, dir string) (*Tools, error) {
	_, file, _, _ := runtime.Caller(0)
	here := filepath.Dir(file)
	plane := filepath.Join(here, "..", "controlplane")
	bin, err := exec.CommandContext(ctx, filepath.Join(plane, "controlplane"), "cached").Output()
	if err != nil {
		return nil, ErrNotBuilt
	}
	binaries := strings.TrimSpace(string(bin))
	join := filepath.Join(dir, "join")
	build := exec.CommandContext(ctx, "go", "build", "-buildvcs=false", "-o", join, "./join")
	build.Dir = here
	if out, err := build.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("build test/workers/join: %w: %s", err, bytes.TrimSpace(out))
	}
	hold := filepath.Join(dir, "hold")
	if err := os.MkdirAll(hold, 0o755); err != nil {
		return nil, err
	}
	return &Tools{held: filepath.Join(hold, "join"), mounts: map[string]string{
		"/opt/jibe-test/hold":                 hold,
		"/usr/local/bin/jibe-test-join":       join,
		"/usr/local/bin/jibe-test-kubernetes": filepath.Join(here, "kubernetes"),
		"/usr/local/bin/kubectl":              filepath.Join(binaries, "kubectl"),
		"/opt/jibe-test/controlplane":         plane,
		// The script finds its binaries in a cache of that form.
		"/opt/jibe-test/cache/controlplane/" + filepath.Base(binaries): binaries,
	}}, nil
}

// Outfit adds the tools to a host that is going to be made.
func (t *Tools) Outfit(spec *netns.Spec) {
	all := maps.Clone(spec.Mounts)
	if all == nil {
		all = map[string]string{}
	}
	maps.Copy(all, t.mounts)
	spec.Mounts = all
}

// Hold keeps hosts that are about to join from it, until they are released: for tests that
// interrupt who waits for them.
func (t *Tools) Hold() (release func() error, err error) {
	if err := os.WriteFile(t.held, nil, 0o644); err != nil {
		return nil, err
	}
	return func() error { return os.Remove(t.held) }, nil
}
