package release

import (
	"archive/tar"
	"compress/gzip"
	"debug/buildinfo"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/jibe-vnfm/jibe/test/process"
	"github.com/jibe-vnfm/jibe/test/testenv"
)

// imageConfig is what the tests ask of an image's configuration.
type imageConfig struct {
	Architecture string
	Config       struct {
		User            string
		Entrypoint, Cmd []string
		WorkingDir      string
	}
}

// unpacked is the image's files, in a folder, with its configuration.
func unpacked(t *testing.T) (string, imageConfig) {
	t.Helper()
	return unpack(t, filepath.Join(dist(t), "jibe_"+version+"_image_"+runtime.GOARCH+".tar"))
}

// unpack is [unpacked] for another image of the same version.
func unpack(t *testing.T, image string) (string, imageConfig) {
	t.Helper()
	archive := filepath.Join(t.TempDir(), "archive")
	if err := os.Mkdir(archive, 0o755); err != nil {
		t.Fatal(err)
	}
	run(t, archive, "tar", "-xf", image)
	var manifest []struct {
		Config   string
		RepoTags []string
		Layers   []string
	}
	decode(t, filepath.Join(archive, "manifest.json"), &manifest)
	if len(manifest) != 1 || !slices.Equal(manifest[0].RepoTags, []string{"jibe:" + version}) {
		t.Fatalf("the archive holds %+v, want one image jibe:%s", manifest, version)
	}
	var config imageConfig
	decode(t, filepath.Join(archive, manifest[0].Config), &config)
	root := filepath.Join(t.TempDir(), "root")
	for _, layer := range manifest[0].Layers {
		extract(t, filepath.Join(archive, layer), root)
	}
	return root, config
}

// extract unpacks a layer, with owners where that may be done.
func extract(t *testing.T, layer, root string) {
	t.Helper()
	f, err := os.Open(layer)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(root, 0o755); err != nil {
		t.Fatal(err)
	}
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		name, mode := filepath.Join(root, h.Name), h.FileInfo().Mode()
		if mode&(os.ModeSetuid|os.ModeSetgid) != 0 {
			t.Errorf("/%s makes another user of who runs it", h.Name)
		}
		switch h.Typeflag {
		case tar.TypeDir:
			err = os.MkdirAll(name, 0o755)
		case tar.TypeSymlink:
			err = os.Symlink(h.Linkname, name)
		case tar.TypeLink:
			err = os.Link(filepath.Join(root, h.Linkname), name)
		default:
			var data []byte
			if data, err = io.ReadAll(r); err == nil {
				err = os.WriteFile(name, data, 0o644)
			}
		}
		if err == nil && os.Geteuid() == 0 {
			err = os.Lchown(name, h.Uid, h.Gid)
		}
		if err == nil && h.Typeflag != tar.TypeSymlink {
			err = os.Chmod(name, mode.Perm()|mode&os.ModeSticky)
		}
		if err != nil {
			t.Fatalf("/%s: %v", h.Name, err)
		}
	}
}

func decode(t *testing.T, name string, into any) {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, into); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
}

// within is a script that mounts what a container engine would, on the mounts of its own alone,
// and runs a command in the image as its user.
const within = `set -e
mount --make-rprivate /
mount -t tmpfs tmpfs "$0/dev"
for d in null zero urandom; do touch "$0/dev/$d"; mount --bind "/dev/$d" "$0/dev/$d"; done
mount -t proc proc "$0/proc"
ip link set lo up 2>/dev/null || true
exec env -i PATH=/usr/bin HOME=/var/lib/jibe JIBE_DATA=/var/lib/jibe "$1" --userspec="$2" "$0" "${@:3}"`

// inImage runs a command in the unpacked image, with processes and mounts of its own.
func inImage(t *testing.T, root, user string, command ...string) string {
	t.Helper()
	chroot, err := exec.LookPath("chroot")
	if err != nil {
		chroot = "/usr/sbin/chroot"
	}
	args := append([]string{"--mount", "--pid", "--fork", "--kill-child", "bash", "-c", within, root, chroot, user}, command...)
	cmd := exec.CommandContext(t.Context(), "unshare", args...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%q in the image: %v\n%s", command, err, out)
	}
	return string(out)
}

