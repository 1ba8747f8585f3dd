package process_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jibe-vnfm/jibe/automation"
	"github.com/jibe-vnfm/jibe/automation/rollout"
	"github.com/jibe-vnfm/jibe/test/kit"
	"github.com/jibe-vnfm/jibe/test/lab"
	"github.com/jibe-vnfm/jibe/test/process"
	"github.com/jibe-vnfm/jibe/test/testenv"
)

// Process, VIM and sites fail at random moments; a seed that is printed says at which.
func TestARolloutKeepsItsLimitsThroughKillsAndAVIMThatIsAwayHaltsAtItsBudgetAndUpgradesNothingTwice(t *testing.T) {
	testenv.Chaos(t, "git")
	kit.Long(t) // alone: it judges times
	const failing = 4
	sites := process.Number(t, "JIBE_ROLLOUT_SITES", 60)
	atOnce := max(7, sites/60)
	perVIM := atOnce * 2 / 3
	f := newUnsteadyFleet(t, sites, failing)
	f.PushFiles(t, map[string]string{"rollouts/edge.yaml": fmt.Sprintf(
		"# to 1.1\nselect: {folders: [instances/edge/**]}\nto: {vnfdId: %s}\norder: [{instances: [%s]}, {percent: 30}, {percent: 100}]\natOnce: %d\nperVIM: %d\nafter: {soak: 1s}\nfailures: {budget: 3, then: halt}\n",
		nextSmallVnfd, f.dir(failing), atOnce, perVIM)})

	// In the middle one of three VIMs goes away, and comes back later than operations may stay in STARTING. In the last
	// wave there are sites at it that are still to begin.
	var begun []timedOperation // there, when it went
	kit.EventuallyWithin(t, f.patience(), func() error {
		r, err := f.rollout(t, "edge")
		switch {
		case err != nil:
			return err
		case r.Phase == "halted":
			f.halts(t, r, atOnce, perVIM)
		case r.Wave == r.Waves && r.Counts.Pending < sites/3:
			return kit.Final(fmt.Errorf("it is nearly over, and the VIM was never away: %+v", r))
		case r.Wave == r.Waves:
			if begun, err = f.underWay(t, edgeVIM); err != nil || len(begun) > 0 {
				return err
			}
		}
		return fmt.Errorf("nothing of the last wave is under way at VIM %s: %+v", edgeVIM, r)
	})
	f.away(t, []string{lab.Refused, lab.Hanging}[f.IntN(2)])
	since, waited, kills := time.Now(), false, 0
	// With a kill the simulator forgets its content, and the sites there are busy with repairs from then on: these keep
	// the rollout from them, and it doesn't say that the VIM does.
	for time.Since(since) < f.outage || !waited && f.halted == 0 {
		f.moment(500)
		r, err := f.rollout(t, "edge")
		if err != nil {
			t.Fatal(err)
		}
		if time.Since(since) > f.outage+time.Minute {
			t.Fatalf("the rollout never waited for VIM %s: %+v", edgeVIM, r)
		}
		waited = waited || strings.Contains(r.WaitsFor, "VIM "+edgeVIM+" to be back")
		if r.Phase == "halted" {
			f.halts(t, r, atOnce, perVIM)
		}
		if (waited || f.halted > 0) && time.Since(since) > f.outage*time.Duration(1+kills)/3 && kills < 2 {
			kills++
			f.restart(t)
		}
	}
	f.away(t, lab.Back)
	t.Logf("VIM %s was away for %s with %d operations under way there", edgeVIM, time.Since(since).Round(time.Second), len(begun))

	// The process is killed until the budget is spent, and some more until the end.
	for kills = 0; f.halted == 0 || kills < 3; {
		f.moment(1500)
		r, err := f.rollout(t, "edge")
		switch {
		case err != nil:
			t.Fatal(err)
		case r.Phase == "halted":
			f.halts(t, r, atOnce, perVIM)
		case r.Phase == "completed":
			kills = 3
		default:
			if f.halted > 0 {
				kills++
			}
			f.restart(t)
		}
	}
	r := f.becomes(t, "edge", "completed")
	if r.Counts.Completed != sites-failing || r.Counts.Failed != failing || r.Counts.Pending != 0 {
		t.Errorf("completed as %+v", r)
	}
	if n := f.within(t, atOnce, perVIM); n != sites {
		t.Errorf("%d upgrades were made of %d sites", n, sites)
	}
	f.wentOn(t, begun)
	c := process.NewClone(t, f.DesiredURL())
	if text, err := c.Read("rollouts/edge.yaml"); err != nil || !strings.HasPrefix(text, "# to 1.1\n") || !strings.Contains(text, "package: ") {
		t.Errorf("the file is %q (%v)", text, err)
	}
	// What Jibe fills in stands in the commits of the batches.
	if out, err := process.Git(t.Context(), c.Dir, "log", "--format=%s", "--grep=Pin\\|Tidy\\|Fill", "--since=1.hour", "--", f.dir(failing)); err != nil || strings.Contains(out, nextSmallVnfd) {
		t.Errorf("commits that complete others: %q, %v", out, err)
	}
}

