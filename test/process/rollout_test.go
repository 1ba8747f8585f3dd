package process_test

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jibe-vnfm/jibe/automation"
	"github.com/jibe-vnfm/jibe/test/kit"
	"github.com/jibe-vnfm/jibe/test/process"
)

const nextSmallVnfd = "3a5c1f0e-6d0b-4f7e-9c55-0f6f2a9e1bc2"

// fleet is a process with sites, some of them at a VIM at which the policy refuses upgrades.
type fleet struct {
	*process.Server
	sites, failing int
}

// newFleet starts a process with sites that run the first version.
func newFleet(t *testing.T, sites, failing int) *fleet {
	t.Helper()
	f := &fleet{process.Start(t, process.ShortTempDir(t)), sites, failing}
	f.PushPackages(t, []string{process.SmallVnfd, nextSmallVnfd}, process.SmallPackage(),
		process.NextVersion(t, process.SmallPackage(), "small-1.1", process.SmallVnfd, nextSmallVnfd, "'1.0'", "'1.1'"))
	files := map[string]string{
		"vims/sim.yaml": "type: sim\ndefault: true\n", "vims/bad.yaml": "type: sim\nendpoint: https://bad.example\n",
		"granting.yaml": "policy:\n  - {name: no upgrades, vims: [bad], operations: [CHANGE_VNFPKG], deny: true}\n",
	}
	for n := range sites {
		vim := "sim"
		if n < failing {
			vim = "bad"
		}
		files[f.dir(n)+"/vnf.yaml"] = fmt.Sprintf("name: s%d\nvnfdId: %s\nflavour: simple\nvim: %s\nparams: {lcm-kubernetes-def-files: [%s], namespace: s%d}\n",
			n, process.SmallVnfd, vim, strings.Join(process.SmallManifests(), ", "), n)
	}
	f.PushFiles(t, files)
	kit.EventuallyWithin(t, f.patience(), func() error {
		ops, err := f.operations(t, "INSTANTIATE")
		if err != nil {
			return err
		}
		if n := len(ops) - len(slices.DeleteFunc(ops, func(o timedOperation) bool { return o.State == "COMPLETED" })); n != sites {
			return fmt.Errorf("%d of %d sites are instantiated", n, sites)
		}
		return nil
	})
	return f
}

// patience grows with the fleet.
func (f *fleet) patience() time.Duration { return kit.Patience * time.Duration(2+f.sites/300) }

func (f *fleet) dir(n int) string { return fmt.Sprintf("instances/edge/s%02d", n) }

// timedOperation is an operation with its times.
type timedOperation struct {
	process.Operation
	Started time.Time `json:"startTime"`
	Entered time.Time `json:"stateEnteredTime"`
}

// operations are those of a type that somebody asked for.
func (f *fleet) operations(t *testing.T, typ string) ([]timedOperation, error) {
	t.Helper()
	all, err := process.All[timedOperation](t.Context(), f.Server, process.Operations+"?filter=(eq,operation,"+typ+")")
	return slices.DeleteFunc(all, func(o timedOperation) bool { return o.Automatic || o.Type != typ }), err
}

func (f *fleet) rollout(t *testing.T, name string) (automation.RolloutStatus, error) {
	t.Helper()
	var list []automation.RolloutStatus
	if err := f.Get(t.Context(), "/jibe/v1/rollouts", &list); err != nil {
		return automation.RolloutStatus{}, err
	}
	at := slices.IndexFunc(list, func(r automation.RolloutStatus) bool { return r.Name == name })
	if at < 0 {
		return automation.RolloutStatus{}, fmt.Errorf("there is no rollout %s among %+v", name, list)
	}
	return list[at], nil
}

// becomes waits for a phase of the rollout.
func (f *fleet) becomes(t *testing.T, name, phase string) (r automation.RolloutStatus) {
	t.Helper()
	kit.EventuallyWithin(t, f.patience(), func() (err error) {
		if r, err = f.rollout(t, name); err == nil && string(r.Phase) != phase {
			err = fmt.Errorf("rollout %s is %s, not %s: %+v", name, cmp.Or(string(r.Phase), r.Problem), phase, r)
		}
		return err
	})
	return r
}

// within checks that no more than atOnce upgrades were under way at any time, and that no instance
// was upgraded twice. It returns how many there were.
func (f *fleet) within(t *testing.T, atOnce int) int {
	t.Helper()
	ops, err := f.operations(t, "CHANGE_VNFPKG")
	if err != nil {
		t.Fatal(err)
	}
	type edge struct {
		at  time.Time
		one int
	}
	var edges []edge
	of := map[string]int{}
	for _, o := range ops {
		if of[o.Instance]++; of[o.Instance] > 1 {
			t.Errorf("instance %s was upgraded %d times", o.Instance, of[o.Instance])
		}
		edges = append(edges, edge{o.Started, 1}, edge{o.Entered, -1})
	}
	slices.SortFunc(edges, func(a, b edge) int { return cmp.Or(a.at.Compare(b.at), cmp.Compare(a.one, b.one)) })
	n, most := 0, 0
	for _, e := range edges {
		n += e.one
		most = max(most, n)
	}
	if most > atOnce {
		t.Errorf("%d upgrades were under way at once, and atOnce is %d", most, atOnce)
	}
	return len(ops)
}

