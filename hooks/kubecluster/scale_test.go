package kubecluster

import (
	"encoding/json"
	"net/netip"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/jibe-vnfm/jibe/hooks"
	"github.com/jibe-vnfm/jibe/test/kit"
)

// One cluster for all, as its start takes most of the time: each part begins with what the
// one before it has left.
func TestAClusterOnMachinesGrowsAndShrinks(t *testing.T) {
	s := newSite(t, "10.208.1.0/24")
	s.sub("InstantiateBuildsTheCluster", instantiate)
	s.sub("ScaleOutJoinsTwoAtOnce", scaleOut)
	s.sub("ScaleInDrainsWithinTheBudgetAndRemovesExactlyTheVictims", scaleIn)
	s.sub("ABudgetThatNeverAllowsFailsAndTheRollbackUncordons", held)
	s.sub("ARetryJoinsOnlyTheMachineThatFailed", retryOfOne)
	s.sub("ARolledBackScaleOutLeavesNoNode", outTakenBack)
	s.sub("ARolledBackScaleInJoinsAgainWhatWasDeleted", inTakenBack)
	s.sub("AnotherHostKeyIsRefused", hostKeys)
	s.sub("AMasterThatDoesNotAnswerIsNamedAndAnotherIsAsked", mastersDown)
	s.sub("KilledWhileItJoins", killedJoining)
	s.sub("KilledWhileItDrains", killedDraining)
	s.sub("AWorkerThatIsDeadIsHealed", healDead)
	s.sub("ScriptsThatFailAreToldFromEachOther", scripts)
	s.sub("AMasterIsHealed", masterHealed)
	s.sub("ArtifactsOfThePackageAreInstalledOnce", artifacts)
	s.sub("AMachineThatStillBootsIsWaitedFor", booting)
	s.sub("AConnectionThatIsCutIsMadeAgain", cut)
	s.sub("AMasterThatForwardsNothingIsReachedDirectly", forwardless)
	s.sub("AsAHookOfThePackage", asAHook)
	s.sub("TenJoinAndLeaveAtOnce", ten)
}

func instantiate(s *site) {
	s.begin()
	master, worker := s.machine("MasterVDU"), s.machine("WorkerVDU")
	s.w.units = []hooks.Target{}
	added := []hooks.Target{worker, master}
	in := s.input("instantiate_start", nil, nil)
	s.must(in)
	unknown := with(s.input("instantiate_end", added, nil), map[string]any{"ssh": map[string]any{}})
	s.refused(unknown, "isn't known", "MasterVDU", "ssh-ed25519", "accept_new")

	out := s.must(s.input("instantiate_end", added, nil))
	s.w.units = added
	s.connect(master)
	s.want("master2 worker3")
	nodes := texts(out.Metadata[metaNodes])
	if nodes[master.Unit.Name] != "master2" || nodes[worker.Unit.Name] != "worker3" || out.Metadata[metaEndpoint] != s.host(master).At(6443) {
		s.Errorf("the metadata are %v", out.Metadata)
	}
	if vim := out.VIMs["kubernetes_vim"]; vim == nil || vim.Endpoint != "https://"+s.host(master).At(6443) || !strings.Contains(vim.CACert, "BEGIN CERTIFICATE") || vim.ClientKey == "" {
		s.Errorf("the VIMs are %+v", out.VIMs)
	}
	if keys := texts(out.Metadata[metaKeys]); len(keys) != 2 || !strings.HasPrefix(keys[worker.Unit.ID], "ssh-ed25519 ") {
		s.Errorf("the host keys that were accepted are %v", keys)
	}
	if text, err := json.Marshal(out); err != nil || strings.Contains(string(text), "certificate-authority-data") {
		s.Errorf("the kubeconfig is shown: %s", text)
	}
	// As after a crash, when nothing of the run is known.
	again := s.input("instantiate_end", added, nil)
	again.Instance.Metadata, again.Interrupted = nil, true
	if _, err := s.run(again); err != nil {
		s.Fatal(err)
	}
	s.want("master2 worker3")
	s.noTokens()
}

