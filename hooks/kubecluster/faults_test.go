package kubecluster

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/jibe-vnfm/jibe/hooks"
	"github.com/jibe-vnfm/jibe/hooks/confine"
	"github.com/jibe-vnfm/jibe/test/kit"
	"github.com/jibe-vnfm/jibe/test/netns"
	"github.com/jibe-vnfm/jibe/test/workers"
	"github.com/jibe-vnfm/jibe/vnfd"
)

// booting has a machine that isn't there yet when the driver wants it.
func booting(s *site) {
	s.begin()
	*s.next = s.next.Next()
	m := target("WorkerVDU", "server-late", *s.next)
	ended := make(chan error, 1)
	go func() {
		_, err := s.run(s.input("scale_end", []hooks.Target{m}, nil))
		ended <- err
	}()
	kit.Until(s, "the driver waits for it", func() bool {
		list, err := s.CoreV1().Secrets("kube-system").List(s.Context(), metav1.ListOptions{FieldSelector: "type=bootstrap.kubernetes.io/token"})
		return err == nil && len(list.Items) > 0
	})
	s.boot("server-late", *s.next)
	if err := <-ended; err != nil {
		s.Fatal(err)
	}
	s.w.units = append(slices.Clone(s.w.units), m)
	s.in(m)
	s.want("master2 worker3")
}

// cut has connections that end in the middle: of a join, and of a drain.
func cut(s *site) {
	s.begin()
	m := s.machine("WorkerVDU")
	in := s.input("scale_end", []hooks.Target{m}, nil)
	in.After = &hooks.Package{Tree: "other", Dir: s.scriptThat("if [ ! -e /run/once ]; then touch /run/once; pkill -KILL -f '^sshd.*ubuntu'; sleep 1; echo 'nobody hears it'; exit 1; fi")}
	in.Params = workerByVDU(in)
	s.must(in)
	s.want("master2 worker3 " + workerName(m))
	s.w.units = append(slices.Clone(s.w.units), m)

	s.occupied(workerName(m))
	s.budget(6)
	s.begin()
	// Of an eviction that is cut short, the budget may keep a note for two minutes.
	start := with(s.input("scale_start", nil, []hooks.Target{m}), map[string]any{"drain_timeout": "4m"})
	ended := make(chan error, 1)
	go func() {
		_, err := s.run(start)
		ended <- err
	}()
	kit.Until(s, "it drains", func() bool { return strings.Contains(s.nodes(), workerName(m)+"-") })
	if _, err := s.w.hosts["server-2"].Run(s.Context(), nil, "pkill", "-KILL", "-f", "^sshd.*ubuntu"); err != nil {
		s.Fatal(err)
	}
	s.budget(5)
	if err := <-ended; err != nil {
		s.Fatal(err)
	}
	s.want("master2 worker3")
	s.remove(m)
}

func workerName(m hooks.Target) string {
	return "worker" + m.Unit.Address[strings.LastIndex(m.Unit.Address, ".")+1:]
}

// workerByVDU are the input's parameters for packages without a VNFD.
func workerByVDU(in hooks.Input) map[string]any {
	return with(in, map[string]any{"worker_node": map[string]any{
		"vdu_id": "WorkerVDU", "ssh_cp_name": "workerNode_CP1", "nic_cp_name": "workerNode_CP1", "username": "ubuntu", "password": password,
	}}).Params
}

// scriptThat is a package's directory with the real script, which does something else first.
func (s *site) scriptThat(first string) string {
	s.Helper()
	dir := s.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "Scripts"), 0o755); err != nil {
		s.Fatal(err)
	}
	head, rest, _ := bytes.Cut(workers.Install(s), []byte("\n"))
	text := slices.Concat(head, []byte("\n"+first+"\n"), rest)
	if err := os.WriteFile(filepath.Join(dir, "Scripts", "install_k8s_cluster.sh"), text, 0o755); err != nil {
		s.Fatal(err)
	}
	return dir
}

// masterHealed has a second master, which the stand-in of kubeadm makes one by its name and
// place alone.
func masterHealed(s *site) {
	s.begin()
	before := s.w.units
	m := s.machine("MasterVDU")
	in := s.input("heal_end", []hooks.Target{m}, nil)
	s.must(in)
	name := strings.Replace(workerName(m), "worker", "master", 1)
	s.want("master2 " + name + " worker3")
	s.w.units = append(slices.Clone(before), m)
	s.begin()
	s.must(s.input("heal_start", nil, []hooks.Target{m}))
	s.want("master2 worker3")
	s.host(m).Remove()
	s.w.units = before
}