func TestARolloutKeepsItsLimitsThroughKillsHaltsAtItsBudgetAndUpgradesNothingTwice(t *testing.T) {
	const failing = 4
	sites := process.Number(t, "JIBE_ROLLOUT_SITES", 60)
	atOnce := max(7, sites/60)
	f := newFleet(t, sites, failing)
	f.PushFiles(t, map[string]string{"rollouts/edge.yaml": fmt.Sprintf(
		"# to 1.1\nselect: {folders: [instances/edge/**]}\nto: {vnfdId: %s}\norder: [{instances: [%s]}, {percent: 30}, {percent: 100}]\natOnce: %d\nafter: {soak: 1s}\nfailures: {budget: 3, then: halt}\n",
		nextSmallVnfd, f.dir(failing), atOnce)})

	// The process is killed at random moments until the budget is spent.
	halted := automation.RolloutStatus{}
	kit.EventuallyWithin(t, 2*f.patience(), func() error {
		time.Sleep(time.Duration(200+rand.IntN(1500)) * time.Millisecond) //nolint:gosec // any moment will do
		r, err := f.rollout(t, "edge")
		if err == nil && r.Phase == "halted" {
			halted = r
			return nil
		}
		f.Kill()
		f.Server = process.Start(t, f.Data)
		return errors.Join(fmt.Errorf("the rollout isn't halted: %+v", r), err)
	})
	if halted.Counts.Failed < 3 || halted.Counts.Failed > failing || len(halted.Failed) != halted.Counts.Failed {
		t.Errorf("halted at %+v", halted)
	}
	begun := f.within(t, atOnce)
	f.Kill()
	f.Server = process.Start(t, f.Data)
	if r := f.becomes(t, "edge", "halted"); r.Counts.Failed != halted.Counts.Failed {
		t.Errorf("after a kill the rollout is %+v, and it was %+v", r, halted)
	}
	if now := f.within(t, atOnce); now != begun {
		t.Errorf("%d upgrades were begun by the halted rollout", now-begun)
	}

	if out, stderr, code := f.CLI(t, "rollout", "resume", "edge"); code != 0 {
		t.Fatalf("resume: %s%s", out, stderr)
	}
	for range 3 {
		time.Sleep(time.Duration(100+rand.IntN(700)) * time.Millisecond) //nolint:gosec // any moment will do
		f.Kill()
		f.Server = process.Start(t, f.Data)
	}
	r := f.becomes(t, "edge", "completed")
	if r.Counts.Completed != sites-failing || r.Counts.Failed != failing || r.Counts.Pending != 0 {
		t.Errorf("completed as %+v", r)
	}
	if n := f.within(t, atOnce); n != sites {
		t.Errorf("%d upgrades were made of %d sites", n, sites)
	}
	c := process.NewClone(t, f.DesiredURL())
	if text, err := c.Read("rollouts/edge.yaml"); err != nil || !strings.HasPrefix(text, "# to 1.1\n") || !strings.Contains(text, "package: ") {
		t.Errorf("the file is %q (%v)", text, err)
	}
	// What Jibe fills in stands in the commits of the batches.
	if out, err := process.Git(t.Context(), c.Dir, "log", "--format=%s", "--grep=Pin\\|Tidy\\|Fill", "--since=1.hour", "--", f.dir(failing)); err != nil || strings.Contains(out, nextSmallVnfd) {
		t.Errorf("commits that complete others: %q, %v", out, err)
	}
}

func TestARolloutWaitsForApprovalAndIsPausedAndAbortedByCommitsOfWhoAsks(t *testing.T) {
	f := newFleet(t, 6, 0)
	f.PushFiles(t, map[string]string{"rollouts/edge.yaml": "select: {folders: [edge]}\nto: {vnfdId: " + nextSmallVnfd +
		"}\norder: [{instances: [" + f.dir(0) + "]}, {instances: [" + f.dir(1) + "]}, {percent: 100}]\nafter: {approve: true}\n"})
	r := f.becomes(t, "edge", "waiting for approval")
	if n := f.within(t, 1); n != 1 || r.Gate == "" || r.Counts.Completed != 1 {
		t.Fatalf("%d upgrades were made, and it stands at %+v", n, r)
	}
	f.Want(t, http.StatusConflict, http.MethodPost, "/jibe/v1/rollouts/edge/approve", map[string]string{"gate": "0123456789abcdef"}, nil)
	f.Want(t, http.StatusNotFound, http.MethodPost, "/jibe/v1/rollouts/core/pause", nil, nil)
	f.Want(t, http.StatusNotFound, http.MethodPost, "/jibe/v1/rollouts/edge/hurry", nil, nil)
	if out, stderr, code := f.CLI(t, "rollout", "approve", "edge"); code != 0 || !strings.Contains(out, "1 completed") {
		t.Fatalf("approve: %s%s", out, stderr)
	}
	kit.Eventually(t, func() error {
		if n := f.within(t, 1); n != 2 {
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
	if n := f.within(t, 1); n != 2 {
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
