package chart

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"filippo.io/age"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/jibe-vnfm/jibe/app/replicas"
	"github.com/jibe-vnfm/jibe/test/ha"
	"github.com/jibe-vnfm/jibe/test/kit"
	"github.com/jibe-vnfm/jibe/test/process"
	"github.com/jibe-vnfm/jibe/test/redisserver"
)

// replicaValues are those of a release of three. The pods reach Redis and the git server at the
// address that this machine has on the node's network.
const replicaValues = `
replicas: 3
image: {tag: %[1]s}
store: {url: "redis://%[2]s/0", password: {secret: redis, key: password}}
desired: {remote: %[3]q}
git: {credentials: {secret: forge, key: credentials}, ca: {secret: forge, key: ca.crt}}
identity: {existingSecret: jibe-key}
namespaces: {names: [%[4]s]}
persistence: {storageClass: "-"}
service: {type: NodePort, nodePort: 30990}
api: {baseURL: "https://%[5]s:30990"}
tls: {names: [%[5]s]}
drainSeconds: 2
podDisruptionBudget: {enabled: true}
networkPolicy: {enabled: true}
tests: {packages: [%[6]s]}
`

// What Redis and the git server ask for.
const (
	redisPassword = "of-redis-0123456789"
	forgePassword = "of-the-forge-0123456789"
)

// replicated is another release on the same node, which isn't installed yet, with a Redis and a git server.
func (s *site) replicated() *site {
	s.Helper()
	r := *s
	r.release, r.namespace, r.vnfs = "jibe-fleet", "fleet-system", "fleet"
	at := s.Lab.Gateway
	r.redis = redisserver.StartAt(s, at.String(), "--requirepass", redisPassword)
	forge, err := ha.NewForgeAt(s.Context(), s.TempDir(), at, forgePassword, "desired.git", "packages/packages.git")
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(forge.Close)
	r.forge, r.originCA = forge, forge.CA
	r.origin = strings.TrimSuffix(strings.Replace(forge.URL(""), "https://", "https://person:"+forgePassword+"@", 1), "/")
	r.requests = newRequests(s)
	return &r
}

// installReplicas does what the guide says, as an operator of a new site would.
func (s *site) installReplicas() {
	files, smoke := s.packages(), s.TempDir()
	ids := s.client("smoke-test", "packages", smoke, "--image", "jibe:"+tag, "--command", "/usr/bin/jibe,smoke-test,pod")
	s.add(files, smoke, "")
	s.push("packages/packages.git", files)
	repositories := "- {name: packages, url: " + s.forge.URL("packages/packages.git") + ", branch: main}\n"
	vim := "type: kubernetes\ndefault: true\ninCluster: true\n"
	s.push("desired.git", map[string]*string{"repositories.yaml": &repositories, "vims/local.yaml": &vim})
	s.secrets()
	for i := range 3 {
		s.volume(fmt.Sprintf("%s-%d", s.release, i))
	}
	values := filepath.Join(s.dir, "values.yaml")
	text := fmt.Sprintf(replicaValues, tag, s.redis.Address, s.forge.URL("desired.git"), s.vnfs, s.Master.Addr(), strings.TrimSpace(ids))
	if err := os.WriteFile(values, []byte(text), 0o600); err != nil {
		s.Fatal(err)
	}
	s.do("install", s.release, chartDir(), "--wait", "--timeout", "5m", "--values", values)
	s.connect()
	s.members(3)
	kit.Eventually(s, func() error {
		budget, err := s.Client.PolicyV1().PodDisruptionBudgets(s.namespace).Get(s.Context(), s.release, metav1.GetOptions{})
		if err == nil && (budget.Status.ExpectedPods != 3 || budget.Status.DisruptionsAllowed != 1) {
			err = fmt.Errorf("of %d pods %d may be evicted", budget.Status.ExpectedPods, budget.Status.DisruptionsAllowed)
		}
		return err
	})
}

