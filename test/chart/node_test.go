package chart

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/jibe-vnfm/jibe/test/kit"
	"github.com/jibe-vnfm/jibe/test/nodes"
	"github.com/jibe-vnfm/jibe/test/process"
)

// site is a real node with the chart on it, as an operator has them.
type site struct {
	*testing.T
	*nodes.Cluster
	helm string
	env  []string
	// jibe is the client's environment, to the server's node port.
	jibe   []string
	binary string
	// dir outlives the parts of the test.
	dir string
}

// envImage names the environment variable with an image of the tag "test" that is built already (packaging/image/build
// --version test), for those who run this again and again.
const envImage = "JIBE_TEST_IMAGE"

// The release and its namespace, the namespace of VNFs, and the image's tag.
const (
	release   = "jibe"
	namespace = "jibe-system"
	vnfs      = "vnfs"
	tag       = "test"
)

// One node for all that is asserted: to start it takes most of the time. Each part goes on from
// where the one before it has left the release.
func TestTheChartRunsVNFsOfRealPodsOnARealNodeAndKeepsAllOverUpgradeAndRollback(t *testing.T) {
	if os.Getenv("CI") == "true" {
		t.Setenv("JIBE_TEST_REQUIRE", "1")
	}
	s := &site{T: t, helm: helm(t), env: environment(t), binary: process.Binary(t), dir: t.TempDir()}
	s.Cluster = nodes.Start(t, "10.207.4.0/24", nodes.Options{Images: []string{"local/web:1.0", "local/web:2.0"}})
	s.env = append(s.env, "KUBECONFIG="+s.Kubeconfig)
	s.image()
	s.volume()
	began := time.Now()
	for _, part := range []struct {
		name string
		do   func(*site)
	}{
		{"HelmInstallsItAndItIsReady", (*site).install},
		{"ItIsReachedAsTheNotesSay", (*site).notes},
		{"ItHasTheRightsThatTheValuesSayAndNoOthers", (*site).rights},
		{"HelmTestTakesAVNFThroughItsLife", (*site).test},
		{"AVNFIsInstantiatedByAPushToTheService", (*site).instantiate},
		{"ItIsScaledByAPush", (*site).scale},
		{"AVNFCIsHealed", (*site).heal},
		{"AnotherPackageReplacesItsPods", (*site).upgradeVNF},
		{"HelmUpgradeAndRollbackKeepAll", (*site).upgradeAndRollback},
		{"ItIsTerminatedAfterThat", (*site).terminate},
		{"TheVolumeOutlivesTheRelease", (*site).reinstall},
		{"ItsAPIServerTakesWhatIsOfKindsOfOthers", (*site).foreign},
	} {
		if !t.Run(part.name, func(t *testing.T) {
			outer, since := s.T, time.Now()
			s.T = t
			defer func() { s.T = outer }()
			part.do(s)
			t.Logf("%v", time.Since(since).Round(100*time.Millisecond))
		}) {
			s.T = t
			s.tell()
			t.FailNow()
		}
	}
	t.Logf("on the node: %v", time.Since(began).Round(time.Second))
}

// tell shows what a failure needs to be understood.
func (s *site) tell() {
	for _, args := range [][]string{
		{"get", "events", "-A", "--sort-by=.lastTimestamp"}, {"get", "pods", "-A", "-o", "wide"},
		{"logs", "-n", namespace, release + "-0", "--tail=60"}, {"logs", "-n", namespace, release + "-smoke-test", "--tail=40"},
		{"describe", "pod", "-n", namespace, release + "-0"},
	} {
		out, err := s.Master.Run(context.WithoutCancel(s.Context()), nil, append([]string{"kubectl", "--kubeconfig", "/etc/kubernetes/admin.conf"}, args...)...)
		if len(out) > 6000 {
			out = "…" + out[len(out)-6000:]
		}
		s.Logf("kubectl %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

// image has the node's containerd take the image of this tree.
func (s *site) image() {
	s.Helper()
	began := time.Now()
	file := os.Getenv(envImage)
	if file == "" {
		file = filepath.Join(s.TempDir(), "jibe.tar")
		s.build(file)
	}
	f, err := os.Open(file)
	if err != nil {
		s.Fatal(err)
	}
	defer f.Close()
	if _, err := s.Master.Run(s.Context(), f, "ctr", "-n", "k8s.io", "images", "import", "-"); err != nil {
		s.Fatal(err)
	}
	s.Logf("the image was built and imported in %v", time.Since(began).Round(100*time.Millisecond))
}

// build makes the image of this tree.
func (s *site) build(file string) {
	s.Helper()
	if _, err := run(s.Context(), s.env, "", filepath.Join(process.Root(), "packaging", "image", "build"), "-o", file, "--version", tag); err != nil {
		s.Fatal(err)
	}
}

// volume makes one on the node, as an administrator does who has no provisioner: of root, so that
// the pod may write there only by its fsGroup.
func (s *site) volume() {
	s.Helper()
	const dir = "/var/lib/jibe-volume"
	if _, err := s.Master.Run(s.Context(), nil, "mkdir", "-p", "-m", "0755", dir); err != nil {
		s.Fatal(err)
	}
	if _, err := s.Client.CoreV1().PersistentVolumes().Create(s.Context(), &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: "jibe"},
		Spec: corev1.PersistentVolumeSpec{
			Capacity:                      corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("10Gi")},
			AccessModes:                   []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimRetain,
			PersistentVolumeSource:        corev1.PersistentVolumeSource{Local: &corev1.LocalVolumeSource{Path: dir}},
			NodeAffinity: &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
				MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "kubernetes.io/hostname", Operator: corev1.NodeSelectorOpIn, Values: []string{"master"}}},
			}}}},
		},
	}, metav1.CreateOptions{}); err != nil {
		s.Fatal(err)
	}
}

