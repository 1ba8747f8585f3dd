package kubecluster

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/jibe-vnfm/jibe/hooks"
	"github.com/jibe-vnfm/jibe/test/kit"
	"github.com/jibe-vnfm/jibe/test/netns"
	"github.com/jibe-vnfm/jibe/test/nodes"
	"github.com/jibe-vnfm/jibe/test/testenv"
)

// bareSite has machines on which nothing of Kubernetes is installed, and a package whose
// folder fill completes.
func bareSite(t *testing.T, subnet string, m *nodes.Machines, fill func(dir string)) *site {
	t.Helper()
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(packageDir)); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "network.yaml"), nodes.Manifest(), 0o644); err != nil {
		t.Fatal(err)
	}
	fill(dir)
	s := newSiteOf(t, subnet, dir, m.Bare)
	s.w.params["master_node"].(map[string]any)["pod_cidr"] = nodes.PodCIDR
	s.w.params["cni"], s.w.params["join_timeout"], s.w.params["ignore_preflight_errors"] = "network.yaml", "15m", nodes.IgnoreErrors
	return s
}

// on runs a command of the shell as root, and returns what it printed.
func (s *site) on(h *netns.Host, command string) string {
	s.Helper()
	out, err := h.Run(s.Context(), nil, "bash", "-c", "PATH=$PATH:/usr/local/bin; "+command)
	if err != nil {
		s.Fatalf("%s: %v", command, err)
	}
	return strings.TrimSpace(out)
}

// installed tells of each file that the installation makes when it was made, and of its
// services since when they run.
const installed = `stat --format '%n %i %Y' /usr/bin/kube* /usr/local/bin/* /opt/cni/bin/* /etc/containerd/config.toml /lib/systemd/system/{kubelet,containerd}.service /etc/systemd/system/{kubelet,containerd}.service 2>/dev/null
pgrep -x containerd; cat /var/lib/dpkg/status | sha256sum; ls /var/lib/jibe-kubernetes`

// Real programs and images come with the package, onto a machine that reaches nothing else:
// containerd, kubeadm, the plugins, the images of the control plane and of a pod.
func TestABareMachineBecomesAClusterFromThePackageAlone(t *testing.T) {
	m := nodes.Need(t, "local/web:1.0")
	s := bareSite(t, "10.209.7.0/24", m, func(dir string) {
		if err := m.Artifacts(t.Context(), filepath.Join(dir, "Files", "node")); err != nil {
			t.Fatal(err)
		}
	})
	s.w.params["artifacts"] = "Files/node"
	s.begin()
	master := s.machine("MasterVDU")
	host := s.host(master)
	if has := s.on(host, "type -P kubeadm kubelet kubectl containerd runc ctr; ls /opt/cni /usr/lib/cni /etc/containerd /lib/systemd/system/containerd.service; true"); has != "" {
		t.Fatalf("the machine has %s", has)
	}
	in := s.input("instantiate_end", []hooks.Target{master}, nil)
	// It is cut short in the midst of the installation, and goes on from there.
	s.killed(in, func() bool {
		_, err := host.ReadFile("/opt/cni/bin/loopback")
		return err == nil
	})
	s.must(in)
	s.w.units = []hooks.Target{master}
	s.connect(master)
	s.want("master2")

	s.on(host, "kubectl --kubeconfig "+defaultConf+" taint node master2 node-role.kubernetes.io/control-plane-")
	pods := s.CoreV1().Pods("default")
	if _, err := pods.Create(t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "local/web:1.0", ImagePullPolicy: corev1.PullNever}}},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	kit.Eventually(t, func() error {
		p, err := pods.Get(t.Context(), "web", metav1.GetOptions{})
		if err == nil && !counts(p) {
			err = fmt.Errorf("the pod is %+v", p.Status)
		}
		return err
	})
	for file, want := range map[string]string{
		"/etc/containerd/config.toml": "SystemdCgroup = true", "/etc/systemd/system/containerd.service": "ExecStart=/usr/local/bin/containerd\n",
		"/etc/systemd/system/kubelet.service": "ExecStart=/usr/local/bin/kubelet --bootstrap-kubeconfig=",
	} {
		if text, err := host.ReadFile(file); err != nil || !strings.Contains(string(text), want) {
			t.Errorf("%s lacks %q: %s, %v", file, want, text, err)
		}
	}
	if left := s.on(host, "ls -d /var/tmp/jibe-artifacts-* 2>/dev/null; true"); left != "" {
		t.Errorf("left there is %s", left)
	}

	// Told again, it installs nothing: neither as a master that is one, nor by itself.
	before := s.on(host, installed)
	s.begin()
	s.must(s.input("instantiate_end", []hooks.Target{master}, nil))
	s.script(host, "install", "JIBE_K8S_ARTIFACTS_DIGEST="+s.on(host, "cat /var/lib/jibe-kubernetes/artifacts"))
	if after := s.on(host, installed); after != before {
		t.Errorf("it was installed again: %s\nbefore: %s", after, before)
	}
	s.want("master2")
}

// script runs the driver's script with settings, and returns what it printed.
func (s *site) script(h *netns.Host, action string, settings ...string) string {
	s.Helper()
	out, err := s.tryScript(s.Context(), h, action, settings...)
	if err != nil {
		s.Fatalf("%s: %v: %s", action, err, out)
	}
	return out
}

