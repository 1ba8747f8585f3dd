package nodes

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/jibe-vnfm/jibe/test/testenv"
)

// debian are the commands that machines have of this one, and Debian's packages of them.
var debian = [][2]string{
	{"containerd", "containerd"}, {"runc", "runc"}, {"iptables", "iptables"}, {"conntrack", "conntrack"},
	{"/usr/lib/cni/bridge", "containernetworking-plugins"}, {"losetup", "mount"},
}

// outfit is what machines get of this one, built once and kept in a cache.
type outfit struct {
	// programs is where those of Kubernetes are.
	programs string
	// dir has systemctl, web.tar and store, what a containerd knows that has all images.
	dir string
	// pause is the image that pods begin with.
	pause string
	// web is the layer of images that run the test program.
	web layer
}

func here() string { return filepath.Join(testenv.Root(), "test", "nodes") }

// prepare builds what is missing. The programs of Kubernetes, which take minutes, must have
// been built.
func prepare(ctx context.Context) (*outfit, error) {
	bin, err := testenv.ControlPlane(ctx)
	if err != nil {
		return nil, err
	}
	for _, d := range debian {
		cmd := exec.CommandContext(ctx, filepath.Join(here(), "..", "need"), d[0], d[1])
		cmd.Env = append(os.Environ(), "PATH="+searchPath)
		if out, err := cmd.CombinedOutput(); err != nil {
			return nil, fmt.Errorf("%s: %w: %s", d[0], err, bytes.TrimSpace(out))
		}
	}
	o := &outfit{programs: bin}
	o.dir, err = o.place(ctx)
	if err != nil {
		return nil, err
	}
	unlock, err := lock(ctx, o.dir+".lock")
	if err != nil {
		return nil, err
	}
	defer unlock()
	if _, err := os.Stat(o.dir); errors.Is(err, os.ErrNotExist) {
		if err := o.build(ctx); err != nil {
			return nil, fmt.Errorf("build what nodes need, in %s: %w", o.dir, err)
		}
	}
	pause, err := os.ReadFile(filepath.Join(o.dir, "pause"))
	if err != nil {
		return nil, err
	}
	sum, err := os.ReadFile(filepath.Join(o.dir, "web.digest"))
	if err != nil {
		return nil, err
	}
	o.pause, o.web = string(pause), layer{file: filepath.Join(o.dir, "web.tar"), digest: string(sum)}
	return o, nil
}

// searchPath leads to the system's commands, whatever the tests' own PATH begins with.
const searchPath = "/usr/sbin:/usr/bin:/sbin:/bin"

// place is the cache's folder for all that decides what is built.
func (o *outfit) place(ctx context.Context) (string, error) {
	sum := sha256.New()
	fmt.Fprintln(sum, o.programs)
	for _, pattern := range []string{"build.go", "layer.go", "systemctl/*.go", "web/*.go"} {
		files, err := filepath.Glob(filepath.Join(here(), pattern))
		if err != nil {
			return "", err
		}
		for _, name := range files {
			text, err := os.ReadFile(name)
			if err != nil {
				return "", err
			}
			sum.Write(text)
		}
	}
	versions, err := exec.CommandContext(ctx, "dpkg-query", "-W", "containerd", "iptables").Output()
	if err != nil {
		return "", fmt.Errorf("versions of containerd and iptables: %w", err)
	}
	sum.Write(versions)
	// Beside the programs' own folder, in the cache of all.
	cache := filepath.Join(filepath.Dir(filepath.Dir(o.programs)), "nodes")
	return filepath.Join(cache, hex.EncodeToString(sum.Sum(nil))[:16]), os.MkdirAll(cache, 0o755)
}