// push serves, and pushes to what is served: once what is refused by the hook that git runs, once
// what is taken.
const push = `set -eu
cd /tmp
jibe serve --listen 127.0.0.1:0 >served 2>&1 &
serving=$!
i=0
until git ls-remote /var/lib/jibe/desired.git >/dev/null 2>&1 && [ -S /var/lib/jibe/hook.sock -o -x /var/lib/jibe/desired.git/hooks/pre-receive ]; do
  i=$((i+1))
  if [ $i -gt 100000 ] || ! kill -0 $serving 2>/dev/null; then while read -r l; do echo "$l"; done <served; exit 1; fi
done
git clone -q /var/lib/jibe/desired.git work
cd work
git config user.name tester
git config user.email tester@jibe.example
printf 'unknown: 1\n' >repositories.yaml
git add .
git commit -qm 'What cannot be obeyed'
if git push -q origin HEAD:main 2>/tmp/refused; then echo 'the hook took it'; exit 1; fi
while read -r l; do echo "$l"; done </tmp/refused
git rm -q --cached repositories.yaml
git commit -q --amend --allow-empty -m 'Nothing'
git push -q origin HEAD:main
kill $serving
wait $serving || true
echo pushed`

func TestTheImageRunsJibeAndGitAsAnOrdinaryUser(t *testing.T) {
	root, config := unpacked(t)
	if config.Architecture != runtime.GOARCH || config.Config.User != "65532:65532" || config.Config.WorkingDir != "/var/lib/jibe" ||
		!slices.Equal(config.Config.Entrypoint, []string{"/usr/bin/jibe"}) || !slices.Equal(config.Config.Cmd, []string{"serve"}) {
		t.Errorf("the image is configured as %+v", config)
	}
	if os.Geteuid() != 0 {
		t.Skip("only root may run programs in the image without a container engine")
	}
	var v struct{ Version, Date, GoVersion, Platform string }
	if err := json.Unmarshal([]byte(inImage(t, root, config.Config.User, "/usr/bin/jibe", "version", "-o", "json")), &v); err != nil {
		t.Fatal(err)
	}
	if v.Version != version || v.Date != "2026-01-02T03:04:05Z" || v.Platform != "linux/"+runtime.GOARCH || v.GoVersion == "" {
		t.Errorf("jibe in the image is %+v", v)
	}
	if out := inImage(t, root, config.Config.User, "/usr/bin/git", "--version"); !strings.HasPrefix(out, "git version 2.") {
		t.Errorf("git in the image says %q", out)
	}
	if out := inImage(t, root, config.Config.User, "/usr/bin/ssh", "-V"); !strings.HasPrefix(out, "OpenSSH_") {
		t.Errorf("ssh in the image says %q", out)
	}
	if st, err := os.Stat(filepath.Join(root, "etc/ssl/certs/ca-certificates.crt")); err != nil || st.Size() < 100_000 {
		t.Errorf("the authorities' certificates: %v", err)
	}
	out := inImage(t, root, config.Config.User, "/bin/sh", "-c", push)
	if !strings.Contains(out, "repositories.yaml") || !strings.HasSuffix(out, "pushed\n") {
		t.Errorf("a push to what runs in the image:\n%s", out)
	}
}

func TestAnImageWithPythonRunsHooksThatAreWrittenInIt(t *testing.T) {
	testenv.Chaos(t, "the images of Debian")
	plain, config := unpacked(t)
	if os.Geteuid() != 0 {
		t.Skip("only root may run programs in the image without a container engine")
	}
	image := filepath.Join(t.TempDir(), "image.tar")
	run(t, process.Root(), filepath.Join("packaging", "image", "build"), "-o", image, "--with", "python3,python3-yaml", "--version", version, "--binary", filepath.Join(plain, "usr", "bin", "jibe"))
	root, _ := unpack(t, image)
	pkg := filepath.Join(root, "tmp", "small")
	if err := os.CopyFS(pkg, os.DirFS(process.SmallPackage())); err != nil {
		t.Fatal(err)
	}
	const hook = `import bz2, ctypes, hashlib, json, lzma, socket, sqlite3, ssl, subprocess, sys, tempfile
import yaml
given = json.load(sys.stdin)
with tempfile.TemporaryFile() as f:
    f.write(b"x")
print(json.dumps({"message": given["hook"] + " trusts " + yaml.safe_load("some: {of: them}")["some"]["of"] if ssl.create_default_context().get_ca_certs() else "nobody"}))
`
	if err := os.WriteFile(filepath.Join(pkg, "hook.py"), []byte(hook), 0o755); err != nil {
		t.Fatal(err)
	}
	// Standard output and standard error: an interpreter that misses something of the system's would say so.
	out := inImage(t, root, config.Config.User, "/usr/bin/jibe", "package", "test-hook", "/tmp/small", "coordinate_new", "--program", "hook.py")
	if strings.Join(strings.Fields(out), " ") != `{ "message": "coordinate_new trusts them" }` {
		t.Errorf("the hook says %s", out)
	}
}

