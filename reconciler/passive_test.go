package reconciler_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/drivers"
	"github.com/jibe-vnfm/jibe/hooks"
	"github.com/jibe-vnfm/jibe/lcm"
	"github.com/jibe-vnfm/jibe/plan"
	"github.com/jibe-vnfm/jibe/reconciler"
)

// machines is a world of virtual machines, with two of VDU1 and two of VDU2.
func machines(t *testing.T, conf func(*reconciler.Config)) (*world, *rack, *stage) {
	r, s := newRack(), &stage{}
	w := newWorld(t, func(c *reconciler.Config) {
		c.Packages, c.Hooks = catalogue{}, s
		c.Driver = func(drivers.VIM) (drivers.Driver, error) { return r, nil }
		c.Reveal = func(params map[string]any) (clear map[string]any, err error) {
			text, err := json.Marshal(params)
			if err != nil {
				return nil, err
			}
			return clear, json.Unmarshal([]byte(strings.ReplaceAll(string(text), `"env:`, `"clear `)), &clear)
		}
		if conf != nil {
			conf(c)
		}
	})
	w.commit(file("instantiated", twoWebs))
	w.last(lcm.Instantiate, lcm.Completed)
	return w, r, s
}

const twoWebs = "levels: {web: 1}\n"

// coordinated is a policy whose scripts speak to the VNFCs of VDU1, in the form in which
// today's clients write it.
func coordinated(strategy, cp string) string {
	return twoWebs + "update: {strategy: " + strategy + ", coordinate: {new: Scripts/new.sh, old: Scripts/old.sh, params: {" +
		"vdu_params: {vdu_id: VDU1, old_vnfc_param: {cp-name: CP2, username: old, password: env:OLD}, new_vnfc_param: {cp_name: " + cp + ", username: new, password: env:NEW}}, " +
		"external_lb_param: {ip_address: 10.10.0.50, username: lb, password: env:LB}}}}\n"
}

