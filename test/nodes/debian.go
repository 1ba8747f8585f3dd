package nodes

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"
)

// Repository fills a folder with a repository of Debian packages that a [Machines.Bare] host
// lacks, whose line in sources.list ends with " /" after the folder's URL. It is signed with a
// key of its own, which is returned (armored). The packages of Kubernetes are built as its
// project builds them, in version 1.x.y-1.1, but for cri-tools, which nothing here calls; the others
// are this machine's, packed again.
func (m *Machines) Repository(ctx context.Context, dir string) (key []byte, err error) {
	version, err := m.Version(ctx)
	if err != nil {
		return nil, err
	}
	own := strings.TrimPrefix(version, "v") + "-1.1"
	var all []string
	for _, p := range m.kubernetes(own) {
		file, err := p.build(ctx, dir)
		if err != nil {
			return nil, err
		}
		all = append(all, file)
	}
	for _, name := range []string{"containerd", "runc", "containernetworking-plugins"} {
		file, err := repack(ctx, name, dir)
		if err != nil {
			return nil, err
		}
		all = append(all, file)
	}
	var index bytes.Buffer
	for _, file := range all {
		control, err := exec.CommandContext(ctx, "dpkg-deb", "--field", filepath.Join(dir, file)).Output()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		data, err := os.ReadFile(filepath.Join(dir, file))
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(&index, "%sFilename: ./%s\nSize: %d\nSHA256: %s\n\n", control, file, len(data), digest(data))
	}
	if err := os.WriteFile(filepath.Join(dir, "Packages"), index.Bytes(), 0o644); err != nil {
		return nil, err
	}
	release := fmt.Sprintf("Origin: a test\nDate: %s\nSHA256:\n %s %d Packages\n", time.Now().UTC().Format(time.RFC1123), digest(index.Bytes()), index.Len())
	return Sign(ctx, []byte(release), filepath.Join(dir, "InRelease"))
}

