package multi_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/drivers"
	"github.com/jibe-vnfm/jibe/drivers/multi"
	"github.com/jibe-vnfm/jibe/drivers/sim"
	"github.com/jibe-vnfm/jibe/plan"
	"github.com/jibe-vnfm/jibe/vnfd"
)

const id = "5b0e1d52-9a0c-4a3c-8a3f-6f1a64b1e0aa"

// site is two VIMs, with an instance that has a VDU at each.
type site struct {
	t          *testing.T
	main, edge *sim.Cloud
	drv        *multi.Driver
	src        drivers.Source
}

func newSite(t *testing.T) *site {
	s := &site{t: t, main: sim.NewCloud(), edge: sim.NewCloud()}
	s.drv = multi.New(
		multi.Part{Name: "core", Driver: sim.New(s.main, drivers.VIM{Name: "core"})},
		multi.Part{Name: "edge b", Driver: sim.New(s.edge, drivers.VIM{Name: "edge b"})})
	s.src = drivers.Source{
		Instance: &desired.Instance{ID: id, State: desired.Instantiated, Flavour: "simple", Placement: map[string]string{"VDU2": "edge b"}},
		Package: &vnfd.Package{Tree: "t1", VNFD: &vnfd.VNFD{ID: "d", Flavours: []vnfd.Flavour{{ID: "simple", VDUs: []vnfd.VDU{
			{ID: "VDU1", Name: "web", Initial: 1, Max: -1}, {ID: "VDU2", Name: "db", Initial: 2, Max: -1}}}}}},
	}
	return s
}

func (s *site) render() drivers.Rendering {
	s.t.Helper()
	want, err := s.drv.Render(s.src)
	if err != nil {
		s.t.Fatal(err)
	}
	return want
}

func (s *site) observe(want drivers.Rendering) plan.Observed {
	s.t.Helper()
	seen, err := s.drv.Observe(s.t.Context(), want)
	if err != nil {
		s.t.Fatal(err)
	}
	return seen
}

// settle does what the planner says until nothing is left, and returns what it did.
func (s *site) settle(want drivers.Rendering) (did []string) {
	s.t.Helper()
	for range 20 {
		batch := plan.Next(plan.Compute(want.Desired, s.observe(want), plan.Journal{}))
		if len(batch) == 0 {
			return did
		}
		for _, x := range batch {
			did = append(did, x.String())
		}
		if err := s.drv.Do(s.t.Context(), want, batch...); err != nil {
			s.t.Fatal(err)
		}
	}
	s.t.Fatalf("never settles: %q", did)
	return nil
}

const (
	web = "Workload/" + id + "/web"
	db  = "Workload/edge+b:" + id + "/db"
)

func TestEachVIMRunsItsOwnVDUsAndKeysNameTheOther(t *testing.T) {
	s := newSite(t)
	want := s.render()
	s.settle(want)
	seen := s.observe(want)
	var keys []string
	for _, x := range seen.Objects {
		keys = append(keys, x.Key)
	}
	if !slices.Equal(keys, []string{web, db}) {
		t.Errorf("objects %q, want %q and %q", keys, web, db)
	}
	at := map[string]int{}
	for _, u := range seen.Units {
		at[u.VDU+" at "+u.VIM]++
		if u.VIM == "edge b" && (u.Owner != db || !strings.HasPrefix(u.Key, "Unit/edge+b:")) {
			t.Errorf("unit %s of %s doesn't name its VIM", u.Key, u.Owner)
		}
	}
	if at["VDU1 at core"] != 1 || at["VDU2 at edge b"] != 2 || len(at) != 2 {
		t.Errorf("units run as %v", at)
	}
	if a, b := s.main.Calls().Applies, s.edge.Calls().Applies; a != 1 || b != 1 {
		t.Errorf("%d and %d objects were applied, want one at each VIM", a, b)
	}
}

func TestATombstoneReachesTheUnitAtItsVIM(t *testing.T) {
	s := newSite(t)
	want := s.render()
	s.settle(want)
	var sick plan.Unit
	for _, u := range s.observe(want).Units {
		if u.VDU == "VDU2" {
			sick = u
		}
	}
	doomed := *s.src.Instance
	doomed.Condemned = map[string]string{sick.Key: sick.ID}
	s.src.Instance = &doomed
	want = s.render()
	did := s.settle(want)
	if !slices.ContainsFunc(did, func(x string) bool { return strings.HasPrefix(x, "deleteUnit "+sick.Key) }) {
		t.Errorf("the plan was %q, which doesn't delete %s", did, sick.Key)
	}
	seen := s.observe(want)
	if seen.Has(sick.Key, sick.ID) || len(seen.Units) != 3 || s.main.Calls().Deletes != 0 {
		t.Errorf("units %v, and %d deletions at the main VIM", seen.Units, s.main.Calls().Deletes)
	}
}

func TestWithoutIntentEverythingGoesAtBothVIMs(t *testing.T) {
	s := newSite(t)
	s.settle(s.render())
	s.src.Package = nil
	s.settle(drivers.Rendering{Source: s.src})
	if a, b := s.main.Instances(), s.edge.Instances(); len(a)+len(b) > 0 {
		t.Errorf("left are %q and %q", a, b)
	}
}