// noTokens asserts that no bootstrap token is left.
func (s *site) noTokens() {
	s.Helper()
	list, err := s.CoreV1().Secrets("kube-system").List(s.Context(), metav1.ListOptions{FieldSelector: "type=" + string(corev1.SecretTypeBootstrapToken)})
	if err != nil {
		s.Fatal(err)
	}
	if len(list.Items) > 0 {
		s.Errorf("a token is left: %s", list.Items[0].Name)
	}
}

// out is a scale-out by machines that are there, as an operation of its own.
func (s *site) out(added ...hooks.Target) {
	s.Helper()
	s.begin()
	s.must(s.input("scale_start", nil, nil))
	s.must(s.input("scale_end", added, nil))
	s.w.units = append(slices.Clone(s.w.units), added...)
}

// in is a scale-in.
func (s *site) in(removed ...hooks.Target) {
	s.Helper()
	s.begin()
	start := s.must(s.input("scale_start", nil, removed))
	s.remove(removed...)
	end := s.input("scale_end", nil, gone(removed))
	end.HandOver = start.HandOver
	s.must(end)
}

// remove is what Heat does.
func (s *site) remove(removed ...hooks.Target) {
	for _, r := range removed {
		s.host(r).Remove()
		s.w.units = slices.DeleteFunc(slices.Clone(s.w.units), func(t hooks.Target) bool { return t.Unit.ID == r.Unit.ID })
	}
}

func gone(targets []hooks.Target) []hooks.Target {
	out := slices.Clone(targets)
	for i := range out {
		out[i].Unit.Ready = false
	}
	return out
}

func (s *site) worker(i int) hooks.Target {
	s.Helper()
	n := 0
	for _, t := range s.w.units {
		if t.VduID == "WorkerVDU" {
			if n == i {
				return t
			}
			n++
		}
	}
	s.Fatalf("there is no worker %d", i)
	return hooks.Target{}
}

func scaleOut(s *site) {
	s.out(s.machine("WorkerVDU"), s.machine("WorkerVDU"))
	s.want("master2 worker3 worker4 worker5")
	s.noTokens()
	if nodes := texts(s.w.metadata[metaNodes]); len(nodes) != 4 {
		s.Errorf("the metadata tell the nodes %v", nodes)
	}
}

func scaleIn(s *site) {
	s.deploy(6, 5)
	s.occupied("worker4", "worker5")
	least := s.watched()
	s.in(s.worker(1), s.worker(2))
	s.healthy(6)
	if n := least(); n < 5 {
		s.Errorf("once, only %d pods were healthy", n)
	}
	s.want("master2 worker3")
	if n := s.podsOn("worker3"); n != 6 {
		s.Errorf("%d pods are on the one that stays", n)
	}
	if nodes, keys := texts(s.w.metadata[metaNodes]), texts(s.w.metadata[metaKeys]); len(nodes) != 2 || len(keys) != 2 {
		s.Errorf("the metadata tell the nodes %v, and %d keys", nodes, len(keys))
	}
	// A machine without a node, or without pods, goes, too.
	s.out(s.machine("WorkerVDU"), s.machine("WorkerVDU"))
	s.want("master2 worker3 worker6 worker7")
	if err := s.CoreV1().Nodes().Delete(s.Context(), "worker6", metav1.DeleteOptions{}); err != nil {
		s.Fatal(err)
	}
	s.in(s.worker(1), s.worker(2))
	s.want("master2 worker3")
}

func held(s *site) {
	s.out(s.machine("WorkerVDU"))
	s.want("master2 worker3 worker8")
	s.occupied("worker8")
	s.budget(6)
	s.begin()
	victim := []hooks.Target{s.worker(1)}
	in := with(s.input("scale_start", nil, victim), map[string]any{"drain_timeout": "6s"})
	out := s.refused(in, "worker8", "default/web-", "default/keep-web", "no node was deleted")
	s.want("master2 worker3 worker8-")

	back := s.input("scale_rollback_start", nil, victim)
	back.HandOver = out.HandOver
	s.must(back)
	back.Hook = "scale_rollback_end"
	s.must(back)
	s.want("master2 worker3 worker8")
	// What an operator has cordoned stays so.
	if _, err := s.CoreV1().Nodes().Patch(s.Context(), "worker8", "application/merge-patch+json", []byte(`{"spec":{"unschedulable":true}}`), metav1.PatchOptions{}); err != nil {
		s.Fatal(err)
	}
	back.Hook = "scale_rollback_start"
	s.must(back)
	s.want("master2 worker3 worker8-")
	s.budget(5)
	s.in(victim...)
	s.want("master2 worker3")
}

