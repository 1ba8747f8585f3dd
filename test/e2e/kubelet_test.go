package e2e

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/jibe-vnfm/jibe/test/kit"
	"github.com/jibe-vnfm/jibe/test/nodes"
	"github.com/jibe-vnfm/jibe/test/testenv"
)

// realNode is a bench whose pods' containers run: a kubelet starts and ends them, and
// kube-proxy leads from a Service's address to them.
type realNode struct {
	*bench
	cluster *nodes.Cluster
}

func TestVNFsWhoseContainersRun(t *testing.T) {
	t.Parallel()
	onRealNode(t, "10.207.3.0/24", map[string]func(*realNode){
		"AClientNoticesNoBlueGreenChangeWithoutAScript":          func(n *realNode) { n.blueGreen("") },
		"AClientNoticesNoBlueGreenChangeThatIsTakenBack":         (*realNode).takenBack,
		"AClientNoticesNoRollingChangeAndPodsDrainBeforeTheyEnd": (*realNode).rolling,
		"AClientNoticesNoHealAndNoScaleIn":                       (*realNode).healsAndShrinks,
	})
}

func TestVNFsWhoseContainersRunKeepRequestsAndData(t *testing.T) {
	testenv.Chaos(t, "a node that runs containers")
	t.Parallel()
	onRealNode(t, "10.207.6.0/24", map[string]func(*realNode){
		"AClientNoticesNoBlueGreenChangeWithTheDocumentsPatch":    func(n *realNode) { n.blueGreen(naive(2)) },
		"RequestsUnderWayEndWellWhileConnectionsDrain":            (*realNode).drains,
		"AContainerUpdateRestartsWhoItConcernsAndReachesThemOnly": (*realNode).containerUpdate,
		"AStatefulSetKeepsWhatItsPodsWroteOverHealAndUpdate":      (*realNode).keepsVolumes,
	})
}

// onRealNode has one cluster for all tests, as its start takes most of the time.
func onRealNode(t *testing.T, subnet string, tests map[string]func(*realNode)) {
	t.Helper()
	cluster := nodes.Start(t, subnet, nodes.Options{Images: []string{
		webImage(1), webImage(2), "nginx:1.27-alpine", "nginx:1.28-alpine",
	}})
	s := serve(t, filepath.Join(t.TempDir(), "data"), "--hook-timeout", "60s")
	if err := s.equipFor(t.TempDir(), cluster.Kubeconfig); err != nil {
		t.Fatal(err)
	}
	benchAt(t, s, cluster.Config, cluster.Kubeconfig).permit()
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(&realNode{benchAt(t, s, cluster.Config, cluster.Kubeconfig), cluster})
		})
	}
}

// webImage is that of release n.
func webImage(n int) string { return fmt.Sprintf("local/web:%d.0", n) }

// web is release n of a front end of three pods behind a Service that selects them by the labels.
func (n *realNode) web(version int, selector, container string) release {
	named := func(vnfd string) string {
		return strings.Replace(vnfd, "properties: {name: web,", "properties: {name: front-end,", 1)
	}
	return release{n: version, vdus: []vdu{{kind: "Deployment", name: "web", initial: 3}}, vnfd: named, files: map[string]string{"Files/kubernetes/all.yaml": fmt.Sprintf(`apiVersion: apps/v1
kind: Deployment
metadata: {name: front-end}
spec:
  selector: {matchLabels: {app: web}}
  strategy: {rollingUpdate: {maxUnavailable: 0, maxSurge: 1}}
  template:
    metadata: {labels: {app: web, version: v%d}}
    spec:
      terminationGracePeriodSeconds: 25
      containers:
      - name: web
        image: %s
        env: [{name: DRAIN_SECONDS, value: '6'}]
        readinessProbe: {httpGet: {path: /ready, port: 8080}, periodSeconds: 1}
        resources: {requests: {cpu: 1m}}
%s---
apiVersion: v1
kind: Service
metadata: {name: front}
spec: {selector: {%s}, ports: [{name: http, port: 80, targetPort: 8080}]}
`, version, webImage(version), container, selector)}}
}

