package nodes

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/jibe-vnfm/jibe/test/kit"
	"github.com/jibe-vnfm/jibe/test/testenv"
)

// A cluster of one node for all that is asserted: its start is most of the time.
func TestAClusterOfOneNodeRunsRealContainers(t *testing.T) {
	testenv.Chaos(t, "machines")
	c := Start(t, "10.207.1.0/24", Options{Images: []string{"local/web:1.0", "local/web:2.0"}})
	address := deploy(t, c, "web", "local/web:1.0", 2)
	t.Run("AServiceLeadsToEachOfItsPods", func(t *testing.T) { leads(t, c, address) })
	t.Run("ANodePortAnswersFromOutsideOfTheCluster", func(t *testing.T) { outside(t, c) })
	t.Run("AContainerSeesItsEnvironmentAndItsFiles", func(t *testing.T) { sees(t, c) })
	t.Run("APodKeepsItsPlaceWhenItsContainerGetsAnotherImage", func(t *testing.T) { inPlace(t, c) })
	t.Run("NamesOfServicesAreResolved", func(t *testing.T) { names(t, c) })
}

// deploy runs replicas of an image behind a Service of the same name, and returns where that is.
func deploy(t *testing.T, c *Cluster, name, image string, replicas int32) string {
	t.Helper()
	labels := map[string]string{"app": name}
	_, err := c.Client.AppsV1().Deployments("default").Create(t.Context(), &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: appsv1.DeploymentSpec{Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{Containers: []corev1.Container{container(image)}},
		}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	s, err := c.Client.CoreV1().Services("default").Create(t.Context(), &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeNodePort, Selector: labels, Ports: []corev1.ServicePort{{Port: 80, TargetPort: intstr.FromInt32(8080)}}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	kit.Eventually(t, func() error {
		d, err := c.Client.AppsV1().Deployments("default").Get(t.Context(), name, metav1.GetOptions{})
		if err == nil && d.Status.ReadyReplicas != replicas {
			err = fmt.Errorf("%d of %d pods are Ready", d.Status.ReadyReplicas, replicas)
		}
		return err
	})
	return "http://" + s.Spec.ClusterIP + "/"
}

func container(image string) corev1.Container {
	return corev1.Container{
		Name: "web", Image: image, ImagePullPolicy: corev1.PullIfNotPresent,
		ReadinessProbe: &corev1.Probe{ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/ready", Port: intstr.FromInt32(8080)}}, PeriodSeconds: 1},
	}
}

// answer is what the test program tells of itself.
type answer struct{ Pod, Image, Version string }

func ask(ctx context.Context, client *http.Client, url string, into any) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("GET %s: %s", url, resp.Status)
	}
	return json.NewDecoder(resp.Body).Decode(into)
}

func leads(t *testing.T, c *Cluster, url string) {
	client, pods := c.HTTP(), map[string]bool{}
	kit.Eventually(t, func() error {
		var a answer
		if err := ask(t.Context(), client, url, &a); err != nil {
			return err
		}
		if a.Image != "local/web:1.0" || a.Version != "1.0" {
			t.Fatalf("it answers %+v", a)
		}
		if pods[a.Pod] = true; len(pods) < 2 {
			return fmt.Errorf("only %v answers", pods)
		}
		return nil
	})
}

func outside(t *testing.T, c *Cluster) {
	s, err := c.Client.CoreV1().Services("default").Get(t.Context(), "web", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	kit.Eventually(t, func() error {
		var a answer
		return ask(t.Context(), http.DefaultClient, "http://"+c.Master.At(int(s.Spec.Ports[0].NodePort))+"/", &a)
	})
}

// pod makes one, and waits until its container runs.
func pod(t *testing.T, c *Cluster, p *corev1.Pod) *corev1.Pod {
	t.Helper()
	pods := c.Client.CoreV1().Pods("default")
	if _, err := pods.Create(t.Context(), p, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	var is *corev1.Pod
	kit.Eventually(t, func() (err error) {
		is, err = pods.Get(t.Context(), p.Name, metav1.GetOptions{})
		if err == nil && (len(is.Status.ContainerStatuses) != 1 || !is.Status.ContainerStatuses[0].Ready) {
			err = fmt.Errorf("pod %s is %+v", p.Name, is.Status.ContainerStatuses)
		}
		return err
	})
	return is
}

func sees(t *testing.T, c *Cluster) {
	if _, err := c.Client.CoreV1().ConfigMaps("default").Create(t.Context(), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: "settings"}, Data: map[string]string{"a.txt": `"mounted"`, "KEY": "from the map"},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	of := corev1.LocalObjectReference{Name: "settings"}
	web := container("local/web:1.0")
	web.Env = []corev1.EnvVar{{Name: "KEY", ValueFrom: &corev1.EnvVarSource{ConfigMapKeyRef: &corev1.ConfigMapKeySelector{LocalObjectReference: of, Key: "KEY"}}}}
	web.VolumeMounts = []corev1.VolumeMount{{Name: "settings", MountPath: "/settings"}}
	p := pod(t, c, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "sees"}, Spec: corev1.PodSpec{
		Containers: []corev1.Container{web},
		Volumes:    []corev1.Volume{{Name: "settings", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: of}}}},
	}})
	var env []string
	var file string
	at := "http://" + p.Status.PodIP + ":8080"
	kit.Eventually(t, func() error {
		return errors.Join(ask(t.Context(), c.HTTP(), at+"/env", &env), ask(t.Context(), c.HTTP(), at+"/file?name=/settings/a.txt", &file))
	})
	if !slices.Contains(env, "KEY=from the map") {
		t.Errorf("its environment is %q", env)
	}
	if file != "mounted" {
		t.Errorf("its file is %q", file)
	}
}

func inPlace(t *testing.T, c *Cluster) {
	before := pod(t, c, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "bare"}, Spec: corev1.PodSpec{Containers: []corev1.Container{container("local/web:1.0")}}})
	pods := c.Client.CoreV1().Pods("default")
	if _, err := pods.Patch(t.Context(), "bare", "application/strategic-merge-patch+json", []byte(`{"spec":{"containers":[{"name":"web","image":"local/web:2.0"}]}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	kit.Eventually(t, func() error {
		var a answer
		err := ask(t.Context(), c.HTTP(), "http://"+before.Status.PodIP+":8080/", &a)
		if err == nil && a.Version != "2.0" {
			err = fmt.Errorf("it answers %+v", a)
		}
		return err
	})
	after, err := pods.Get(t.Context(), "bare", metav1.GetOptions{})
	if err != nil || after.UID != before.UID || after.Status.PodIP != before.Status.PodIP {
		t.Errorf("another pod answers: %v, was %v, %v", after.UID, before.UID, err)
	}
}

func names(t *testing.T, c *Cluster) {
	dns, err := c.Client.CoreV1().Services("kube-system").Get(t.Context(), "kube-dns", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	web, err := c.Client.CoreV1().Services("default").Get(t.Context(), "web", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	r := resolver(c, dns.Spec.ClusterIP)
	kit.Eventually(t, func() error { // a resolver has little patience of its own
		got, err := r.LookupHost(t.Context(), "web.default.svc.cluster.local.")
		if err == nil && strings.Join(got, " ") != web.Spec.ClusterIP {
			err = kit.Final(fmt.Errorf("web.default.svc.cluster.local is %v, not %s", got, web.Spec.ClusterIP))
		}
		return err
	})
}

// resolver asks the cluster's DNS.
func resolver(c *Cluster, address string) *net.Resolver {
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return c.Master.Dial(ctx, "tcp", net.JoinHostPort(address, "53"))
	}}
}
