// Package nodes makes hosts of a test (package netns) real Kubernetes nodes: each has a
// containerd, a kubelet and kubeadm of its own, containers run in it, and a cluster is what
// kubeadm makes of it. Nothing of it is played by a stand-in.
//
// A test that needs a cluster with real containers takes one:
//
//	c := nodes.Start(t, "10.207.1.0/24", nodes.Options{Images: []string{"local/web:1.0"}})
//	// c.Client, c.Kubeconfig; pods of image local/web:1.0 run on node "master"
//	// and answer as test/nodes/web says; c.HTTP() reaches cluster IPs and pods.
//
// A test that makes a cluster by itself, by a package's script over SSH, takes machines
// that have all that kubeadm needs:
//
//	m := nodes.Need(t, "local/web:1.0")
//	spec := netns.Spec{…, NoWeb: true}
//	m.Outfit(&spec)
//	host, err := lab.Add(ctx, spec)
//	// on it: kubeadm init --pod-network-cidr nodes.PodCIDR --ignore-preflight-errors
//	// nodes.IgnoreErrors …; kubectl apply -f nodes.Network
//
// A test of what installs all that takes machines that have nothing of it: m.Bare in place of
// m.Outfit.
//
// The programs of Kubernetes are those of test/controlplane, built from source; images are
// made of them, without a registry; containerd, runc, the network plugins and iptables are
// this machine's, as Debian has them, and installed where they are missing. What is built is
// kept in a cache. Machines have no systemd: test/nodes/systemctl starts their services.
// It needs root, Linux, and the controllers of cgroups version 1. A machine with pods of a
// control plane takes about 0.7 GB of memory, a worker 0.2 GB. All share one limit of this machine's
// kernel, of inotify instances, which is raised where it is low and stays so.
//
// Nothing of a machine outlives the process that made it but empty cgroups, which the next
// lab on its subnet removes.
package nodes

import (
	"bytes"
	"context"
	"embed"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/jibe-vnfm/jibe/test/netns"
	"github.com/jibe-vnfm/jibe/test/testenv"
)

//go:embed files
var files embed.FS

const (
	// PodCIDR is the subnet of pods that Network is for.
	PodCIDR = "10.244.0.0/16"
	// Network is the file on each machine with the manifest of a pod network, [Manifest].
	Network = "/opt/jibe-test/network.yaml"
	// IgnoreErrors is what kubeadm init and join must be told to ignore on these machines, as
	// --ignore-preflight-errors: kubeadm wants no cgroups of version 1.
	IgnoreErrors = "SystemVerification"
)

// Manifest is the pod network's, for packages that bring it.
func Manifest() []byte { return read("network.yaml") }

// Machines are what hosts need to become nodes. Its methods may be called from any goroutine.
type Machines struct {
	o      *outfit
	mounts map[string]string
	files  map[string]netns.File
}

// webImages is where machines have those that a test asked for.
const webImages = "/opt/jibe-test/images.tar"