const (
	// byVersion is what the document's Service selects by.
	byVersion = "app: web, version: v1"
	// leave has a pod take leave of those who send it requests before it gets SIGTERM: on a machine
	// that has much to do, kube-proxy is seconds behind.
	leave = "        lifecycle: {preStop: {exec: {command: [web, drain]}}}\n"
)

// get asks a program, from the node, and fails unless it answers 200.
func (n *realNode) get(ctx context.Context, url string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	return n.do(req)
}

func (n *realNode) do(req *http.Request) ([]byte, error) {
	client := n.cluster.HTTP()
	client.Timeout = kit.Patience
	resp, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s %s: %s", req.Method, req.URL, resp.Status)
	}
	return text, err
}

// front is the address of the Service.
func (n *realNode) front() string {
	n.Helper()
	s, err := n.api.CoreV1().Services(n.namespace).Get(n.Context(), "front", metav1.GetOptions{})
	if err != nil {
		n.Fatal(err)
	}
	url := "http://" + s.Spec.ClusterIP
	// Ready pods are Jibe's business; the proxy of the node learns of them a moment later.
	kit.Eventually(n.T, func() error {
		_, err := n.get(n.Context(), url+"/")
		return err
	})
	return url
}

// client asks the Service by its address.
func (n *realNode) client() *clients {
	n.Helper()
	front := n.front()
	return n.clients(func(ctx context.Context) (string, error) {
		text, err := n.get(ctx, front+"/")
		if err != nil {
			return "", err
		}
		var a struct{ Version string }
		err = json.Unmarshal(text, &a)
		return a.Version, err
	})
}

// blueGreen changes a VNF whose pods know no leave: the Service leads elsewhere when they go.
func (n *realNode) blueGreen(patch string) {
	arriving, text := n.scripted()
	second := n.web(2, byVersion, "")
	second.files["Scripts/new.sh"] = text
	n.publish(n.web(1, byVersion, ""), second)
	id := n.runs(n.vnfdID(1))
	c := n.client()
	if patch == "" {
		n.server.run(n.T, id, "change_vnfpkg", n.changing(2, "Blue-Green", "drain", "4s"))
	} else {
		path := n.begin(n.T, id, "change_vnfpkg", n.changing(2, "Blue-Green", "drain", "4s", "lcm-operation-coordinate-new-vnf", "Scripts/new.sh"))
		arriving.called(1)
		n.patch("Service/front", "script", patch)
		kit.Pause(n.Context(), 2*behind) // the script stays a while with what it did
		arriving.answer(1, "exit 0")
		n.await(n.T, path, "COMPLETED")
	}
	n.awaitPods(3)
	kit.Pause(n.Context(), behind)
	c.unnoticed("1.0", "2.0")
}

// takenBack changes a VNF by a script, and takes it back when traffic has been switched.
func (n *realNode) takenBack() {
	leaving, text := n.scripted()
	first := n.web(1, byVersion, "")
	first.files["Scripts/old.sh"] = text
	n.publish(first, n.web(2, byVersion, ""))
	id := n.runs(n.vnfdID(1))
	c := n.client()
	path := n.begin(n.T, id, "change_vnfpkg", n.changing(2, "Blue-Green", "drain", "4s", "lcm-operation-coordinate-old-vnf", "Scripts/old.sh"))
	leaving.each(1, "exit 1")
	n.await(n.T, path, "FAILED_TEMP")
	n.must(n.T, 202, "POST", path+"/rollback", nil)
	leaving.called(2)
	n.patch("Service/front", "script", naive(1))
	kit.Pause(n.Context(), 2*behind)
	leaving.answer(2, "exit 0")
	n.await(n.T, path, "ROLLED_BACK")
	n.awaitPods(3)
	kit.Pause(n.Context(), behind)
	c.unnoticed("1.0", "2.0")
}

