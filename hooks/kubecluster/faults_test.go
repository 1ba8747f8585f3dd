package kubecluster

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/jibe-vnfm/jibe/hooks"
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

// masterHealed has a second master, which the stand-in of a control plane can't be: it is one
// by its name and place alone. What the driver does for it is the same.
func masterHealed(s *site) {
	s.begin()
	before := s.w.units
	m := s.machine("MasterVDU")
	in := s.input("heal_end", []hooks.Target{m}, nil)
	in.After = &hooks.Package{Tree: "other", Dir: s.scriptThat(
		`if [ "$JIBE_K8S_ACTION" = join-master ]; then [ ${#JIBE_K8S_CERTIFICATE_KEY} = 64 ] || exit 7; JIBE_K8S_ACTION=join-worker; fi`)}
	in.Params = workerByVDU(in)
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
	runner := hooks.Runner{Dir: filepath.Join(s.runDir(), "hooks"), Tool: s.w.jibe, Log: func(_ hooks.Input, _, line string) { lines = append(lines, line) }}
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
			in.Params = workerByVDU(with(in, map[string]any{"join_timeout": "10s", "script_path": "install.sh"}))
			in.After = &hooks.Package{Tree: "other", Dir: t.TempDir()}
			if err := os.WriteFile(filepath.Join(in.After.Dir, "install.sh"), []byte(test.script+"\n"), 0o755); err != nil {
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
