package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http/cgi"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/yaml"

	"github.com/jibe-vnfm/jibe/test/kit"
	"github.com/jibe-vnfm/jibe/test/process"
)

// Flux's resources.
var (
	definitions    = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
	gitSources     = schema.GroupVersionResource{Group: "source.toolkit.fluxcd.io", Version: "v1", Resource: "gitrepositories"}
	kustomizations = schema.GroupVersionResource{Group: "kustomize.toolkit.fluxcd.io", Version: "v1", Resource: "kustomizations"}
)

// fluxStart bounds how long Flux takes until it obeys a push.
const fluxStart = time.Minute

// flux is a GitOps engine beside Jibe: Flux's controllers, which bring the bench's package from a repository of
// their own to a namespace, wait until it is healthy, and leave that off where a newer commit comes
// (its feature CancelHealthCheckOnNewRevision). A push is told at once, as a forge's webhook does, so that no
// interval is in the figures.
type flux struct {
	client dynamic.Interface
	ns     string
	clone  string
	git    *httptest.Server
	stop   context.CancelFunc // of the controllers
	ended  []func() error
	logs   []string
	made   []string // definitions that weren't there
}

// startFlux returns Flux with the package at its first level, in a namespace; nil where it can't be built here, as
// without a module proxy.
func (b *bench) startFlux(ctx context.Context, ns string) (*flux, error) {
	build := exec.CommandContext(ctx, "test/flux/flux", "build")
	build.Stderr = os.Stderr
	out, err := build.Output()
	if err != nil && ctx.Err() == nil {
		b.note("Flux is left out: it can't be built here (test/flux/flux build): %v", err)
		return nil, nil
	}
	config, err := clientcmd.BuildConfigFromFlags("", b.cluster.kubeconfig)
	if err != nil {
		return nil, err
	}
	config.QPS = -1
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	f := &flux{client: client, ns: ns, stop: func() {}}
	if err := f.start(ctx, b, strings.TrimSpace(string(out))); err != nil {
		return nil, errors.Join(fmt.Errorf("start Flux: %w%s", err, f.said()), f.close(context.WithoutCancel(ctx)))
	}
	return f, nil
}

func (f *flux) start(ctx context.Context, b *bench, bin string) error {
	dir, err := os.MkdirTemp(b.tmp, "flux-")
	if err != nil {
		return err
	}
	artifacts := filepath.Join(dir, "artifacts")
	if err := os.Mkdir(artifacts, 0o700); err != nil {
		return err
	}
	if err := f.define(ctx, filepath.Join(bin, "crds")); err != nil {
		return err
	}
	if err := f.serve(ctx, dir); err != nil {
		return err
	}
	at, err := freeAddress(ctx)
	if err != nil {
		return err
	}
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	f.stop = stop
	common := []string{"--enable-leader-election=false", "--events-addr=", "--metrics-addr=127.0.0.1:0", "--health-addr=127.0.0.1:0", "--log-level=info"}
	for name, args := range map[string][]string{
		"source-controller":    {"--storage-path=" + artifacts, "--storage-addr=" + at, "--storage-adv-addr=" + at},
		"kustomize-controller": {"--feature-gates=CancelHealthCheckOnNewRevision=true", "--requeue-dependency=5s"},
	} {
		if err := f.run(running, dir, filepath.Join(bin, name), b.cluster.kubeconfig, append(args, common...)); err != nil {
			return err
		}
	}
	if err := f.want(ctx); err != nil {
		return err
	}
	return f.await(ctx, b.cluster, 1)
}

