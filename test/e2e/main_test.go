// Package e2e proves from outside what a user is promised: it starts the real
// `jibe serve`, pushes with real git, calls the API over HTTP, and looks at what a
// real Kubernetes control plane has. It knows nothing of Jibe's own packages.
//
// One server is shared by most tests, each of which has its own namespace and its
// own directory in the desired repository.
package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/jibe-vnfm/jibe/test/kit"
	"github.com/jibe-vnfm/jibe/test/kubeenv"
	"github.com/jibe-vnfm/jibe/test/process"
)

var built struct {
	sync.Once
	path string
}

// program is the path of the program under test, which is built once.
func program(t testing.TB) string {
	built.Do(func() { built.path = process.Binary(t) })
	if built.path == "" {
		t.Fatal("jibe couldn't be built")
	}
	return built.path
}

// sharedServer is a server that tests share, started by the first that needs it.
type sharedServer struct {
	args []string
	once sync.Once
	s    *server
	err  error
}

var (
	usual = &sharedServer{}
	// impatient gives up soon, for tests of what happens then.
	impatient = &sharedServer{args: []string{"--timeout", "20s", "--timeout-for", "HEAL=10s", "--start-timeout", "10s"}}
)

func TestMain(m *testing.M) {
	code := m.Run()
	for _, f := range atEnd {
		if err := f(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	for _, h := range []*sharedServer{usual, impatient} {
		if err := h.close(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

var (
	atEnd   []func() error
	atEndMu sync.Mutex
)

// afterwards has f called when all tests are over.
func afterwards(f func() error) {
	atEndMu.Lock()
	defer atEndMu.Unlock()
	atEnd = append(atEnd, f)
}

// open starts the server with a VIM and all packages.
func (h *sharedServer) open(t *testing.T) *server {
	t.Helper()
	binary := program(t)
	h.once.Do(func() {
		var dir string
		if dir, h.err = os.MkdirTemp("", "jibe-e2e-"); h.err != nil {
			return
		}
		var p *process.Server
		if p, h.err = process.StartBinary(binary, filepath.Join(dir, "data"), h.args...); h.err != nil {
			return
		}
		h.s = serverOf(p)
		h.err = h.s.equip(filepath.Join(dir, "work"))
	})
	if h.err != nil {
		t.Fatal(h.err)
	}
	return h.s
}

// close ends the server, in order.
func (h *sharedServer) close() error {
	if h.s == nil {
		return nil
	}
	return errors.Join(h.s.process.Stop(), os.RemoveAll(filepath.Dir(h.s.data)))
}

// equip pushes the packages and the VIM, as a person does once.
func (s *server) equip(work string) error { return s.equipFor(work, os.Getenv(kubeenv.EnvKubeconfig)) }

// equipFor is equip for the cluster of the kubeconfig; "" is none.
func (s *server) equipFor(work, kubeconfig string) error {
	ctx, cancel := context.WithTimeout(context.Background(), kit.Patience)
	defer cancel()
	for _, repo := range []struct {
		name string
		fill func(dir string) error
	}{
		{"packages/packages.git", func(dir string) error {
			for id, vdus := range packages {
				if err := writePackage(dir, id, vdus); err != nil {
					return err
				}
			}
			for _, example := range []string{"webapp", "every-kind", "two-flavours"} {
				if err := os.CopyFS(filepath.Join(dir, example), os.DirFS("../../examples/packages/"+example)); err != nil {
					return err
				}
			}
			return nil
		}},
		{"desired.git", func(dir string) error {
			if err := os.MkdirAll(filepath.Join(dir, "vims"), 0o755); err != nil {
				return err
			}
			vim := "type: kubernetes\ndefault: true\nid: the-cluster\nkubeconfig: file:" + kubeconfig + "\n"
			if kubeconfig == "" { // some tests need no cluster
				vim = "type: sim\ndefault: true\n"
			}
			vim, err := process.Keep(s.data, vim)
			if err != nil {
				return err
			}
			if err := os.MkdirAll(filepath.Join(dir, "projects"), 0o755); err != nil {
				return err
			}
			// One package brings a kind of its own, and one test has a project of its own.
			project := "vims: ['*']\nrepositories: ['*']\nkinds: {clusterScoped: [Namespace, CustomResourceDefinition]}\n"
			if err := os.WriteFile(filepath.Join(dir, "projects", "default.yaml"), []byte(project), 0o644); err != nil {
				return err
			}
			return os.WriteFile(filepath.Join(dir, "vims", "local.yaml"), []byte(vim), 0o644)
		}},
	} {
		dir := filepath.Join(work, filepath.Base(repo.name))
		if out, err := process.Git(ctx, s.data, "clone", "--quiet", "file://"+filepath.Join(s.data, repo.name), dir); err != nil {
			return fmt.Errorf("clone %s: %w\n%s", repo.name, err, out)
		}
		if err := repo.fill(dir); err != nil {
			return err
		}
		for _, args := range [][]string{{"add", "--all"}, {"commit", "--quiet", "--message", "Begin"}, {"push", "--quiet", "origin", "HEAD:main"}} {
			if out, err := process.Git(ctx, dir, args...); err != nil {
				return fmt.Errorf("%s: git %s: %w\n%s", repo.name, strings.Join(args, " "), err, out)
			}
		}
	}
	return nil
}

// bench is what a test works with: a server, the cluster and a namespace.
type bench struct {
	*testing.T
	*server
	config    *rest.Config
	api       kubernetes.Interface
	namespace string
}

func newBench(t *testing.T, h *sharedServer) *bench {
	t.Helper()
	kubeconfig := kubeenv.Kubeconfig(t)
	t.Parallel()
	return benchAt(t, h.open(t), kubeenv.RestConfig(t), kubeconfig)
}

// alone gives the bench a server of its own, and returns the data directory of that.
func (b *bench) alone(t *testing.T) (data string) {
	t.Helper()
	data = filepath.Join(t.TempDir(), "data")
	b.server = serve(t, data)
	if err := b.equip(t.TempDir()); err != nil {
		t.Fatal(err)
	}
	return data
}

// benchAt is a bench with a namespace of its own at the cluster.
func benchAt(t *testing.T, s *server, config *rest.Config, kubeconfig string) *bench {
	t.Helper()
	b := &bench{T: t, server: s, config: config}
	var err error
	if b.api, err = kubernetes.NewForConfig(config); err != nil {
		t.Fatal(err)
	}
	b.namespace = kubeenv.Namespace(t, kubeconfig)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("of the server's log:\n%s", linesWith(b.process.Log(), b.namespace))
		}
	})
	return b
}

// linesWith are the lines that hold the word.
func linesWith(text, word string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		if strings.Contains(line, word) {
			b.WriteString(line)
		}
	}
	return b.String()
}

// background is for what happens after the test.
func (b *bench) background() context.Context { return context.WithoutCancel(b.Context()) }

// pods are the namespace's live pods by name.
func (b *bench) pods() map[string]corev1.Pod {
	b.Helper()
	list, err := b.api.CoreV1().Pods(b.namespace).List(b.Context(), metav1.ListOptions{})
	if err != nil {
		b.Fatal(err)
	}
	pods := map[string]corev1.Pod{}
	for _, p := range list.Items {
		if p.DeletionTimestamp == nil {
			pods[p.Name] = p
		}
	}
	return pods
}

// awaitPods waits until exactly n pods are Ready and there are no others.
func (b *bench) awaitPods(n int) {
	b.Helper()
	kit.Eventually(b, func() error {
		ready := 0
		pods := b.pods()
		for _, p := range pods {
			for _, c := range p.Status.Conditions {
				if c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue {
					ready++
				}
			}
		}
		if len(pods) != n || ready != n {
			return fmt.Errorf("%d pods, %d ready, want %d", len(pods), ready, n)
		}
		return nil
	})
}

// create makes an instance of the package through the API and returns its id.
func (b *bench) create(vnfd string) string {
	b.Helper()
	a := b.must(b, 201, "POST", instances, object{"vnfdId": vnfd, "vnfInstanceName": b.Name()})
	return a.object(b.T).text("id")
}

// request is the body that instantiates into the bench's namespace on the default VIM.
func (b *bench) request() object {
	return object{"flavourId": "simple", "additionalParams": object{
		"namespace": b.namespace, "lcm-kubernetes-def-files": []string{"Files/kubernetes/all.yaml"}}}
}

// runs makes and instantiates an instance through the API.
func (b *bench) runs(vnfd string) string {
	b.Helper()
	id := b.create(vnfd)
	b.server.run(b.T, id, "instantiate", b.request())
	return id
}

// bind gives a pod of the scheduler that isn't there a node.
func (b *bench) bind(pod string) {
	b.Helper()
	if err := b.place(pod); err != nil {
		b.Fatal(err)
	}
}

func (b *bench) place(pod string) error {
	return b.api.CoreV1().Pods(b.namespace).Bind(b.Context(), &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{Name: pod, Namespace: b.namespace},
		Target:     corev1.ObjectReference{Kind: "Node", Name: "node-0"},
	}, metav1.CreateOptions{})
}

// waiting waits for a pod without a node and returns its name.
func (b *bench) waiting() string {
	b.Helper()
	var name string
	kit.Eventually(b, func() error {
		for n, p := range b.pods() {
			if p.Spec.NodeName == "" {
				name = n
				return nil
			}
		}
		return fmt.Errorf("no pod waits for a node in %s", b.namespace)
	})
	return name
}

// scale is a request body.
func scale(direction, aspect string, steps int) object {
	return object{"type": direction, "aspectId": aspect, "numberOfSteps": steps}
}
