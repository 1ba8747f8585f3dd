package process_test

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jibe-vnfm/jibe/automation"
	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/drivers"
	"github.com/jibe-vnfm/jibe/test/kit"
	"github.com/jibe-vnfm/jibe/test/lab"
	"github.com/jibe-vnfm/jibe/test/process"
)

const nextSmallVnfd = "3a5c1f0e-6d0b-4f7e-9c55-0f6f2a9e1bc2"

// The VIMs of a fleet: the default, one that may be away, and one at which the policy refuses upgrades.
const (
	simVIM  = "sim"
	edgeVIM = "edge"
	badVIM  = "bad"
)

// fleet is a process with sites, some of them at a VIM at which the policy refuses upgrades.
type fleet struct {
	*process.Server
	sites, failing int
	vims           map[string]string // of each instance
}

// newFleet starts a process with sites that run the first version.
func newFleet(t *testing.T, sites, failing int) *fleet {
	t.Helper()
	f := &fleet{process.Start(t, process.ShortTempDir(t)), sites, failing, map[string]string{}}
	f.furnish(t, func(int) string { return simVIM })
	return f
}

// furnish gives the process its packages, VIMs and sites, those that don't fail at the VIM that is said, and waits until they run.
func (f *fleet) furnish(t *testing.T, vimOf func(site int) string) {
	t.Helper()
	f.PushPackages(t, []string{process.SmallVnfd, nextSmallVnfd}, process.SmallPackage(),
		process.NextVersion(t, process.SmallPackage(), "small-1.1", process.SmallVnfd, nextSmallVnfd, "'1.0'", "'1.1'"))
	files := map[string]string{
		"vims/sim.yaml": "type: sim\ndefault: true\n", "vims/edge.yaml": "type: sim\nendpoint: https://edge.example\n", "vims/bad.yaml": "type: sim\nendpoint: https://bad.example\n",
		"granting.yaml": "policy:\n  - {name: no upgrades, vims: [bad], operations: [CHANGE_VNFPKG], deny: true}\n",
	}
	for n := range f.sites {
		vim := badVIM
		if n >= f.failing {
			vim = vimOf(n)
		}
		f.vims[desired.DeriveID(f.dir(n))] = vim
		files[f.dir(n)+"/vnf.yaml"] = fmt.Sprintf("name: s%d\nvnfdId: %s\nflavour: simple\nvim: %s\nparams: {lcm-kubernetes-def-files: [%s], namespace: s%d}\n",
			n, process.SmallVnfd, vim, strings.Join(process.SmallManifests(), ", "), n)
	}
	f.PushFiles(t, files)
	kit.EventuallyWithin(t, f.patience(), func() error {
		ops, err := f.operations(t, "INSTANTIATE")
		if err != nil {
			return err
		}
		if n := len(ops) - len(slices.DeleteFunc(ops, func(o timedOperation) bool { return o.State == "COMPLETED" })); n != f.sites {
			return fmt.Errorf("%d of %d sites are instantiated", n, f.sites)
		}
		return nil
	})
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
	all, err := process.All[timedOperation](t.Context(), f.Server, process.Operations+"?fields=error&filter=(eq,operation,"+typ+")")
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

// unseen says whether the operation was rolled back as its VIM was away, with nothing begun.
func (o timedOperation) unseen() bool {
	return o.State == "ROLLED_BACK" && strings.Contains(o.Error.Detail, drivers.ErrUnavailable.Error())
}

// within checks that no more than atOnce upgrades were under way at any time, and perVIM at one VIM, and that no instance
// was upgraded twice. It returns how many there were, without those of which nothing had begun as their VIM was away.
func (f *fleet) within(t *testing.T, atOnce, perVIM int) int {
	t.Helper()
	ops, err := f.operations(t, "CHANGE_VNFPKG")
	if err != nil {
		t.Fatal(err)
	}
	type edge struct {
		at  time.Time
		one int
		vim string
	}
	var edges []edge
	of := map[string]int{}
	made := 0
	for _, o := range ops {
		if !o.unseen() {
			made++
			if of[o.Instance]++; of[o.Instance] > 1 {
				t.Errorf("instance %s was upgraded %d times", o.Instance, of[o.Instance])
			}
		}
		edges = append(edges, edge{o.Started, 1, f.vims[o.Instance]}, edge{o.Entered, -1, f.vims[o.Instance]})
	}
	slices.SortFunc(edges, func(a, b edge) int { return cmp.Or(a.at.Compare(b.at), cmp.Compare(a.one, b.one)) })
	n, most := map[string]int{}, map[string]int{}
	for _, e := range edges {
		for _, where := range []string{"", e.vim} {
			n[where] += e.one
			most[where] = max(most[where], n[where])
		}
	}
	for where, m := range most {
		if limit := map[bool]int{true: atOnce, false: perVIM}[where == ""]; m > limit {
			t.Errorf("%d upgrades were under way at once (VIM %q), and the limit is %d", m, where, limit)
		}
	}
	return made
}

// unsteadyFleet is a fleet whose process is killed, and of whose VIMs one goes away for a while.
type unsteadyFleet struct {
	*fleet
	*rand.Rand
	lab    *lab.Client
	gone   string        // how VIM edge is away
	outage time.Duration // for how long
	halted int           // how often the rollout was
}

// newUnsteadyFleet is [newFleet] with every third site at the VIM that goes away.
func newUnsteadyFleet(t *testing.T, sites, failing int) *unsteadyFleet {
	t.Helper()
	seed := process.Number(t, "JIBE_ROLLOUT_SEED", int(time.Now().UnixNano()%1_000_000))
	t.Logf("JIBE_ROLLOUT_SEED=%d", seed)
	dir := process.ShortTempDir(t)
	f := &unsteadyFleet{fleet: &fleet{&process.Server{Data: filepath.Join(dir, "data")}, sites, failing, map[string]string{}},
		Rand: rand.New(rand.NewPCG(uint64(seed), 0)), outage: 4 * startTimeout} //nolint:gosec // any moments will do
	f.lab = lab.At(f.Data)
	f.start(t)
	f.furnish(t, func(n int) string { return map[bool]string{true: edgeVIM, false: simVIM}[n%3 == 0] })
	return f
}

// startTimeout is how long operations of an unsteady fleet may stay in STARTING, latency how long its units take.
const (
	startTimeout = 3 * time.Second
	latency      = 500 * time.Millisecond
)

// start starts a process that has a simulator with switches.
func (f *unsteadyFleet) start(t *testing.T) {
	t.Helper()
	args := []string{"--start-timeout=" + startTimeout.String(), "--latency=" + latency.String()}
	if f.gone != lab.Back {
		args = append(args, "--away="+edgeVIM+"="+f.gone)
	}
	f.Server = startLab(t, f.Data, args...)
}

// restart kills the process and starts the next one. What ran in its simulator is lost with it, and is put right.
func (f *unsteadyFleet) restart(t *testing.T) {
	t.Helper()
	f.Kill()
	f.start(t)
}

// moment lets a random time pass, of up to most milliseconds, longer with more sites.
func (f *unsteadyFleet) moment(most int) {
	// Kills are to come at any moment, and so at none that can be waited for.
	kit.Pause(context.Background(), time.Duration(100+f.IntN(most))*time.Millisecond*time.Duration(1+f.sites/300))
}

// away takes VIM edge away, or brings it back.
func (f *unsteadyFleet) away(t *testing.T, how string) {
	t.Helper()
	f.gone = how
	if err := f.lab.SetAway(t.Context(), edgeVIM, how); err != nil {
		t.Fatal(err)
	}
}

// underWay are the upgrades under way at the VIM.
func (f *fleet) underWay(t *testing.T, vim string) ([]timedOperation, error) {
	t.Helper()
	list, err := process.All[timedOperation](t.Context(), f.Server, process.Operations+"?filter="+url.QueryEscape("(eq,operation,CHANGE_VNFPKG);(in,operationState,STARTING,PROCESSING)"))
	return slices.DeleteFunc(list, func(o timedOperation) bool { return f.vims[o.Instance] != vim }), err
}

// wentOn checks that operations that had begun something when their VIM went away have ended well.
func (f *fleet) wentOn(t *testing.T, begun []timedOperation) {
	t.Helper()
	for _, o := range begun {
		var now timedOperation
		err := f.Get(t.Context(), process.Operations+"/"+o.ID, &now)
		if err != nil || now.State != "COMPLETED" && !(o.State == "STARTING" && now.unseen()) {
			t.Errorf("operation %s of instance %s was %s when its VIM went away, and is %s: %s (%v)", o.ID, o.Instance, o.State, now.State, now.Error.Detail, err)
		}
	}
}
