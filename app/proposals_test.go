package app_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jibe-vnfm/jibe/app"
	"github.com/jibe-vnfm/jibe/drivers/sim"
	"github.com/jibe-vnfm/jibe/test/kit"
	"github.com/jibe-vnfm/jibe/test/process"
	"github.com/jibe-vnfm/jibe/test/testenv"
)

const (
	proposedID   = "3a5c1f0e-0000-4000-8000-00000000000a"
	proposedFile = "instances/a/vnf.yaml"
)

// proposing is a server whose requests are proposed on a forge, with one instance that runs.
type proposing struct {
	*testing.T
	*process.Server
	api     *pullAPI
	cloud   *sim.Cloud
	work    *process.WorkTree
	options app.Options
	stop    func()
}

// newProposing starts one, beside other tests that do so; write is that of the project. files are more of the desired repository.
func newProposing(t *testing.T, write string, files map[string]string) *proposing {
	t.Helper()
	c := process.NewBare(t)
	addSmall(c)
	packages := c.Dir
	all := map[string]string{
		"repositories.yaml":     "- {name: small, url: " + packages + ", path: small, branch: main}\n",
		"vims/cloud.yaml":       "type: sim\ndefault: true\n",
		"projects/default.yaml": "write: " + write + "\n",
		proposedFile:            instance("id: " + proposedID + "\n"),
	}
	for name, text := range files {
		all[name] = text
	}
	remote := process.NewForge(t, all)
	p := &proposing{T: t, api: &pullAPI{t: t, dir: remote, notes: map[int][]string{}}, cloud: sim.NewCloud(), work: process.NewWorkTree(t, remote)}
	p.options = app.Options{Data: t.TempDir(), Remote: remote, Cloud: p.cloud, Forge: forgeOf(t, p.api)}
	p.restart()
	p.units(1)
	return p
}

// restart ends the server, if it runs, and starts it again.
func (p *proposing) restart() {
	p.Helper()
	if p.stop != nil {
		p.stop()
	}
	p.Server, p.stop = startWith(p.T, p.options)
	p.Cleanup(p.stop)
}

// told has the server know that something happened on the forge.
func (p *proposing) told() {
	p.Helper()
	if a, err := p.Do(p.Context(), http.MethodPost, "/webhook", nil); err != nil || a.Status != http.StatusAccepted {
		p.Fatalf("webhook: %v: %+v", err, a)
	}
}

// units waits until that many run, and no operation works on them: one that is only proposed may wait.
func (p *proposing) units(n int) {
	p.Helper()
	kit.Eventually(p.T, func() error {
		var in shown
		if err := p.Get(p.Context(), process.Instances+"/"+proposedID, &in); err != nil {
			return err
		}
		if len(in.Info.Units) != n {
			return fmt.Errorf("%d units, want %d", len(in.Info.Units), n)
		}
		return done(p.T, p.Server, proposedID)
	})
}

// ask asks for a task of the instance, which is to be answered so.
func (p *proposing) ask(status int, task string, body map[string]any) (operation string) {
	p.Helper()
	a := p.Want(p.T, status, http.MethodPost, process.Instances+"/"+proposedID+"/"+task, body, nil)
	return a.ID()
}

func (p *proposing) scaleOut() (operation string) {
	p.Helper()
	return p.ask(http.StatusAccepted, "scale", map[string]any{"type": "SCALE_OUT", "aspectId": "front"})
}

func branchOf(operation string) string { return "jibe/op/" + operation }

// opened waits until the pull request of an operation is open and told by the operation, and returns it.
func (p *proposing) opened(operation string) (pr pulled) {
	p.Helper()
	kit.Eventually(p.T, func() error {
		if pr = p.api.of(branchOf(operation)); !pr.open {
			return fmt.Errorf("operation %s has the pull request %+v", operation, pr)
		}
		var op occurrence
		if err := p.Get(p.Context(), process.Operations+"/"+operation, &op); err != nil {
			return err
		}
		if want := fmt.Sprintf("the merge of pull request %d (https://forge.example/noc/vnfs/pulls/%d)", pr.number, pr.number); op.State != "STARTING" || op.Jibe.Waiting.For != want {
			return fmt.Errorf("it is %s and waits for %q, want %q", op.State, op.Jibe.Waiting.For, want)
		}
		return nil
	})
	return pr
}

