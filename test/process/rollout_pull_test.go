package process_test

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"code.gitea.io/sdk/gitea"

	"github.com/jibe-vnfm/jibe/automation"
	"github.com/jibe-vnfm/jibe/test/kit"
	"github.com/jibe-vnfm/jibe/test/testenv"
)

// becomes waits for a phase of the rollout, and for a pull request where want is set.
func (w *told) becomes(name, phase string, want bool) (r automation.RolloutStatus) {
	w.Helper()
	kit.Eventually(w.T, func() error {
		var list []automation.RolloutStatus
		if err := w.Get(w.Context(), "/jibe/v1/rollouts", &list); err != nil {
			return err
		}
		at := slices.IndexFunc(list, func(r automation.RolloutStatus) bool { return r.Name == name })
		if at < 0 {
			return fmt.Errorf("there is no rollout %s among %+v", name, list)
		}
		if r = list[at]; string(r.Phase) != phase || want && (r.Proposal == nil || r.Proposal.Number == 0) {
			return fmt.Errorf("rollout %s is %s, not %s: %+v", name, cmp.Or(string(r.Phase), r.Problem), phase, r)
		}
		return nil
	})
	return r
}

// merge merges a pull request.
func (w *told) merge(number int64, style gitea.MergeStyle) {
	w.Helper()
	kit.Eventually(w.T, func() error { // Gitea finds out by itself whether it can be merged
		ok, _, err := w.admin.MergePullRequest(w.owner, w.name, number, gitea.MergePullRequestOption{Style: style, Title: "Merged by a person"})
		if err == nil && !ok {
			err = fmt.Errorf("not merged")
		}
		return err
	})
}

// gone waits until branches of the forge are removed.
func (w *told) gone(branches ...string) {
	w.Helper()
	kit.Eventually(w.T, func() error {
		for _, b := range branches {
			if _, answer, err := w.admin.GetRepoBranch(w.owner, w.name, b); err == nil || answer == nil || answer.StatusCode != http.StatusNotFound {
				return errors.Join(fmt.Errorf("branch %s is there still", b), err)
			}
		}
		return nil
	})
}