// halts sees that the halted rollout begins nothing more, also after a kill, and has it go on.
func (f *unsteadyFleet) halts(t *testing.T, r automation.RolloutStatus, atOnce, perVIM int) {
	t.Helper()
	if f.halted++; f.halted > 1 {
		t.Fatalf("the rollout is halted once more: %+v", r)
	}
	if r.Counts.Failed < 3 || r.Counts.Failed > f.failing || len(r.Failed) != r.Counts.Failed {
		t.Errorf("halted at %+v", r)
	}
	for _, x := range r.Failed {
		if vim := f.vims[x.Instance]; vim != badVIM {
			t.Errorf("%s at VIM %s counts as failed: %s", x.Dir, vim, x.Reason)
		}
	}
	// What was committed before it was halted begins, and fails, a moment later.
	kit.Eventually(t, func() (err error) {
		r, err = f.rollout(t, "edge")
		if err == nil && slices.ContainsFunc(r.UnderWay, func(x automation.RolloutInstance) bool {
			return x.Reason == string(rollout.Waiting) || f.vims[x.Instance] == badVIM
		}) {
			err = fmt.Errorf("under way still: %+v", r.UnderWay)
		}
		return err
	})
	begun := f.within(t, atOnce, perVIM)
	f.restart(t)
	if now := f.becomes(t, "edge", "halted"); now.Counts.Failed != r.Counts.Failed {
		t.Errorf("after a kill the rollout is %+v, and it was %+v", now, r)
	}
	if now := f.within(t, atOnce, perVIM); now != begun {
		t.Errorf("%d upgrades were begun by the halted rollout", now-begun)
	}
	f.Want(t, http.StatusOK, http.MethodPost, "/jibe/v1/rollouts/edge/resume", nil, nil)
	kit.Eventually(t, func() error {
		now, err := f.rollout(t, "edge")
		if err == nil && now.Phase == "halted" {
			err = fmt.Errorf("it doesn't go on: %+v", now)
		}
		return err
	})
}