// merge merges a pull request in one of the ways of forges, after an edit of the instance's file, and tells of it.
func (p *proposing) merge(pr pulled, how string, edit func(text string) string) (commit string) {
	p.Helper()
	commit = p.api.merge(p.work, pr, how, edit)
	p.told()
	return commit
}

// repaired waits until one repair was made, and no more.
func (p *proposing) repaired() {
	p.Helper()
	kit.Eventually(p.T, func() error {
		all, err := process.All[process.Operation](p.Context(), p.Server, process.Operations+"?filter=(eq,isAutomaticInvocation,true)")
		if err == nil && (len(all) != 1 || all[0].State != "COMPLETED") {
			err = fmt.Errorf("repairs: %+v", all)
		}
		return err
	})
}

// tidied waits until neither an open pull request nor a branch of an operation is left.
func (p *proposing) tidied(operation string) {
	p.Helper()
	kit.Eventually(p.T, func() error {
		if pr, at := p.api.of(branchOf(operation)), p.api.at(branchOf(operation)); pr.open || at != "" {
			return fmt.Errorf("of operation %s are left %+v, and a branch at %q", operation, pr, at)
		}
		return nil
	})
}

// rolledBack waits until an operation ended so, with these words.
func (p *proposing) rolledBack(operation, why string) {
	p.Helper()
	if op := p.Await(p.T, operation, "ROLLED_BACK"); !strings.Contains(op.Error.Detail, why) {
		p.Errorf("it was rolled back, as %q; want %q", op.Error.Detail, why)
	}
}

func TestAProposedRequestGoesOnWhenItsPullRequestIsMergedInWhateverWay(t *testing.T) {
	kit.Long(t)
	t.Parallel()
	p := newProposing(t, "pull-request", nil)
	for n, how := range []string{"merge", "squash", "rebase"} {
		before := strings.TrimSpace(p.work.Git("ls-remote", "origin", "refs/heads/main"))
		op := p.scaleOut()
		pr := p.opened(op)
		if !strings.Contains(pr.text, "SCALE instances/a\n") || !strings.Contains(pr.text, op) {
			t.Errorf("the pull request says %q", pr.text)
		}
		p.units(1 + n)
		for page, has := range map[string]string{
			"/ui/operations/" + op:        fmt.Sprintf(`<a id="pull-request" href="https://forge.example/noc/vnfs/pulls/%d">%d</a>, not merged`, pr.number, pr.number),
			"/ui/instances/" + proposedID: "SCALE is STARTING",
		} {
			if _, text := ask(t, p.Server, "GET", page, nil, "Authorization", "Bearer "+p.Token); !strings.Contains(text, has) {
				t.Errorf("%s lacks %q:\n%s", page, has, text)
			}
		}
		if at := strings.TrimSpace(p.work.Git("ls-remote", "origin", "refs/heads/main")); at != before {
			t.Errorf("main moved from %s to %s before the merge", before, at)
		}
		p.merge(pr, how, nil)
		p.Await(t, op, "COMPLETED")
		p.units(2 + n)
		p.tidied(op)
		if got := p.api.said(pr.number, "<!-- jibe: closed -->"); len(got) > 0 {
			t.Errorf("of a pull request that was merged (%s) was said: %q", how, got)
		}
	}
	log, err := os.ReadFile(filepath.Join(p.Data, "audit.jsonl"))
	if err != nil || strings.Count(string(log), `"action":"merge"`) != 3 || !strings.Contains(string(log), "merges what admin asked for") {
		t.Errorf("the audit log: %v\n%s", err, log)
	}
	kit.Until(t, "the metrics tell of none that waits", func() bool {
		return !strings.Contains(scrape(t, p.Server, "text/plain"), "jibe_lcm_operations_waiting_for_merge{")
	})
}