// logs follows what the pod's container says, until it has ended.
func (n *realNode) logs(pod string) (lines func() []string) {
	n.Helper()
	stream, err := n.api.CoreV1().Pods(n.namespace).GetLogs(pod, &corev1.PodLogOptions{Follow: true, Timestamps: true}).Stream(n.Context())
	if err != nil {
		n.Fatal(err)
	}
	ended := make(chan []string, 1)
	go func() {
		defer stream.Close()
		var all []string
		for s := bufio.NewScanner(stream); s.Scan(); {
			all = append(all, s.Text())
		}
		ended <- all
	}()
	return func() []string { return <-ended }
}

// leftInOrder proves that the container drained for its time before it got SIGTERM.
func (n *realNode) leftInOrder(lines []string, drain time.Duration) {
	n.Helper()
	at := func(what string) time.Time {
		n.Helper()
		i := slices.IndexFunc(lines, func(l string) bool { return strings.HasSuffix(l, " "+what) })
		if i < 0 {
			n.Fatalf("the pod never said %q: %q", what, lines)
		}
		// The program's own time: the runtime's stamp, in front of it, is of when it read the line.
		t, err := time.Parse("15:04:05.999999", strings.Fields(lines[i])[1])
		if err != nil {
			n.Fatal(err)
		}
		return t
	}
	took := at("ends").Sub(at("draining"))
	if took < 0 {
		took += 24 * time.Hour // midnight was in between
	}
	if took < drain {
		n.Errorf("the pod got SIGTERM %v after its preStop hook began, want %v at least: %q", took, drain, lines)
	}
}

func (n *realNode) rolling() {
	n.publish(n.web(1, "app: web", leave), n.web(2, "app: web", leave))
	id := n.runs(n.vnfdID(1))
	c := n.client()
	lines := n.logs(n.vnfcs(id, "WEB")[0].pod)
	n.server.run(n.T, id, "change_vnfpkg", n.changing(2, "RollingUpdate"))
	n.awaitPods(3)
	c.unnoticed("1.0", "2.0")
	n.leftInOrder(lines(), 6*time.Second)
}

func (n *realNode) healsAndShrinks() {
	n.publish(n.web(1, "app: web", leave))
	id := n.runs(n.vnfdID(1))
	c := n.client()
	sick := n.vnfcs(id, "WEB")[1]
	lines := n.logs(sick.pod)
	n.server.run(n.T, id, "heal", chosen(sick.uid))
	n.awaitPods(3)
	n.leftInOrder(lines(), 6*time.Second)
	n.server.run(n.T, id, "scale", scale("SCALE_OUT", "web_aspect", 2))
	n.awaitPods(5)
	n.server.run(n.T, id, "scale", scale("SCALE_IN", "web_aspect", 2))
	n.awaitPods(3)
	c.unnoticed("1.0")
}

// drains has requests under way at the old pods when traffic is switched, which take longer
// than the switch, and not longer than the drain and the time of grace together.
func (n *realNode) drains() {
	n.publish(n.web(1, byVersion, ""), n.web(2, byVersion, ""))
	id := n.runs(n.vnfdID(1))
	front, old := n.front(), n.vnfcs(id, "WEB")
	lines := n.logs(old[0].pod)
	path := n.begin(n.T, id, "change_vnfpkg", n.changing(2, "Blue-Green", "drain", "4s"))
	slow := make(chan error, 4)
	for range cap(slow) {
		go func() {
			_, err := n.get(n.Context(), front+"/slow?seconds=20")
			slow <- err
		}()
	}
	n.await(n.T, path, "COMPLETED")
	for range cap(slow) {
		if err := <-slow; err != nil {
			n.Errorf("a request that was under way: %v", err)
		}
	}
	story := n.must(n.T, http.StatusOK, http.MethodGet, "/jibe/v1/operations/"+filepath.Base(path)+"/story", nil)
	drained := strings.Contains(string(story.Body), "connections drain for 4s")
	if said := lines(); !drained || !slices.ContainsFunc(said, func(l string) bool { return strings.HasSuffix(l, " ends") }) {
		n.Errorf("connections drained: %v; an old pod said %q", drained, said)
	}
}

