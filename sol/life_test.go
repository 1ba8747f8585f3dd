package sol_test

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/lcm"
	"github.com/jibe-vnfm/jibe/plan"
	"github.com/jibe-vnfm/jibe/sol"
	"github.com/jibe-vnfm/jibe/vnfd"
)

// instance is the VNF as a client sees it.
func (e *env) instance(id string) (in sol.VnfInstance) {
	e.t.Helper()
	e.want(200, "GET", api+"/vnf_instances/"+id, "").json(e.t, &in)
	return in
}

func TestScaleToLevelCommitsTheLevelsAndKeepsTheOthers(t *testing.T) {
	for body, want := range map[string]struct {
		level  string
		levels map[string]int
	}{
		`{"scaleInfo": [{"aspectId": "vdu1_aspect", "scaleLevel": 2}, {"aspectId": "vdu2_aspect", "scaleLevel": 0}]}`:     {"", map[string]int{"vdu1_aspect": 2, "vdu2_aspect": 0}},
		`{"scaleInfo": [{"aspectId": "vdu1_aspect", "vnfdId": "vnfd-1", "scaleLevel": 1}], "additionalParams": {"a": 1}}`: {"", map[string]int{"vdu1_aspect": 1}},
		`{"instantiationLevelId": "big"}`: {"big", nil},
	} {
		e := setup(t)
		id := e.instantiated()
		op := e.begun(e.want(202, "POST", api+"/vnf_instances/"+id+"/scale_to_level", body))
		in := e.intent(id)
		if in.InstantiationLevel != want.level || !maps.Equal(in.Levels, want.levels) {
			t.Errorf("%s: level %q, levels %v", body, in.InstantiationLevel, in.Levels)
		}
		o, err := e.oplog.Operation(t.Context(), op)
		if err != nil || o.Type != lcm.ScaleToLevel {
			t.Fatalf("%v, %v", o.Type, err)
		}
		e.finish(op, pod("a", "VDU1", "vdu1-1"))
		if got := e.instance(id).InstantiatedVnfInfo.ScaleStatus; len(got) != 2 {
			t.Errorf("%s: scaleStatus %v", body, got)
		}
	}
}

func TestScaleToLevelThatScalesInCannotBeRolledBack(t *testing.T) {
	e := setup(t)
	id := e.instantiated()
	path := api + "/vnf_instances/" + id + "/scale_to_level"
	e.finish(e.begun(e.want(202, "POST", path, `{"scaleInfo": [{"aspectId": "vdu1_aspect", "scaleLevel": 2}]}`)))
	op := e.begun(e.want(202, "POST", path, `{"scaleInfo": [{"aspectId": "vdu1_aspect", "scaleLevel": 0}, {"aspectId": "vdu2_aspect", "scaleLevel": 3}]}`))
	e.move(op, nil, lcm.Broke)
	if got := e.want(409, "POST", api+"/vnf_lcm_op_occs/"+op+"/rollback", "").detail(t); !strings.Contains(got, "vdu1_aspect is scaled in") {
		t.Error(got)
	}
}

