package process_test

import (
	"strings"
	"testing"

	"github.com/jibe-vnfm/jibe/test/process"
	"github.com/jibe-vnfm/jibe/test/testenv"
)

func TestAPlanShowsWhatAProposedRolloutWouldDo(t *testing.T) {
	testenv.Chaos(t, "git")
	t.Parallel()
	f := newFleet(t, 6, 0)
	w := process.NewWorkTree(t, f.DesiredURL())
	w.Replace(f.dir(5)+"/vnf.yaml", "name: ", "suspend: true\nname: ")
	w.Push("Leave one alone")
	w.Git("checkout", "--quiet", "-b", "rollout")
	w.Write("rollouts/edge.yaml", "select: {folders: [edge]}\nto: {vnfdId: "+nextSmallVnfd+"}\norder: [{percent: 50}, {percent: 100}]\n")
	w.Commit("Bring the edge to 1.1")
	out, errs, code := f.CLI(t, "plan", w.Dir(), "--head", "rollout")
	for _, want := range []string{"5 instances: CHANGE_VNFPKG by rollout edge, wave by wave", "it passes 1 of its instances over", "5 instances would change"} {
		if !strings.Contains(out, want) {
			t.Errorf("the plan lacks %q:\n%s%s", want, out, errs)
		}
	}
	if code != 2 {
		t.Errorf("exit code %d, want 2", code)
	}
	// Nothing of it has begun.
	if ops, err := f.operations(t, "CHANGE_VNFPKG"); err != nil || len(ops) > 0 {
		t.Errorf("%d upgrades were begun (%v)", len(ops), err)
	}
	w.Write("rollouts/edge.yaml", "select: {folders: [edge]}\nto: {vnfdId: 3a5c1f0e-6d0b-4f7e-9c55-0f6f2a9e1bff}\n")
	w.Commit("To a version that is nowhere")
	if out, _, _ := f.CLI(t, "plan", w.Dir(), "--head", "rollout"); !strings.Contains(out, "what it would do can't be said") || !strings.Contains(out, "0 instances would change") {
		t.Errorf("the plan of a rollout to an unknown package is\n%s", out)
	}
	w.Write("rollouts/edge.yaml", "select: {folders: [edge]}\nto: {vnfdId: "+nextSmallVnfd+"}\nwrite: pull-request\n")
	w.Commit("By pull requests, where there is no forge")
	if out, _, _ := f.CLI(t, "plan", w.Dir(), "--head", "rollout"); !strings.Contains(out, `"write: pull-request" needs a forge`) {
		t.Errorf("the plan of a rollout that proposes is\n%s", out)
	}
	w.Git("checkout", "--quiet", "main")
	w.Write("rollouts/edge.yaml", "select: {folders: [edge]}\nto: {vnfdId: "+nextSmallVnfd+"}\nwrite: pull-request\n")
	w.Commit("By pull requests, where there is no forge")
	if out, err := w.TryPush(); err == nil || !strings.Contains(out, `"write: pull-request" needs a forge`) || !strings.Contains(out, "--forge-token") {
		t.Errorf("a rollout that proposes was pushed to a server without a forge: %v\n%s", err, out)
	}
	w.Write("rollouts/edge.yaml", "select: {folders: [edge]}\nto: {vnfdId: "+nextSmallVnfd+"}\nafter: {prometheus: {vim: nowhere, query: up}}\n")
	w.Commit("By the Prometheus of a VIM that isn't there")
	if out, err := w.TryPush(); err == nil || !strings.Contains(out, `there is no VIM "nowhere"`) || !strings.Contains(out, "rollouts/edge.yaml") {
		t.Errorf("a rollout that asks the Prometheus of no VIM was pushed: %v\n%s", err, out)
	}
}