// do runs helm on the cluster.
func (s *site) do(args ...string) string {
	s.Helper()
	out, err := run(s.Context(), s.env, "", append([]string{s.helm, "--namespace", namespace}, args...)...)
	if err != nil {
		s.Fatal(err)
	}
	return out
}

func (s *site) install() {
	s.do("install", release, chartDir(), "--create-namespace", "--wait", "--timeout", "5m",
		"--set", "image.tag="+tag, "--set", "persistence.storageClass=-", "--set", "service.type=NodePort",
		"--set", "tls.names={"+s.Master.Addr().String()+"}", "--set", "hooks.allow={packages}", "--set", "podDisruptionBudget.enabled=true", "--set", "networkPolicy.enabled=true")
	s.connect()
	if out := s.client("get", "instances"); strings.Contains(out, "smoke") {
		s.Errorf("a new installation has instances: %s", out)
	}
}

// connect has the client reach the release by its node port, with its own authority's certificate and
// the admin's token.
func (s *site) connect() {
	s.Helper()
	service, err := s.Client.CoreV1().Services(namespace).Get(s.Context(), release, metav1.GetOptions{})
	if err != nil {
		s.Fatal(err)
	}
	ca := filepath.Join(s.dir, "ca.crt")
	if err := os.WriteFile(ca, s.secret("jibe-tls")["ca.crt"], 0o600); err != nil {
		s.Fatal(err)
	}
	url := "https://" + s.Master.At(int(service.Spec.Ports[0].NodePort))
	s.jibe = append(process.Environment(), "JIBE_SERVER="+url, "JIBE_TOKEN="+string(s.secret("jibe-tokens")["admin-token"]), "SSL_CERT_FILE="+ca, "GIT_SSL_CAINFO="+ca, "JIBE_URL="+url)
	// A node port answers a moment after the pod is ready.
	kit.Eventually(s, func() error {
		_, err := run(s.Context(), s.jibe, "", s.binary, "get", "instances")
		return err
	})
}

func (s *site) secret(name string) map[string][]byte {
	s.Helper()
	secret, err := s.Client.CoreV1().Secrets(namespace).Get(s.Context(), name, metav1.GetOptions{})
	if err != nil {
		s.Fatal(err)
	}
	return secret.Data
}

// client runs jibe against the release.
func (s *site) client(args ...string) string {
	s.Helper()
	out, err := run(s.Context(), s.jibe, "", append([]string{s.binary}, args...)...)
	if err != nil {
		s.Fatal(err)
	}
	return out
}

func (s *site) test() {
	s.Log(s.do("test", release, "--timeout", "5m", "--logs"))
}

// git works in a clone of the desired repository, by the Service.
func (s *site) git(dir string, args ...string) {
	s.Helper()
	cmd := exec.CommandContext(s.Context(), "git", append([]string{"-C", dir}, args...)...)
	cmd.Env = s.jibe
	if out, err := cmd.CombinedOutput(); err != nil {
		s.Fatalf("git %s: %v: %s", args[0], err, out)
	}
}

