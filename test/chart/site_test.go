package chart

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/jibe-vnfm/jibe/test/ha"
	"github.com/jibe-vnfm/jibe/test/kit"
	"github.com/jibe-vnfm/jibe/test/nodes"
	"github.com/jibe-vnfm/jibe/test/process"
	"github.com/jibe-vnfm/jibe/test/redisserver"
)

// site is a real node with the chart on it, as an operator has them.
type site struct {
	*testing.T
	*nodes.Cluster
	helm string
	env  []string
	// release and its namespace, and the namespace of its VNFs.
	release, namespace, vnfs string
	// jibe is the client's environment, to the server's node port, which api asks, too.
	jibe   []string
	api    *process.Server
	binary string
	// ca is the file of the release's authority.
	ca string
	// origin is where the release has its repositories, with credentials, and originCA the file of its authority;
	// forge is the git server that they are on, nil where it is the release itself.
	origin, originCA string
	forge            *ha.Forge
	redis            *redisserver.Server
	// instance is the id of the VNF, and requests go to the Service beside all else.
	instance string
	requests *requests
	// dir outlives the parts of the test.
	dir string
}

// envImage names the environment variable with an image of the tag "test" that is built already (packaging/image/build
// --version test), for those who run this again and again.
const envImage = "JIBE_TEST_IMAGE"

// The first release and its namespace, the namespace of its VNFs, and the image's tag.
const (
	release   = "jibe"
	namespace = "jibe-system"
	vnfs      = "vnfs"
	tag       = "test"
)