func (s *site) tryScript(ctx context.Context, h *netns.Host, action string, settings ...string) (string, error) {
	argv := append([]string{"env", "PATH=/usr/sbin:/usr/bin:/sbin:/bin", "JIBE_K8S_ACTION=" + action}, settings...)
	return h.Run(ctx, strings.NewReader(string(ownScript)), append(argv, "bash", "-s")...)
}

// The repository is a real one, signed and asked by apt; its packages of Kubernetes are built as
// those of its project, the others are Debian's.
func TestABareMachineIsInstalledFromAPackageRepository(t *testing.T) {
	testenv.Chaos(t, "machines")
	m := nodes.Need(t)
	repository := t.TempDir()
	key, err := m.Repository(t.Context(), repository)
	if err != nil {
		t.Fatal(err)
	}
	other, err := nodes.Sign(t.Context(), nil, filepath.Join(t.TempDir(), "signed"))
	if err != nil {
		t.Fatal(err)
	}
	s := bareSite(t, "10.209.8.0/24", m, func(string) {})
	listener, err := net.Listen("tcp", net.JoinHostPort(s.lab.Gateway.String(), "0"))
	if err != nil {
		t.Fatal(err)
	}
	var asked atomic.Int64
	files := http.FileServer(http.Dir(repository))
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		files.ServeHTTP(w, r)
	})}
	go func() { _ = server.Serve(listener) }() // it ends with the test
	t.Cleanup(func() { _ = server.Close() })

	host := s.host(s.machine("WorkerVDU"))
	for name, data := range map[string][]byte{"/tmp/key": key, "/tmp/other": other} {
		if err := host.WriteFile(name, data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	refused := func(reason string, settings ...string) {
		t.Helper()
		out, err := s.tryScript(t.Context(), host, "install", settings...)
		if err == nil || !strings.Contains(out+err.Error(), reason) {
			t.Errorf("%q doesn't tell %q: %v: %s", settings, reason, err, out)
		}
		if has := s.on(host, "type -P kubeadm kubelet kubectl containerd; true"); has != "" {
			t.Errorf("the machine has %s", has)
		}
	}
	from := "JIBE_K8S_REPOSITORY=http://" + listener.Addr().String() + " /"
	refused("no package repository of this machine has containerd")
	refused("JIBE_K8S_REPOSITORY_KEY is needed", from)
	refused("is not signed", from, "JIBE_K8S_REPOSITORY_KEY=/tmp/other")
	refused("Version '1.29.*' for 'kubeadm' was not found", from, "JIBE_K8S_REPOSITORY_KEY=/tmp/key", "JIBE_K8S_VERSION=1.29")

	version, err := m.Version(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	version = strings.TrimPrefix(version, "v")
	minor := version[:strings.LastIndex(version, ".")]
	settings := []string{from, "JIBE_K8S_REPOSITORY_KEY=/tmp/key", "JIBE_K8S_VERSION=" + minor}
	// The machine loses its power when the programs are there, and nothing is configured.
	const power = "/etc/apt/apt.conf.d/99-test"
	for name, text := range map[string]string{power: "Dir::Bin::dpkg \"/opt/dpkg\";\n", "/opt/dpkg": "#!/bin/sh\ndpkg \"$@\"\ncase \"$*\" in *--unpack*) exit 1 ;; esac\n"} {
		if err := host.WriteFile(name, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if out, err := s.tryScript(t.Context(), host, "install", settings...); err == nil {
		t.Errorf("it went on: %s", out)
	}
	if half := s.on(host, "rm "+power+"; type -P kubeadm kubelet kubectl containerd runc; dpkg --audit"); !strings.Contains(half, "/usr/bin/kubelet\n") || !strings.Contains(half, " containerd ") {
		t.Errorf("it isn't half installed: %s", half)
	}
	s.script(host, "install", settings...)
	if half := s.on(host, "dpkg --audit"); half != "" {
		t.Errorf("packages are left half installed: %s", half)
	}
	if got := s.on(host, "kubeadm version -o short; kubelet --version; apt-mark showhold | sort | xargs"); got != "v"+version+"\nKubernetes v"+version+"\nkubeadm kubectl kubelet" {
		t.Errorf("the machine has %s", got)
	}
	// The runtime is one that a kubelet can ask, with its plugins and the pause image of kubeadm.
	if got := s.on(host, "ctr plugins list | awk '$2 == \"cri\" {print $NF}'; grep -E 'bin_dir|sandbox_image' /etc/containerd/config.toml; systemctl is-enabled kubelet; systemctl is-active containerd"); !strings.HasPrefix(got, "ok\n") ||
		!strings.Contains(got, "bin_dir = '/opt/cni/bin'") || !strings.Contains(got, "/pause:") || !strings.HasSuffix(got, "enabled\nactive") {
		t.Errorf("containerd is %s\n%s", got, s.on(host, "tail -n 30 /var/log/containerd.log"))
	}
	before, requests := s.on(host, installed), asked.Load()
	s.script(host, "install", settings...)
	if after := s.on(host, installed); after != before || asked.Load() != requests {
		t.Errorf("it was installed again, with %d requests: %s\nbefore: %s", asked.Load()-requests, after, before)
	}
}