func TestScaleToLevelRefusesWhatItCannotMean(t *testing.T) {
	e := setup(t)
	id := e.instantiated()
	idle := e.create()
	for _, tt := range []struct {
		id, body string
		status   int
		says     string
	}{
		{id, `{}`, 400, "neither"},
		{id, `{"instantiationLevelId": "big", "scaleInfo": [{"aspectId": "vdu1_aspect", "scaleLevel": 1}]}`, 400, "both"},
		{id, `{"scaleInfo": [{"scaleLevel": 1}]}`, 400, "aspectId is missing"},
		{id, `{"scaleInfo": [{"aspectId": "vdu1_aspect"}]}`, 400, "scaleLevel is missing"},
		{id, `{"scaleInfo": [{"aspectId": "vdu1_aspect", "scaleLevel": 1}, {"aspectId": "vdu1_aspect", "scaleLevel": 2}]}`, 400, "twice"},
		{id, `{"scaleInfo": [{"aspectId": "none", "scaleLevel": 1}]}`, 400, "none"},
		{id, `{"scaleInfo": [{"aspectId": "vdu1_aspect", "scaleLevel": 9}]}`, 400, "0..2"},
		{id, `{"scaleInfo": [{"aspectId": "vdu1_aspect", "scaleLevel": -1}]}`, 400, "0..2"},
		{id, `{"scaleInfo": [{"aspectId": "vdu1_aspect", "scaleLevel": 1.5}]}`, 400, "integer"},
		{id, `{"scaleInfo": [{"aspectId": "vdu1_aspect", "vnfdId": "other", "scaleLevel": 1}]}`, 400, "vnfd-1"},
		{id, `{"scaleInfo": {}}`, 400, "scaleInfo"},
		{id, `{"instantiationLevelId": "none"}`, 400, "none"},
		{id, `{"scaleInfo": [{"aspectId": "vdu1_aspect", "scaleLevel": 0}]}`, 409, "already"},
		{idle, `{"instantiationLevelId": "big"}`, 409, "NOT_INSTANTIATED"},
		{"none", `{"instantiationLevelId": "big"}`, 404, ""},
	} {
		if got := e.want(tt.status, "POST", api+"/vnf_instances/"+tt.id+"/scale_to_level", tt.body).detail(t); !strings.Contains(got, tt.says) {
			t.Errorf("%s: %s", tt.body, got)
		}
	}
	e.view.pkg.VNFD.Flavours[0].Aspects, e.view.pkg.VNFD.Flavours[0].Levels, e.view.pkg.VNFD.Flavours[0].DefaultLevel = nil, nil, ""
	e.want(404, "POST", api+"/vnf_instances/"+id+"/scale_to_level", `{"instantiationLevelId": "big"}`)
}

func TestOperateStopsAndStartsAVNF(t *testing.T) {
	e := setup(t)
	id := e.instantiated()
	path := api + "/vnf_instances/" + id
	links := func() []string { return slices.Sorted(maps.Keys(e.instance(id).Links)) }
	if got, want := links(), []string{"changeCurrentVnfPkg", "changeExtConn", "heal", "operate", "scale", "scaleToLevel", "self", "terminate"}; !slices.Equal(got, want) {
		t.Errorf("links while it runs: %v", got)
	}
	op := e.begun(e.want(202, "POST", path+"/operate", `{"changeStateTo": "STOPPED", "stopType": "GRACEFUL", "gracefulStopTimeout": 60}`))
	if in := e.intent(id); in.State != desired.Stopped || in.Levels != nil {
		t.Errorf("git says %+v", in)
	}
	var occ sol.VnfLcmOpOcc
	e.want(200, "GET", api+"/vnf_lcm_op_occs/"+op, "").json(t, &occ)
	var params map[string]any
	if err := json.Unmarshal(occ.OperationParams, &params); err != nil || occ.Operation != lcm.Operate ||
		!cmp.Equal(params, map[string]any{"changeStateTo": "STOPPED", "stopType": "GRACEFUL", "gracefulStopTimeout": 60.0}) {
		t.Errorf("%s %s, %v", occ.Operation, occ.OperationParams, err)
	}
	if got := e.instance(id).InstantiatedVnfInfo.VnfState; got != "STARTED" {
		t.Errorf("vnfState is %s while the stop is under way", got)
	}
	off := server("VDU1", "a", "s1", "t1")
	off.Ready, off.Stopped = false, true
	e.view.mu.Lock()
	e.view.units[id] = []plan.Unit{off}
	e.view.mu.Unlock()
	e.finish(op, off)
	v := e.instance(id)
	if v.InstantiationState != "INSTANTIATED" || v.InstantiatedVnfInfo.VnfState != "STOPPED" || v.InstantiatedVnfInfo.VnfcInfo[0].VnfcState != "STOPPED" {
		t.Errorf("after the stop: %s, %+v", v.InstantiationState, v.InstantiatedVnfInfo)
	}
	e.want(409, "POST", path+"/operate", `{"changeStateTo": "STOPPED"}`)
	// Its levels may be changed, and stay.
	e.finish(e.begun(e.want(202, "POST", path+"/scale", scaleOut)))
	e.finish(e.begun(e.want(202, "POST", path+"/operate", `{"changeStateTo": "STARTED"}`)), pod("a", "VDU1", "vdu1-1"))
	if in := e.intent(id); in.State != desired.Instantiated || in.Levels["vdu2_aspect"] != 2 {
		t.Errorf("git says %s, %v", in.State, in.Levels)
	}
	e.finish(e.begun(e.want(202, "POST", path+"/operate", `{"changeStateTo": "STOPPED"}`)))
	e.finish(e.begun(e.want(202, "POST", path+"/terminate", `{"terminationType": "FORCEFUL"}`)))
	e.want(204, "DELETE", path, "")
}

