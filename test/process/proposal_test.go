package process_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"code.gitea.io/sdk/gitea"

	"github.com/jibe-vnfm/jibe/test/kit"
	"github.com/jibe-vnfm/jibe/test/process"
	"github.com/jibe-vnfm/jibe/test/testenv"
)

// newProposed is a process whose requests are proposed on a real Gitea, with one instance that runs. granting is who
// grants, "" for nobody.
func newProposed(t *testing.T, granting string) *told {
	t.Helper()
	w := newTold(t)
	if granting != "" {
		w.write("main", "granting.yaml", granting)
	}
	w.write("main", "projects/default.yaml", "write: pull-request\n")
	w.until(w.write("main", "instances/a/vnf.yaml", vnf("")), gitea.StatusSuccess, "completed")
	return w
}

// scaleOut asks for one more unit.
func (w *told) scaleOut() (operation string) {
	w.Helper()
	return w.Ask(w.T, reportID, "scale", map[string]any{"type": "SCALE_OUT", "aspectId": "vdu1_aspect"})
}

// pulls are all pull requests whose branches Jibe has made.
func (w *told) pulls() (list []*gitea.PullRequest) {
	w.Helper()
	all, _, err := w.admin.ListRepoPullRequests(w.owner, w.name, gitea.ListPullRequestsOptions{State: gitea.StateAll})
	if err != nil {
		w.Fatal(err)
	}
	return all
}

// proposed waits until an operation waits for the one pull request that is open.
func (w *told) proposed(operation string) (open *gitea.PullRequest) {
	w.Helper()
	kit.Eventually(w.T, func() error {
		open = nil
		for _, p := range w.pulls() {
			switch {
			case p.State == gitea.StateOpen && open != nil:
				return kit.Final(fmt.Errorf("pull requests %d and %d are open", open.Index, p.Index))
			case p.State == gitea.StateOpen:
				open = p
			}
		}
		var op struct {
			State string `json:"operationState"`
			Jibe  struct {
				Waiting     struct{ For string }
				PullRequest struct {
					Number int64
					Link   string
				}
			}
		}
		if err := w.Get(w.Context(), process.Operations+"/"+operation, &op); err != nil {
			return err
		}
		if open == nil || op.State != "STARTING" || op.Jibe.Waiting.For != fmt.Sprintf("the merge of pull request %d (%s)", open.Index, open.HTMLURL) || op.Jibe.PullRequest.Number != open.Index || op.Jibe.PullRequest.Link != open.HTMLURL {
			return fmt.Errorf("operation %+v, pull request %+v", op, open)
		}
		return nil
	})
	if out, _, code := w.CLI(w.T, "get", "operation", operation); code != 0 || !strings.Contains(out, "PULL REQUEST") || !strings.Contains(out, open.HTMLURL) {
		w.Errorf("jibe get operation says\n%s", out)
	}
	if want := "jibe/op/" + operation; open.Head.Ref != want {
		w.Errorf("the branch is %s, want %s", open.Head.Ref, want)
	}
	return open
}

// mergeAs merges a pull request in one of the ways of forges.
func (w *told) mergeAs(p *gitea.PullRequest, style gitea.MergeStyle) {
	w.Helper()
	kit.Eventually(w.T, func() error { // Gitea finds out by itself whether it can be merged
		ok, _, err := w.admin.MergePullRequest(w.owner, w.name, p.Index, gitea.MergePullRequestOption{Style: style, Title: "Scale"})
		if err == nil && !ok {
			err = fmt.Errorf("not merged")
		}
		return err
	})
}

// tidied waits until no pull request is open, and no branch of an operation is left.
func (w *told) tidied() {
	w.Helper()
	kit.Eventually(w.T, func() error {
		for _, p := range w.pulls() {
			if p.State == gitea.StateOpen {
				return fmt.Errorf("pull request %d is open", p.Index)
			}
		}
		all, _, err := w.admin.ListRepoBranches(w.owner, w.name, gitea.ListRepoBranchesOptions{})
		for _, b := range all {
			if strings.HasPrefix(b.Name, "jibe/") {
				return fmt.Errorf("branch %s is left", b.Name)
			}
		}
		return err
	})
}

