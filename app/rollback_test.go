package app_test

import (
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jibe-vnfm/jibe/app"
	"github.com/jibe-vnfm/jibe/automation"
	"github.com/jibe-vnfm/jibe/drivers/sim"
	"github.com/jibe-vnfm/jibe/lcm"
	"github.com/jibe-vnfm/jibe/test/kit"
	"github.com/jibe-vnfm/jibe/test/process"
)

const newerSmallVnfd = "3a5c1f0e-6d0b-4f7e-9c55-0f6f2a9e1bc3"

// upgraded is a process with sites, the last of which can't be upgraded: its pods don't become ready.
type upgraded struct {
	*process.Server
	t       *testing.T
	cloud   *sim.Cloud
	desired *process.Bare
	sites   int
}

// The VIM says of that one that it fails: no time for an upgrade need be up, which on a busy machine would be up for
// one that goes well, too.
func newUpgraded(t *testing.T, sites int) *upgraded {
	t.Helper()
	u := &upgraded{t: t, cloud: sim.NewCloud(), sites: sites}
	data := t.TempDir()
	lay(t, data)
	packages := process.BareAt(t, filepath.Join(data, "packages", "packages.git"))
	addSmall(packages)
	packages.CopyTree("Add the next version", "small-1.1", process.NextVersion(t, process.SmallPackage(), "small-1.1", process.SmallVnfd, newerSmallVnfd, "'1.0'", "'1.1'"), nil)
	u.desired = process.BareAt(t, filepath.Join(data, "desired.git"))
	files := map[string]string{"vims/sim.yaml": "type: sim\ndefault: true\n"}
	for n := range sites {
		files[u.dir(n)+"/vnf.yaml"] = fmt.Sprintf("id: %s\nname: s%d\nvnfdId: %s\nflavour: simple\nparams: {namespace: s%d}\nmetadata: {tier: t%d}\n", u.id(n), n, process.SmallVnfd, n, n%2)
	}
	change(u.desired, files)
	var stop func()
	u.Server, stop = startWith(t, app.Options{Data: data, Cloud: u.cloud, Timeout: time.Hour})
	t.Cleanup(stop)
	u.await(lcm.Instantiate, sites, "COMPLETED")
	u.cloud.Fail(fmt.Sprintf("Workload/s%d/vdu1", sites-1), "the image small:2 isn't there")
	return u
}

func (u *upgraded) dir(n int) string { return fmt.Sprintf("instances/edge/s%d", n) }
func (u *upgraded) id(n int) string  { return fmt.Sprintf("3a5c1f0e-0000-4000-8000-%012x", n+1) }

// timed is an operation with its time.
type timed struct {
	process.Operation
	Started time.Time `json:"startTime"`
}

// operations are those of a type that somebody asked for, in the order of their start.
func (u *upgraded) operations(typ lcm.Type) []timed {
	u.t.Helper()
	all, err := process.All[timed](u.t.Context(), u.Server, process.Operations)
	if err != nil {
		u.t.Fatal(err)
	}
	all = slices.DeleteFunc(all, func(o timed) bool { return o.Automatic || o.Type != string(typ) })
	slices.SortFunc(all, func(a, b timed) int { return a.Started.Compare(b.Started) })
	return all
}

// await waits for as many operations of a type in a state.
func (u *upgraded) await(typ lcm.Type, n int, state string) {
	u.t.Helper()
	kit.Eventually(u.t, func() error {
		found := 0
		for _, o := range u.operations(typ) {
			if o.State == state {
				found++
			}
		}
		if found != n {
			return fmt.Errorf("%d operations %s are %s, want %d", found, typ, state, n)
		}
		return nil
	})
}

// heals lets the last site's pods become ready again, once its upgrade has failed: the simulated cloud
// knows no version, and what is rolled back must come up.
func (u *upgraded) heals() {
	u.t.Helper()
	kit.Eventually(u.t, func() error {
		ops := u.operations(lcm.ChangePackage)
		if !slices.ContainsFunc(ops, func(o timed) bool { return o.State == "FAILED_TEMP" || o.State == "ROLLING_BACK" }) {
			return fmt.Errorf("none of %d upgrades has failed", len(ops))
		}
		return nil
	})
	u.cloud.Fail(fmt.Sprintf("Workload/s%d/vdu1", u.sites-1), "")
}

