package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/test/process"
)

const (
	upgradeLimit = 300 * time.Millisecond
	upgradedPods = 10
	nextVnfdID   = "3a5c1f0e-6d0b-4f7e-9c55-0f6f2a9e1be1"
	image        = "registry.k8s.io/pause:3.10"
	nextImage    = "registry.k8s.io/pause:3.9"
)

// writeSuccessor writes the next version of the package: another id, another image.
func writeSuccessor(dir string, from fs.FS) error {
	was, err := fs.ReadFile(from, manifest)
	if err != nil {
		return err
	}
	is := bytes.ReplaceAll(was, []byte(image), []byte(nextImage))
	changes := strings.NewReplacer(vnfdID, nextVnfdID, image, nextImage,
		fmt.Sprintf("%x", sha256.Sum256(was)), fmt.Sprintf("%x", sha256.Sum256(is)))
	return fs.WalkDir(from, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		content, err := fs.ReadFile(from, path)
		if err != nil {
			return err
		}
		path = filepath.Join(dir, filepath.FromSlash(path))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		return os.WriteFile(path, []byte(changes.Replace(string(content))), 0o644)
	})
}

// upgrade measures changes of package of one workload with ten pods, to and fro, beside
// a bare client that does the same by hand, and then of many instances in one commit.
func (b *bench) upgrade(ctx context.Context) error {
	t, err := b.onCluster(ctx, "upgrade")
	if err != nil {
		return err
	}
	defer t.Kill()
	name := desired.APIDir(t.id) + "/" + desired.InstanceFile
	if err := t.write(name, t.vnf(t.id, "instantiated", onKubernetes(t.ns, upgradedPods-1, exposed))); err != nil {
		return err
	}
	if err := commit(ctx, t.clone, "Ten pods and a Service", name); err != nil {
		return err
	}
	if _, err := t.push(ctx); err != nil {
		return err
	}
	if err := t.settle(ctx, ""); err != nil {
		return err
	}
	ns, err := b.bare(ctx, "bare-upgrade")
	if err != nil {
		return err
	}
	if err := b.bareTen(ctx, ns); err != nil {
		return err
	}
	for _, way := range []struct {
		name, title string
		bare        func(ctx context.Context, ns string, turn int) (time.Duration, error)
	}{
		{"RollingUpdate", "rolling", b.bareRolling},
		{"Blue-Green", "blue-green", b.bareBlueGreen},
	} {
		var whole, bare times
		for turn := range 2 * max(2, b.samples/6) { // there and back
			took, err := t.changePackage(ctx, way.name, turn)
			if err != nil {
				return fmt.Errorf("%s: %w", way.title, err)
			}
			whole = append(whole, took)
			if took, err = way.bare(ctx, ns, turn); err != nil {
				return fmt.Errorf("%s by a bare client: %w", way.title, err)
			}
			bare = append(bare, took)
		}
		b.latency(fmt.Sprintf("%s of %d pods by REST: request -> COMPLETED", way.title, upgradedPods), whole, 0, "")
		b.latency("the same by a bare client", bare, 0, "")
		own := whole.median() - bare.median()
		b.value("Jibe's own share: difference of the medians", short(own), own <= upgradeLimit, "<= "+short(upgradeLimit),
			ratio(float64(whole.median()), float64(bare.median()))+" of the bare client")
	}
	if err := t.Stop(); err != nil {
		return err
	}
	return b.upgradeMany(ctx)
}

// changePackage asks for the other version and waits for the end.
func (t *target) changePackage(ctx context.Context, way string, turn int) (time.Duration, error) {
	to := nextVnfdID
	if turn%2 == 1 {
		to = vnfdID
	}
	asked := time.Now()
	a, err := t.Do(ctx, http.MethodPost, process.Instances+"/"+t.id+"/change_vnfpkg",
		map[string]any{"vnfdId": to, "additionalParams": map[string]any{"upgrade_type": way}})
	if err == nil && a.Status != http.StatusAccepted {
		err = fmt.Errorf("change_vnfpkg: %d: %s", a.Status, a.Body)
	}
	if err != nil {
		return 0, err
	}
	ended, err := t.ended(ctx, a.Header.Get("Location"))
	return ended.Sub(asked), err
}

// bareTen gives the bare client's workload its pods, and a Service.
func (b *bench) bareTen(ctx context.Context, ns string) error {
	if err := b.cluster.expose(ctx, ns); err != nil {
		return err
	}
	w, err := b.cluster.watch(ctx, ns)
	if err != nil {
		return err
	}
	defer w.stop()
	if err := b.cluster.scale(ctx, ns, upgradedPods); err != nil {
		return err
	}
	_, err = w.until(ctx, func(v *view) bool { return v.settled(upgradedPods) })
	return err
}

func imageOf(turn int) string {
	if turn%2 == 0 {
		return nextImage
	}
	return image
}