func TestOnARealGiteaARequestGoesOnWhenItIsMergedAndNotWhenItIsClosed(t *testing.T) {
	kit.Long(t)
	t.Parallel()
	w := newProposed(t, "")
	op := w.scaleOut()
	w.mergeAs(w.proposed(op), gitea.MergeStyleSquash)
	w.Await(t, op, "COMPLETED")
	w.tidied()
	op = w.Ask(t, reportID, "scale", map[string]any{"type": "SCALE_IN", "aspectId": "vdu1_aspect"})
	w.restart()
	w.mergeAs(w.proposed(op), gitea.MergeStyleRebase)
	w.Await(t, op, "COMPLETED")
	w.tidied()

	op = w.scaleOut()
	p := w.proposed(op)
	closed := gitea.StateClosed
	if _, _, err := w.admin.EditPullRequest(w.owner, w.name, p.Index, gitea.EditPullRequestOption{State: &closed}); err != nil {
		t.Fatal(err)
	}
	if ended := w.Await(t, op, "ROLLED_BACK"); ended.Error.Detail != fmt.Sprintf("pull request %d (%s) was closed without being merged", p.Index, p.HTMLURL) {
		t.Errorf("it ended, as %q", ended.Error.Detail)
	}
	w.tidied()

	// The branch that is merged isn't what was asked for: a reviewer has edited it.
	op = w.scaleOut()
	p = w.proposed(op)
	w.write(p.Head.Ref, "instances/a/vnf.yaml", vnf("levels: {vdu1_aspect: 2}\n"))
	w.mergeAs(p, gitea.MergeStyleSquash)
	if ended := w.Await(t, op, "ROLLED_BACK"); !strings.Contains(ended.Error.Detail, "in another way than pull request") {
		t.Errorf("it ended, as %q", ended.Error.Detail)
	}
	kit.Eventually(t, func() error {
		all, err := process.All[process.Operation](t.Context(), w.Server, process.Operations)
		if err == nil {
			if last := all[len(all)-1]; last.ID == op || last.State != "COMPLETED" {
				err = fmt.Errorf("the last operation is %+v", last)
			}
		}
		return err
	})
	w.tidied()
}

func TestOnARealGiteaARefusedGrantLeavesNothingProposed(t *testing.T) {
	testenv.Chaos(t, "a Gitea")
	t.Parallel()
	w := newProposed(t, "policy: [{name: no-growth, operations: [SCALE], deny: true}]\n")
	op := w.scaleOut()
	if ended := w.Await(t, op, "ROLLED_BACK"); !strings.Contains(ended.Error.Detail, "no-growth") {
		t.Errorf("it ended, as %q", ended.Error.Detail)
	}
	w.tidied()
	if all := w.pulls(); len(all) > 0 {
		t.Errorf("%d pull requests were opened", len(all))
	}
}

func TestOnARealGiteaAKillLeavesARequestWithOnePullRequestOrNone(t *testing.T) {
	testenv.Chaos(t, "a Gitea")
	t.Parallel()
	w := newProposed(t, "")
	for _, after := range []time.Duration{0, 60, 150, 300, 600} {
		s := w.Server
		answered := make(chan string, 1)
		go func() {
			a, err := s.Do(t.Context(), http.MethodPost, process.Instances+"/"+reportID+"/scale", map[string]any{"type": "SCALE_OUT", "aspectId": "vdu1_aspect"})
			if err != nil || a.Status != http.StatusAccepted {
				answered <- ""
				return
			}
			answered <- a.ID()
		}()
		kit.Pause(t.Context(), after*time.Millisecond) // the moment of the kill, which nothing tells from outside
		w.restart()
		all, err := process.All[process.Operation](t.Context(), w.Server, process.Operations+"?filter=(eq,operationState,STARTING)")
		all = slices.DeleteFunc(all, func(op process.Operation) bool { return op.Automatic }) // the simulator has forgotten what ran
		if err != nil || len(all) > 1 {
			t.Fatalf("killed after %d ms: %+v, %v", after, all, err)
		}
		if id := <-answered; id != "" && (len(all) != 1 || all[0].ID != id) {
			t.Fatalf("killed after %d ms: operation %s was answered 202, and there is %+v", after, id, all)
		}
		if len(all) == 1 {
			w.proposed(all[0].ID)
			w.Want(t, http.StatusAccepted, http.MethodPost, process.Operations+"/"+all[0].ID+"/cancel", map[string]any{"cancelMode": "FORCEFUL"}, nil)
			w.Await(t, all[0].ID, "ROLLED_BACK") // else the next kill may find it before its end
		}
		w.tidied()
	}
	seen := map[string]bool{}
	for _, p := range w.pulls() {
		if seen[p.Head.Ref] {
			t.Errorf("%s has two pull requests", p.Head.Ref)
		}
		seen[p.Head.Ref] = true
	}
}