func TestARolloutWaitsForApprovalAndIsPausedAndAbortedByCommitsOfWhoAsks(t *testing.T) {
	testenv.Chaos(t, "git")
	t.Parallel()
	f := newFleet(t, 6, 0)
	f.PushFiles(t, map[string]string{"rollouts/edge.yaml": "select: {folders: [edge]}\nto: {vnfdId: " + nextSmallVnfd +
		"}\norder: [{instances: [" + f.dir(0) + "]}, {instances: [" + f.dir(1) + "]}, {percent: 100}]\nafter: {approve: true}\n"})
	r := f.becomes(t, "edge", "waiting for approval")
	if n := f.within(t, 1, 1); n != 1 || r.Gate == "" || r.Counts.Completed != 1 {
		t.Fatalf("%d upgrades were made, and it stands at %+v", n, r)
	}
	f.Want(t, http.StatusConflict, http.MethodPost, "/jibe/v1/rollouts/edge/approve", map[string]string{"gate": "0123456789abcdef"}, nil)
	f.Want(t, http.StatusNotFound, http.MethodPost, "/jibe/v1/rollouts/core/pause", nil, nil)
	f.Want(t, http.StatusNotFound, http.MethodPost, "/jibe/v1/rollouts/edge/hurry", nil, nil)
	if out, stderr, code := f.CLI(t, "rollout", "approve", "edge"); code != 0 || !strings.Contains(out, "1 completed") {
		t.Fatalf("approve: %s%s", out, stderr)
	}
	kit.Eventually(t, func() error {
		if n := f.within(t, 1, 1); n != 2 {
			return fmt.Errorf("%d upgrades were made", n)
		}
		return nil
	})
	f.becomes(t, "edge", "waiting for approval")
	for _, args := range [][]string{{"retry", "edge"}, {"retry", "edge", f.dir(0) + "/"}} {
		if out, stderr, code := f.CLI(t, append([]string{"rollout"}, args...)...); code == 0 || !strings.Contains(stderr, "there is nothing to retry: ") {
			t.Errorf("%v of what hasn't failed: %s%s", args, out, stderr)
		}
	}
	for _, do := range []struct{ action, phase string }{{"pause", "paused"}, {"resume", "waiting for approval"}, {"abort", "aborted"}} {
		if out, stderr, code := f.CLI(t, "rollout", do.action, "edge"); code != 0 {
			t.Fatalf("%s: %s%s", do.action, out, stderr)
		}
		f.becomes(t, "edge", do.phase)
	}
	f.Want(t, http.StatusConflict, http.MethodPost, "/jibe/v1/rollouts/edge/resume", nil, nil)
	if n := f.within(t, 1, 1); n != 2 {
		t.Errorf("%d upgrades were made", n)
	}
	if out, _, code := f.CLI(t, "get", "rollouts"); code != 0 || !strings.Contains(out, "aborted") {
		t.Errorf("get rollouts: %s", out)
	}
	c := process.NewClone(t, f.DesiredURL())
	if out, err := process.Git(t.Context(), c.Dir, "log", "--format=%an: %s", "--", "rollouts"); err != nil || !strings.Contains(out, ": Approve the next wave of rollout edge") || !strings.Contains(out, ": Abort rollout edge") {
		t.Errorf("the commits are %s (%v)", out, err)
	}
}

func TestAPushOfARolloutThatCannotBeObeyedOrOverlapsAnotherIsRefused(t *testing.T) {
	testenv.Chaos(t, "git")
	t.Parallel()
	f := newLocal(t)
	good := "select: {folders: [edge]}\nto: {vnfdId: " + nextSmallVnfd + "}\nstate: paused\n"
	f.refused(map[string]string{"rollouts/a.yaml": good + "atOnce: 0\n"}, "rollouts/a.yaml:4: ", "atOnce")
	f.refused(map[string]string{"rollouts/a.yaml": good + "windows: []\n"}, `"windows" has none`)
	f.refused(map[string]string{"rollouts/.state/x.yaml": "nonsense: 1\n"}, "rollouts/.state/x.yaml:1: ")
	f.refused(map[string]string{"rollouts": "a file\n"}, "is not a folder")
	f.push(map[string]string{"rollouts/a.yaml": good})
	f.refused(map[string]string{"rollouts/b.yaml": strings.Replace(good, "edge", "edge/north", 1)}, "rollouts/b.yaml: it may select instances that rollouts/a.yaml selects")
	f.push(map[string]string{"rollouts/b.yaml": strings.Replace(good, "edge", "core", 1), "rollouts/README.md": "Our rollouts\n"})
	f.push(map[string]string{"rollouts/a.yaml": strings.Replace(good, "paused", "aborted", 1), "rollouts/c.yaml": good})
}
