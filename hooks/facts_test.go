package hooks_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/hooks"
	"github.com/jibe-vnfm/jibe/lcm"
	"github.com/jibe-vnfm/jibe/plan"
	"github.com/jibe-vnfm/jibe/vnfd"
)

// sideOf is a side whose package, of that tree, has files for the hooks.
func sideOf(tree string, of map[string]string, change func(*desired.Instance)) hooks.Side {
	files := fstest.MapFS{}
	for _, file := range of {
		files[file] = &fstest.MapFile{Data: []byte("#!/bin/sh\n")}
	}
	in := &desired.Instance{ID: "vnf", State: desired.Instantiated, Flavour: "simple", Package: tree}
	if change != nil {
		change(in)
	}
	return hooks.Side{Instance: in, Package: &vnfd.Package{Tree: tree, Files: files,
		VNFD: &vnfd.VNFD{ID: "vnfd-" + tree, Flavours: []vnfd.Flavour{{ID: "simple", Hooks: of}}}}}
}

func TestAnOperationNeedsItsOwnHooksAndThoseOfItsRollback(t *testing.T) {
	of := map[string]string{
		"instantiate_end": "i", "scale_start": "./s", "scale_end": "container_update_mgmt_v3.py", "scale_rollback_end": "r",
		"terminate_start": "t", "terminate_rollback_start": "never", "change_current_package_start": "c",
	}
	scripted := func(in *desired.Instance) {
		in.Update.Coordinate = desired.Coordination{New: "new", Old: "old"}
		in.Params = map[string]any{"lcm-operation-user-data": "u", "lcm-operation-user-data-class": "C"}
	}
	old, fresh, nothing := sideOf("1", of, nil), sideOf("2", of, scripted), hooks.Side{}
	for name, x := range map[string]struct {
		t             lcm.Type
		automatic     bool
		before, after hooks.Side
		onOpenStack   bool
		want          []string
	}{
		"scaling":                         {lcm.Scale, false, old, old, false, []string{"scale_start s 1", "scale_end container_update_mgmt_v3.py 1", "scale_rollback_end r 1"}},
		"an automatic one":                {lcm.Scale, true, old, old, false, []string{"scale_start s 1", "scale_end container_update_mgmt_v3.py 1"}},
		"a termination":                   {lcm.Terminate, false, old, nothing, false, []string{"terminate_start t 1"}},
		"an instantiation":                {lcm.Instantiate, false, nothing, fresh, false, []string{"instantiate_end i 2"}},
		"an instantiation on OpenStack":   {lcm.Instantiate, false, nothing, fresh, true, []string{"user_data u 2", "instantiate_end i 2"}},
		"a change of package":             {lcm.ChangePackage, false, old, fresh, false, []string{"change_current_package_start c 2", "coordinate_new new 2", "coordinate_old old 1"}},
		"one of a package without a VNFD": {lcm.Scale, false, hooks.Side{}, hooks.Side{}, false, nil},
	} {
		var got []string
		for _, n := range hooks.NeededBy(x.t, x.automatic, x.before, x.after, x.onOpenStack) {
			got = append(got, n.Hook+" "+n.Path+" "+n.Package.Tree)
		}
		if !slices.Equal(got, x.want) {
			t.Errorf("%s needs %q, want %q", name, got, x.want)
		}
	}
}

// trusted are trees whose hooks may run.
type trusted []string

func (x trusted) Hooks(tree string) bool { return slices.Contains(x, tree) }

func (trusted) WaysToHooks(tree string) []string {
	if tree == "lost" {
		return nil
	}
	return []string{"hooks: true at repository vendor in repositories.yaml"}
}

func TestHooksThatMayNotRunAreNamedWithWhatWouldAllowThem(t *testing.T) {
	of := map[string]string{"scale_start": "s"}
	allowed, barred, lost := sideOf("allowed", of, nil), sideOf("barred", of, nil), sideOf("lost", of, nil)
	permit := func(s hooks.Side) error {
		return hooks.Permit(trusted{"allowed"}, lcm.Scale, hooks.NeededBy(lcm.Scale, false, s, s, false))
	}
	if err := permit(allowed); err != nil {
		t.Error(err)
	}
	for says, side := range map[string]hooks.Side{"hooks: true at repository vendor": barred, "no repository": lost} {
		var invalid *hooks.InvalidError
		if err := permit(side); !errors.As(err, &invalid) || invalid.Field != "hooks" || !strings.Contains(invalid.Reason, "s (scale_start)") || !strings.Contains(invalid.Reason, says) {
			t.Errorf("%s: %v", side.Package.Tree, err)
		}
	}
}

// scalingIn are the facts of a scaling to one unit, where two ran and another has come and one
// has gone meanwhile.
func scalingIn() hooks.Facts {
	unit := func(name string) plan.Unit {
		return plan.Unit{Key: "Server/web/" + name, ID: name + "@1", Name: name, VDU: "web", Ready: true}
	}
	side := sideOf("1", map[string]string{"scale_start": "s"}, func(in *desired.Instance) { in.Params = map[string]any{"password": "env:P"} })
	return hooks.Facts{
		Operation: &lcm.Operation{ID: "op", Type: lcm.Scale, Attempt: 2, HandOver: "env:{}",
			UnitsBefore: []plan.Unit{unit("stays"), unit("goes"), unit("gone")}},
		Before: side, After: side, Subject: side,
		Observed: plan.Observed{Units: []plan.Unit{unit("stays"), unit("goes"), unit("come")},
			Resources: []plan.Resource{{Kind: plan.LinkPort, Unit: "Server/web/goes", Name: "CP1", Floating: "192.0.2.1", Addresses: []plan.Address{{IP: "10.0.0.1"}}}}},
		Journal: plan.Journal{Operation: "SCALE", Leaving: []string{"goes@1"}},
		Reveal: func(params map[string]any) (map[string]any, error) {
			clear := map[string]any{}
			for k, v := range params {
				clear[k] = strings.TrimPrefix(v.(string), "env:")
			}
			return clear, nil
		},
	}
}