// bareRolling patches the image and waits until all pods have it and are ready.
func (b *bench) bareRolling(ctx context.Context, ns string, turn int) (time.Duration, error) {
	w, err := b.cluster.watch(ctx, ns)
	if err != nil {
		return 0, err
	}
	defer w.stop()
	start := time.Now()
	patch := fmt.Sprintf(`{"spec":{"template":{"spec":{"containers":[{"name":"web","image":%q}]}}}}`, imageOf(turn))
	if _, err := b.cluster.AppsV1().Deployments(ns).Patch(ctx, workload, types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{FieldManager: "bench"}); err != nil {
		return 0, err
	}
	at, err := w.until(ctx, func(v *view) bool {
		for _, p := range v.pods {
			if p.Spec.Containers[0].Image != imageOf(turn) {
				return false
			}
		}
		return v.settled(upgradedPods)
	})
	return at.Sub(start), err
}

// proxiesFollow is how long whoever switches a Service waits for the proxies of the nodes before
// the old pods go, lest connections are refused: Jibe does, and so does the bare client.
const proxiesFollow = 2 * time.Second

// bareBlueGreen does by hand what an operator would: a second workload, the Service's
// selector, its EndpointSlices, the nodes' proxies, and then the first workload goes.
func (b *bench) bareBlueGreen(ctx context.Context, ns string, turn int) (time.Duration, error) {
	c := b.cluster
	old, err := c.AppsV1().Deployments(ns).List(ctx, metav1.ListOptions{})
	if err != nil || len(old.Items) != 1 {
		return 0, errors.Join(err, fmt.Errorf("%d workloads in %s, want 1", len(old.Items), ns))
	}
	colour := fmt.Sprintf("c%d", turn)
	green := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "web-" + colour}, Spec: *old.Items[0].Spec.DeepCopy()}
	green.Spec.Selector.MatchLabels = map[string]string{"app": "web", "colour": colour}
	green.Spec.Template.Labels = map[string]string{"app": "web", "colour": colour}
	green.Spec.Template.Spec.Containers[0].Image = imageOf(turn)
	deployments, err := c.AppsV1().Deployments(ns).Watch(ctx, metav1.ListOptions{})
	if err != nil {
		return 0, err
	}
	pods, err := c.CoreV1().Pods(ns).Watch(ctx, metav1.ListOptions{})
	if err != nil {
		return 0, err
	}
	slices, err := c.DiscoveryV1().EndpointSlices(ns).Watch(ctx, metav1.ListOptions{})
	if err != nil {
		return 0, err
	}
	defer deployments.Stop()
	defer pods.Stop()
	defer slices.Stop()
	start := time.Now()
	if _, err := c.AppsV1().Deployments(ns).Create(ctx, green, metav1.CreateOptions{FieldManager: "bench"}); err != nil {
		return 0, err
	}
	limit, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for ready := false; !ready; {
		select {
		case e := <-deployments.ResultChan():
			d, ok := e.Object.(*appsv1.Deployment)
			ready = ok && d.Name == green.Name && d.Status.ReadyReplicas == upgradedPods
		case <-limit.Done():
			return 0, errors.New("the second workload never became ready")
		}
	}
	patch := fmt.Sprintf(`{"spec":{"selector":{"app":"web","colour":%q}}}`, colour)
	if _, err := c.CoreV1().Services(ns).Patch(ctx, workload, types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{FieldManager: "bench"}); err != nil {
		return 0, err
	}
	for switched := false; !switched; {
		select {
		case e := <-slices.ResultChan():
			s, ok := e.Object.(*discoveryv1.EndpointSlice)
			switched = ok && allOf(s, green.Name+"-")
		case <-limit.Done():
			return 0, errors.New("the Service never led to the second workload")
		}
	}
	time.Sleep(proxiesFollow)
	background := metav1.DeletePropagationBackground
	if err := c.AppsV1().Deployments(ns).Delete(ctx, old.Items[0].Name, metav1.DeleteOptions{PropagationPolicy: &background}); err != nil {
		return 0, err
	}
	live := map[string]bool{}
	for {
		select {
		case e := <-pods.ResultChan():
			p, ok := e.Object.(*corev1.Pod)
			if !ok {
				continue
			}
			if live[p.Name] = true; e.Type == "DELETED" {
				delete(live, p.Name)
			}
			if len(live) == upgradedPods && e.Type == "DELETED" {
				return time.Since(start), nil
			}
		case <-limit.Done():
			return 0, fmt.Errorf("%d pods are left", len(live))
		}
	}
}

func allOf(s *discoveryv1.EndpointSlice, prefix string) bool {
	for _, e := range s.Endpoints {
		if e.TargetRef == nil || !strings.HasPrefix(e.TargetRef.Name, prefix) {
			return false
		}
	}
	return len(s.Endpoints) == upgradedPods
}

// upgradeMany upgrades many instances by one commit, beside a bare loop.
func (b *bench) upgradeMany(ctx context.Context) error {
	if err := b.cluster.room(ctx, 4*b.upgraded); err != nil { // what comes, and what is on its way out
		return err
	}
	spaces, err := b.spaces(ctx, "upgrades", b.upgraded)
	if err != nil {
		return err
	}
	between, err := newCounter(b.cluster.kubeconfig)
	if err != nil {
		return err
	}
	defer between.close()
	j, err := b.start(ctx, "upgrades", map[string]string{"kube": between.vim()})
	if err != nil {
		return err
	}
	defer j.Kill()
	all := verbs()
	if err := b.beside(ctx, crowd{j, "upgrades", spaces, between}, all[toCreate], all[toUpgrade]); err != nil {
		return err
	}
	return j.Stop()
}