// tell shows what a failure needs to be understood.
func (s *site) tell() {
	for _, args := range [][]string{
		{"get", "events", "-A", "--sort-by=.lastTimestamp"}, {"get", "pods", "-A", "-o", "wide"},
		{"logs", "-n", s.namespace, "-l", "app.kubernetes.io/instance=" + s.release, "--prefix", "--tail=60"}, {"logs", "-n", s.namespace, s.release + "-smoke-test", "--tail=40"},
		{"describe", "pod", "-n", s.namespace},
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
func (s *site) volume(name string) {
	s.Helper()
	dir := "/var/lib/volumes/" + name
	if _, err := s.Master.Run(s.Context(), nil, "mkdir", "-p", "-m", "0755", dir); err != nil {
		s.Fatal(err)
	}
	if _, err := s.Client.CoreV1().PersistentVolumes().Create(s.Context(), &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name},
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
	out, err := run(s.Context(), s.env, "", append([]string{s.helm, "--namespace", s.namespace}, args...)...)
	if err != nil {
		s.Fatal(err)
	}
	return out
}

// connect has the client reach the release by its node port, with its own authority's certificate and
// the admin's token.
func (s *site) connect() {
	s.Helper()
	service, err := s.Client.CoreV1().Services(s.namespace).Get(s.Context(), s.release, metav1.GetOptions{})
	if err != nil {
		s.Fatal(err)
	}
	s.ca = filepath.Join(s.dir, s.release+".crt")
	if err := os.WriteFile(s.ca, s.secret(s.release + "-tls")["ca.crt"], 0o600); err != nil {
		s.Fatal(err)
	}
	address, token := s.Master.At(int(service.Spec.Ports[0].NodePort)), string(s.secret(s.release + "-tokens")["admin-token"])
	s.jibe = append(process.Environment(), "JIBE_SERVER=https://"+address, "JIBE_TOKEN="+token, "SSL_CERT_FILE="+s.ca)
	s.api = &process.Server{URL: "https://" + address, Token: token, HTTP: trusting(s, s.ca)}
	if s.forge == nil {
		s.origin, s.originCA = "https://admin:"+token+"@"+address+"/git", s.ca
	}
	// A node port answers a moment after the pod is ready.
	kit.Eventually(s, func() error {
		_, err := run(s.Context(), s.jibe, "", s.binary, "get", "instances")
		return err
	})
}

// trusting is a client that knows the authority in the file. Each of its requests has a connection of its own, so
// that it goes where the Service leads it then.
func trusting(t testing.TB, ca string) *http.Client {
	t.Helper()
	text, err := os.ReadFile(ca)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(text) {
		t.Fatalf("%s has no certificate", ca)
	}
	return &http.Client{Timeout: time.Minute, Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{RootCAs: roots}}}
}

func (s *site) secret(name string) map[string][]byte {
	s.Helper()
	secret, err := s.Client.CoreV1().Secrets(s.namespace).Get(s.Context(), name, metav1.GetOptions{})
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

// git works in a clone of a repository of the release.
func (s *site) git(dir string, args ...string) {
	s.Helper()
	if err := s.tryGit(dir, args...); err != nil {
		s.Fatal(err)
	}
}

func (s *site) tryGit(dir string, args ...string) error {
	cmd := exec.CommandContext(s.Context(), "git", append([]string{"-C", dir}, args...)...)
	cmd.Env = append(process.Environment(), "GIT_SSL_CAINFO="+s.originCA)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("git %s: %w: %s", args[0], err, out)
	}
	return nil
}

// push commits files of a repository of the release and pushes them; nil removes one.
func (s *site) push(repository string, files map[string]*string) {
	s.Helper()
	dir := s.TempDir()
	s.git(dir, "clone", "--quiet", s.origin+"/"+repository, ".")
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
	for {
		err := s.tryGit(dir, "push", "--quiet", "origin", "HEAD:main")
		if err == nil {
			return
		}
		if !process.Overtaken(err) {
			s.Fatal(err)
		}
		s.git(dir, "pull", "--quiet", "--rebase", "origin", "main") // the release was quicker
	}
}

// The packages of the VNF, by their vnfdIds.
var vnfds = [2]string{"5d2b7f10-5f0b-4d9e-8c2a-3f7a51c7d001", "5d2b7f10-5f0b-4d9e-8c2a-3f7a51c7d002"}

// packages are files of two packages that differ in their image.
func (s *site) packages() map[string]*string {
	s.Helper()
	files := map[string]*string{}
	for i, id := range vnfds {
		version := fmt.Sprintf("%d.0", i+1)
		changes := []string{process.SmallVnfd, id, "'1.0'", "'" + version + "'", "registry.k8s.io/pause:3.10", "local/web:" + version}
		if s.forge != nil { // a change that takes a moment is one that can be interrupted
			changes = append(changes, "\n  replicas: 1\n", "\n  replicas: 1\n  minReadySeconds: 1\n")
		}
		dir := process.NextVersion(s, process.SmallPackage(), "web-"+version, changes...)
		s.add(files, dir, "web-"+version)
	}
	return files
}

// add puts the files of a folder below another one.
func (s *site) add(files map[string]*string, from, to string) {
	s.Helper()
	if err := filepath.WalkDir(from, func(file string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(file)
		rel, _ := filepath.Rel(from, file) // both begin alike
		text := string(data)
		files[path.Join(to, rel)] = &text
		return err
	}); err != nil {
		s.Fatal(err)
	}
}

// vnf is the file of the VNF at a level.
func (s *site) vnf(level int) *string {
	text := fmt.Sprintf("name: web\nvnfdId: %s\nflavour: simple\nlevels: {front: %d}\nparams: {namespace: %s}\n", vnfds[0], level, s.vnfs)
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
		pods, err := s.Client.CoreV1().Pods(s.vnfs).List(s.Context(), metav1.ListOptions{LabelSelector: "app=vdu1"})
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

// pod is the UID of the release's pod.
func (s *site) pod() string {
	s.Helper()
	pod, err := s.Client.CoreV1().Pods(s.namespace).Get(s.Context(), s.release+"-0", metav1.GetOptions{})
	if err != nil {
		s.Fatal(err)
	}
	return string(pod.UID)
}