func retryOfOne(s *site) {
	s.begin()
	good, bad := s.machine("WorkerVDU"), s.machine("WorkerVDU")
	// Its SSH server answers, but nobody can become root.
	if err := s.host(bad).WriteFile("/etc/sudoers.d/host", []byte("# nobody\n"), 0o440); err != nil {
		s.Fatal(err)
	}
	added := []hooks.Target{good, bad}
	out := s.refused(s.input("scale_end", added, nil), bad.Unit.Name, "sudo")
	var left handOver
	if err := json.Unmarshal(out.HandOver, &left); err != nil || len(left.Joined) != 1 || left.Joined[good.Unit.Name] == "" {
		s.Fatalf("handed over is %s, %v", out.HandOver, err)
	}
	s.noTokens()
	if err := s.host(bad).WriteFile("/etc/sudoers.d/host", []byte("ALL ALL=(ALL) NOPASSWD: ALL\n"), 0o440); err != nil {
		s.Fatal(err)
	}
	// Who is Ready isn't touched: here, it couldn't be.
	if _, err := s.host(good).Run(s.Context(), nil, "sh", "-c", "kill $(cat /run/sshd.pid)"); err != nil {
		s.Fatal(err)
	}
	retry := s.input("scale_end", added, nil)
	retry.HandOver, retry.Operation.Attempt = out.HandOver, 2
	s.must(retry)
	s.want("master2 worker10 worker3 worker9")
	s.w.units = append(slices.Clone(s.w.units), added...)
	s.in(added...)
	s.want("master2 worker3")
}

func outTakenBack(s *site) {
	s.begin()
	added := []hooks.Target{s.machine("WorkerVDU"), s.machine("WorkerVDU")}
	out := s.must(s.input("scale_end", added, nil))
	s.keep(hooks.Output{Metadata: map[string]any{}})
	back := s.input("scale_rollback_start", added, nil)
	back.HandOver = out.HandOver
	out = s.must(back)
	s.want("master2 worker3")
	for _, a := range added {
		s.host(a).Remove()
	}
	back = s.input("scale_rollback_end", nil, nil)
	back.HandOver = out.HandOver
	s.must(back)
	s.want("master2 worker3")
}

func inTakenBack(s *site) {
	s.out(s.machine("WorkerVDU"))
	victim := []hooks.Target{s.worker(1)}
	name := workerName(victim[0])
	s.want("master2 worker3 " + name)
	for _, operation := range []string{"scale", "scale_to_level", "heal"} {
		s.begin()
		out := s.must(s.input(operation+"_start", nil, victim))
		s.want("master2 worker3")
		// Heat couldn't: the machine is there still.
		back := s.input(operation+"_rollback_start", nil, victim)
		back.HandOver = out.HandOver
		out = s.must(back)
		back.Hook, back.HandOver = operation+"_rollback_end", out.HandOver
		s.must(back)
		s.want("master2 worker3 " + name)
	}
	// A heal that was taken back after the machine was gone has another in its place.
	s.begin()
	out := s.must(s.input("heal_start", nil, victim))
	s.remove(victim...)
	successor := s.machine("WorkerVDU")
	back := s.input("heal_rollback_start", nil, gone(victim))
	back.HandOver = out.HandOver
	out = s.must(back)
	back = s.input("heal_rollback_end", []hooks.Target{successor}, gone(victim))
	back.HandOver = out.HandOver
	s.must(back)
	s.want("master2 worker3 " + workerName(successor))
	s.w.units = append(slices.Clone(s.w.units), successor)
	s.in(successor)
	s.want("master2 worker3")
}