// runs are the packages that sites run, by the last operation: "1.0" or "1.1" of each.
func (u *upgraded) runs() string {
	u.t.Helper()
	var out []string
	for n := range u.sites {
		var in struct {
			VnfdID string `json:"vnfdId"`
		}
		u.Want(u.t, http.StatusOK, http.MethodGet, process.Instances+"/"+u.id(n), nil, &in)
		out = append(out, map[string]string{process.SmallVnfd: "1.0", newerSmallVnfd: "1.1"}[in.VnfdID])
	}
	return strings.Join(out, " ")
}

func (u *upgraded) becomes(phase string) (r automation.RolloutStatus) {
	u.t.Helper()
	kit.Eventually(u.t, func() error {
		var list []automation.RolloutStatus
		if err := u.Get(u.t.Context(), "/jibe/v1/rollouts", &list); err != nil {
			return err
		}
		if len(list) != 1 || string(list[0].Phase) != phase {
			return fmt.Errorf("the rollouts are %+v, want one that is %s", list, phase)
		}
		r = list[0]
		return nil
	})
	return r
}

// file is a rollout that begins with the last site when all others are done.
func (u *upgraded) file(failures string) string {
	var others []string
	for n := range u.sites - 1 {
		others = append(others, u.dir(n))
	}
	return fmt.Sprintf("select: {folders: [edge]}\nto: {vnfdId: %s}\norder: [{instances: [%s]}, {percent: 100}]\natOnce: 1\nfailures: {budget: 1, then: %s}\n",
		newerSmallVnfd, strings.Join(others, ", "), failures)
}

func TestWhatHasFailedIsRolledBackAtTheBudgetAndTheRestStays(t *testing.T) {
	kit.Long(t)
	t.Parallel()
	u := newUpgraded(t, 3)
	change(u.desired, map[string]string{"rollouts/edge.yaml": u.file("rollback")})
	u.heals()
	u.await(lcm.ChangePackage, 1, "ROLLED_BACK")
	kit.Eventually(t, func() error {
		if r := u.becomes("halted"); r.Counts.Back != 1 || r.Counts.Completed != 2 || !strings.Contains(r.WaitsFor, "taken back") {
			return fmt.Errorf("it stands at %+v", r)
		}
		return nil
	})
	if got := u.runs(); got != "1.1 1.1 1.0" {
		t.Errorf("the sites run %s", got)
	}
	if ops := u.operations(lcm.ChangePackage); len(ops) != 3 {
		t.Errorf("%d upgrades were begun, want one for each site", len(ops))
	}
}

func TestAllIsTakenBackTheLastOneFirstAndInAFreezeWhereAnAdministratorsFileSaysSo(t *testing.T) {
	kit.Long(t)
	t.Parallel()
	u := newUpgraded(t, 4)
	change(u.desired, map[string]string{"rollouts/edge.yaml": u.file("rollbackAll, rollbackAnytime: true")})
	kit.Eventually(t, func() error {
		if n := len(u.operations(lcm.ChangePackage)); n != 4 {
			return fmt.Errorf("%d upgrades were begun", n)
		}
		return nil
	})
	change(u.desired, map[string]string{"instances/maintenance.yaml": "freezes: [{until: 2999-01-01T00:00:00Z, reason: new year}]\n"})
	u.heals()
	r := u.becomes("rolled back")
	if r.Counts.Back != 4 || r.Counts.Completed != 0 {
		t.Errorf("it ended as %+v", r)
	}
	if got := u.runs(); got != "1.0 1.0 1.0 1.0" {
		t.Errorf("the sites run %s", got)
	}
	var order []string
	ops := u.operations(lcm.ChangePackage)
	for _, o := range ops {
		order = append(order, strings.TrimLeft(o.Instance[len(o.Instance)-4:], "0"))
	}
	// Which of the first three comes first is up to their hash; the way back is the same the other way round.
	if len(order) != 7 || order[3] != "4" || order[4] != order[2] || order[5] != order[1] || order[6] != order[0] {
		t.Errorf("the operations were begun on %v", order)
	}
}

