// Package examples_test walks through the examples on a real control plane, with their own
// files, as their README.md says.
package examples_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/jibe-vnfm/jibe/test/kit"
	"github.com/jibe-vnfm/jibe/test/kubeenv"
	"github.com/jibe-vnfm/jibe/test/process"
)

// walk is one example's way through a server and a namespace of its own.
type walk struct {
	*testing.T
	server    *process.Server
	api       kubernetes.Interface
	namespace string
	dir       string // in the desired repository
	instance  string
	patience  time.Duration
	seen      map[string]bool   // operations
	vims      map[string]string // what the desired repository holds beside the instance
	edits     map[string]string // of vnf.yaml, by pattern: what this place has for what stands there
	copies    map[string]string // of packages, by name: where those are that this place has in their stead
	flags     []string          // of the server
	delay     time.Duration     // for which a cloud inside this process works on a stack; 0 is a second
}

// begin puts the packages into the repository, and runs the instance that the example's
// vnf.yaml describes.
func begin(t *testing.T, example string, packages ...string) *walk {
	t.Helper()
	kubeconfig := kubeenv.Kubeconfig(t)
	t.Parallel()
	w := newWalk(t, example)
	w.onKubernetes(kubeconfig)
	w.run(example, packages...)
	return w
}

func newWalk(t *testing.T, example string) *walk {
	return &walk{T: t, dir: "instances/site-a/" + example, patience: kit.Patience, seen: map[string]bool{},
		vims: map[string]string{}, edits: map[string]string{}, copies: map[string]string{}}
}

// onKubernetes gives the walk a namespace of its own, and the VIM kube-a.
func (w *walk) onKubernetes(kubeconfig string) {
	w.Helper()
	w.namespace = kubeenv.Namespace(w, kubeconfig)
	var err error
	if w.api, err = kubernetes.NewForConfig(kubeenv.RestConfig(w)); err != nil {
		w.Fatal(err)
	}
	w.vims["vims/kube-a.yaml"] = "type: kubernetes\ndefault: true\nkubeconfig: file:" + kubeconfig + "\n"
	w.edits[`namespace: .*`] = "namespace: " + w.namespace
}

// run starts a server with the packages and VIMs, and the instance.
func (w *walk) run(example string, packages ...string) {
	w.Helper()
	t := w.T
	w.server = process.Start(t, t.TempDir(), append([]string{"--allow-hooks=packages"}, w.flags...)...)
	var dirs, ids []string
	for _, p := range packages {
		dirs = append(dirs, cmp.Or(w.copies[p], filepath.Join("packages", p)))
		ids = append(ids, vnfdID(t, p))
	}
	w.server.PushPackages(t, ids, dirs...)
	w.vims["repositories.yaml"] = "- {name: packages, url: packages.git, branch: main, hooks: true}\n"
	for name, vim := range w.vims {
		w.vims[name] = w.server.Keep(t, vim)
	}
	w.vims["projects/default.yaml"] = "secrets: ['file:" + filepath.Join(w.server.Data, "secrets") + "/']\n"
	w.server.PushFiles(t, w.vims)
	text := string(w.file(example, "vnf.yaml"))
	for old, now := range w.edits {
		text = regexp.MustCompile(old).ReplaceAllString(text, now)
	}
	w.server.PushFiles(t, map[string]string{w.dir + "/vnf.yaml": w.server.Keep(t, text)})
	w.instance = w.done("INSTANTIATE").Instance
}

// vnfdID is the descriptor_id of an example package.
func vnfdID(t *testing.T, name string) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("packages", name, "Definitions", "*_top.vnfd.yaml"))
	if err != nil || len(files) != 1 {
		t.Fatal(files, err)
	}
	text, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	return regexp.MustCompile(`descriptor_id: (\S+)`).FindStringSubmatch(string(text))[1]
}

func (w *walk) file(example, name string) []byte {
	w.Helper()
	text, err := os.ReadFile(filepath.Join(example, name))
	if err != nil {
		w.Fatal(err)
	}
	return text
}

// ask sends one of the example's requests and waits until its operation is COMPLETED.
func (w *walk) ask(method, task string, body []byte, header ...string) {
	w.Helper()
	a := w.server.Want(w.T, http.StatusAccepted, method, process.Instances+"/"+w.instance+task, json.RawMessage(body), nil, header...)
	w.server.AwaitWithin(w.T, w.patience, a.ID(), "COMPLETED")
	w.seen[a.ID()] = true
}