func hostKeys(s *site) {
	s.begin()
	m := s.machine("WorkerVDU")
	in := s.input("scale_end", []hooks.Target{m}, nil)
	known := with(in, map[string]any{"ssh": map[string]any{"known_hosts": m.Unit.Address + " " + otherKey, "accept_new": true}})
	s.refused(known, "has changed", m.Unit.Name)
	s.refused(with(in, map[string]any{"ssh": map[string]any{"accept_new": false}}), "isn't known", m.Unit.Name)

	// A key that was accepted is the unit's from then on.
	in.HandOver = json.RawMessage(`{"known":{"` + m.Unit.ID + `":"` + otherKey + `"}}`)
	s.refused(in, "has changed", metaKeys)
	s.want("master2 worker3")
	s.host(m).Remove()
}

const otherKey = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIIjIAjmM0QhZeMrvLkwAFhDfqDOlmkHJ4SWMGGQwbnVy"

func mastersDown(s *site) {
	s.begin()
	real := s.w.units
	var master hooks.Target
	for _, t := range real {
		if t.VduID == "MasterVDU" {
			master = t
		}
	}
	// A machine that answers, and is no master yet, and one that doesn't.
	blank := s.machine("MasterVDU")
	*s.next = s.next.Next()
	dead := target("MasterVDU", "server-dead", *s.next)
	s.w.units = append(slices.Clone(real), dead, blank)
	s.must(s.input("scale_start", nil, []hooks.Target{target("WorkerVDU", "server-gone", s.lab.Subnet.Addr().Next())}))

	s.w.units = []hooks.Target{s.worker(0), dead, blank}
	s.refused(s.input("scale_start", nil, []hooks.Target{s.worker(0)}), "no master", "server-dead", blank.Unit.Name, "admin.conf")
	s.want("master2 worker3")

	// With others that answer, a dead master may go. It was a node, too.
	s.w.units = append(slices.Clone(real), dead)
	if _, err := s.CoreV1().Nodes().Create(s.Context(), &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "master99"},
		Status:     corev1.NodeStatus{Addresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: dead.Unit.Address}}},
	}, metav1.CreateOptions{}); err != nil {
		s.Fatal(err)
	}
	s.must(with(s.input("heal_start", nil, []hooks.Target{dead}), map[string]any{"force_after": "1s"}))
	s.want("master2 worker3")
	s.w.units = real
	s.refused(s.input("heal_start", nil, []hooks.Target{master}), "only master")
	s.host(blank).Remove()
}

func killedJoining(s *site) {
	s.begin()
	added := []hooks.Target{s.machine("WorkerVDU"), s.machine("WorkerVDU")}
	slow := s.host(added[1])
	// As long as this is there, the join waits for it.
	if err := slow.WriteFile("/usr/local/bin/sudo", []byte("#!/bin/sh\ntouch /tmp/begun\nwhile [ -f /tmp/hold ]; do sleep 0.1; done\nexec /usr/bin/sudo \"$@\"\n"), 0o755); err != nil {
		s.Fatal(err)
	}
	if err := slow.WriteFile("/tmp/hold", nil, 0o666); err != nil {
		s.Fatal(err)
	}
	in := s.input("scale_end", added, nil)
	s.killed(in, func() bool {
		_, err := slow.ReadFile("/tmp/begun")
		return err == nil && strings.Contains(s.nodes(), workerName(added[0]))
	})
	if _, err := slow.Run(s.Context(), nil, "rm", "/tmp/hold"); err != nil {
		s.Fatal(err)
	}
	in.Interrupted = true
	s.must(in)
	s.want("master2 worker3 " + workerName(added[0]) + " " + workerName(added[1]))
	s.noTokens()
	s.w.units = append(slices.Clone(s.w.units), added...)
}

func killedDraining(s *site) {
	s.begin()
	victims := []hooks.Target{s.worker(1), s.worker(2)}
	one, other := workerName(victims[0]), workerName(victims[1])
	s.occupied(one, other)
	s.budget(6)
	in := s.input("scale_start", nil, victims)
	s.killed(in, func() bool { return strings.Contains(s.nodes(), one+"- "+other+"-") })
	s.want("master2 worker3 " + one + "- " + other + "-")
	s.budget(5)
	least := s.watched()
	in.Interrupted = true
	out := s.must(in)
	s.healthy(6)
	if n := least(); n < 5 {
		s.Errorf("once, only %d pods were healthy", n)
	}
	s.want("master2 worker3")
	s.remove(victims...)
	end := s.input("scale_end", nil, gone(victims))
	end.HandOver = out.HandOver
	s.must(end)
}