func TestAProposedRequestIsRolledBackWhenItsPullRequestIsClosed(t *testing.T) {
	kit.Long(t)
	t.Parallel()

	p := newProposing(t, "{pullRequest: [SCALE]}", nil)
	op := p.scaleOut()
	pr := p.opened(op)
	metrics(t, p.Server, `jibe_lcm_operations_waiting_for_merge{forge="there",type="SCALE"} 1`, `jibe_lcm_operations_waiting_for_merge_since_timestamp_seconds{type="SCALE"} 1`)
	p.ask(http.StatusConflict, "scale", map[string]any{"type": "SCALE_OUT", "aspectId": "front"})
	p.api.became(pr.number, "")
	p.told()
	p.rolledBack(op, fmt.Sprintf("pull request %d (https://forge.example/noc/vnfs/pulls/%d) was closed without being merged", pr.number, pr.number))
	p.tidied(op)
	p.units(1)

	// What isn't named by the project is committed at once.
	heal := p.ask(http.StatusAccepted, "heal", map[string]any{})
	p.Await(t, heal, "COMPLETED")
	if pr := p.api.of(branchOf(heal)); pr.number != 0 {
		t.Errorf("a heal was proposed: %+v", pr)
	}
	p.merge(p.opened(p.scaleOut()), "squash", nil)
	p.units(2)
}

func TestAMergeWithAnEditAndAPushAreOperationsOfTheirOwn(t *testing.T) {
	testenv.Chaos(t, "git")
	t.Parallel()
	p := newProposing(t, "pull-request", nil)
	op := p.scaleOut()
	commit := p.merge(p.opened(op), "squash", func(text string) string { return strings.Replace(text, "front: 1", "front: 2", 1) })
	p.rolledBack(op, "commit "+commit[:12]+" changes the instance in another way than pull request 1")
	p.units(3)
	p.tidied(op)
	if own := lastOf(t, p.Server, proposedID); own.ID == op || own.Type != "SCALE" {
		t.Errorf("the merge began %+v", own)
	}

	next := p.scaleOut()
	pr := p.opened(next)
	p.work.Pull()
	p.work.Replace(proposedFile, "front: 2", "front: 1")
	p.work.Push("Scale in")
	p.told()
	p.rolledBack(next, "changes the instance in another way than pull request 2")
	p.units(2)
	p.tidied(next)
	if got := p.api.said(pr.number, "ended ROLLED_BACK"); len(got) != 1 {
		t.Errorf("on the pull request was said %q", got)
	}

	// A merge that leaves nothing of it.
	empty := p.scaleOut()
	pr = p.opened(empty)
	text := p.work.Read(proposedFile)
	commit = p.merge(pr, "squash", func(string) string { return text })
	p.rolledBack(empty, "was merged (commit "+commit[:12]+"), and what was asked for isn't in the branch")
	p.tidied(empty)

	// What others commit elsewhere, and comments in its own file, are nobody's concern.
	last := p.scaleOut()
	pr = p.opened(last)
	p.work.Pull()
	p.work.Write("instances/b/vnf.yaml", strings.Replace(instance("state: notInstantiated\n"), "namespace: a", "namespace: b", 1))
	p.work.Write(proposedFile, "# of the night shift\n"+p.work.Read(proposedFile))
	p.work.Push("Add another, and remark")
	p.told()
	p.merge(pr, "merge", nil)
	p.Await(t, last, "COMPLETED")
	p.units(3)
}