// secrets makes those that the values name, and their namespace.
func (s *site) secrets() {
	s.Helper()
	identity, err := age.GenerateX25519Identity()
	if err != nil {
		s.Fatal(err)
	}
	ca, err := os.ReadFile(s.forge.CA)
	if err != nil {
		s.Fatal(err)
	}
	if _, err := s.Client.CoreV1().Namespaces().Create(s.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.namespace}}, metav1.CreateOptions{}); err != nil {
		s.Fatal(err)
	}
	for name, data := range map[string]map[string]string{
		"jibe-key": {"identity.age": identity.String() + "\n"},
		"redis":    {"password": redisPassword},
		"forge":    {"credentials": strings.Replace(s.origin, "person:", "jibe:", 1) + "\n", "ca.crt": string(ca)},
	} {
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name}, StringData: data}
		if _, err := s.Client.CoreV1().Secrets(s.namespace).Create(s.Context(), secret, metav1.CreateOptions{}); err != nil {
			s.Fatal(err)
		}
	}
}

// members waits until as many replicas serve, which are different pods, and returns them.
func (s *site) members(count int) (list []replicas.Member) {
	s.Helper()
	kit.Eventually(s, func() error {
		list = nil
		if err := s.api.Get(s.Context(), "/jibe/v1/members", &list); err != nil {
			return err
		}
		hosts := map[string]bool{}
		for _, m := range list {
			hosts[m.Host] = strings.HasPrefix(m.Host, s.release+"-")
		}
		if len(list) != count || len(hosts) != count {
			return fmt.Errorf("the members are %+v, want %d", list, count)
		}
		return nil
	})
	return list
}

// ask begins a task of the VNF, and returns the id of its operation.
func (s *site) ask(task string, body map[string]any) string {
	s.Helper()
	return s.api.Ask(s, s.instance, task, body)
}

// asked is ask, and waits until the operation is COMPLETED.
func (s *site) asked(task string, body map[string]any) {
	s.Helper()
	s.api.Await(s, s.ask(task, body), "COMPLETED")
}

func (s *site) liveAtReplicas() {
	s.instance = s.api.Want(s, http.StatusCreated, http.MethodPost, process.Instances, map[string]any{"vnfdId": vnfds[0], "vnfInstanceName": "web"}, nil).ID()
	s.asked("instantiate", map[string]any{"flavourId": "simple", "additionalParams": map[string]any{
		"namespace": s.vnfs, "lcm-kubernetes-def-files": process.SmallManifests(),
	}})
	s.runs(1, "1.0")
	s.asked("scale", map[string]any{"type": "SCALE_OUT", "aspectId": "front", "numberOfSteps": 2})
	s.heal()
}

// takeOver has a replica's pod be deleted while it upgrades the VNF. Where the machine stood still until the upgrade
// was done, it is taken back, and there is another one.
func (s *site) takeOver() {
	for range 2 {
		if s.interrupted() {
			return
		}
		s.asked("change_vnfpkg", upgradeTo(vnfds[0]))
		s.runs(3, "1.0")
	}
	if !s.interrupted() {
		s.Fatal("no upgrade was under way when its replica went")
	}
}

func upgradeTo(vnfd string) map[string]any {
	return map[string]any{"vnfdId": vnfd, "additionalParams": map[string]any{"lcm-kubernetes-def-files": process.SmallManifests()}}
}

// upgrades are the ids of the VNF's operations that have changed its package.
func (s *site) upgrades() (ids []string) {
	s.Helper()
	all, err := process.All[process.Operation](s.Context(), s.api, process.Operations)
	if err != nil {
		s.Fatal(err)
	}
	for _, o := range all {
		if o.Instance == s.instance && o.Type == "CHANGE_VNFPKG" {
			ids = append(ids, o.ID)
		}
	}
	return ids
}

