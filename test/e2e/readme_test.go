package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/jibe-vnfm/jibe/test/kit"
	"github.com/jibe-vnfm/jibe/test/kubeenv"
	"github.com/jibe-vnfm/jibe/test/process"
	"github.com/jibe-vnfm/jibe/test/testenv"
)

// wrapped is the jibe that the steps find in bin/: the server listens where nobody else does, and what would
// be watched for ever is watched for a moment.
const wrapped = `#!/bin/sh
case "$*" in
serve*) shift; exec %[1]q serve --listen %[2]s "$@" ;;
*--watch*) timeout 2 %[1]q "$@"; exit 0 ;;
esac
exec %[1]q "$@"
`

// steps are a shell in which one line after the other is typed.
type steps struct {
	*testing.T
	in io.Writer
	n  int

	mu  sync.Mutex
	out bytes.Buffer
}

func (s *steps) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.out.Write(p)
}

func (s *steps) said() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.out.String()
}

// step types a line and waits until it is done, which must be without an error.
func (s *steps) step(line string) {
	s.Helper()
	s.n++
	before := len(s.said())
	if _, err := fmt.Fprintf(s.in, "%s\necho \"step %d ends with $?\"\n", line, s.n); err != nil {
		s.Fatal(err)
	}
	end := fmt.Sprintf("step %d ends with ", s.n)
	kit.Eventually(s, func() error {
		if !strings.Contains(s.said()[before:], end) {
			return errors.New("it isn't done")
		}
		return nil
	})
	said := s.said()[before:]
	planned := strings.Contains(line, "jibe plan") && strings.Contains(said, end+"2\n") // something would change
	if !planned && !strings.Contains(said, end+"0\n") {
		s.Fatalf("%s\n%s", line, said)
	}
}

// The steps are typed as they stand in the README, in a shell of their own. What the comments say comes of
// them is looked at in the cluster.
func TestTheStepsOfTheReadmeDoWhatTheySay(t *testing.T) {
	kubeconfig := kubeenv.Kubeconfig(t)
	client, err := kubernetes.NewForConfig(kubeenv.RestConfig(t))
	if err != nil {
		t.Fatal(err)
	}
	cached, err := testenv.ControlPlane(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	dir := process.ShortTempDir(t)
	address := kit.Free(t)
	if err := errors.Join(os.Mkdir(filepath.Join(dir, "bin"), 0o755), os.CopyFS(filepath.Join(dir, "examples"), os.DirFS(filepath.Join(process.Root(), "examples"))),
		os.WriteFile(filepath.Join(dir, "bin", "jibe"), fmt.Appendf(nil, wrapped, program(t), address), 0o755)); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(process.Root(), "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, block, _ := strings.Cut(string(text), "## GitOps\n")
	_, block, _ = strings.Cut(block, "```sh\n")
	block, _, _ = strings.Cut(block, "```")

	s := &steps{T: t}
	shell := exec.CommandContext(context.WithoutCancel(t.Context()), "bash")
	shell.Dir, shell.Stdout, shell.Stderr = dir, s, s
	shell.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	shell.Env = append(process.Environment(), "KUBECONFIG="+kubeconfig, "PATH="+cached+":"+os.Getenv("PATH"), "JIBE_SERVER=http://"+address, "JIBE_TOKEN=", "JIBE_TOKEN_FILE=")
	if s.in, err = shell.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if err := shell.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = syscall.Kill(-shell.Process.Pid, syscall.SIGTERM) // the server with it
		_ = shell.Wait()
		if t.Failed() {
			t.Log(s.said())
		}
	})

	pods := func() (uids []string) {
		list, err := client.CoreV1().Pods("default").List(t.Context(), metav1.ListOptions{LabelSelector: "app=vdu1"})
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range list.Items {
			if p.DeletionTimestamp == nil {
				uids = append(uids, string(p.UID))
			}
		}
		return uids
	}
	runs := func(n int) {
		t.Helper()
		kit.Eventually(t, func() error {
			d, err := client.AppsV1().Deployments("default").Get(t.Context(), "vdu1", metav1.GetOptions{})
			if err == nil && (int(d.Status.ReadyReplicas) != n || len(pods()) != n) {
				err = fmt.Errorf("%d front ends are ready, want %d", d.Status.ReadyReplicas, n)
			}
			return err
		})
	}
	get := func(args ...string) (string, error) {
		args = append([]string{"get"}, append(args, "--server", "http://"+address, "--data", filepath.Join(dir, "data"))...)
		out, err := exec.CommandContext(t.Context(), program(t), args...).Output()
		return string(out), err
	}
	settled := func() { // another step may be refused while an operation is under way
		t.Helper()
		kit.Eventually(t, func() error {
			out, err := get("operations", "--state", "starting,processing,failed_temp", "-o", "name")
			if err == nil && strings.TrimSpace(out) != "" {
				err = fmt.Errorf("operations aren't over: %s", out)
			}
			return err
		})
	}
	shown := func(what, word string) {
		t.Helper()
		kit.Eventually(t, func() error {
			out, err := get(what)
			if err == nil && !strings.Contains(out, word) {
				err = fmt.Errorf("no %s among the %s:\n%s", word, what, out)
			}
			return err
		})
	}
	frontEnds := regexp.MustCompile(`# (\d+) front ends`)
	var healed, at int
	for line := range strings.Lines(block) {
		line = strings.TrimSpace(line)
		before := []string(nil)
		if strings.HasPrefix(line, "jibe heal ") {
			before = pods()
		}
		s.step(line)
		if m := frontEnds.FindStringSubmatch(line); m != nil {
			at, _ = strconv.Atoi(m[1])
			runs(at)
			settled()
		}
		switch {
		case strings.HasPrefix(line, "jibe serve "):
			kit.Eventually(t, func() error {
				c, err := net.DialTimeout("tcp", address, time.Second)
				if err == nil {
					err = c.Close()
				}
				return err
			})
		case strings.Contains(line, "git -C pkgs push "):
			shown("packages", webapp)
		case strings.HasPrefix(line, "kubectl scale "):
			shown("operations", "HEAL") // until it begins, all looks as it should
			runs(at)
			settled()
		case before != nil:
			healed++
			kit.Eventually(t, func() error {
				if now := pods(); len(now) != at || slices.ContainsFunc(now, func(uid string) bool { return slices.Contains(before, uid) }) {
					return fmt.Errorf("the front ends are %v, and were %v", now, before)
				}
				return nil
			})
			runs(at)
			settled()
		}
	}
	kit.Eventually(t, func() error {
		if _, err := client.AppsV1().Deployments("default").Get(t.Context(), "vdu1", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			return errors.Join(errors.New("it isn't gone"), err)
		}
		return nil
	})
	if s.n < 12 || at != 4 || healed != 1 {
		t.Errorf("%d steps were done, %d front ends and %d heals: the README has another form", s.n, at, healed)
	}
}
