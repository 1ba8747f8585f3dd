package sol_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/lcm"
)

func TestVDUsThatARollingChangeDoesNotNameStayWithTheirPackage(t *testing.T) {
	e, id, path := upgradable(t)
	op := e.begun(e.want(202, "POST", path+"/change_vnfpkg", change(`"vdu_params": {"vdu_id": "VDU1"}`)))
	in := e.intent(id)
	if want := map[string]desired.VDUPin{"VDU2": {Package: tree1}}; !cmp.Equal(want, in.VDUs) || in.Package != tree2 || in.VnfdID != "vnfd-2" {
		t.Errorf("git has package %s and pins %v, want %v", in.Package, in.VDUs, want)
	}
	if in.Update.VDUs != nil {
		t.Errorf("the limit of one request would limit a later commit: %v", in.Update.VDUs)
	}
	e.finish(op, pod("a", "VDU1", "vdu1-2"), pod("b", "VDU2", "vdu2-1"))
	shown := show(e, id)
	if shown.VnfdID != "vnfd-2" {
		t.Errorf("vnfdId is %s", shown.VnfdID)
	}
	if m := shown.InstantiatedVnfInfo.VnfcResourceInfo; m[0].VnfdID != "" || m[1].VnfdID != "vnfd-1" {
		t.Errorf("VNFCs are of VNFDs %q and %q, want that of the VNF and vnfd-1", m[0].VnfdID, m[1].VnfdID)
	}

	e.want(202, "POST", path+"/scale", `{"type": "SCALE_OUT", "aspectId": "vdu1_aspect"}`)
	if in := e.intent(id); in.VDUs["VDU2"].Package != tree1 {
		t.Errorf("a scale-out took the pin away: %v", in.VDUs)
	}
}

func TestTheRestFollowsByARequestForTheSamePackage(t *testing.T) {
	for name, rest := range map[string]string{"without vdu_params": ``, "naming the rest": `"vdu_params": [{"vdu_id": "VDU1"}, {"vdu_id": "VDU2"}]`} {
		t.Run(name, func(t *testing.T) {
			e, id, path := upgradable(t)
			e.finish(e.begun(e.want(202, "POST", path+"/change_vnfpkg", change(`"vdu_params": {"vdu_id": "VDU1"}`))), pod("a", "VDU1", "vdu1-2"))
			op := e.begun(e.want(202, "POST", path+"/change_vnfpkg", change(rest)))
			if in := e.intent(id); len(in.VDUs) > 0 || strings.Contains(e.repo.text(id), "vdus:") {
				t.Errorf("pins are left: %v", in.VDUs)
			}
			if o := occurrence(e, op); o.Operation != lcm.ChangePackage {
				t.Errorf("it is a %s", o.Operation)
			}
			e.finish(op, pod("a", "VDU1", "vdu1-2"))
			if a := e.want(409, "POST", path+"/change_vnfpkg", change(``)); !strings.Contains(a.detail(t), "runs package") {
				t.Errorf("%s", a.body)
			}
		})
	}
}

func TestALimitThatStandsInTheFileIsNotTheRequests(t *testing.T) {
	e, id, path := upgradable(t)
	e.pushed(id, e.repo.text(id)+"update: {vdus: [VDU1]}\n")
	e.want(202, "POST", path+"/change_vnfpkg", change(``))
	if in := e.intent(id); len(in.VDUs) > 0 || len(in.Update.VDUs) > 0 {
		t.Errorf("the request names no VDU, and git has pins %v and limit %v", in.VDUs, in.Update.VDUs)
	}
}

func TestAPodOfAWorkloadIsShownWithTheWorkloadsName(t *testing.T) {
	for owner, want := range map[string]map[string]any{
		"Deployment/amf/vdu1-1":          {"Deployment": map[string]any{"name": "vdu1-1"}, "Pod": map[string]any{"name": "vdu1-1-abc"}},
		"StatefulSet/amf/vdu1":           {"StatefulSet": map[string]any{"name": "vdu1"}, "Pod": map[string]any{"name": "vdu1-1-abc"}},
		"Deployment/kube-b:amf/vdu1-two": {"Deployment": map[string]any{"name": "vdu1-two"}, "Pod": map[string]any{"name": "vdu1-1-abc"}},
		"Pod/amf/vdu1-1-abc":             {"Pod": map[string]any{"name": "vdu1-1-abc"}},
	} {
		e, id, path := upgradable(t)
		unit := pod("a", "VDU1", "vdu1-1-abc")
		unit.Owner = owner
		e.finish(e.begun(e.want(202, "POST", path+"/change_vnfpkg", change(``))), unit)
		got := show(e, id).InstantiatedVnfInfo.VnfcResourceInfo[0].Metadata
		delete(got, "node")
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%s: -want +got:\n%s", owner, d)
		}
	}
}

func TestAParameterOfABlueGreenChangeLimitsNothing(t *testing.T) {
	e, id, path := upgradable(t)
	e.finish(e.begun(e.want(202, "POST", path+"/change_vnfpkg", change(`"vdu_params": {"vdu_id": "VDU1"}`))), pod("a", "VDU1", "vdu1-2"))
	e.want(202, "POST", path+"/change_vnfpkg", strings.Replace(change(`"vdu_params": {"vdu_id": "VDU1"}`), "RollingUpdate", "Blue-Green", 1))
	if in := e.intent(id); len(in.VDUs) > 0 || in.Update.Strategy != desired.BlueGreen || in.Update.Coordinate.Params["vdu_params"] == nil {
		t.Errorf("git has pins %v and %+v", in.VDUs, in.Update)
	}
}