func TestAHookIsGivenTheUnitsThatComeAndGoAndSecretsInClear(t *testing.T) {
	f := scalingIn()
	script, ok := f.Script("scale_start")
	if !ok {
		t.Fatal("there is no script")
	}
	c, err := f.Call("scale_start", script)
	if err != nil {
		t.Fatal(err)
	}
	list := func(targets []hooks.Target) (names []string) {
		for _, x := range targets {
			names = append(names, x.Unit.Name)
		}
		return names
	}
	in := c.Input
	if diff := cmp.Diff([][]string{{"come"}, {"goes", "gone"}}, [][]string{list(in.Added), list(in.Removed)}); diff != "" {
		t.Error(diff)
	}
	if u := in.Removed[0].Unit; u.Address != "192.0.2.1" || !slices.Equal(u.Addresses["CP1"], []string{"192.0.2.1", "10.0.0.1"}) || !u.Ready || in.Removed[1].Unit.Ready {
		t.Errorf("those that go are %+v", in.Removed)
	}
	if len(in.VDUs) != 1 || len(in.VDUs[0].Old) != 3 || len(in.VDUs[0].New) != 1 || len(in.Grant.Add) != 1 || in.Grant.Add[0].ID != "come" {
		t.Errorf("VDUs %+v, grant %+v", in.VDUs, in.Grant)
	}
	if string(in.HandOver) != "{}" || in.Params["password"] != "P" || !slices.Contains(c.Secrets, "P") || in.Operation.Attempt != 2 || in.Hook != "scale_start" {
		t.Errorf("the input is %+v, and its secrets %q", in, c.Secrets)
	}
}

func TestAHookWithoutAFileHasNoScript(t *testing.T) {
	f := scalingIn()
	for _, name := range []string{"heal_start", plan.UserData, plan.CoordinateNew + "@Server/web/come"} {
		if s, ok := f.Script(name); ok {
			t.Errorf("%s has %+v", name, s)
		}
	}
}

// webs are two facts of a scaling of a Deployment from three pods to that many.
func webs(count int) hooks.Facts {
	f := scalingIn()
	unit := func(name string) plan.Unit {
		return plan.Unit{Key: "Pod/amf/" + name, ID: "uid-" + name, Name: name, VDU: "web", Owner: "Deployment/amf/web", Ready: true}
	}
	f.Operation.UnitsBefore = []plan.Unit{unit("a"), unit("b"), unit("c")}
	f.Journal.Leaving = nil
	f.Desired = plan.Desired{Objects: []plan.Object{{Key: "Deployment/amf/web"}}, Groups: []plan.Group{{VDU: "web", Owner: "Deployment/amf/web", Count: count}}}
	f.Observed = plan.Observed{Units: slices.Clone(f.Operation.UnitsBefore), Objects: []plan.ObservedObject{{Key: "Deployment/amf/web", Count: 3, Ready: true}}}
	return f
}

func TestAHookIsToldHowManyUnitsComeAndGoWhereTheVIMChooses(t *testing.T) {
	pending := func(n int, chosenBy string) []hooks.PendingUnits {
		return []hooks.PendingUnits{{VduID: "web", Owner: "Deployment/amf/web", Count: n, ChosenBy: chosenBy}}
	}
	none := []hooks.PendingUnits{}
	for name, c := range map[string]struct {
		count, removed int
		rollback       bool
		want           *hooks.Pending
		add, remove    []string // ids in the grant
	}{
		"scale-in":       {1, 0, false, &hooks.Pending{Added: none, Removed: pending(2, "vim")}, nil, []string{"op-remove-1", "op-remove-2"}},
		"to none at all": {0, 3, false, &hooks.Pending{Added: none, Removed: none}, nil, []string{"uid-a", "uid-b", "uid-c"}},
		"scale-out":      {5, 0, false, &hooks.Pending{Added: pending(2, ""), Removed: none}, []string{"op-add-1", "op-add-2"}, nil},
		"a rollback":     {5, 0, true, nil, nil, nil},
	} {
		f := webs(c.count)
		f.Journal.Rollback = c.rollback
		call, err := f.Call("scale_start", hooks.Script{Package: f.Subject.Package, Path: "s"})
		if err != nil {
			t.Fatal(err)
		}
		in := call.Input
		if diff := cmp.Diff(c.want, in.Pending); diff != "" || len(in.Removed) != c.removed {
			t.Errorf("%s: %d are removed; %s", name, len(in.Removed), diff)
		}
		ids := func(list []hooks.GrantedUnit) (out []string) {
			for _, u := range list {
				if out = append(out, u.ID); u.VduID != "web" || u.Type != "COMPUTE" || u.Pending != strings.HasPrefix(u.ID, "op-") {
					t.Errorf("%s: %+v is granted", name, u)
				}
			}
			return out
		}
		if diff := cmp.Diff([][]string{c.add, c.remove}, [][]string{ids(in.Grant.Add), ids(in.Grant.Remove)}); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}
