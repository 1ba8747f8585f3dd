package crash_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/test/process"
)

// namespace makes the namespace of the instance in a directory, once. Each has its own,
// as the package's objects have the same names in all of them.
func (w *world) namespace(ctx context.Context, dir string) (string, error) {
	name := "crash-" + path.Base(dir)[:6] + "-" + uuid.NewString()[:8]
	w.mu.Lock()
	for have, of := range w.namespaces {
		if of == dir {
			w.mu.Unlock()
			return have, nil
		}
	}
	w.namespaces[name] = dir
	w.mu.Unlock()
	_, err := w.client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	if err != nil {
		return "", fmt.Errorf("create namespace %s: %w", name, err)
	}
	// Without its service account the API server refuses every pod.
	return name, process.Poll(ctx, requestWait, func() error {
		_, err := w.client.CoreV1().ServiceAccounts(name).Get(ctx, "default", metav1.GetOptions{})
		return err
	})
}

func (w *world) removeNamespaces() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for name := range w.namespaces {
		err := w.client.CoreV1().Namespaces().Delete(ctx, name, metav1.DeleteOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			w.t.Errorf("delete namespace %s: %v", name, err)
		}
	}
}

// checkCluster says where what runs isn't what head wants: the number of replicas and
// pods, and nothing at all in the namespaces of instances that are gone.
func (w *world) checkCluster(ctx context.Context) error {
	want := map[string]int{}
	for name, dir := range w.namespaces {
		in, err := w.intent(ctx, dir)
		if err != nil {
			return err
		}
		if in != nil && in.State == desired.Instantiated {
			want[name] = 1 + in.Levels["front"]
		}
	}
	have, err := w.objects(ctx)
	if err != nil {
		return err
	}
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(w.namespaces)) {
		var exp []string
		if n := want[name]; n > 0 {
			exp = append(exp, fmt.Sprintf("Deployment vdu1 of %d", n), fmt.Sprintf("ReplicaSet of %d", n), "ConfigMap settings")
			exp = append(exp, slices.Repeat([]string{"Pod"}, n)...)
		}
		slices.Sort(exp)
		slices.Sort(have[name])
		if !slices.Equal(exp, have[name]) {
			errs = append(errs, fmt.Errorf("namespace %s of %s has %q, want %q", name, w.namespaces[name], have[name], exp))
		}
	}
	return errors.Join(errs...)
}

// objects are the kinds, names and sizes of what is in each of the test's namespaces.
func (w *world) objects(ctx context.Context) (map[string][]string, error) {
	all := map[string][]string{}
	add := func(namespace, format string, args ...any) {
		if _, ours := w.namespaces[namespace]; ours {
			all[namespace] = append(all[namespace], fmt.Sprintf(format, args...))
		}
	}
	deployments, err := w.client.AppsV1().Deployments("").List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	for _, d := range deployments.Items {
		add(d.Namespace, "Deployment %s of %d", d.Name, *d.Spec.Replicas)
	}
	sets, err := w.client.AppsV1().ReplicaSets("").List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	for _, r := range sets.Items {
		add(r.Namespace, "ReplicaSet of %d", *r.Spec.Replicas)
	}
	maps, err := w.client.CoreV1().ConfigMaps("").List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	for _, c := range maps.Items {
		if c.Name != "kube-root-ca.crt" && !strings.HasPrefix(c.Name, "jibe-") {
			add(c.Namespace, "ConfigMap %s", c.Name)
		}
	}
	pods, err := w.client.CoreV1().Pods("").List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	for _, p := range pods.Items {
		add(p.Namespace, "Pod")
	}
	return all, nil
}