// push changes vnf.yaml and waits until the operation of that type is COMPLETED.
func (w *walk) push(operation, old, text string) {
	w.Helper()
	c := process.NewClone(w.T, w.server.Desired())
	_, err := c.ChangeInstance(w.Context(), w.server.Desired, w.dir, "Upgrade", func(now []byte) ([]byte, error) {
		if !strings.Contains(string(now), old) {
			return nil, fmt.Errorf("vnf.yaml has no %q: %s", old, now)
		}
		return []byte(strings.ReplaceAll(string(now), old, text)), nil
	})
	if err != nil {
		w.Fatal(err)
	}
	w.done(operation)
}

// revert takes the person's newest commit back with git, as the button of a forge does.
func (w *walk) revert(operation string) {
	w.Helper()
	for {
		c := process.NewClone(w.T, w.server.Desired())
		commit, err := process.Git(w.Context(), c.Dir, "log", "-1", "--format=%H", "--grep=^Upgrade$")
		if err != nil {
			w.Fatal(err)
		}
		if _, err := process.Git(w.Context(), c.Dir, "revert", "--no-edit", commit); err != nil {
			w.Fatal(err)
		}
		err = c.Push(w.Context())
		if err == nil {
			break
		}
		if !process.Overtaken(err) {
			w.Fatal(err)
		}
	}
	w.done(operation)
}

// done waits until a new operation of the type is COMPLETED.
func (w *walk) done(operation string) process.Operation {
	w.Helper()
	var found process.Operation
	kit.EventuallyWithin(w, w.patience, func() error {
		all, err := process.All[process.Operation](w.Context(), w.server, process.Operations)
		if err != nil {
			return err
		}
		for _, op := range all {
			if op.Type == operation && !w.seen[op.ID] {
				w.seen[op.ID] = true
				found = op
				return nil
			}
		}
		return fmt.Errorf("no %s among %+v", operation, all)
	})
	w.server.AwaitWithin(w.T, w.patience, found.ID, "COMPLETED")
	return found
}

// pods are those that run, by name.
func (w *walk) pods() map[string]corev1.Pod {
	w.Helper()
	list, err := w.api.CoreV1().Pods(w.namespace).List(w.Context(), metav1.ListOptions{})
	if err != nil {
		w.Fatal(err)
	}
	pods := make(map[string]corev1.Pod, len(list.Items))
	for _, p := range list.Items {
		if p.DeletionTimestamp == nil {
			pods[p.Name] = p
		}
	}
	return pods
}

// imagesAre fails unless n pods run, all of the image.
func (w *walk) imagesAre(n int, image string) {
	w.Helper()
	pods := w.pods()
	if len(pods) != n {
		w.Errorf("%d pods run, want %d", len(pods), n)
	}
	for name, p := range pods {
		if got := p.Spec.Containers[0].Image; got != image {
			w.Errorf("pod %s runs %s, want %s", name, got, image)
		}
	}
}

// gone fails unless the error is that of an object that doesn't exist.
func (w *walk) gone(what string, err error) {
	w.Helper()
	if !apierrors.IsNotFound(err) {
		w.Errorf("%s should be gone: %v", what, err)
	}
}

// endpoints are the pods that the Service sends traffic to, in order.
func (w *walk) endpoints(service string) []string {
	w.Helper()
	found, err := w.api.DiscoveryV1().EndpointSlices(w.namespace).List(w.Context(), metav1.ListOptions{LabelSelector: "kubernetes.io/service-name=" + service})
	if err != nil {
		w.Fatal(err)
	}
	var pods []string
	for _, s := range found.Items {
		for _, e := range s.Endpoints {
			pods = append(pods, e.TargetRef.Name)
		}
	}
	slices.Sort(pods)
	return pods
}

