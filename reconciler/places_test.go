package reconciler_test

import (
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/drivers"
	"github.com/jibe-vnfm/jibe/drivers/sim"
	"github.com/jibe-vnfm/jibe/lcm"
	"github.com/jibe-vnfm/jibe/plan"
	"github.com/jibe-vnfm/jibe/reconciler"
)

// spread is an instance whose VDU2 runs at a VIM of its own.
const spread = "vim: lab\nvimConnectionInfo: {edge: {vimType: sim}}\nplacement: {VDU2: edge}\n"

const edgeDB = "Workload/edge:" + id + "/db"

// spreadWorld is a world with a second cloud, at which VDU2 is placed.
func spreadWorld(t *testing.T) (*world, *sim.Cloud) {
	edge := sim.NewCloud()
	var w *world
	w = newWorld(t, func(c *reconciler.Config) {
		c.Packages = catalogue{}
		c.Driver = func(v drivers.VIM) (drivers.Driver, error) {
			if v.Name == "edge" {
				return sim.New(edge, v), nil
			}
			return sim.New(w.cloud, v), nil
		}
	})
	w.commit(file("instantiated", spread))
	w.last(lcm.Instantiate, lcm.Completed)
	return w, edge
}

func at(units []plan.Unit) []string {
	var list []string
	for _, u := range units {
		list = append(list, u.VDU+" at "+u.VIM)
	}
	slices.Sort(list)
	return list
}

func TestOneInstanceRunsAtTwoVIMs(t *testing.T) {
	t.Parallel()

	w, edge := spreadWorld(t)
	units, _ := w.live()
	if got, want := at(units), []string{"VDU1 at lab", "VDU2 at edge", "VDU2 at edge"}; !slices.Equal(got, want) {
		t.Errorf("units run as %q, want %q", got, want)
	}
	w.commit(file("instantiated", spread+"levels: {web: 1}\n"))
	w.last(lcm.Scale, lcm.Completed)
	if a, b := w.units("VDU1"), w.units("VDU2"); a != 2 || b != 2 {
		t.Errorf("%d and %d units after the scale-out", a, b)
	}
	w.commit(upgraded(spread + "levels: {web: 1}\n"))
	w.last(lcm.ChangePackage, lcm.Completed)
	units, _ = w.live()
	sick := units[slices.IndexFunc(units, func(u plan.Unit) bool { return u.VIM == "edge" })]
	w.commit(strings.Replace(upgraded(spread+"levels: {web: 1}\n"), pkgTree, tree2, 1) + "condemned: {\"" + sick.Key + "\": " + sick.ID + "}\n")
	w.last(lcm.Heal, lcm.Completed)
	if units, _ = w.live(); slices.ContainsFunc(units, func(u plan.Unit) bool { return u.Key == sick.Key }) {
		t.Errorf("the condemned unit %s still runs at the other VIM", sick.Key)
	}
	w.commit(strings.Replace(file("notInstantiated", spread), vnfdID, vnfd2, 1))
	w.last(lcm.Terminate, lcm.Completed)
	if left := slices.Concat(w.cloud.Instances(), edge.Instances()); len(left) > 0 {
		t.Errorf("left at the VIMs: %q", left)
	}
}

func TestDriftAtTheOtherVIMIsRepaired(t *testing.T) {
	t.Parallel()

	w, edge := spreadWorld(t)
	edge.Lose("Workload/" + id + "/db")
	op := w.last(lcm.Heal, lcm.Completed)
	if !op.Automatic || !strings.Contains(string(op.Params), edgeDB) {
		t.Errorf("the operation is %+v, want a repair that names %s", op.Params, edgeDB)
	}
	if n := w.units("VDU2"); n != 2 {
		t.Errorf("%d units after the repair, want 2", n)
	}
}

func TestWhileOneOfTwoVIMsIsAwayNothingOfTheInstanceIsJudged(t *testing.T) {
	t.Parallel()

	w, edge := spreadWorld(t)
	edge.SetAway(drivers.ErrUnavailable)
	// A pass that had seen edge before may rightly judge what follows; the next one can't.
	asked := edge.Calls().Observes
	w.recon.Enqueue(id)
	w.until("edge is asked again", func() bool { return edge.Calls().Observes > asked })
	w.cloud.Lose(web)
	if _, fresh := w.live(); fresh {
		t.Error("a view with one VIM away counts as fresh")
	}
	w.commit(file("instantiated", spread+"levels: {web: 1}\n"))
	op := w.last(lcm.Scale, lcm.Starting)
	edge.SetAway(nil)
	w.last(lcm.Scale, lcm.Completed)
	if n := w.units("VDU1"); n != 2 || len(op.Journal.Issued) > 0 {
		t.Errorf("%d units after the scale-out, want 2; before the VIM was back, %q were begun", n, op.Journal.Issued)
	}
}