// define has the API server know Flux's resources.
func (f *flux) define(ctx context.Context, dir string) error {
	files, err := filepath.Glob(filepath.Join(dir, "*.yaml"))
	if err != nil {
		return err
	}
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		for doc := range bytes.SplitSeq(text, []byte("\n---\n")) {
			var o unstructured.Unstructured
			if err := yaml.Unmarshal(doc, &o.Object); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			if _, err := f.client.Resource(definitions).Create(ctx, &o, metav1.CreateOptions{}); err == nil {
				f.made = append(f.made, o.GetName())
			} else if !apierrors.IsAlreadyExists(err) {
				return fmt.Errorf("%s: %w", name, err)
			}
		}
	}
	return kit.Poll(ctx, fluxStart, func() error {
		for _, r := range []schema.GroupVersionResource{gitSources, kustomizations} {
			if _, err := f.client.Resource(r).Namespace(f.ns).List(ctx, metav1.ListOptions{}); err != nil {
				return err
			}
		}
		return nil
	})
}

// serve has a repository with the package at hand over HTTP, and a clone of it.
func (f *flux) serve(ctx context.Context, dir string) error {
	bare := filepath.Join(dir, "served", "fleet.git")
	if _, err := process.Git(ctx, dir, "init", "--quiet", "--bare", "-b", "main", bare); err != nil {
		return err
	}
	if _, err := process.Git(ctx, bare, "config", "http.receivepack", "true"); err != nil {
		return err
	}
	core, err := process.Git(ctx, dir, "--exec-path")
	if err != nil {
		return err
	}
	f.git = httptest.NewServer(&cgi.Handler{
		Path: filepath.Join(strings.TrimSpace(core), "git-http-backend"),
		Env:  []string{"GIT_PROJECT_ROOT=" + filepath.Dir(bare), "GIT_HTTP_EXPORT_ALL=1"},
	})
	f.clone = filepath.Join(dir, "clone")
	if _, err := process.Git(ctx, dir, "clone", "--quiet", f.git.URL+"/fleet.git", f.clone); err != nil {
		return err
	}
	for key, value := range map[string]string{"user.name": "A Person", "user.email": "person@example.org"} {
		if _, err := process.Git(ctx, f.clone, "config", key, value); err != nil {
			return err
		}
	}
	if err := f.commit(ctx, 1); err != nil {
		return err
	}
	_, err = process.Git(ctx, f.clone, "push", "--quiet", "origin", "HEAD:refs/heads/main")
	return err
}

// commit commits the package with so many replicas.
func (f *flux) commit(ctx context.Context, replicas int) error {
	text, err := tiny.ReadFile("package/" + manifest)
	if err != nil {
		return err
	}
	with := strings.Replace(string(text), "spec:\n  selector:", fmt.Sprintf("spec:\n  replicas: %d\n  selector:", replicas), 1)
	if err := os.WriteFile(filepath.Join(f.clone, "web.yaml"), []byte(with), 0o644); err != nil {
		return err
	}
	return commit(ctx, f.clone, fmt.Sprintf("Have %d", replicas))
}

// run begins a controller, whose log is kept.
func (f *flux) run(ctx context.Context, dir, program, kubeconfig string, args []string) error {
	log, err := os.Create(filepath.Join(dir, filepath.Base(program)+".log"))
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+kubeconfig, "RUNTIME_NAMESPACE="+f.ns)
	cmd.Stdout, cmd.Stderr = log, log
	f.logs = append(f.logs, log.Name())
	if err := cmd.Start(); err != nil {
		return errors.Join(err, log.Close())
	}
	f.ended = append(f.ended, func() error {
		_ = cmd.Wait() // it was killed
		return log.Close()
	})
	return nil
}

// want says what Flux is to bring where.
func (f *flux) want(ctx context.Context) error {
	for _, x := range []struct {
		r    schema.GroupVersionResource
		kind string
		spec map[string]any
	}{
		{gitSources, "GitRepository", map[string]any{"url": f.git.URL + "/fleet.git", "ref": map[string]any{"branch": "main"}, "interval": "1h"}},
		{kustomizations, "Kustomization", map[string]any{
			"sourceRef": map[string]any{"kind": "GitRepository", "name": workload}, "path": "./", "targetNamespace": f.ns,
			"interval": "1h", "retryInterval": "1s", "timeout": "30m", "prune": true, "wait": true,
		}},
	} {
		o := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": x.r.GroupVersion().String(), "kind": x.kind, "metadata": map[string]any{"name": workload}, "spec": x.spec,
		}}
		if _, err := f.client.Resource(x.r).Namespace(f.ns).Create(ctx, o, metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("%s: %w", x.kind, err)
		}
	}
	return nil
}