func TestARollingChangeRunsTheScriptForEachVNFCWithItsAddress(t *testing.T) {
	t.Parallel()

	w, r, s := machines(t, nil)
	w.commit(upgraded(coordinated("rolling", "CP1")))
	op := w.last(lcm.ChangePackage, lcm.Completed)
	if n := len(r.steps(plan.Renew)); n != 4 {
		t.Errorf("%d servers were renewed, want all 4", n)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var told []string
	for _, c := range s.calls {
		x := c.Input.Target
		if x == nil || c.Input.Targets != nil || c.Input.Hook != plan.CoordinateNew || c.Package.Tree != tree2 {
			t.Fatalf("the script was run with target %v, targets %v as %s from %s", x, c.Input.Targets, c.Input.Hook, c.Package.Tree)
		}
		if x.VduID != "VDU1" || x.CpName != "CP1" || x.Username != "new" || x.Password != "clear NEW" || !strings.HasSuffix(x.Unit.ID, "@2") {
			t.Errorf("target %+v", x)
		}
		told = append(told, x.Unit.Name+" "+x.Address)
	}
	slices.Sort(told)
	if want := []string{"server-1 192.0.2.1", "server-2 192.0.2.2"}; !slices.Equal(told, want) {
		t.Errorf("scripts were told of %q, want %q", told, want)
	}
	params := s.calls[0].Input.CoordinationParams
	list, _ := params["vdu_params"].([]any)
	if len(list) != 1 || list[0].(map[string]any)["old_vnfc_param"].(map[string]any)["cp_name"] != "CP2" {
		t.Errorf("vdu_params are %v, want a list with cp_name", params["vdu_params"])
	}
	if got := s.calls[0].Secrets; !slices.Contains(got, "clear NEW") || slices.Contains(got, "VDU1") {
		t.Errorf("kept from logs are %q, want the passwords alone", got)
	}
	if lb, _ := params["external_lb_param"].(map[string]any); lb["ip_address"] != "10.10.0.50" {
		t.Errorf("the load balancer is %v", params["external_lb_param"])
	}
	if len(op.ResourcesBefore) != 8 || len(op.ResourcesAfter) != 8 {
		t.Errorf("%d and %d resources are recorded, want 8 ports each", len(op.ResourcesBefore), len(op.ResourcesAfter))
	}
	inst, err := w.log.Instance(t.Context(), id)
	if err != nil || len(inst.Resources) != 8 {
		t.Errorf("the instance's record has %d resources (%v)", len(inst.Resources), err)
	}
}

func TestARollingChangeThatIsTakenBackRunsTheOldScriptForVNFCsThatHadTheNewOne(t *testing.T) {
	t.Parallel()

	w, _, s := machines(t, nil)
	runs := 0
	s.then(func(_ context.Context, c hooks.Call) error {
		if runs++; runs == 2 {
			return &hooks.FailedError{Path: c.Path, Reason: "exit status 1"}
		}
		return nil
	})
	w.commit(upgraded(coordinated("rolling", "CP1")))
	op := w.last(lcm.ChangePackage, lcm.FailedTemp)
	if !strings.Contains(op.Error.Title, "coordinate_new@Server/VDU1/") {
		t.Errorf("the error %+v doesn't name the VNFC", op.Error)
	}
	s.then(nil)
	if _, err := w.log.Rollback(t.Context(), op.ID); err != nil {
		t.Fatal(err)
	}
	w.recon.Enqueue(id)
	w.last(lcm.ChangePackage, lcm.RolledBack)
	want := []string{"coordinate_new", "coordinate_new", "coordinate_rollback", "coordinate_rollback"}
	if got := s.told(); !slices.Equal(got, want) {
		t.Fatalf("hooks %q, want %q", got, want)
	}
	for _, c := range s.calls[2:] {
		x := c.Input.Target
		if x == nil || !c.Input.Rollback || c.Package.Tree != tree1 || x.Username != "old" || x.CpName != "CP2" || !strings.HasPrefix(x.Address, "10.1.0.") {
			t.Errorf("the old script was told of %+v, from %s", x, c.Package.Tree)
		}
	}
}

func TestAConnectionPointThatAVNFCDoesNotHaveIsNamed(t *testing.T) {
	t.Parallel()

	w, _, _ := machines(t, nil)
	w.commit(upgraded(coordinated("rolling", "CP9")))
	op := w.last(lcm.ChangePackage, lcm.FailedTemp)
	for _, part := range []string{"CP9", "CP1, CP2", "Server/VDU1/"} {
		if !strings.Contains(op.Error.Detail, part) {
			t.Errorf("the error %q doesn't name %s", op.Error.Detail, part)
		}
	}
}

func TestABlueGreenChangeTellsTheScriptsOfAllVNFCsOfBothSidesAlsoWhenItIsTakenBack(t *testing.T) {
	t.Parallel()

	w, r, s := machines(t, nil)
	s.then(func(_ context.Context, c hooks.Call) error {
		if c.Input.Hook == plan.CoordinateOld {
			return &hooks.FailedError{Path: c.Path, Reason: "exit status 1"}
		}
		return nil
	})
	w.commit(upgraded(coordinated("blueGreen", "CP1")))
	op := w.last(lcm.ChangePackage, lcm.FailedTemp)
	if _, err := w.log.Rollback(t.Context(), op.ID); err != nil {
		t.Fatal(err)
	}
	w.recon.Enqueue(id)
	w.last(lcm.ChangePackage, lcm.RolledBack)
	if got, want := s.told(), []string{"coordinate_new", "coordinate_old", "coordinate_rollback"}; !slices.Equal(got, want) {
		t.Fatalf("hooks %q, want %q", got, want)
	}
	if got := r.steps(plan.Delete); !slices.Equal(got, []string{"delete Stack/vnf-" + id + "-1"}) {
		t.Errorf("deleted were %q, want the new stack alone", got)
	}
	for _, c := range s.calls {
		x := c.Input.Targets
		if x == nil || c.Input.Target != nil || len(x.Old) != 2 || len(x.New) != 2 {
			t.Fatalf("%s was told of %+v", c.Input.Hook, x)
		}
		if o, n := x.Old[0], x.New[0]; o.Username != "old" || n.Username != "new" || o.Unit.Generation != "0" || n.Unit.Generation != "1" ||
			!strings.HasPrefix(o.Address, "10.1.0.") || !strings.HasPrefix(n.Address, "192.0.2.") {
			t.Errorf("%s was told of %+v and %+v", c.Input.Hook, o, n)
		}
	}
}

func TestCoordinationParametersThatMakeNoSenseAreRefused(t *testing.T) {
	t.Parallel()

	settings := &desired.Settings{VIMs: map[string]*desired.VIM{"lab": {Name: "lab", Type: desired.VIMSim, Default: true}}}
	for says, params := range map[string]map[string]any{
		"must be a list":         {"vdu_params": "VDU1"},
		"vdu_params[0]":          {"vdu_params": []any{map[string]any{"new_vnfc_param": map[string]any{}}}},
		"VDU7":                   {"vdu_params": map[string]any{"vdu_id": "VDU7"}},
		"old_vnfc_param must be": {"vdu_params": map[string]any{"vdu_id": "VDU1", "old_vnfc_param": "ubuntu"}},
		"different things":       {"vdu_params": map[string]any{"vdu_id": "VDU1", "old_vnfc_param": map[string]any{"cp_name": "a", "cp-name": "b"}}},
		"ip_address must be":     {"external_lb_param": map[string]any{"ip_address": 1.0}},
	} {
		after := intended(func(in *desired.Instance) {
			in.VnfdID, in.Update.Coordinate = vnfd2, desired.Coordination{New: "Scripts/new.sh", Params: params}
		})
		err := newChecker().Check(t.Context(), settings, intended(nil), after)
		var refused *drivers.RefusedError
		if !errors.As(err, &refused) || refused.Field != "update.coordinate.params" || !strings.Contains(refused.Reason, says) {
			t.Errorf("%v: got %v, want a refusal that says %q", params, err, says)
		}
	}
}

func TestAServerThatDiedIsReplacedByAnAutomaticHeal(t *testing.T) {
	t.Parallel()

	w, r, _ := machines(t, nil)
	sick := ""
	r.meddle(func(x *stack) { x.servers[0].dead, sick = "it was deleted by somebody", x.servers[0].key })
	w.recon.Enqueue(id)
	op := w.last(lcm.Heal, lcm.Completed)
	if !op.Automatic || !strings.Contains(string(op.Params), sick) || !strings.Contains(string(op.Params), "deleted by somebody") {
		t.Errorf("the operation's parameters are %s", op.Params)
	}
	if got := r.steps(plan.DeleteUnit); !slices.Equal(got, []string{"deleteUnit " + sick}) {
		t.Errorf("deleted were %q, want %s alone", got, sick)
	}
	if n := len(op.ResourcesBefore); n != 8 {
		t.Errorf("the repair's record has %d resources from before, want 8", n)
	}
}

func TestAServerThatDiedIsReplacedInOneAttemptAlthoughTheVIMThrottles(t *testing.T) {
	t.Parallel()

	w, r, _ := machines(t, nil)
	r.meddle(func(x *stack) { x.servers[0].dead = "it is in ERROR"; r.refusing = 2 })
	w.recon.Enqueue(id)
	if op := w.last(lcm.Heal, lcm.Completed); op.Attempt > 1 {
		t.Errorf("it took %d attempts", op.Attempt)
	}
}

func TestAStackThatFailedAtRestIsTriedAgain(t *testing.T) {
	t.Parallel()

	w, r, _ := machines(t, nil)
	r.meddle(func(x *stack) { x.stalled = "UPDATE_FAILED: no valid host" })
	w.recon.Enqueue(id)
	op := w.last(lcm.Heal, lcm.Completed)
	if !op.Automatic || len(r.steps(plan.Apply)) != 2 {
		t.Errorf("automatic %v, applied %q", op.Automatic, r.steps(plan.Apply))
	}
}

func TestAServerThatSomebodyMadeDifferentIsRenewedAsDrift(t *testing.T) {
	t.Parallel()

	w, r, s := machines(t, nil)
	key := ""
	r.meddle(func(x *stack) { x.servers[1].made, key = "nobody knows what", x.servers[1].key })
	w.recon.Enqueue(id)
	if op := w.last(lcm.Heal, lcm.Completed); !op.Automatic {
		t.Error("somebody asked for it")
	}
	if got := r.steps(plan.Renew); !slices.Equal(got, []string{"renew " + key}) || len(s.told()) > 0 {
		t.Errorf("renewed %q with hooks %q, want %s alone and none", got, s.told(), key)
	}
}

func TestAGracefulTerminationLeavesServersTheirTime(t *testing.T) {
	t.Parallel()

	w, r, _ := machines(t, nil)
	rev, _ := w.repo.Lookup(id)
	params, _ := json.Marshal(map[string]any{"terminationType": "GRACEFUL", "gracefulTerminationTimeout": 0.3})
	op := lcm.Operation{ID: "7c0a4f7e-0a52-4a4e-9d4b-6f3c0a9a1b11", Instance: id, Type: lcm.Terminate, Before: rev, Params: params}
	if err := w.log.Prepare(t.Context(), op); err != nil {
		t.Fatal(err)
	}
	begun := time.Now()
	after := w.commit(file("notInstantiated", twoWebs))
	if _, err := w.log.Commit(t.Context(), op.ID, after); err != nil {
		t.Fatal(err)
	}
	w.recon.Enqueue(id)
	w.last(lcm.Terminate, lcm.Completed)
	if took := time.Since(begun); took < 300*time.Millisecond {
		t.Errorf("the servers were gone after %s", took)
	}
	if got := r.steps(plan.Delete); len(got) != 1 {
		t.Errorf("deleted were %q, want the stack alone", got)
	}
}