func TestAVIMThatIsAwayBlindsTheWholeViewAndIsNamed(t *testing.T) {
	s := newSite(t)
	want := s.render()
	s.settle(want)
	s.edge.SetAway(drivers.ErrUnavailable)
	_, err := s.drv.Observe(t.Context(), want)
	if !errors.Is(err, drivers.ErrUnavailable) || !strings.Contains(err.Error(), "VIM edge b") {
		t.Errorf("got %v", err)
	}
}

func TestOneVIMThatRefusesDoesNotKeepTheOtherFromItsSteps(t *testing.T) {
	s := newSite(t)
	want := s.render()
	s.main.Refuse(web, "no room")
	steps := plan.Next(plan.Compute(want.Desired, s.observe(want), plan.Journal{}))
	var refused *drivers.RefusedError
	if err := s.drv.Verify(t.Context(), want, steps...); !errors.As(err, &refused) || refused.Reason != "no room" {
		t.Errorf("verify says %v", err)
	}
	if err := s.drv.Do(t.Context(), want, steps...); !errors.As(err, &refused) || !strings.Contains(err.Error(), "VIM core") {
		t.Errorf("do says %v", err)
	}
	if s.edge.Calls().Applies != 1 {
		t.Error("the other VIM wasn't asked")
	}
}

func TestDriftIsExaminedWhereItIs(t *testing.T) {
	s := newSite(t)
	want := s.render()
	s.settle(want)
	s.edge.DriftBy("Workload/"+id+"/db", "somebody")
	steps := plan.Next(plan.Compute(want.Desired, s.observe(want), plan.Journal{}))
	found, err := s.drv.Examine(t.Context(), want, steps...)
	if err != nil || len(found) != 1 || found[0].Object != db || found[0].By != "somebody" {
		t.Errorf("found %v (%v), want a deviation of %s", found, err, db)
	}
}

func TestAPlacementOfWhatTheVNFDDoesNotHaveIsRefused(t *testing.T) {
	s := newSite(t)
	s.src.Instance.Placement["VDU9"] = "edge b"
	_, err := s.drv.Render(s.src)
	var refused *drivers.RefusedError
	if !errors.As(err, &refused) || refused.Field != "placement" || !strings.Contains(refused.Reason, "VDU9") {
		t.Errorf("got %v", err)
	}
}

// part is a driver that renders nothing, and may be reached.
type part struct {
	drivers.Driver
	files map[string][]byte
	list  []string
}

func (p part) Access() (map[string][]byte, error) { return p.files, nil }

func (p part) Change(_, after drivers.Source) error {
	if slices.Contains(after.VDUs, "VDU2") && after.Instance.Params["no"] != nil {
		return &drivers.RefusedError{Field: "update", Reason: "not so"}
	}
	return nil
}

func (p part) Definitions(_, _ drivers.Source, listed []string) ([]string, error) {
	return append(slices.Clone(listed), p.list...), nil
}

// Workloads are those of the VDUs that run there.
func (p part) Workloads(r drivers.Rendering) map[string]any {
	if p.files["OTHER"] == nil {
		return nil
	}
	all := map[string]any{}
	for _, vdu := range r.Source.VDUs {
		all[vdu] = "of " + vdu
	}
	return all
}

func (p part) Explain(_ context.Context, _ drivers.Rendering, key string) string {
	return "about " + key
}

func TestWhatPartsTellIsPutTogether(t *testing.T) {
	s := newSite(t)
	d := multi.New(
		multi.Part{Name: "core", Driver: part{files: map[string][]byte{"KUBECONFIG": []byte("a")}, list: []string{"x"}}},
		multi.Part{Name: "edge b", Driver: part{files: map[string][]byte{"KUBECONFIG": []byte("b"), "OTHER": []byte("c")}, list: []string{"y"}}})
	files, err := d.Access()
	if err != nil || string(files["KUBECONFIG"]) != "a" || string(files["KUBECONFIG_EDGE_B"]) != "b" || len(files) != 3 {
		t.Errorf("access: %q (%v)", files, err)
	}
	list, err := d.Definitions(s.src, s.src, []string{"l"})
	if err != nil || !slices.Equal(list, []string{"l", "x", "y"}) {
		t.Errorf("definitions: %q (%v)", list, err)
	}
	if told := d.Workloads(drivers.Rendering{Source: s.src}); len(told) != 1 || told["VDU2"] != "of VDU2" {
		t.Errorf("workloads: %v", told)
	}
	if said := d.Explain(t.Context(), drivers.Rendering{Source: s.src}, "Pod/edge+b:ns/p"); said != "about Pod/ns/p" {
		t.Errorf("explained %q", said)
	}
	if err := d.Change(s.src, s.src); err != nil {
		t.Error(err)
	}
	after := *s.src.Instance
	after.Params = map[string]any{"no": true}
	refused := drivers.Source{Instance: &after, Package: s.src.Package}
	if err := d.Change(s.src, refused); err == nil || !strings.Contains(err.Error(), "VIM edge b") {
		t.Errorf("change: %v", err)
	}
	moved := *s.src.Instance
	moved.Placement = nil
	if err := d.Change(s.src, drivers.Source{Instance: &moved, Package: s.src.Package}); err == nil || !strings.Contains(err.Error(), "VDU2") {
		t.Errorf("a VDU that moves: %v", err)
	}
}