// interrupted deletes the pod of the replica that upgrades the VNF, and says whether the upgrade was under way then.
func (s *site) interrupted() bool {
	earlier := s.upgrades()
	op := s.ask("change_vnfpkg", upgradeTo(vnfds[1]))
	kit.Eventually(s, func() error {
		pods, err := s.Client.CoreV1().Pods(s.vnfs).List(s.Context(), metav1.ListOptions{LabelSelector: "app=vdu1"})
		if err == nil && !slices.ContainsFunc(pods.Items, func(p corev1.Pod) bool { return strings.HasSuffix(p.Spec.Containers[0].Image, ":2.0") }) {
			err = fmt.Errorf("no pod is of the new version")
		}
		return err
	})
	before := s.members(3)
	at := slices.IndexFunc(before, func(m replicas.Member) bool { return m.Instances > 0 })
	if at < 0 {
		s.Fatalf("nobody looks after the VNF: %+v", before)
	}
	owner, now, went := before[at], int64(0), time.Now()
	if err := s.Client.CoreV1().Pods(s.namespace).Delete(s.Context(), owner.Host, metav1.DeleteOptions{GracePeriodSeconds: &now}); err != nil {
		s.Fatal(err)
	}
	// The Service may lead to the pod for a moment, which may take longer than the others need for the rest.
	done := s.api.Await(s, op, "COMPLETED")
	entered, err := time.Parse(time.RFC3339Nano, done.Entered)
	if err != nil {
		s.Fatal(err)
	}
	s.runs(3, "2.0")
	s.Logf("%s looked after the VNF; the upgrade was done %v after its pod was deleted", owner.Host, time.Since(went).Round(100*time.Millisecond))
	if now := s.upgrades(); len(now) != len(earlier)+1 || !slices.Contains(now, op) {
		s.Errorf("the upgrade %s has another operation: %v, there were %v", op, now, earlier)
	}
	kit.Eventually(s, func() error { // a session lasts for a while
		if slices.ContainsFunc(s.members(3), func(m replicas.Member) bool { return m.Holder == owner.Holder }) {
			return fmt.Errorf("%s is a member still, with its former session", owner.Host)
		}
		return nil
	})
	return !entered.Before(went)
}

// pods are the UIDs of the replicas' pods.
func (s *site) pods() (uids []string) {
	s.Helper()
	pods, err := s.Client.CoreV1().Pods(s.namespace).List(s.Context(), metav1.ListOptions{LabelSelector: "app.kubernetes.io/component=server"})
	if err != nil {
		s.Fatal(err)
	}
	for _, p := range pods.Items {
		uids = append(uids, string(p.UID))
	}
	return uids
}

func (s *site) rollReplicas() {
	s.requests.begin(s)
	before := s.pods()
	s.do("upgrade", s.release, chartDir(), "--reset-then-reuse-values", "--set", "log.level=debug", "--wait", "--timeout", "5m")
	after := s.pods()
	if len(after) != 3 || slices.ContainsFunc(after, func(uid string) bool { return slices.Contains(before, uid) }) {
		s.Errorf("the pods are %v, were %v", after, before)
	}
	s.members(3)
	s.requests.check(s)
}

// breakReplicas upgrades to an image that there isn't.
func (s *site) breakReplicas() {
	before := s.pods()
	s.do("upgrade", s.release, chartDir(), "--reset-then-reuse-values", "--set", "image.tag=none")
	last := s.release + "-2"
	kit.Eventually(s, func() error {
		pod, err := s.Client.CoreV1().Pods(s.namespace).Get(s.Context(), last, metav1.GetOptions{})
		if err != nil {
			return err
		}
		for _, c := range pod.Status.ContainerStatuses {
			if w := c.State.Waiting; w != nil && (w.Reason == "ErrImagePull" || w.Reason == "ImagePullBackOff" || w.Reason == "ErrImageNeverPull") {
				return nil
			}
		}
		return fmt.Errorf("pod %s has an image: %+v", last, pod.Status.ContainerStatuses)
	})
	s.members(2)
	s.do("rollback", s.release, "--wait", "--timeout", "5m")
	s.members(3)
	kept := slices.DeleteFunc(s.pods(), func(uid string) bool { return !slices.Contains(before, uid) })
	if len(kept) != 2 {
		s.Errorf("of the pods %v are left %v: only %s was to be made anew", before, kept, last)
	}
	s.requests.check(s)
}

// endAtReplicas looks for all that was answered, and ends the VNF.
func (s *site) endAtReplicas() {
	s.requests.end(s)
	s.runs(3, "2.0")
	s.asked("terminate", map[string]any{"terminationType": "FORCEFUL"})
	s.gone()
}