// shownAfter pushes so many replicas, and returns after how long the API server shows them.
func (f *flux) shownAfter(ctx context.Context, c *cluster, replicas int) (time.Duration, error) {
	if err := f.commit(ctx, replicas); err != nil {
		return 0, err
	}
	w, err := c.watch(ctx, f.ns)
	if err != nil {
		return 0, err
	}
	defer w.stop()
	start := time.Now()
	if _, err := process.Git(ctx, f.clone, "push", "--quiet", "origin", "HEAD:refs/heads/main"); err != nil {
		return 0, err
	}
	told := fmt.Appendf(nil, `{"metadata":{"annotations":{"reconcile.fluxcd.io/requestedAt":%q}}}`, time.Now().Format(time.RFC3339Nano))
	if _, err := f.client.Resource(gitSources).Namespace(f.ns).Patch(ctx, workload, types.MergePatchType, told, metav1.PatchOptions{}); err != nil {
		return 0, fmt.Errorf("tell Flux of a push: %w", err)
	}
	at, err := w.until(ctx, func(v *view) bool { return v.shows(replicas) })
	if err != nil {
		return 0, fmt.Errorf("by Flux: %w%s", err, f.said())
	}
	return at.Sub(start), nil
}

// await waits until the namespace has so many replicas, and Flux has seen that it is healthy.
func (f *flux) await(ctx context.Context, c *cluster, replicas int) error {
	w, err := c.watch(ctx, f.ns)
	if err != nil {
		return err
	}
	defer w.stop()
	if _, err := w.until(ctx, func(v *view) bool { return v.settled(replicas) }); err != nil {
		return fmt.Errorf("%d replicas by Flux: %w", replicas, err)
	}
	return kit.Poll(ctx, fluxStart, func() error {
		o, err := f.client.Resource(kustomizations).Namespace(f.ns).Get(ctx, workload, metav1.GetOptions{})
		if err != nil {
			return err
		}
		head, err := process.Git(ctx, f.clone, "rev-parse", "HEAD")
		if err != nil {
			return err
		}
		applied, _, _ := unstructured.NestedString(o.Object, "status", "lastAppliedRevision")
		if !strings.HasSuffix(applied, strings.TrimSpace(head)) {
			return fmt.Errorf("applied by Flux is %q, and head is %s", applied, head)
		}
		return nil
	})
}

// said is the end of what the controllers have logged.
func (f *flux) said() string {
	var all strings.Builder
	for _, name := range f.logs {
		text, _ := os.ReadFile(name)
		fmt.Fprintf(&all, "\nthe end of %s:\n%s", filepath.Base(name), text[max(0, len(text)-2000):])
	}
	return all.String()
}

// close ends Flux, and removes what it has brought to the cluster.
func (f *flux) close(ctx context.Context) error {
	f.stop()
	var errs []error
	for _, ended := range f.ended {
		errs = append(errs, ended())
	}
	if f.git != nil {
		f.git.Close()
	}
	for _, r := range []schema.GroupVersionResource{kustomizations, gitSources} { // whose finalizers nobody serves any more
		o := f.client.Resource(r).Namespace(f.ns)
		if _, err := o.Patch(ctx, workload, types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{}); err != nil && !apierrors.IsNotFound(err) {
			errs = append(errs, err)
		}
	}
	for _, name := range f.made {
		if err := f.client.Resource(definitions).Delete(ctx, name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// freeAddress is one on this machine that nobody listens on.
func freeAddress(ctx context.Context) (string, error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}