// forwardless has a master whose SSH server forwards nothing.
func forwardless(s *site) {
	host := s.w.hosts["server-2"]
	if _, err := host.Run(s.Context(), nil, "sh", "-c", "echo AllowTcpForwarding no >>/etc/ssh/sshd_config; kill -HUP $(cat /run/sshd.pid)"); err != nil {
		s.Fatal(err)
	}
	s.listening(host)
	m := s.machine("WorkerVDU")
	s.out(m)
	s.in(m)
	s.want("master2 worker3")
	if _, err := host.Run(s.Context(), nil, "sh", "-c", "sed -i /AllowTcpForwarding/d /etc/ssh/sshd_config; kill -HUP $(cat /run/sshd.pid)"); err != nil {
		s.Fatal(err)
	}
	s.listening(host)
}

func (s *site) listening(h *netns.Host) {
	kit.Until(s, "the SSH server listens", func() bool {
		_, err := h.Run(s.Context(), nil, "bash", "-c", "exec 3<>/dev/tcp/"+h.Addr().String()+"/22 && head -c 3 <&3")
		return err == nil
	})
}

// asAHook has the package's hook run as jibe serve runs it: as another user, with
// nothing but its input.
func asAHook(s *site) {
	p, err := vnfd.Load(os.DirFS(packageDir))
	if err != nil {
		s.Fatal(err)
	}
	p.Tree = "here"
	scripts := p.VNFD.Flavours[0].Hooks
	var lines []string
	runner := hooks.Runner{Dir: filepath.Join(s.runDir(), "hooks"), Tool: s.w.jibe,
		Confinement: hooks.Confinement{Launcher: []string{s.w.jibe, confine.Command}}, Log: func(_ hooks.Input, _, line string) { lines = append(lines, line) }}
	run := func(in hooks.Input) (hooks.Output, error) {
		s.Helper()
		in.Before.Dir, in.After.Dir = "", ""
		out, err := runner.Run(s.Context(), hooks.Call{Package: p, Path: scripts[in.Hook], Input: in})
		s.Logf("%s: %v, %v, %s", in.Hook, err, out, strings.Join(lines, "\n"))
		return out, err
	}
	s.begin()
	m := s.machine("WorkerVDU")
	out, err := run(s.input("scale_end", []hooks.Target{m}, nil))
	if err != nil {
		s.Fatal(err)
	}
	if texts(out.Metadata[metaNodes])[m.Unit.Name] != workerName(m) || len(texts(out.Metadata[metaKeys])) != 3 {
		s.Errorf("the metadata are %v", out.Metadata)
	}
	if !slices.ContainsFunc(lines, func(l string) bool { return strings.Contains(l, workerName(m)+" is Ready") }) {
		s.Errorf("the lines for people are %q", lines)
	}
	s.keep(out)
	s.w.units = append(slices.Clone(s.w.units), m)
	s.begin()
	refused := with(s.input("scale_start", nil, []hooks.Target{m}), map[string]any{"kubeconfig_path": "/nowhere"})
	if _, err := run(refused); err == nil || !strings.Contains(err.Error(), "/nowhere") || !strings.Contains(err.Error(), "exit status 1") {
		s.Errorf("a driver that fails: %v", err)
	}
	s.in(m)
}

// runDir is a directory that the user of hooks can reach.
func (s *site) runDir() string {
	dir, err := os.MkdirTemp("", "jibe-test-")
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		s.Fatal(err)
	}
	return dir
}

// scripts has scripts that fail in ways of their own.
func scripts(s *site) {
	for name, test := range map[string]struct {
		script string
		why    []string
	}{
		"fails":              {"#!/bin/bash\necho \"no such module\" >&2\nexit 3", []string{"exit status 3", "no such module"}},
		"hangs":              {"#!/bin/bash\necho working\nsleep 1000", []string{"didn't end within", "working", "join_timeout"}},
		"prints forever":     {"#!/bin/bash\nyes 'all is well'", []string{"printed more than", "all is well"}},
		"asks":               {"#!/bin/bash\nread -p 'Continue?' -r answer || { echo nobody answers; exit 9; }", []string{"exit status 9", "nobody answers"}},
		"tells its settings": {"#!/bin/bash\necho token $JIBE_K8S_TOKEN; exit 5", []string{"exit status 5", "token ***"}},
	} {
		s.TB.(*testing.T).Run(name, func(t *testing.T) {
			own := *s
			own.TB = t
			own.begin()
			m := own.machine("WorkerVDU")
			in := own.input("scale_end", []hooks.Target{m}, nil)
			timeout := "4m" // a busy machine takes some time for what ends by itself
			if name == "hangs" {
				timeout = "10s"
			}
			in.Params = workerByVDU(with(in, map[string]any{"join_timeout": timeout, "script_path": "install.sh"}))
			in.After = &hooks.Package{Tree: "other", Dir: t.TempDir()}
			if err := os.WriteFile(filepath.Join(in.After.Dir, "install.sh"), []byte(test.script+"\n# whatever JIBE_K8S_ACTION is\n"), 0o755); err != nil {
				t.Fatal(err)
			}
			own.refused(in, append(test.why, m.Unit.Name)...)
			kit.Until(own, "nothing of it is left on the machine", func() bool {
				left, err := own.host(m).Run(t.Context(), nil, "sh", "-c", "ls /tmp | grep jibe-; pgrep -x 'yes|sleep'; true")
				if err != nil {
					t.Fatal(err)
				}
				return left == ""
			})
			own.host(m).Remove()
		})
	}
	s.want("master2 worker3")
}