func TestATerminationDoesWithoutTheOneOfTwoVIMsThatIsGone(t *testing.T) {
	t.Parallel()

	for _, gone := range []string{"lab", "edge"} {
		t.Run(gone, func(t *testing.T) {
			t.Parallel()
			edge := sim.NewCloud()
			var w *world
			w = newWorld(t, func(c *reconciler.Config) {
				c.Packages, c.Secrets = catalogue{}, addressed{}
				c.Driver = func(v drivers.VIM) (drivers.Driver, error) {
					if v.Name == "edge" {
						return sim.New(edge, v), nil
					}
					return sim.New(w.cloud, v), nil
				}
			})
			w.vimFile("lab", "type: sim\ndefault: true\nendpoint: https://a\n")
			w.vimFile("edge", "type: sim\nendpoint: https://b\n")
			w.commit(file("instantiated", "vim: lab\nplacement: {VDU2: edge}\n"))
			w.last(lcm.Instantiate, lcm.Completed)
			clouds := map[string]*sim.Cloud{"lab": w.cloud, "edge": edge}
			lost := clouds[gone]
			delete(clouds, gone)
			lost.SetVIMAway(gone, errors.New("connection refused"), false)
			w.commit(file("notInstantiated", "vim: lab\nplacement: {VDU2: edge}\n"))
			w.until("the termination waits", func() bool {
				ops := w.operations(lcm.Terminate)
				if len(ops) == 0 {
					return false
				}
				_, waits := ops[0].Waiting()
				return waits
			})

			found, err := w.recon.View().FormerVIM(t.Context(), gone)
			if err != nil || len(found.Instances) != 1 {
				t.Fatalf("to be forgotten is %+v: %v", found, err)
			}
			for name, cloud := range clouds { // what isn't gone is never done without
				cloud.SetVIMAway(name, errors.New("no route"), false)
			}
			if err := w.log.ForgetVIM(t.Context(), id, gone, found.Instances[0].Was, true); err != nil {
				t.Fatal(err)
			}
			w.recon.Enqueue(id)
			said := func(l lcm.StoryLine) bool { return strings.Contains(l.Text, "VIM "+gone+" was forgotten") }
			w.until("the termination does without it", func() bool {
				return slices.ContainsFunc(w.operations(lcm.Terminate)[0].Story, said)
			})
			w.looks()
			w.last(lcm.Terminate, lcm.Starting)
			for name, cloud := range clouds {
				cloud.SetVIMAway(name, nil, false)
			}
			w.wait(3 * time.Second) // its identity isn't asked for more often

			w.last(lcm.Terminate, lcm.Completed)
			for name, cloud := range clouds {
				if left := cloud.Instances(); len(left) > 0 {
					t.Errorf("left at VIM %s, which is there: %q", name, left)
				}
			}
		})
	}
}

// rotating gives connections a password that can be changed.
type rotating struct {
	noSecrets
	password atomic.Value
}

func (r *rotating) Connection(name string, c desired.VIMConnection) (drivers.VIM, error) {
	v, err := r.noSecrets.Connection(name, c)
	v.Password = r.password.Load().(string)
	return v, err
}

func TestACredentialThatChangesReachesAnInstanceAtTwoVIMs(t *testing.T) {
	t.Parallel()

	secrets := &rotating{}
	secrets.password.Store("old")
	var later atomic.Int64
	edge := sim.NewCloud()
	var known sync.Map // passwords with which drivers were made
	var w *world
	w = newWorld(t, func(c *reconciler.Config) {
		c.Secrets = secrets
		c.Now = func() time.Time { return time.Now().Add(time.Duration(later.Load())) }
		c.Driver = func(v drivers.VIM) (drivers.Driver, error) {
			if v.Name == "edge" {
				known.Store(v.Password, true)
				return sim.New(edge, v), nil
			}
			return sim.New(w.cloud, v), nil
		}
	})
	w.commit(file("instantiated", spread))
	w.last(lcm.Instantiate, lcm.Completed)
	secrets.password.Store("new")
	later.Store(int64(2 * time.Minute))
	w.commit(file("instantiated", spread+"levels: {db: 1}\n"))
	w.last(lcm.Scale, lcm.Completed)
	if _, ok := known.Load("new"); !ok || w.units("VDU2") != 4 {
		t.Errorf("a driver with the new password: %v; %d units, want 4", ok, w.units("VDU2"))
	}
}

func TestAPlacementIsCheckedAndARunningVDUStaysWhereItIs(t *testing.T) {
	t.Parallel()

	settings := &desired.Settings{VIMs: map[string]*desired.VIM{
		"lab": {Name: "lab", Type: desired.VIMSim, Default: true}, "edge": {Name: "edge", Type: desired.VIMSim}}}
	placed := func(where map[string]string) *desired.Instance {
		return intended(func(in *desired.Instance) { in.Placement = where })
	}
	for name, c := range map[string]struct {
		before, after *desired.Instance
		refused       string
	}{
		"two VIMs":           {nil, placed(map[string]string{"VDU2": "edge"}), ""},
		"a VIM of no file":   {nil, placed(map[string]string{"VDU2": "moon"}), `"moon"`},
		"a VDU of no VNFD":   {nil, placed(map[string]string{"VDU7": "edge"}), "VDU7"},
		"a VDU that moves":   {placed(nil), placed(map[string]string{"VDU2": "edge"}), "VDU2 runs"},
		"a VDU that returns": {placed(map[string]string{"VDU2": "edge"}), placed(nil), "VDU2 runs"},
	} {
		err := newChecker().Check(t.Context(), settings, c.before, c.after)
		var refused *drivers.RefusedError
		switch {
		case c.refused == "" && err != nil:
			t.Errorf("%s: %v", name, err)
		case c.refused != "" && (!errors.As(err, &refused) || refused.Field != "placement" || !strings.Contains(refused.Reason, c.refused)):
			t.Errorf("%s: got %v, want a refusal that tells of %s", name, err, c.refused)
		}
	}
}