// push commits files of a repository of the release and pushes them; nil removes one.
func (s *site) push(repository string, files map[string]*string) {
	s.Helper()
	dir := s.TempDir()
	var url, token string
	for _, v := range s.jibe {
		if after, ok := strings.CutPrefix(v, "JIBE_URL=https://"); ok {
			url = after
		}
		if after, ok := strings.CutPrefix(v, "JIBE_TOKEN="); ok {
			token = after
		}
	}
	s.git(dir, "clone", "--quiet", "https://admin:"+token+"@"+url+"/git/"+repository, ".")
	for name, text := range files {
		if text == nil {
			s.git(dir, "rm", "--quiet", name)
			continue
		}
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755); err != nil {
			s.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(*text), 0o644); err != nil {
			s.Fatal(err)
		}
	}
	s.git(dir, "add", "--all")
	s.git(dir, "-c", "user.name=A", "-c", "user.email=a@example.org", "commit", "--quiet", "--message", "Change what should run")
	s.git(dir, "push", "--quiet", "origin", "HEAD:main")
}

// The packages of the VNF, by their vnfdIds.
var vnfds = [2]string{"5d2b7f10-5f0b-4d9e-8c2a-3f7a51c7d001", "5d2b7f10-5f0b-4d9e-8c2a-3f7a51c7d002"}

// packages are files of two packages that differ in their image.
func (s *site) packages() map[string]*string {
	s.Helper()
	files := map[string]*string{}
	for i, id := range vnfds {
		version := fmt.Sprintf("%d.0", i+1)
		dir := process.NextVersion(s, process.SmallPackage(), "web-"+version, process.SmallVnfd, id, "'1.0'", "'"+version+"'", "registry.k8s.io/pause:3.10", "local/web:"+version)
		if err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			data, err := os.ReadFile(path)
			rel, _ := filepath.Rel(dir, path) // both are absolute
			text := string(data)
			files["web-"+version+"/"+rel] = &text
			return err
		}); err != nil {
			s.Fatal(err)
		}
	}
	return files
}

// vnf is the file of the VNF at a level.
func vnf(level int) *string {
	text := fmt.Sprintf("name: web\nvnfdId: %s\nflavour: simple\nlevels: {front: %d}\nparams: {namespace: %s}\n", vnfds[0], level, vnfs)
	return &text
}

const vnfFile = "instances/site-a/web/vnf.yaml"

// operations are all of the VNF, as type and state.
func (s *site) operations() []string {
	s.Helper()
	var list []struct{ ID, Operation, OperationState, StartTime string }
	if err := json.Unmarshal([]byte(s.client("get", "operations", "-o", "json")), &list); err != nil {
		s.Fatal(err)
	}
	var out []string
	for _, op := range list {
		out = append(out, op.ID+" "+op.Operation+" "+op.OperationState)
	}
	slices.Sort(out)
	return out
}

// runs waits until the VNF has as many pods, all of the version and answering, and returns their UIDs.
func (s *site) runs(count int, version string) (uids []string) {
	s.Helper()
	client := s.HTTP()
	kit.Eventually(s, func() error {
		uids = nil
		pods, err := s.Client.CoreV1().Pods(vnfs).List(s.Context(), metav1.ListOptions{LabelSelector: "app=vdu1"})
		if err != nil {
			return err
		}
		if len(pods.Items) != count {
			return fmt.Errorf("there are %d pods, not %d", len(pods.Items), count)
		}
		for _, p := range pods.Items {
			resp, err := client.Get("http://" + p.Status.PodIP + ":8080/")
			if err != nil {
				return err
			}
			var is struct{ Version string }
			err = json.NewDecoder(resp.Body).Decode(&is)
			_ = resp.Body.Close()
			if err != nil || is.Version != version {
				return fmt.Errorf("pod %s answers as version %q, not %s: %w", p.Name, is.Version, version, err)
			}
			uids = append(uids, string(p.UID))
		}
		slices.Sort(uids)
		return nil
	})
	return uids
}

// settled waits until no operation of the release is under way, and fails unless all were completed.
func (s *site) settled() {
	s.Helper()
	kit.Eventually(s, func() error {
		for _, op := range s.operations() {
			switch {
			case strings.HasSuffix(op, " STARTING"), strings.HasSuffix(op, " PROCESSING"):
				return fmt.Errorf("%s", op)
			case !strings.HasSuffix(op, " COMPLETED"):
				s.Fatalf("operation %s\n%s", op, s.client("get", "operation", strings.Fields(op)[0]))
			}
		}
		return nil
	})
}

func (s *site) instantiate() {
	s.push("packages/packages.git", s.packages())
	kit.Eventually(s, func() error {
		if out := s.client("get", "packages"); !strings.Contains(out, vnfds[0]) || !strings.Contains(out, vnfds[1]) {
			return fmt.Errorf("the packages are: %s", out)
		}
		return nil
	})
	s.push("desired.git", map[string]*string{vnfFile: vnf(0)})
	s.runs(1, "1.0")
	s.settled()
}