// lock takes a file's lock, so that processes build one after the other.
func lock(ctx context.Context, name string) (unlock func(), err error) {
	f, err := os.OpenFile(name, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	for {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return func() { f.Close() }, nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			f.Close()
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		select {
		case <-ctx.Done():
			f.Close()
			return nil, ctx.Err()
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// build fills the folder, whole or not at all.
func (o *outfit) build(ctx context.Context) error {
	tmp, err := os.MkdirTemp(filepath.Dir(o.dir), ".build-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	for _, name := range []string{"systemctl", "web"} {
		cmd := exec.CommandContext(ctx, "go", "build", "-buildvcs=false", "-trimpath", "-ldflags", "-s -w", "-o", filepath.Join(tmp, name), "./"+name)
		cmd.Dir, cmd.Env = here(), append(os.Environ(), "CGO_ENABLED=0")
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("%s: %w: %s", name, err, out)
		}
	}
	web, err := writeLayer(filepath.Join(tmp, "web.tar"), []entry{{place: "/usr/local/bin/web", source: filepath.Join(tmp, "web")}})
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(tmp, "web.digest"), []byte(web.digest), 0o644); err != nil {
		return err
	}
	images, pause, err := o.images(ctx, filepath.Join(tmp, "layer.tar"))
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(tmp, "pause"), []byte(pause), 0o644); err != nil {
		return err
	}
	archive, err := os.Create(filepath.Join(tmp, "images.tar"))
	if err != nil {
		return err
	}
	defer archive.Close()
	if err := writeArchive(archive, images); err != nil {
		return err
	}
	if err := fillStore(ctx, tmp, archive.Name()); err != nil {
		return err
	}
	for _, name := range []string{"images.tar", "layer.tar", "web"} {
		if err := os.Remove(filepath.Join(tmp, name)); err != nil {
			return err
		}
	}
	if err := os.Chmod(tmp, 0o755); err != nil {
		return err
	}
	return os.Rename(tmp, o.dir)
}

// images are those of a cluster, by the names that kubeadm gives them. They have one layer,
// with all programs: a machine then has each program once.
func (o *outfit) images(ctx context.Context, file string) (all []image, pause string, err error) {
	entries, err := packetFilter(ctx)
	if err != nil {
		return nil, "", err
	}
	for _, name := range []string{"hyper", "coredns", "podnet", "pause"} {
		entries = append(entries, entry{place: "/usr/local/bin/" + name, source: filepath.Join(o.programs, name)})
	}
	for _, name := range []string{"etcd", "etcdctl", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kube-proxy"} {
		entries = append(entries, entry{place: "/usr/local/bin/" + name, link: "hyper"})
	}
	l, err := writeLayer(file, entries)
	if err != nil {
		return nil, "", err
	}
	kubeadm := filepath.Join(o.programs, "kubeadm")
	version, err := exec.CommandContext(ctx, kubeadm, "version", "-o", "short").Output()
	if err != nil {
		return nil, "", fmt.Errorf("kubeadm version: %w", err)
	}
	list, err := exec.CommandContext(ctx, kubeadm, "config", "images", "list", "--kubernetes-version", strings.TrimSpace(string(version))).Output()
	if err != nil {
		return nil, "", fmt.Errorf("kubeadm config images list: %w", err)
	}
	all = []image{{names: []string{"local/podnet:1"}, entrypoint: []string{"/usr/local/bin/podnet"}, layer: l}}
	for _, name := range strings.Fields(string(list)) {
		i := image{names: []string{name}, layer: l}
		switch {
		case strings.Contains(name, "/coredns:"):
			i.entrypoint = []string{"/usr/local/bin/coredns"}
		case strings.Contains(name, "/pause:"):
			i.entrypoint = []string{"/usr/local/bin/pause"}
			pause = name
		}
		all = append(all, i)
	}
	if pause == "" {
		return nil, "", fmt.Errorf("kubeadm names no image that pods begin with: %s", list)
	}
	return all, pause, nil
}

// fillStore has a containerd take in images, and leaves what it knows in dir/store.
func fillStore(ctx context.Context, dir, archive string) error {
	socket := filepath.Join(dir, "containerd.sock")
	config := filepath.Join(dir, "containerd.toml")
	text := fmt.Sprintf("version = 2\nroot = %q\nstate = %q\ndisabled_plugins = [\"io.containerd.grpc.v1.cri\"]\n[grpc]\naddress = %q\n",
		filepath.Join(dir, "store"), filepath.Join(dir, "state"), socket)
	if err := os.WriteFile(config, []byte(text), 0o644); err != nil {
		return err
	}
	var log bytes.Buffer
	// What it mounts stays its own, and it ends when this process does: with its standard input.
	server := exec.CommandContext(ctx, "unshare", "--mount", "bash", "-c", `containerd --config "$0" & read -r _; kill $!; wait $!`, config)
	server.Env = []string{"PATH=" + searchPath}
	server.Stderr = &log
	end, err := server.StdinPipe()
	if err != nil {
		return err
	}
	if err := server.Start(); err != nil {
		return err
	}
	ctr := func(args ...string) error {
		cmd := exec.CommandContext(ctx, "ctr", append([]string{"-a", socket, "-n", "k8s.io"}, args...)...)
		cmd.Env = []string{"PATH=" + searchPath}
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("ctr %s: %w: %s", args[0], err, out)
		}
		return nil
	}
	for until := time.Now().Add(time.Minute); ; time.Sleep(100 * time.Millisecond) {
		if err = ctr("version"); err == nil || time.Now().After(until) || ctx.Err() != nil {
			break
		}
	}
	if err == nil {
		err = ctr("images", "import", archive)
	}
	_ = end.Close()
	_ = server.Wait() // what it has written is there, whatever it ends with
	if err != nil {
		return fmt.Errorf("%w\ncontainerd: %s", err, &log)
	}
	for _, name := range []string{"containerd.sock", "containerd.toml", "state"} {
		_ = os.RemoveAll(filepath.Join(dir, name))
	}
	_ = os.Remove(socket + ".ttrpc")
	return nil
}