// inside is what the container of a pod of the sample packages sees: its image, what it has of
// the map and the secret, and how often it was started again.
type inside struct {
	uid, image, config, secret string
	restarts                   int32
}

// look asks the containers of all pods, by the name of their workload.
func (n *realNode) look() (map[string]inside, error) {
	all := map[string]inside{}
	for _, p := range n.pods() {
		if len(p.Status.ContainerStatuses) != 1 || !p.Status.ContainerStatuses[0].Ready {
			return nil, fmt.Errorf("pod %s isn't ready", p.Name)
		}
		at := "http://" + p.Status.PodIP + ":8080"
		text, err := n.get(n.Context(), at+"/env")
		if err != nil {
			return nil, err
		}
		var env []string
		if err := json.Unmarshal(text, &env); err != nil {
			return nil, err
		}
		of := map[string]string{}
		for _, e := range env {
			k, v, _ := strings.Cut(e, "=")
			of[k] = v
		}
		x := inside{uid: string(p.UID), image: of["IMAGE"], config: of["CMENV"], secret: of["SECENV"], restarts: p.Status.ContainerStatuses[0].RestartCount}
		if of["SEC_password"] != x.secret {
			return nil, fmt.Errorf("pod %s has SECENV=%q and SEC_password=%q", p.Name, x.secret, of["SEC_password"])
		}
		if len(p.Spec.Volumes) > 0 && p.Spec.Volumes[0].Name == "cm-volume" {
			for name, into := range map[string]*string{"/config/cmKey1.txt": &x.config, "/secret/password": &x.secret} {
				text, err := n.get(n.Context(), at+"/file?name="+url.QueryEscape(name))
				if err != nil {
					return nil, err
				}
				*into = string(text)
			}
		}
		all[p.Labels["app"]] = x
	}
	return all, nil
}

func (n *realNode) containerUpdate() {
	const before, after = "3a5c1f0e-6d0b-4f7e-9c55-0f6f2a9e1b30", "3a5c1f0e-6d0b-4f7e-9c55-0f6f2a9e1b31"
	n.process.PushPackages(n, []string{before, after}, "../../examples/packages/container-update-before", "../../examples/packages/container-update-after")
	id := n.create(before)
	var files []string
	for _, name := range []string{"configmap_1", "configmap_2", "secret_1", "secret_2", "deployments", "replicaset", "daemonset", "pods_1", "pods_2"} {
		files = append(files, "Files/kubernetes/"+name+".yaml")
	}
	n.server.run(n.T, id, "instantiate", object{"flavourId": "simple", "additionalParams": object{"namespace": n.namespace, "lcm-kubernetes-def-files": files}})
	was, err := n.look()
	if err != nil {
		n.Fatal(err)
	}
	const oldText, newText = "configmap data\nfoo\nbar\n", "configmap2 data2\nfoo2\nbar2\n"
	for name, x := range was {
		if x.image != "nginx:1.27-alpine" || x.config != oldText || x.secret != "secret_password" || x.restarts != 0 {
			n.Errorf("before the update %s sees %+v", name, x)
		}
	}
	if len(was) != 8 {
		n.Fatalf("before the update there are %+v", was)
	}
	a := n.must(n, 202, "PATCH", instances+"/"+id, object{"vnfdId": after, "metadata": object{"configmap_secret_paths": []string{
		"Files/kubernetes/configmap_1.yaml", "Files/kubernetes/secret_1_renewed.yaml"}}}, "Content-Type", "application/merge-patch+json")
	n.await(n.T, a.Header.Get("Location"), "COMPLETED")
	kit.Eventually(n, func() error {
		is, err := n.look()
		if err != nil {
			return err
		}
		if len(is) != len(was) {
			return fmt.Errorf("there are %+v", is)
		}
		for name, x := range is {
			want := inside{uid: was[name].uid, image: "nginx:1.28-alpine", config: newText, secret: "secret2_password"}
			switch name {
			case "env-test", "volume-test": // in place
				want.restarts = 1
			case "vdu1-update", "vdu2-update", "daemonset-vdu5": // by a successor
				if want.uid = x.uid; x.uid == was[name].uid {
					return fmt.Errorf("%s is the pod that it was", name)
				}
			default: // env-test2, volume-test2, deployment2-vdu6: they use the second set
				want = was[name]
			}
			if x != want {
				// A kubelet brings files of a volume up to date at its next look, which may be a minute off.
				return fmt.Errorf("after the update %s sees %+v, want %+v", name, x, want)
			}
		}
		return nil
	})
	n.undrifted(id)
}