func digest(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// debianPackage is a package that is made.
type debianPackage struct {
	name, version, depends string
	files                  map[string]string // from this machine, by their place
	links                  map[string]string // symbolic ones, by their place
	texts                  map[string]string // by their place
}

// kubernetes are its packages.
func (m *Machines) kubernetes(version string) []debianPackage {
	cni := debianPackage{name: "kubernetes-cni", version: "1.7.1-1.1", files: map[string]string{}}
	for _, name := range plugins {
		cni.files["/opt/cni/bin/"+name] = "/usr/lib/cni/" + name
	}
	// kubelet and kubectl are the same program as kubeadm by other names.
	same := "kubeadm (= " + version + ")"
	return []debianPackage{
		cni,
		{name: "kubeadm", version: version, files: map[string]string{"/usr/bin/kubeadm": filepath.Join(m.o.programs, "hyper")}},
		{name: "kubectl", version: version, depends: same, links: map[string]string{"/usr/bin/kubectl": "kubeadm"}},
		{
			name: "kubelet", version: version, depends: same + ", iptables (>= 1.4.21), kubernetes-cni (>= 1.2.0), mount, util-linux",
			links: map[string]string{"/usr/bin/kubelet": "kubeadm"},
			texts: map[string]string{"/usr/lib/systemd/system/kubelet.service": string(read("kubelet.service"))},
		},
	}
}

// build makes the package in a folder, and returns its file's name.
func (p debianPackage) build(ctx context.Context, dir string) (string, error) {
	root, err := os.MkdirTemp(dir, ".build-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(root)
	put := func(place string, do func(to string) error) error {
		to := filepath.Join(root, place)
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			return err
		}
		return do(to)
	}
	control := fmt.Sprintf("Package: %s\nVersion: %s\nArchitecture: %s\nMaintainer: nobody <nobody@example.com>\n", p.name, p.version, runtime.GOARCH)
	if p.depends != "" {
		control += "Depends: " + p.depends + "\n"
	}
	texts := map[string]string{"/DEBIAN/control": control + "Description: of a test\n"}
	for place, text := range p.texts {
		texts[place] = text
	}
	for place, text := range texts {
		if err := put(place, func(to string) error { return os.WriteFile(to, []byte(text), 0o644) }); err != nil {
			return "", err
		}
	}
	for place, from := range p.files {
		if err := put(place, func(to string) error { return copyFile(from, to) }); err != nil {
			return "", err
		}
	}
	for place, target := range p.links {
		if err := put(place, func(to string) error { return os.Symlink(target, to) }); err != nil {
			return "", err
		}
	}
	return pack(ctx, root, dir, p.name)
}

// pack makes a package of a tree.
func pack(ctx context.Context, root, dir, name string) (string, error) {
	file := name + ".deb"
	if err := os.Chmod(root, 0o755); err != nil {
		return "", err
	}
	if out, err := exec.CommandContext(ctx, "dpkg-deb", "-Znone", "--root-owner-group", "--build", root, filepath.Join(dir, file)).CombinedOutput(); err != nil {
		return "", fmt.Errorf("package %s: %w: %s", name, err, out)
	}
	return file, nil
}

// repackTree makes the tree $2 of the package $1, which this machine has installed.
const repackTree = `
set -euo pipefail
mkdir -p "$2/DEBIAN"
dpkg-query --show --showformat 'Package: ${Package}\nVersion: ${Version}\nArchitecture: ${Architecture}\nMaintainer: ${Maintainer}\nDepends: ${Depends}\nDescription: ${Description}\n' "$1" |
  grep -v '^Depends: $' >"$2/DEBIAN/control"
dpkg --listfiles "$1" | while IFS= read -r file; do
  [ -d "$file" ] || [ ! -e "$file" ] || echo ".$file"
done | tar --create --directory / --no-recursion --verbatim-files-from --files-from - | tar --extract --directory "$2"
for part in preinst postinst prerm postrm; do
  [ ! -e "/var/lib/dpkg/info/$1.$part" ] || cp -a "/var/lib/dpkg/info/$1.$part" "$2/DEBIAN/$part"
done`

// repack makes in a folder a package of what this machine has installed of it, as dpkg-repack
// does, and returns its file's name.
func repack(ctx context.Context, name, dir string) (string, error) {
	root, err := os.MkdirTemp(dir, ".build-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(root)
	if out, err := exec.CommandContext(ctx, "bash", "-c", repackTree, "bash", name, root).CombinedOutput(); err != nil {
		return "", fmt.Errorf("package %s: %w: %s", name, err, out)
	}
	return pack(ctx, root, dir, name)
}

// Sign writes a text with its signature to a file, and returns the key that has signed it
// (armored), which is another one each time.
func Sign(ctx context.Context, text []byte, file string) (key []byte, err error) {
	if out, err := exec.CommandContext(ctx, filepath.Join(here(), "..", "need"), "gpg", "gpg").CombinedOutput(); err != nil {
		return nil, fmt.Errorf("gpg: %w: %s", err, out)
	}
	// The agent's socket is there: its path must be short.
	home, err := os.MkdirTemp("", "gpg")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(home)
	gpg := func(args ...string) ([]byte, error) {
		cmd := exec.CommandContext(ctx, "gpg", append([]string{"--homedir", home, "--batch", "--quiet", "--passphrase", "", "--pinentry-mode", "loopback"}, args...)...)
		cmd.Stdin = bytes.NewReader(text)
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		out, err := cmd.Output()
		if err != nil {
			err = fmt.Errorf("gpg %v: %w: %s", args, err, &stderr)
		}
		return out, err
	}
	// It would stay.
	defer func() { _ = exec.Command("gpgconf", "--homedir", home, "--kill", "all").Run() }()
	if _, err := gpg("--quick-generate-key", "a test", "ed25519", "sign", "never"); err != nil {
		return nil, err
	}
	signed, err := gpg("--clearsign")
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile(file, signed, 0o644); err != nil {
		return nil, err
	}
	return gpg("--armor", "--export")
}