func TestRollingByRequestChangesPodsAddsAndDrops(t *testing.T) {
	w := begin(t, "rolling", "rolling-1.0", "rolling-1.1")
	core := w.api.CoreV1()
	w.imagesAre(3, "nginx:1.27-alpine")
	before, err := core.Services(w.namespace).Get(t.Context(), "web", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	w.ask(http.MethodPost, "/change_vnfpkg", w.file("rolling", "change_vnfpkg.json"))

	w.imagesAre(3, "nginx:1.28-alpine")
	if _, err := w.api.PolicyV1().PodDisruptionBudgets(w.namespace).Get(t.Context(), "web", metav1.GetOptions{}); err != nil {
		t.Error(err)
	}
	_, err = core.ConfigMaps(w.namespace).Get(t.Context(), "web-banner", metav1.GetOptions{})
	w.gone("ConfigMap web-banner", err)
	config, err := core.ConfigMaps(w.namespace).Get(t.Context(), "web-config", metav1.GetOptions{})
	if err != nil || config.Data["greeting"] != "good evening" {
		t.Errorf("the configuration is %v, %v", config.Data, err)
	}
	after, err := core.Services(w.namespace).Get(t.Context(), "web", metav1.GetOptions{})
	if err != nil || after.UID != before.UID || after.Spec.ClusterIP != before.Spec.ClusterIP {
		t.Errorf("the Service is another: %v, %v", after, err)
	}
}

func TestBlueGreenByPushIsTurnedByTheScript(t *testing.T) {
	w := begin(t, "blue-green-script", "blue-green-script-1.0", "blue-green-script-1.1")
	core := w.api.CoreV1()
	w.imagesAre(2, "nginx:1.27-alpine")
	before, err := core.Services(w.namespace).Get(t.Context(), "app-svc-name", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	w.push("CHANGE_VNFPKG", vnfdID(t, "blue-green-script-1.0"), vnfdID(t, "blue-green-script-1.1"))

	w.imagesAre(2, "nginx:1.28-alpine")
	if _, err := w.api.AppsV1().Deployments(w.namespace).Get(t.Context(), "app-name-new-1", metav1.GetOptions{}); err != nil {
		t.Error(err)
	}
	_, err = w.api.AppsV1().Deployments(w.namespace).Get(t.Context(), "app-name", metav1.GetOptions{})
	w.gone("Deployment app-name", err)
	_, err = core.ConfigMaps(w.namespace).Get(t.Context(), "nginx-app-original", metav1.GetOptions{})
	w.gone("ConfigMap nginx-app-original", err)
	after, err := core.Services(w.namespace).Get(t.Context(), "app-svc-name", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if after.UID != before.UID || after.Spec.ClusterIP != before.Spec.ClusterIP {
		t.Errorf("the Service is another: %v", after)
	}
	for _, said := range []string{"Service app-svc-name sends traffic to new-version", "no traffic for 2 old pods"} {
		if w.server.Logged(said) == 0 {
			t.Errorf("no script said %q", said)
		}
	}
	kit.Eventually(t, func() error { // a controller notes it in its own time
		endpoints := w.endpoints("app-svc-name")
		pods := w.pods()
		if len(endpoints) != 2 || slices.ContainsFunc(endpoints, func(name string) bool { _, runs := pods[name]; return !runs }) {
			return fmt.Errorf("the Service sends traffic to %v", endpoints)
		}
		return nil
	})

	w.revert("CHANGE_VNFPKG")
	w.imagesAre(2, "nginx:1.27-alpine")
	if _, err := w.api.AppsV1().Deployments(w.namespace).Get(t.Context(), "app-name-2", metav1.GetOptions{}); err != nil {
		t.Error(err)
	}
}

func TestContainerUpdateByRequestRestartsOnlyWhoUsesTheFirstSet(t *testing.T) {
	w := begin(t, "container-update", "container-update-before", "container-update-after")
	before := w.pods()
	w.ask(http.MethodPatch, "", w.file("container-update", "modify.json"), "Content-Type", "application/merge-patch+json")

	second := []string{"env-test2", "volume-test2", "deployment2-vdu6-"}
	after := w.pods()
	for name, p := range after {
		untouched := slices.ContainsFunc(second, func(s string) bool { return strings.HasPrefix(name, s) })
		image := "nginx:1.28-alpine"
		if untouched {
			image = "nginx:1.27-alpine"
			if before[name].UID != p.UID {
				t.Errorf("%s uses the second set alone, and was made anew", name)
			}
		}
		if got := p.Spec.Containers[0].Image; got != image {
			t.Errorf("%s runs %s, want %s", name, got, image)
		}
	}
	if len(after) != len(before) {
		t.Errorf("%d pods run, %d did", len(after), len(before))
	}
	config, err := w.api.CoreV1().ConfigMaps(w.namespace).Get(t.Context(), "cm-data", metav1.GetOptions{})
	if err != nil || !strings.HasPrefix(config.Data["cmKey1.txt"], "configmap2 data2") {
		t.Errorf("the first set is %v, %v", config.Data, err)
	}
	if after["env-test2"].Labels["tier"] != "" {
		t.Error("a label took effect before a heal of the whole VNF")
	}

	w.ask(http.MethodPost, "/heal", []byte(`{"cause": "let all of the new package apply"}`))
	healed := w.pods()
	if len(healed) != len(before) || healed["env-test2"].Labels["tier"] != "front" {
		t.Errorf("after a heal of the whole VNF %d pods run, env-test2 with %v", len(healed), healed["env-test2"].Labels)
	}
}