func TestTheWavesOfARolloutAreMergedOnARealGiteaAndOneThatIsClosedHaltsIt(t *testing.T) {
	testenv.Chaos(t, "a Gitea")
	t.Parallel()
	w := newTold(t)
	for n, site := range []string{"a", "b", "c"} {
		w.until(w.write("main", "instances/"+site+"/vnf.yaml", strings.Replace(vnf(""), reportID, fmt.Sprintf("11111111-1111-4111-8111-%012d", n), 1)), gitea.StatusSuccess, "completed")
	}
	rolls := w.write("main", "rollouts/edge.yaml", "select: {folders: [instances/**]}\nto: {levels: {vdu1_aspect: 2}}\norder: [{instances: [instances/a]}, {percent: 100}]\nwrite: pull-request\n")

	first := w.becomes("edge", "waiting for merge", true)
	pull, _, err := w.admin.GetPullRequest(w.owner, w.name, first.Proposal.Number)
	if err != nil {
		t.Fatal(err)
	}
	if first.Wave != 1 || first.Counts.Proposed != 1 || pull.Title != "Roll edge out, wave 1 of 2: 1 instance" || !strings.Contains(pull.Body, "`instances/a`") || strings.Contains(pull.Body, "`instances/b`") || pull.HTMLURL != first.Proposal.Link {
		t.Errorf("%+v is proposed as %q:\n%s", first, pull.Title, pull.Body)
	}
	w.until(rolls, gitea.StatusPending, "rollout edge: ") // other words of the same state come a minute later
	w.comment(first.Proposal.Number, "1 instance would change", "SCALE")
	const waits = `jibe_rollout_waiting_for_merge_since_timestamp_seconds{rollout="edge"} 1`
	if text := string(w.Want(t, http.StatusOK, http.MethodGet, "/metrics", nil, nil).Body); !strings.Contains(text, waits) {
		t.Errorf("no metric tells since when it waits: %s", text)
	}
	w.merge(first.Proposal.Number, gitea.MergeStyleSquash)

	second := w.becomes("edge", "waiting for merge", true)
	kit.Eventually(t, func() error {
		if second = w.becomes("edge", "waiting for merge", true); second.Wave != 2 || second.Counts.Completed != 1 || second.Counts.Proposed != 2 {
			return fmt.Errorf("%+v", second)
		}
		return nil
	})
	if out, stderr, code := w.CLI(t, "rollout", "pause", "edge"); code != 0 {
		t.Fatalf("pause: %s%s", out, stderr)
	}
	kit.Eventually(t, func() error {
		p, _, err := w.admin.GetPullRequest(w.owner, w.name, second.Proposal.Number)
		if err != nil {
			return err
		}
		if r := w.becomes("edge", "paused", false); p.State != gitea.StateClosed || p.HasMerged || r.Proposal != nil {
			return fmt.Errorf("pull request %d is %s, and the rollout %+v", second.Proposal.Number, p.State, r)
		}
		return nil
	})
	why, _, err := w.admin.ListIssueComments(w.owner, w.name, second.Proposal.Number, gitea.ListIssueCommentOptions{})
	if err != nil || !slices.ContainsFunc(why, func(c *gitea.Comment) bool { return strings.Contains(c.Body, "the rollout is paused") }) {
		t.Errorf("nothing says why it was closed: %+v, %v", why, err)
	}
	if out, stderr, code := w.CLI(t, "rollout", "resume", "edge"); code != 0 {
		t.Fatalf("resume: %s%s", out, stderr)
	}
	second = w.becomes("edge", "waiting for merge", true)
	closed := gitea.StateClosed
	if _, _, err := w.admin.EditPullRequest(w.owner, w.name, second.Proposal.Number, gitea.EditPullRequestOption{State: &closed}); err != nil {
		t.Fatal(err)
	}
	halted := w.becomes("edge", "halted", false)
	if text := string(w.Want(t, http.StatusOK, http.MethodGet, "/metrics", nil, nil).Body); strings.Contains(text, waits) {
		t.Error("a metric tells that a rollout waits which is halted")
	}
	if !strings.Contains(halted.WaitsFor, fmt.Sprintf("pull request %d", second.Proposal.Number)) || halted.Counts.Completed != 1 {
		t.Errorf("%+v", halted)
	}
	w.until(rolls, gitea.StatusFailure, "rollout edge: halted, wave 2 of 2")
	w.gone(first.Proposal.Branch, second.Proposal.Branch)
	w.restart()
	w.becomes("edge", "halted", false)
	if out, stderr, code := w.CLI(t, "rollout", "resume", "edge"); code != 0 {
		t.Fatalf("resume: %s%s", out, stderr)
	}
	third := w.becomes("edge", "waiting for merge", true)
	if third.Proposal.Number == second.Proposal.Number {
		t.Errorf("it is proposed as %+v again", third.Proposal)
	}
	w.KillGroup() // it is merged while nobody looks
	w.merge(third.Proposal.Number, gitea.MergeStyleMerge)
	w.restart()
	if done := w.becomes("edge", "completed", false); done.Counts.Completed != 3 || done.Counts.Failed+done.Counts.Passed > 0 {
		t.Errorf("%+v", done)
	}
	if s := w.until(rolls, gitea.StatusSuccess, "rollout edge: completed"); s.TargetURL != w.URL+"/ui/rollouts/edge" {
		t.Errorf("the status leads to %q", s.TargetURL)
	}
	all, _, err := w.admin.ListRepoPullRequests(w.owner, w.name, gitea.ListPullRequestsOptions{State: gitea.StateAll})
	if err != nil || len(all) != 4 {
		t.Errorf("%d pull requests, %v", len(all), err)
	}
}