// artifacts has a machine that gets what it lacks from the package alone.
func artifacts(s *site) {
	s.begin()
	before := s.w.units
	dir := s.scriptThat(":")
	files := map[string]string{
		"Files/node/bin/hello": "#!/bin/sh\necho hello\n", "Files/node/cni/bridge-of-ours": "a plugin",
		"control/DEBIAN/control":            "Package: jibe-test-hello\nVersion: 1.0\nArchitecture: all\nMaintainer: it <it@test>\nDescription: a test\n",
		"control/usr/share/jibe-test-hello": "it is here\n",
	}
	for name, text := range files {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755); err != nil {
			s.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			s.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(dir, "Files/node/debs"), 0o755); err != nil {
		s.Fatal(err)
	}
	if out, err := exec.CommandContext(s.Context(), "dpkg-deb", "--root-owner-group", "--build", filepath.Join(dir, "control"), filepath.Join(dir, "Files/node/debs/hello.deb")).CombinedOutput(); err != nil {
		s.Fatalf("dpkg-deb: %v: %s", err, out)
	}
	m := s.machine("WorkerVDU")
	host := s.host(m)
	in := s.input("scale_end", []hooks.Target{m}, nil)
	in.After = &hooks.Package{Tree: "other", Dir: dir}
	in.Params = workerByVDU(with(in, map[string]any{"artifacts": "Files/node"}))

	// Another user's folder at the place of the files is none of ours.
	d := &driver{in: in, stderr: io.Discard, keys: map[string]string{}}
	if err := d.prepare(); err != nil {
		s.Fatal(err)
	}
	if err := d.listArtifacts(); err != nil {
		s.Fatal(err)
	}
	at := "/var/tmp/jibe-artifacts-" + d.artifactsDigest[:16]
	run := func(command string) string {
		s.Helper()
		out, err := host.Run(s.Context(), nil, "sh", "-c", command)
		if err != nil {
			s.Fatalf("%s: %v: %s", command, err, out)
		}
		return strings.TrimSpace(out)
	}
	run("mkdir " + at)
	s.refused(in, "somebody else's", m.Unit.Name)
	// What an earlier connection has brought stays, unless it isn't what it should be.
	run("chown ubuntu " + at + " && mkdir -p " + at + "/bin " + at + "/cni && printf '#!/bin/sh\necho hello\n' >" + at + "/bin/hello && echo half >" + at + "/cni/bridge-of-ours && chown -R ubuntu " + at)

	var stderr bytes.Buffer
	text, err := json.Marshal(in)
	if err != nil {
		s.Fatal(err)
	}
	if err := Run(s.Context(), bytes.NewReader(text), io.Discard, &stderr); err != nil {
		s.Fatalf("%v: %s", err, &stderr)
	}
	if !strings.Contains(stderr.String(), "3 artifacts of the package, 2 of them sent now") {
		s.Errorf("it tells %s", &stderr)
	}
	if got := run("/usr/local/bin/hello; cat /opt/cni/bin/bridge-of-ours; echo; cat /usr/share/jibe-test-hello; cat /var/lib/jibe-kubernetes/artifacts"); got != "hello\na plugin\nit is here\n"+d.artifactsDigest {
		s.Errorf("the machine has %q", got)
	}
	if left := run("ls -d /var/tmp/jibe-artifacts-* 2>/dev/null; true"); left != "" {
		s.Errorf("left there is %s", left)
	}
	s.want("master2 worker3 " + workerName(m))

	// A machine that has them gets none, also when it has to join again.
	if err := s.CoreV1().Nodes().Delete(s.Context(), workerName(m), metav1.DeleteOptions{}); err != nil {
		s.Fatal(err)
	}
	run("rm /etc/kubernetes/joined")
	stderr.Reset()
	if err := Run(s.Context(), bytes.NewReader(text), io.Discard, &stderr); err != nil {
		s.Fatalf("%v: %s", err, &stderr)
	}
	if strings.Contains(stderr.String(), "sent now") {
		s.Errorf("it tells %s", &stderr)
	}
	s.want("master2 worker3 " + workerName(m))
	s.w.units = append(slices.Clone(before), m)
	s.in(m)
}