func (s *site) scale() {
	s.push("desired.git", map[string]*string{vnfFile: vnf(2)})
	s.runs(3, "1.0")
	s.settled()
}

func (s *site) heal() {
	before := s.runs(3, "1.0")
	pods, err := s.Client.CoreV1().Pods(vnfs).List(s.Context(), metav1.ListOptions{LabelSelector: "app=vdu1"})
	if err != nil {
		s.Fatal(err)
	}
	victim := pods.Items[0]
	s.client("heal", "web", victim.Name, "--wait")
	after := s.runs(3, "1.0")
	if slices.Contains(after, string(victim.UID)) {
		s.Errorf("pod %s lives still: %v, was %v", victim.UID, after, before)
	}
	kept := slices.DeleteFunc(slices.Clone(before), func(uid string) bool { return !slices.Contains(after, uid) })
	if len(kept) != 2 {
		s.Errorf("of %v are left %v: the others were to stay", before, after)
	}
}

func (s *site) upgradeVNF() {
	s.client("upgrade", "web", vnfds[1], "--strategy", "rolling", "--wait")
	s.runs(3, "2.0")
	s.settled()
}

// kept is all that must outlive whatever is done to the release.
type kept struct {
	Instances  string
	Operations []string
	Pods       []string
	Tokens     map[string][]byte
	TLS        map[string][]byte
	Claim      string
}

func (s *site) all() kept {
	s.Helper()
	claim, err := s.Client.CoreV1().PersistentVolumeClaims(namespace).Get(s.Context(), "data-"+release+"-0", metav1.GetOptions{})
	if err != nil {
		s.Fatal(err)
	}
	return kept{
		Instances: s.client("get", "instances", "-o", "json"), Operations: s.operations(), Pods: s.runs(3, "2.0"),
		Tokens: s.secret("jibe-tokens"), TLS: s.secret("jibe-tls"), Claim: string(claim.UID),
	}
}

// pod is the UID of the release's pod.
func (s *site) pod() string {
	s.Helper()
	pod, err := s.Client.CoreV1().Pods(namespace).Get(s.Context(), release+"-0", metav1.GetOptions{})
	if err != nil {
		s.Fatal(err)
	}
	return string(pod.UID)
}

func (s *site) upgradeAndRollback() {
	before, pod := s.all(), s.pod()
	for _, args := range [][]string{
		{"upgrade", release, chartDir(), "--reset-then-reuse-values", "--set", "log.level=debug", "--wait", "--timeout", "5m"},
		{"rollback", release, "1", "--wait", "--timeout", "5m"},
	} {
		s.do(args...)
		kit.Eventually(s, func() error {
			_, err := run(s.Context(), s.jibe, "", s.binary, "get", "instances")
			return err
		})
		next := s.pod()
		if next == pod {
			s.Errorf("helm %s has left the pod as it was", args[0])
		}
		pod = next
		if after := s.all(); !reflect.DeepEqual(before, after) {
			s.Errorf("helm %s changed what was to stay (Secrets aside):\n%s %v %v %s\nwas\n%s %v %v %s", args[0],
				after.Instances, after.Operations, after.Pods, after.Claim, before.Instances, before.Operations, before.Pods, before.Claim)
		}
	}
}

func (s *site) terminate() {
	s.push("desired.git", map[string]*string{vnfFile: nil})
	kit.Eventually(s, func() error {
		pods, err := s.Client.CoreV1().Pods(vnfs).List(s.Context(), metav1.ListOptions{})
		if err == nil && len(pods.Items) > 0 {
			err = fmt.Errorf("%d pods are left", len(pods.Items))
		}
		return err
	})
	s.settled()
}

func (s *site) reinstall() {
	before := s.operations()
	s.do("uninstall", release, "--wait", "--timeout", "5m")
	if _, err := s.Client.CoreV1().Namespaces().Get(s.Context(), vnfs, metav1.GetOptions{}); err != nil {
		s.Errorf("the namespace of the VNFs has gone with the release: %v", err)
	}
	if _, err := s.Client.CoreV1().Secrets(namespace).Get(s.Context(), "jibe-tokens", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		s.Errorf("the tokens that the chart made outlive it: %v", err)
	}
	s.install()
	if after := s.operations(); !slices.Equal(before, after) {
		s.Errorf("a new release on the same volume has the operations %v, was %v", after, before)
	}
}