func TestARolloutOfAVersionPinsTheNewestSelectsByMetadataAndRetriesWhatFailed(t *testing.T) {
	kit.Long(t)
	t.Parallel()
	u := newUpgraded(t, 3)
	change(u.desired, map[string]string{"rollouts/edge.yaml": "# to the newest\nselect: {product: small, labels: {tier: t0}}\nto: {version: 1.x, params: {mode: fast}}\natOnce: 5\n"})
	u.await(lcm.ChangePackage, 1, "FAILED_TEMP")
	u.await(lcm.ChangePackage, 1, "COMPLETED")
	u.becomes("halted")
	if got := u.runs(); got != "1.1 1.0 1.0" {
		t.Errorf("the sites run %s", got)
	}
	text := u.desired.Read("rollouts/edge.yaml")
	if !strings.HasPrefix(text, "# to the newest\n") || strings.Contains(text, "version") || !strings.Contains(text, newerSmallVnfd) || !strings.Contains(text, "package: ") {
		t.Errorf("the file is:\n%s", text)
	}
	if text := u.desired.Read(u.dir(0) + "/vnf.yaml"); !strings.Contains(text, "mode: fast") || !strings.Contains(text, "namespace: s0") {
		t.Errorf("the site's file is:\n%s", text)
	}

	const ask = "/jibe/v1/rollouts/edge/"
	u.Want(t, http.StatusConflict, http.MethodPost, ask+"retry", nil, nil) // its operation waits
	u.Want(t, http.StatusConflict, http.MethodPost, ask+"retry", map[string]string{"instance": u.dir(0)}, nil)
	var failed string
	for _, o := range u.operations(lcm.ChangePackage) {
		if o.State == "FAILED_TEMP" {
			failed = o.ID
		}
	}
	u.heals()
	u.Want(t, http.StatusAccepted, http.MethodPost, process.Operations+"/"+failed+"/rollback", nil, nil)
	u.Await(t, failed, "ROLLED_BACK")
	kit.Eventually(t, func() error {
		a, err := u.Do(t.Context(), http.MethodPost, ask+"retry", map[string]string{"instance": "edge/s2"})
		if err == nil && a.Status != http.StatusOK {
			err = fmt.Errorf("%d %s", a.Status, a.Body)
		}
		return err
	})
	if r := u.becomes("halted"); r.Counts.Failed != 0 || r.Counts.Pending != 1 {
		t.Errorf("before it is resumed it stands at %+v", r)
	}
	u.Want(t, http.StatusOK, http.MethodPost, ask+"resume", nil, nil)
	if r := u.becomes("completed"); r.Counts.Completed != 2 || r.Counts.Failed != 0 {
		t.Errorf("it ended as %+v", r)
	}
	if got := u.runs(); got != "1.1 1.0 1.1" {
		t.Errorf("the sites run %s", got)
	}
}

func TestAFileOfARolloutThatPassesWindowsNeedsAnAdministrator(t *testing.T) {
	kit.Long(t)
	t.Parallel()
	s := withPushers(t)
	p := newPushes(t, s, "desired.git")
	push := func(who, text string) error {
		t.Helper()
		return p.pushed(who, "A rollout", map[string]string{"rollouts/edge.yaml": text})
	}
	file := "select: {folders: [else]}\nto: {vnfdId: " + process.SmallVnfd + "}\nstate: paused\nfailures: {then: rollbackAll, rollbackAnytime: true}\n"
	plain := strings.Replace(file, ", rollbackAnytime: true", "", 1)
	if err := push("ops", file); err == nil || !strings.Contains(err.Error(), "rollouts/edge.yaml") || !strings.Contains(err.Error(), "needs the role admin") {
		t.Errorf("an operator pushes it: %v", err)
	}
	for _, step := range []struct{ who, text string }{{"ops", plain}, {"root", file}, {"ops", plain + "atOnce: 2\n"}} {
		if err := push(step.who, step.text); err != nil {
			t.Errorf("%s pushes %q: %v", step.who, step.text, err)
		}
	}
}