func TestOperateRefusesWhatItCannotMean(t *testing.T) {
	e := setup(t)
	id := e.instantiated()
	idle := e.create()
	for _, tt := range []struct {
		id, body string
		status   int
		says     string
	}{
		{id, `{}`, 400, "changeStateTo"},
		{id, `{"changeStateTo": "PAUSED"}`, 400, "PAUSED"},
		{id, `{"changeStateTo": "STARTED"}`, 409, "STARTED already"},
		{id, `{"changeStateTo": "STARTED", "stopType": "FORCEFUL"}`, 400, "leave them out"},
		{id, `{"changeStateTo": "STARTED", "gracefulStopTimeout": 1}`, 400, "leave them out"},
		{id, `{"changeStateTo": "STOPPED", "stopType": "SOFT"}`, 400, "SOFT"},
		{id, `{"changeStateTo": "STOPPED", "stopType": "GRACEFUL"}`, 400, "missing"},
		{id, `{"changeStateTo": "STOPPED", "stopType": "FORCEFUL", "gracefulStopTimeout": 1}`, 400, "GRACEFUL"},
		{id, `{"changeStateTo": "STOPPED", "stopType": "GRACEFUL", "gracefulStopTimeout": -1}`, 400, "-1"},
		{id, `{"changeStateTo": "STOPPED", "stopType": "GRACEFUL", "gracefulStopTimeout": 99999999999}`, 400, "must be within"},
		{id, `{"changeStateTo": "STOPPED", "stopType": "GRACEFUL", "gracefulStopTimeout": "soon"}`, 400, "integer"},
		{idle, `{"changeStateTo": "STOPPED"}`, 409, "NOT_INSTANTIATED"},
		{"none", `{"changeStateTo": "STOPPED"}`, 404, ""},
	} {
		if got := e.want(tt.status, "POST", api+"/vnf_instances/"+tt.id+"/operate", tt.body).detail(t); !strings.Contains(got, tt.says) {
			t.Errorf("%s: %s", tt.body, got)
		}
	}
}

// large gives the VNFD another flavour.
func (e *env) large() {
	e.view.mu.Lock()
	defer e.view.mu.Unlock()
	e.view.pkg.VNFD.Flavours = append(e.view.pkg.VNFD.Flavours, vnfd.Flavour{ID: "large", DefaultLevel: "all",
		VDUs:    []vnfd.VDU{{ID: "VDU1", Name: "vdu1", Initial: 3, Max: -1}, {ID: "VDU3", Name: "vdu3", Initial: 1, Deltas: map[string]int{"vdu3_aspect": 1}, Max: -1}},
		Aspects: []vnfd.Aspect{{ID: "vdu3_aspect", MaxLevel: 2}},
		Levels:  []vnfd.Level{{ID: "all"}, {ID: "more", Aspects: map[string]int{"vdu3_aspect": 2}}}})
}