func TestTheSBOMNamesAllThatTheImageIsMadeOf(t *testing.T) {
	root, _ := unpacked(t)
	var bom struct {
		BomFormat, SpecVersion string
		Components             []struct {
			Name, Version, Purl string
			Licenses            []struct{ License struct{ ID string } }
		}
	}
	decode(t, filepath.Join(root, "usr/share/doc/jibe/sbom.cdx.json"), &bom)
	if bom.BomFormat != "CycloneDX" || bom.SpecVersion != "1.6" {
		t.Errorf("it is of the form %s %s", bom.BomFormat, bom.SpecVersion)
	}
	texts, err := os.ReadFile(filepath.Join(root, "usr/share/doc/jibe/THIRD_PARTY_LICENSES"))
	if err != nil {
		t.Fatal(err)
	}
	var modules, packages []string
	for _, c := range bom.Components {
		switch {
		case strings.HasPrefix(c.Purl, "pkg:deb/debian/"):
			packages = append(packages, c.Name+" "+c.Version)
		case c.Name != "stdlib":
			modules = append(modules, c.Name+" "+c.Version)
			if len(c.Licenses) == 0 {
				t.Errorf("%s has no licence", c.Name)
			}
			if !strings.Contains(string(texts), c.Name+" "+c.Version+": ") {
				t.Errorf("THIRD_PARTY_LICENSES lacks %s", c.Name)
			}
		}
	}
	info, err := buildinfo.ReadFile(filepath.Join(root, "usr/bin/jibe"))
	if err != nil {
		t.Fatal(err)
	}
	var compiled, installed []string
	for _, m := range info.Deps {
		compiled = append(compiled, m.Path+" "+m.Version)
	}
	status, err := os.ReadFile(filepath.Join(root, "var/lib/dpkg/status"))
	if err != nil {
		t.Fatal(err)
	}
	for paragraph := range strings.SplitSeq(strings.TrimSpace(string(status)), "\n\n") {
		var name, version string
		for line := range strings.Lines(paragraph) {
			if rest, ok := strings.CutPrefix(line, "Package: "); ok {
				name = strings.TrimSpace(rest)
			}
			if rest, ok := strings.CutPrefix(line, "Version: "); ok {
				version = strings.TrimSpace(rest)
			}
		}
		installed = append(installed, name+" "+version)
	}
	if diff := cmp.Diff(compiled, modules); diff != "" || len(modules) == 0 {
		t.Errorf("modules (-compiled in, +in the SBOM):\n%s", diff)
	}
	if diff := cmp.Diff(installed, packages); diff != "" || len(packages) == 0 {
		t.Errorf("packages of Debian (-in dpkg's status, +in the SBOM):\n%s", diff)
	}
	for _, name := range []string{"var/lib/dpkg/status", "etc/os-release"} {
		if _, err := os.Stat(filepath.Join(root, name)); err != nil {
			t.Errorf("scanners need /%s: %v", name, err)
		}
	}
}

func TestTheArchiveHasWhatAMachineNeeds(t *testing.T) {
	dir := dist(t)
	name := "jibe_" + version + "_linux_" + runtime.GOARCH
	list := strings.Fields(run(t, dir, "tar", "-tzf", name+".tar.gz"))
	for _, want := range []string{"jibe", "LICENSE", "THIRD_PARTY_LICENSES", "CHANGELOG.md", "sbom.cdx.json", "man/jibe.1", "man/jibe-serve.1",
		"completions/jibe.bash", "completions/_jibe", "completions/jibe.fish",
		"systemd/jibe.service", "systemd/jibe.sysusers", "systemd/jibe.tmpfiles", "systemd/jibe.default"} {
		if !slices.Contains(list, name+"/"+want) {
			t.Errorf("it lacks %s:\n%s", want, strings.Join(list, "\n"))
		}
	}
	to := t.TempDir()
	run(t, to, "tar", "-xzf", filepath.Join(dir, name+".tar.gz"))
	if out := run(t, to, filepath.Join(to, name, "jibe"), "version"); out != "jibe "+version+"\n" {
		t.Errorf("the binary says %q", out)
	}
	// A shell takes what completes it.
	run(t, to, "bash", "-n", filepath.Join(to, name, "completions", "jibe.bash"))
}