// keepsVolumes runs a StatefulSet on volumes that were made by hand, as the document has it.
func (n *realNode) keepsVolumes() {
	class, path := "by-hand-"+n.namespace, corev1.HostPathDirectoryOrCreate
	for i := range 2 {
		name := fmt.Sprintf("%s-%d", n.namespace, i)
		_, err := n.api.CoreV1().PersistentVolumes().Create(n.Context(), &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PersistentVolumeSpec{
			StorageClassName: class, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Capacity:                      corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Mi")},
			PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimRetain,
			PersistentVolumeSource:        corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/var/lib/" + name, Type: &path}},
		}}, metav1.CreateOptions{})
		if err != nil {
			n.Fatal(err)
		}
	}
	store := func(version int) release {
		return release{n: version, vdus: []vdu{{kind: "StatefulSet", name: "store", initial: 2}}, files: map[string]string{"Files/kubernetes/all.yaml": fmt.Sprintf(`apiVersion: apps/v1
kind: StatefulSet
metadata: {name: store}
spec:
  serviceName: store
  selector: {matchLabels: {app: store}}
  template:
    metadata: {labels: {app: store}}
    spec:
      containers:
      - name: web
        image: %s
        readinessProbe: {httpGet: {path: /ready, port: 8080}, periodSeconds: 1}
        volumeMounts: [{name: data, mountPath: /data}]
  volumeClaimTemplates:
  - metadata: {name: data}
    spec: {storageClassName: %s, accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Mi}}}
`, webImage(version), class)}}
	}
	n.publish(store(1), store(2))
	id := n.runs(n.vnfdID(1))
	at := func(pod string) string {
		return "http://" + n.pods()[pod].Status.PodIP + ":8080/file?name=/data/written"
	}
	for _, pod := range []string{"store-0", "store-1"} {
		req, err := http.NewRequestWithContext(n.Context(), http.MethodPut, at(pod), strings.NewReader("by "+pod))
		if err == nil {
			_, err = n.do(req)
		}
		if err != nil {
			n.Fatal(err)
		}
	}
	kept := func(when string, version int) {
		n.Helper()
		n.awaitPods(2)
		for name, p := range n.pods() {
			text, err := n.get(n.Context(), at(name))
			if err != nil || string(text) != "by "+name {
				n.Errorf("%s, %s has %q: %v", when, name, text, err)
			}
			if got := p.Spec.Containers[0].Image; got != webImage(version) {
				n.Errorf("%s, %s runs %s", when, name, got)
			}
		}
	}
	was := n.pods()
	n.server.run(n.T, id, "heal", chosen(n.vnfcs(id, "STORE")[0].uid))
	kept("healed", 1)
	if now := n.pods(); now["store-0"].UID == was["store-0"].UID {
		n.Error("the pod that was healed is the one that it was")
	}
	n.server.run(n.T, id, "change_vnfpkg", n.changing(2, "RollingUpdate"))
	kept("changed", 2)
	n.server.run(n.T, id, "heal", object{})
	kept("healed as a whole", 2)
}