func TestChangeFlavourCommitsTheFlavourWithItsLevelAndParameters(t *testing.T) {
	e := setup(t)
	e.large()
	id := e.instantiated()
	path := api + "/vnf_instances/" + id
	e.finish(e.begun(e.want(202, "POST", path+"/scale", scaleOut)))
	link := e.instance(id).Links["changeFlavour"].Href
	if link != base+path+"/change_flavour" {
		t.Errorf("the link is %q", link)
	}
	var list []sol.VnfInstance
	e.want(200, "GET", api+"/vnf_instances", "").json(t, &list)
	if len(list) != 1 || !cmp.Equal(list[0].Links, e.instance(id).Links) {
		t.Errorf("the list has links %v", list)
	}
	op := e.begun(e.want(202, "POST", path+"/change_flavour", `{"newFlavourId": "large", "instantiationLevelId": "more",
		"additionalParams": {"lcm-kubernetes-def-files": ["Files/b.yaml"]}, "extensions": {"x": "y"}, "vnfConfigurableProperties": {"isAutohealEnabled": true}}`))
	in := e.intent(id)
	if in.Flavour != "large" || in.InstantiationLevel != "more" || in.Levels != nil || in.Params["namespace"] != "amf" ||
		!cmp.Equal(in.Params["lcm-kubernetes-def-files"], []any{"Files/b.yaml"}) || in.Extensions["x"] != "y" || in.ConfigurableProperties["isAutohealEnabled"] != true {
		t.Errorf("git says %+v", in)
	}
	e.finish(op, pod("a", "VDU1", "vdu1-1"))
	if v := e.instance(id); v.InstantiatedVnfInfo.FlavourID != "large" || v.InstantiatedVnfInfo.ScaleStatus[0].Level != 2 {
		t.Errorf("after the change: %+v", v.InstantiatedVnfInfo)
	}
	// A failed one can be rolled back.
	op = e.begun(e.want(202, "POST", path+"/change_flavour", `{"newFlavourId": "simple"}`))
	e.move(op, nil, lcm.Broke)
	e.want(202, "POST", api+"/vnf_lcm_op_occs/"+op+"/rollback", "")
}

func TestChangeFlavourRefusesWhatIsNotPossible(t *testing.T) {
	e := setup(t)
	alone := e.instantiated()
	if got := e.want(404, "POST", api+"/vnf_instances/"+alone+"/change_flavour", `{"newFlavourId": "large"}`).detail(t); !strings.Contains(got, `only "simple"`) {
		t.Error(got)
	}
	if e.instance(alone).Links["changeFlavour"].Href != "" {
		t.Error("there is a link although there is one flavour")
	}
	e.large()
	id, idle := e.instantiated(), e.create()
	for _, tt := range []struct {
		id, body string
		status   int
		says     string
	}{
		{id, `{}`, 400, "newFlavourId"},
		{id, `{"newFlavourId": "none"}`, 400, "simple, large"},
		{id, `{"newFlavourId": "simple"}`, 409, "already"},
		{id, `{"newFlavourId": "large", "instantiationLevelId": "big"}`, 400, "big"},
		{id, `{"newFlavourId": "large", "additionalParams": {"lcm-kubernetes-def-files": []}}`, 400, "lcm-kubernetes-def-files"},
		{id, `{"newFlavourId": "large", "additionalParams": {"placement": {"VDU2": "vim1"}}}`, 400, "VDU2"},
		{id, `{"newFlavourId": "large", "extVirtualLinks": [{"id": "a", "resourceId": "n", "extCps": []}]}`, 422, "Kubernetes"},
		{id, `{"newFlavourId": "large", "vimConnectionInfo": {"v": {"vimId": "none", "vimType": "ETSINFV.KUBERNETES.V_1"}}}`, 404, "none"},
		{idle, `{"newFlavourId": "large"}`, 409, "NOT_INSTANTIATED"},
		{"none", `{"newFlavourId": "large"}`, 404, ""},
	} {
		if got := e.want(tt.status, "POST", api+"/vnf_instances/"+tt.id+"/change_flavour", tt.body).detail(t); !strings.Contains(got, tt.says) {
			t.Errorf("%s: %s", tt.body, got)
		}
	}
}
