package nodes

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/jibe-vnfm/jibe/test/netns"
)

// Bare makes a host that is going to be made one on which nothing of Kubernetes is installed:
// no kubeadm, kubelet and kubectl, no container runtime, plugins, images, unit
// files and configuration, and no package repository. It keeps what this kernel demands, which a real
// machine has no need of: the systemctl program, settings of the kubelet and of containerd
// for cgroups of version 1, and the commands that would change this machine's swap and modules.
// As on many a system, sudo finds nothing in /usr/local.
//
// [Machines.Artifacts] and [Machines.Repository] have what it lacks.
func (m *Machines) Bare(spec *netns.Spec) {
	mounts := map[string]string{"/usr/bin/systemctl": m.mounts["/usr/bin/systemctl"]}
	files := map[string]netns.File{
		"/etc/sudoers.d/path": {Data: []byte("Defaults secure_path=\"/usr/sbin:/usr/bin:/sbin:/bin\"\n"), Mode: 0o440},
		// containerd reads what stands in its configuration, but for cgroups.
		"/opt/jibe-test/containerd":                          {Data: read("containerd.sh"), Mode: 0o755},
		"/etc/systemd/system/containerd.service.d/test.conf": {Data: []byte("[Service]\nExecStart=\nExecStart=/opt/jibe-test/containerd\n")},
	}
	for _, name := range []string{"/etc/default/kubelet", "/etc/kubelet-resolv.conf", "/etc/kubelet.d/10-machine.conf"} {
		files[name] = m.files[name]
	}
	for _, name := range []string{"swapoff", "modprobe"} {
		files["/usr/sbin/"+name] = m.files["/usr/local/sbin/"+name]
	}
	spec.Lend(mounts, files)
	spec.Containers = true
	spec.Boot = string(read("bare.sh")) + spec.Boot
}

// Artifacts fills a folder with what a [Machines.Bare] host lacks, as packages bring it for sites
// without the internet: bin, cni, debs and images.
func (m *Machines) Artifacts(ctx context.Context, dir string) error {
	for _, name := range []string{"bin", "cni", "debs", "images"} {
		if err := os.MkdirAll(filepath.Join(dir, name), 0o755); err != nil {
			return err
		}
	}
	programs := map[string]string{"kubeadm": filepath.Join(m.o.programs, "hyper")}
	for _, name := range []string{"containerd", "containerd-shim-runc-v2", "ctr"} {
		from, err := find(name)
		if err != nil {
			return err
		}
		programs[name] = from
	}
	for name, from := range programs {
		if err := copyFile(from, filepath.Join(dir, "bin", name)); err != nil {
			return err
		}
	}
	// They are one program, which goes by the name that it is called.
	for _, name := range []string{"kubelet", "kubectl"} {
		text := fmt.Sprintf("#!/bin/bash\nexec -a %s /usr/local/bin/kubeadm \"$@\"\n", name)
		if err := os.WriteFile(filepath.Join(dir, "bin", name), []byte(text), 0o755); err != nil {
			return err
		}
	}
	for _, name := range plugins {
		if err := copyFile("/usr/lib/cni/"+name, filepath.Join(dir, "cni", name)); err != nil {
			return err
		}
	}
	if _, err := repack(ctx, "runc", filepath.Join(dir, "debs")); err != nil {
		return err
	}
	if web := m.mounts[webImages]; web != "" {
		if err := copyFile(web, filepath.Join(dir, "images", "web.tar")); err != nil {
			return err
		}
	}
	layer := filepath.Join(dir, "layer.tar")
	all, _, err := m.o.images(ctx, layer)
	if err != nil {
		return err
	}
	archive, err := os.Create(filepath.Join(dir, "images", "kubernetes.tar"))
	if err != nil {
		return err
	}
	defer archive.Close()
	if err := writeArchive(archive, all); err != nil {
		return err
	}
	if err := archive.Close(); err != nil {
		return err
	}
	return os.Remove(layer)
}

// plugins are those that the pod network of these machines asks for.
var plugins = []string{"bridge", "host-local", "loopback", "portmap"}

// find is where one of the system's programs is.
func find(name string) (string, error) {
	for _, dir := range filepath.SplitList(searchPath) {
		if file := filepath.Join(dir, name); exists(file) {
			return file, nil
		}
	}
	return "", fmt.Errorf("%s is in none of %s", name, searchPath)
}

func exists(file string) bool {
	_, err := os.Stat(file)
	return err == nil
}

// copyFile copies a program or an archive; where the file system can, they share their space.
func copyFile(from, to string) error {
	if out, err := exec.Command("cp", "--reflink=auto", "--dereference", "--preserve=mode", from, to).CombinedOutput(); err != nil {
		return fmt.Errorf("copy %s: %w: %s", from, err, out)
	}
	return nil
}

// Version is that of the programs of Kubernetes, such as v1.33.2.
func (m *Machines) Version(ctx context.Context) (string, error) {
	out, err := exec.CommandContext(ctx, filepath.Join(m.o.programs, "kubeadm"), "version", "-o", "short").Output()
	if err != nil {
		return "", fmt.Errorf("kubeadm version: %w", err)
	}
	return strings.TrimSpace(string(out)), nil
}
