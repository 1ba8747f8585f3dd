package load

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/google/uuid"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/test/kit"
)

// namespace makes the namespace of the instance in a directory, once. Each has its own,
// as the package's objects have the same names in all of them.
func (w *World) namespace(ctx context.Context, dir string) (string, error) {
	name := "load-" + path.Base(dir)[:6] + "-" + uuid.NewString()[:8]
	w.mu.Lock()
	for have, of := range w.namespaces {
		if of == dir {
			w.mu.Unlock()
			return have, nil
		}
	}
	w.namespaces[name] = dir
	w.mu.Unlock()
	_, err := w.Client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	if err != nil {
		return "", fmt.Errorf("create namespace %s: %w", name, err)
	}
	// Without its service account the API server refuses every pod.
	return name, kit.Poll(ctx, requestWait, func() error {
		_, err := w.Client.CoreV1().ServiceAccounts(name).Get(ctx, "default", metav1.GetOptions{})
		return err
	})
}

// Close removes from the cluster what the world has made there, and ends its subscribers.
func (w *World) Close(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), requestWait)
	defer cancel()
	var errs []error
	for name := range w.namespaces {
		err := w.Client.CoreV1().Namespaces().Delete(ctx, name, metav1.DeleteOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			errs = append(errs, fmt.Errorf("delete namespace %s: %w", name, err))
		}
	}
	for _, s := range w.Events {
		s.Close()
	}
	return errors.Join(errs...)
}

// checkCluster says where what runs isn't what head wants: the number of replicas and
// pods, all of one generation and of the version's content, and nothing at all in the
// namespaces of instances that are gone.
func (w *World) checkCluster(ctx context.Context) error {
	want := map[string][]string{}
	for name, dir := range w.namespaces {
		in, err := w.intent(ctx, dir)
		if err != nil {
			return err
		}
		if in != nil && desired.IsInstantiated(in.State) {
			want[name] = render(in)
		}
	}
	have, err := w.objects(ctx)
	if err != nil {
		return err
	}
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(w.namespaces)) {
		slices.Sort(want[name])
		slices.Sort(have[name])
		if !slices.Equal(want[name], have[name]) {
			errs = append(errs, fmt.Errorf("namespace %s of %s has %q, want %q", name, w.namespaces[name], have[name], want[name]))
		}
	}
	return errors.Join(errs...)
}

// render is what objects says of an instance that is what its file says.
func render(in *desired.Instance) []string {
	suffix, generation := "", "0"
	if in.Generation != "" {
		suffix, generation = "-"+in.Generation, in.Generation
	}
	n := 1 + in.Levels["front"]
	if in.State == desired.Stopped {
		n = 0
	}
	image, level := content(in.VnfdID)
	list := append(slices.Repeat([]string{fmt.Sprintf("Pod of generation %s with %s", generation, image)}, n),
		fmt.Sprintf("Deployment vdu1%s of %d", suffix, n), fmt.Sprintf("ConfigMap settings%s: %s", suffix, level))
	if n > 0 {
		list = append(list, fmt.Sprintf("ReplicaSet of %d", n))
	}
	return list
}

// objects are the kinds, names and sizes of what is in each of the test's namespaces.
func (w *World) objects(ctx context.Context) (map[string][]string, error) {
	all := map[string][]string{}
	add := func(namespace, format string, args ...any) {
		if _, ours := w.namespaces[namespace]; ours {
			all[namespace] = append(all[namespace], fmt.Sprintf(format, args...))
		}
	}
	deployments, err := w.Client.AppsV1().Deployments("").List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	deployed := map[string]types.UID{}
	for _, d := range deployments.Items {
		deployed[d.Namespace] = d.UID
		add(d.Namespace, "Deployment %s of %d", d.Name, *d.Spec.Replicas)
	}
	sets, err := w.Client.AppsV1().ReplicaSets("").List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	for _, r := range sets.Items {
		if *r.Spec.Replicas > 0 || !metav1.IsControlledBy(&r, &metav1.ObjectMeta{UID: deployed[r.Namespace]}) { // else it is a Deployment's history
			add(r.Namespace, "ReplicaSet of %d", *r.Spec.Replicas)
		}
	}
	settings, err := w.Client.CoreV1().ConfigMaps("").List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	for _, c := range settings.Items {
		if c.Name != "kube-root-ca.crt" && !strings.HasPrefix(c.Name, "jibe-") {
			add(c.Namespace, "ConfigMap %s: %s", c.Name, c.Data["LOG_LEVEL"])
		}
	}
	pods, err := w.Client.CoreV1().Pods("").List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	for _, p := range pods.Items {
		add(p.Namespace, "Pod of generation %s with %s", p.Labels["vnf.jibe.dev/generation"], p.Spec.Containers[0].Image)
	}
	return all, nil
}