func TestACancelClosesThePullRequestAndARestartForgetsNothing(t *testing.T) {
	testenv.Chaos(t, "git")
	t.Parallel()
	p := newProposing(t, "pull-request", nil)
	op := p.scaleOut()
	pr := p.opened(op)
	p.restart()
	if again := p.opened(op); again.number != pr.number {
		t.Errorf("after a restart it has pull request %d, before %d", again.number, pr.number)
	}
	p.Want(t, http.StatusAccepted, http.MethodPost, process.Operations+"/"+op+"/cancel", map[string]any{"cancelMode": "FORCEFUL"}, nil)
	p.rolledBack(op, "cancelled")
	p.tidied(op)
	kit.Until(t, "the metrics forget it", func() bool {
		return !strings.Contains(scrape(t, p.Server, "text/plain"), "jibe_lcm_operations_waiting_for_merge{")
	})

	// It ends while the forge is away, and while nobody runs it is merged.
	second := p.scaleOut()
	pr = p.opened(second)
	p.api.goAway(true)
	p.told()
	waitsFor(t, p.Server, proposedID, fmt.Sprintf("the merge of pull request %d (https://forge.example/noc/vnfs/pulls/%d); the forge can't be asked now", pr.number, pr.number))
	metrics(t, p.Server, `jibe_lcm_operations_waiting_for_merge{forge="away",type="SCALE"} 1`)
	p.Want(t, http.StatusAccepted, http.MethodPost, process.Operations+"/"+second+"/cancel", map[string]any{"cancelMode": "GRACEFUL"}, nil)
	p.rolledBack(second, "cancelled")
	p.restart()
	p.api.goAway(false)
	p.tidied(second)

	third := p.scaleOut()
	pr = p.opened(third)
	p.stop()
	p.api.merge(p.work, pr, "squash", nil)
	p.restart()
	p.Await(t, third, "COMPLETED")
	p.units(2)
}

func TestWhatRunsIsLookedAfterWhileARequestWaitsForItsMerge(t *testing.T) {
	kit.Long(t)
	t.Parallel()

	p := newProposing(t, "pull-request", nil)
	op := p.scaleOut()
	pr := p.opened(op)
	p.cloud.Lose("Workload/a/vdu1")
	p.repaired()
	p.units(1)
	p.opened(op)
	p.ask(http.StatusConflict, "heal", map[string]any{})
	p.merge(pr, "squash", nil)
	p.Await(t, op, "COMPLETED")
	p.units(2)
}

func TestARefusedGrantLeavesNoPullRequest(t *testing.T) {
	kit.Long(t)
	t.Parallel()

	p := newProposing(t, "pull-request", map[string]string{"granting.yaml": "policy: [{name: no-growth, operations: [SCALE], deny: true}]\n"})
	op := p.scaleOut()
	p.rolledBack(op, "no-growth")
	p.tidied(op)
	if pr := p.api.of(branchOf(op)); pr.number != 0 {
		t.Errorf("it was proposed as %+v", pr)
	}
	p.units(1)
}

func TestEveryTypeOfRequestCanBeProposed(t *testing.T) {
	testenv.Chaos(t, "git")
	t.Parallel()
	p := newProposing(t, "pull-request", nil)
	pass := func(op string) {
		t.Helper()
		p.merge(p.opened(op), "merge", nil)
		p.Await(t, op, "COMPLETED")
		p.tidied(op)
	}
	a := p.Want(t, http.StatusAccepted, http.MethodPatch, process.Instances+"/"+proposedID, map[string]any{"vnfInstanceDescription": "of the night"}, nil)
	pass(a.ID())
	pass(p.ask(http.StatusAccepted, "heal", map[string]any{}))
	pass(p.ask(http.StatusAccepted, "operate", map[string]any{"changeStateTo": "STOPPED"}))
	pass(p.ask(http.StatusAccepted, "terminate", map[string]any{"terminationType": "FORCEFUL"}))
	pass(p.ask(http.StatusAccepted, "instantiate", map[string]any{"flavourId": "simple"}))
	p.units(1)
}

func TestARequestThatIsToBeProposedIsRefusedWhereNoForgeIsTold(t *testing.T) {
	t.Parallel()
	s, stop := start(t, t.TempDir(), sim.NewCloud(), "")
	t.Cleanup(stop)
	repository(t, s, map[string]string{
		"vims/cloud.yaml":       "type: sim\ndefault: true\n",
		"projects/default.yaml": "write: pull-request\n",
		proposedFile:            instance("id: " + proposedID + "\nstate: notInstantiated\n"),
	})
	kit.Eventually(t, func() error {
		a, err := s.Do(t.Context(), http.MethodPost, process.Instances+"/"+proposedID+"/instantiate", map[string]any{"flavourId": "simple"})
		if err == nil && (a.Status != http.StatusConflict || !strings.Contains(string(a.Body), "--forge-token") || !strings.Contains(string(a.Body), "projects/default.yaml")) {
			err = fmt.Errorf("%d %s", a.Status, a.Body)
		}
		return err
	})
}