// healDead has a worker whose node is played by nobody: it never says that pods have ended.
func healDead(s *site) {
	s.out(s.machine("WorkerVDU"))
	dead := s.worker(1)
	name := texts(s.w.metadata[metaNodes])[dead.Unit.Name]
	s.host(dead).Remove()
	if err := s.CoreV1().Nodes().Delete(s.Context(), name, metav1.DeleteOptions{}); err != nil {
		s.Fatal(err)
	}
	if _, err := s.CoreV1().Nodes().Create(s.Context(), &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Status:     corev1.NodeStatus{Addresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: dead.Unit.Address}}},
	}, metav1.CreateOptions{}); err != nil {
		s.Fatal(err)
	}
	if _, err := s.CoreV1().Pods("default").Create(s.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "stuck"},
		Spec:       corev1.PodSpec{NodeName: name, Containers: []corev1.Container{{Name: "it", Image: "it"}}},
	}, metav1.CreateOptions{}); err != nil {
		s.Fatal(err)
	}
	s.begin()
	s.must(with(s.input("heal_start", nil, []hooks.Target{dead}), map[string]any{"force_after": "1s"}))
	s.want("master2 worker3")
	kit.Until(s, "its pod is gone", func() bool { return s.podsOn(name) == 0 })
	// The new machine has the address of the old one, and another key.
	at, err := netip.ParseAddr(dead.Unit.Address)
	if err != nil {
		s.Fatal(err)
	}
	s.boot(dead.Unit.Name, at)
	successor := dead
	successor.Unit.ID = dead.Unit.Name + "@2"
	s.w.units = slices.DeleteFunc(slices.Clone(s.w.units), func(t hooks.Target) bool { return t.Unit.ID == dead.Unit.ID })
	s.must(s.input("heal_end", []hooks.Target{successor}, gone([]hooks.Target{dead})))
	s.w.units = append(s.w.units, successor)
	s.want("master2 " + name + " worker3")
	s.in(successor)
	s.want("master2 worker3")
}

// ten tells how long one join takes and ten at once do; on how many processors, and how busy
// these were, says what part of the difference is the test's, whose machines share them.
func ten(s *site) {
	many := s.machines("WorkerVDU", 10)
	s.begin()
	s.must(with(s.input("scale_end", many, nil), map[string]any{"parallel": 10}))
	s.w.units = append(slices.Clone(s.w.units), many...)
	s.in(many...)
}

// BenchmarkWorkersJoin is ten machines beside one, from their making to Ready nodes.
func BenchmarkWorkersJoin(b *testing.B) {
	s := newSite(b, "10.208.2.0/24")
	instantiate(s)
	measure := func(n int) (time.Duration, float64) {
		began, busy := time.Now(), s.busy()
		all := s.machines("WorkerVDU", n)
		s.begin()
		s.must(with(s.input("scale_end", all, nil), map[string]any{"parallel": 10}))
		took, used := time.Since(began), s.busy()-busy
		s.w.units = append(slices.Clone(s.w.units), all...)
		s.in(all...)
		return took, used.Seconds() / took.Seconds() / float64(runtime.NumCPU())
	}
	var one, ten time.Duration
	var share float64
	for b.Loop() {
		took, _ := measure(1)
		one += took
		took, share = measure(10)
		ten += took
	}
	b.ReportMetric(one.Seconds()/float64(b.N), "s/1")
	b.ReportMetric(ten.Seconds()/float64(b.N), "s/10")
	b.ReportMetric(ten.Seconds()/one.Seconds(), "10:1")
	b.ReportMetric(100*share, "%cpu/10")
}

// busy is how long the processors of this machine have worked until now, all together.
func (s *site) busy() time.Duration {
	s.Helper()
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		s.Fatal(err)
	}
	var total time.Duration
	for i, f := range strings.Fields(strings.SplitN(string(text), "\n", 2)[0])[1:9] {
		if i == 3 || i == 4 { // idle, and waiting
			continue
		}
		n, err := strconv.ParseInt(f, 10, 64)
		if err != nil {
			s.Fatal(err)
		}
		total += time.Duration(n) * 10 * time.Millisecond
	}
	return total
}
