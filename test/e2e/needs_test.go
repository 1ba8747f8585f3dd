package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jibe-vnfm/jibe/test/kit"
	"github.com/jibe-vnfm/jibe/test/kubeenv"
	"github.com/jibe-vnfm/jibe/test/process"
	"github.com/jibe-vnfm/jibe/test/testenv"
)

// awaits waits until the instance's last operation is in STARTING and waits for this.
func (b *bench) awaits(id, operation, what string) (op object) {
	b.Helper()
	kit.Eventually(b, func() error {
		ops := b.history(b.T, id)
		if len(ops) == 0 {
			return fmt.Errorf("%s has no operation", id)
		}
		op = ops[len(ops)-1]
		if op.text("operation") != operation || op.text("operationState") != "STARTING" || !strings.Contains(op.text("jibe", "waiting", "for"), what) {
			return fmt.Errorf("it should be %s in STARTING that waits for %q: %v", operation, what, op)
		}
		return nil
	})
	return op
}

// restarted kills Jibe and starts it again for all benches.
func restarted(t *testing.T, data string, benches ...*bench) {
	t.Helper()
	benches[0].process.Kill()
	s := serve(t, data)
	for _, b := range benches {
		b.server = s
	}
}

// A front end needs a core. Both come in one commit, and go by requests in the wrong order; Jibe is killed
// while one waits for the other.
func TestInstancesThatNeedEachOtherBeginAndEndInTurnAlsoWhenJibeIsKilled(t *testing.T) {
	testenv.Chaos(t, "a control plane")
	b := newBench(t, usual) // for the namespace; the server is one of this test
	data := b.alone(t)
	core := benchAt(t, b.server, b.config, kubeenv.Kubeconfig(t))
	file := func(b *bench, vnfd, more string) string {
		return fmt.Sprintf("name: %[1]s\nvnfdId: %[2]s\nflavour: simple\nparams: {namespace: %[1]s, lcm-kubernetes-def-files: [Files/kubernetes/all.yaml]}\n%[3]s", b.namespace, vnfd, more)
	}
	front, back := "instances/a-front", "instances/b-core"
	d := b.clone(t, "desired.git")
	d.Write(front+"/vnf.yaml", file(b, plain, "needs:\n- {instance: "+back+", version: \">=1\"}\n"))
	d.Write(back+"/vnf.yaml", file(core, byHand, ""))
	d.Commit("A network")
	if out, errs, _ := b.cli(t, "plan", d.Dir()); !strings.Contains(out, "waits for what it needs: "+back+", which isn't instantiated") {
		t.Errorf("jibe plan:\n%s%s", out, errs)
	}
	if out, err := d.TryPush(); err != nil {
		t.Fatalf("%v %s", err, out)
	}
	frontID, coreID := b.idOf(b.namespace), b.idOf(core.namespace)
	op := b.awaits(frontID, "INSTANTIATE", "what it needs: "+back+", whose INSTANTIATE is under way")
	pod := core.waiting()
	restarted(t, data, b, core)
	if again := b.awaits(frontID, "INSTANTIATE", back); again.text("id") != op.text("id") || len(b.pods()) > 0 {
		t.Errorf("%v has begun, or taken the place of %v", again, op)
	}
	if out, _, _ := b.cli(t, "get", "operations", "--instance", b.namespace); !strings.Contains(out, "for what it needs: "+back) {
		t.Errorf("jibe get operations doesn't say what it waits for:\n%s", out)
	}
	core.bind(pod)
	ended := core.awaitHistory(coreID, "INSTANTIATE COMPLETED")[0].text("stateEnteredTime")
	b.awaitHistory(frontID, "INSTANTIATE COMPLETED")
	came, err := time.Parse(time.RFC3339, ended)
	if err != nil {
		t.Fatal(err)
	}
	for name, p := range b.pods() {
		if p.CreationTimestamp.Time.Before(came.Truncate(time.Second)) {
			t.Errorf("pod %s is of %s, before the core was there, at %s", name, p.CreationTimestamp.Time, came)
		}
	}

	d.Pull()
	for name, tt := range map[string]struct {
		change func()
		says   []string
	}{
		"a circle": {func() { d.Write(back+"/vnf.yaml", d.Read(back+"/vnf.yaml")+"needs: ["+front+"]\n") },
			[]string{back + "/vnf.yaml:", back + " -> " + front + " -> " + back, "remove one of these needs"}},
		"itself": {func() { d.Write(back+"/vnf.yaml", d.Read(back+"/vnf.yaml")+"needs:\n- "+back+"\n") }, []string{"would need itself"}},
		"an unknown one": {func() { d.Replace(front+"/vnf.yaml", "instance: "+back, "instance: instances/c-core") },
			[]string{front + "/vnf.yaml:", "no instance stands in instances/c-core", "commit that instance before"}},
		"a bad range":                 {func() { d.Replace(front+"/vnf.yaml", ">=1", "new enough") }, []string{front + "/vnf.yaml:", "isn't a constraint of versions", "write a range"}},
		"what another needs is taken": {func() { d.Git("rm", "-r", "--quiet", back) }, []string{front + " needs the instance in " + back, "remove it along"}},
	} {
		tt.change()
		said, errs, code := b.cli(t, "validate", d.Dir())
		if code != 1 {
			t.Errorf("%s: jibe validate: %d\n%s%s", name, code, said, errs)
		}
		d.Commit("Something bad")
		out, err := d.TryPush()
		if err == nil {
			t.Fatalf("%s was pushed:\n%s", name, out)
		}
		if landed, err := process.Git(t.Context(), d.Dir(), "push", "origin", "HEAD:refs/for/main"); err == nil || !strings.Contains(err.Error(), tt.says[len(tt.says)-1]) {
			t.Errorf("%s has landed, or it isn't said why not: %v\n%s", name, err, landed)
		}
		for _, w := range tt.says {
			if !strings.Contains(out, w) || !strings.Contains(said, w) {
				t.Errorf("%s: push or validation don't say %q:\n%s\n%s", name, w, out, said)
			}
		}
		d.Git("reset", "--quiet", "--hard", "origin/main")
	}
	d.Write(back+"/vnf.yaml", d.Read(back+"/vnf.yaml")+"state: notInstantiated\n")
	if out, errs, _ := b.cli(t, "plan", d.Dir()); !strings.Contains(out, "waits for the end of those that need it: "+front+", which nobody has asked to end") {
		t.Errorf("jibe plan:\n%s%s", out, errs)
	}

	b.finalize("Deployment/web", true)
	b.begin(t, coreID, "terminate", object{"terminationType": "FORCEFUL"})
	b.awaits(coreID, "TERMINATE", front+", which nobody has asked to end")
	b.begin(t, frontID, "terminate", object{"terminationType": "FORCEFUL"})
	b.awaitHistory(frontID, "INSTANTIATE COMPLETED, TERMINATE PROCESSING")
	restarted(t, data, b, core)
	b.awaits(coreID, "TERMINATE", front)
	core.awaitPods(1)
	b.finalize("Deployment/web", false)
	b.awaitHistory(frontID, "INSTANTIATE COMPLETED, TERMINATE COMPLETED")
	b.awaitHistory(coreID, "INSTANTIATE COMPLETED, TERMINATE COMPLETED")
	core.awaitPods(0)

	if a := b.rest(t, "DELETE", instances+"/"+coreID, nil); a.Status != 409 || !strings.Contains(string(a.Body), front+" needs the instance") {
		t.Errorf("what the front end needs was deleted: %d %s", a.Status, a.Body)
	}
	b.must(t, 204, "DELETE", instances+"/"+frontID, nil)
	b.must(t, 204, "DELETE", instances+"/"+coreID, nil)
}