// Need prepares machines for the time of a test. They have images of the given names beside
// kubeadm's, which all run the test program of this package, and tell their names. Where it would take
// minutes to build the programs of Kubernetes they are built. It skips the test as [testenv.Real] does.
func Need(t testing.TB, images ...string) *Machines {
	t.Helper()
	testenv.Real(t, "machines that run containers, which takes root")
	if err := netns.ContainersAble(); err != nil {
		t.Fatalf("no machines to run nodes on: %v", err)
	}
	testenv.BuildControlPlane(t)
	m, err := Prepare(t.Context(), t.TempDir(), images...)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// Prepare is Need without a test: dir must stay while machines are made. It doesn't
// build the programs of Kubernetes.
func Prepare(ctx context.Context, dir string, images ...string) (*Machines, error) {
	if err := raiseWatchers(); err != nil {
		return nil, err
	}
	o, err := prepare(ctx)
	if err != nil {
		return nil, err
	}
	m := &Machines{
		o: o,
		mounts: map[string]string{
			"/usr/bin/systemctl": filepath.Join(o.dir, "systemctl"),
			"/usr/bin/kubectl":   filepath.Join(o.programs, "kubectl"),
			"/usr/bin/kubelet":   filepath.Join(o.programs, "kubelet"),
			"/usr/bin/kubeadm":   filepath.Join(o.programs, "kubeadm"),
		},
		files: map[string]netns.File{
			"/etc/default/kubelet":                {Data: []byte("KUBELET_EXTRA_ARGS=--config-dir=/etc/kubelet.d\n")},
			"/etc/kubelet-resolv.conf":            {Data: []byte("nameserver 192.0.2.1\n")},
			"/etc/kubelet.d/10-machine.conf":      {Data: read("kubelet.yaml")},
			"/etc/containerd/config.toml":         {Data: bytes.ReplaceAll(read("containerd.toml"), []byte("PAUSE"), []byte(o.pause))},
			"/lib/systemd/system/kubelet.service": {Data: read("kubelet.service")},
			Network:                               {Data: read("network.yaml")},
		},
	}
	// The machines have this one's kernel, whose swap and modules aren't theirs.
	for _, name := range []string{"swapoff", "modprobe"} {
		m.files["/usr/local/sbin/"+name] = netns.File{Data: []byte("#!/bin/sh\n"), Mode: 0o755}
	}
	if err := m.store(filepath.Join(o.dir, "store")); err != nil {
		return nil, err
	}
	if len(images) > 0 {
		archive, err := webArchive(o.web, images)
		if err != nil {
			return nil, err
		}
		file := filepath.Join(dir, "images.tar")
		if err := os.WriteFile(file, archive.Bytes(), 0o644); err != nil {
			return nil, err
		}
		m.mounts[webImages] = file
	}
	return m, nil
}

// raiseWatchers lets root have as many inotify instances as several clusters need. A kubelet takes
// seven, an API server six; where the kernel's 128 are used up, kubelets end as soon as they start, and
// nodes aren't Ready until some other test is over.
func raiseWatchers() error {
	const limit, enough = "/proc/sys/fs/inotify/max_user_instances", 1024
	text, err := os.ReadFile(limit)
	if err != nil {
		return err
	}
	if now, err := strconv.Atoi(strings.TrimSpace(string(text))); err != nil || now >= enough {
		return err
	}
	return os.WriteFile(limit, []byte(strconv.Itoa(enough)), 0o644)
}

func read(name string) []byte {
	data, err := files.ReadFile("files/" + name)
	if err != nil {
		panic(err) // it is part of this program
	}
	return data
}

// store gives machines what a containerd has that knows all images: its databases as files of
// their own, layers and blobs as they are here.
func (m *Machines) store(dir string) error {
	const place = "/var/lib/containerd"
	for _, parts := range []string{"io.containerd.content.v1.content/blobs/sha256", "io.containerd.snapshotter.v1.overlayfs/snapshots"} {
		all, err := os.ReadDir(filepath.Join(dir, parts))
		if err != nil {
			return err
		}
		for _, e := range all {
			m.mounts[filepath.Join(place, parts, e.Name())] = filepath.Join(dir, parts, e.Name())
		}
	}
	return filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".db") {
			return err
		}
		if in, _ := filepath.Rel(dir, path); strings.Count(in, "/") != 1 {
			return nil // a file of a layer
		}
		data, err := os.ReadFile(path)
		m.files[place+strings.TrimPrefix(path, dir)] = netns.File{Data: data, Mode: 0o600}
		return err
	})
}

// Outfit makes a host that is going to be made one that can be a node.
func (m *Machines) Outfit(spec *netns.Spec) {
	spec.Lend(m.mounts, m.files)
	spec.Containers = true
	spec.Boot = string(read("boot.sh")) + spec.Boot
}
