package main

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jibe-vnfm/jibe/lcm"
)

func TestWhatServersUseIsShown(t *testing.T) {
	handle := func(id, kind string) object { return object{"resourceId": id, "vimLevelResourceType": kind} }
	instance := object{"id": "i1", "instantiationState": "INSTANTIATED", "instantiatedVnfInfo": object{
		"extCpInfo": []any{object{"id": "cp-p1", "cpdId": "CP1", "associatedVnfcCpId": "CP1-s1", "cpProtocolInfo": []any{object{"ipOverEthernet": object{
			"ipAddresses": []any{object{"addresses": []any{"10.0.0.1", "10.0.0.2"}}, object{"addresses": []any{"fd00::1"}}}}}}}},
		"vnfVirtualLinkResourceInfo": []any{object{"id": "net1", "vnfVirtualLinkDescId": "internal", "networkResource": handle("net1", "OS::Neutron::Net")}},
		"virtualStorageResourceInfo": []any{object{"id": "v1", "virtualStorageDescId": "data", "storageResource": handle("v1", "OS::Cinder::Volume")}},
	}}
	operation := object{"id": "o1", "operation": "HEAL", "operationState": "COMPLETED", "resourceChanges": object{
		"affectedVirtualLinks":    []any{object{"changeType": "LINK_PORT_ADDED", "vnfVirtualLinkDescId": "internal", "networkResource": handle("net1", ""), "vnfLinkPortIds": []any{"p6", "p7"}}},
		"affectedExtLinkPorts":    []any{object{"changeType": "ADDED", "extCpInstanceId": "cp-p5", "resourceHandle": handle("p5", "")}},
		"affectedVirtualStorages": []any{object{"changeType": "REMOVED", "virtualStorageDescId": "data", "storageResource": handle("v1", "")}},
	}}
	story := []lcm.StoryLine{{At: moment, Text: "PROCESSING"}, {At: moment.Add(time.Second), Text: "scale_end: worker5 joins"}}
	for what, c := range map[string]struct {
		answer object
		args   []string
		want   []string
	}{
		"/vnflcm/v2/vnf_instances/i1": {instance, []string{"get", "instance", "i1"}, []string{
			"CONNECTION POINTS\n  CP1  10.0.0.1,10.0.0.2,fd00::1  CP1-s1  cp-p1", "NETWORKS\n  internal  net1  OS::Neutron::Net", "STORAGES\n  data  v1  OS::Cinder::Volume"}},
		"/vnflcm/v2/vnf_lcm_op_occs/o1": {operation, []string{"get", "operation", "o1"}, []string{
			"NETWORK CHANGES\n  LINK_PORT_ADDED  internal  net1  p6,p7", "PORT CHANGES\n  ADDED  cp-p5  p5", "STORAGE CHANGES\n  REMOVED  data  v1",
			"STEPS\n  03:02:01  PROCESSING\n  03:02:02  scale_end: worker5 joins\n"}},
	} {
		answers := shownAs(c.answer)
		answers[what], answers["/jibe/v1/operations/o1/story"] = c.answer, story
		got := output(t, answers, c.args...)
		for _, part := range c.want {
			if !strings.Contains(got, part) {
				t.Errorf("%q isn't in\n%s", part, got)
			}
		}
	}
}

func TestTheNewestOperationStandsFirst(t *testing.T) {
	list := []object{{"id": "b", "startTime": "2030-01-02T03:04:05.1Z"}, {"id": "a", "startTime": "2030-01-02T03:04:05Z"}, {"id": "none"}, {"id": "c", "startTime": "2030-01-02T03:04:05.12Z"}}
	slices.SortStableFunc(list, newestFirst)
	got := ""
	for _, o := range list {
		got += text(o, "id") + " "
	}
	if got != "c b a none " {
		t.Error(got)
	}
}

func TestNamesInTablesStandAsPeopleCount(t *testing.T) {
	var instances, drift, problems, projects, packages []any
	for _, n := range []string{"11", "2", "101", "1"} {
		dir := "instances/site-" + n + "/upf-" + n
		instances = append(instances, map[string]any{"id": "i" + n, "jibe": map[string]any{"directory": dir}})
		drift = append(drift, map[string]any{"instance": "i" + n, "dir": dir, "state": "reported"})
		problems = append(problems, map[string]any{"file": dir + "/vnf.yaml", "message": "x"})
		projects = append(projects, map[string]any{"name": "site-" + n})
		packages = append(packages, map[string]any{"vnfdId": "upf-" + n, "repository": "packages", "path": "upf-" + n})
	}
	for use, c := range map[string]struct {
		path string
		list []any
		want string
	}{
		"instances": {instancesPath + "?" + briefly, instances, "site-1/upf-1 site-2/upf-2 site-11/upf-11 site-101/upf-101"},
		"drift":     {"/jibe/v1/drift", drift, "site-1/upf-1 site-2/upf-2 site-11/upf-11 site-101/upf-101"},
		"problems":  {"/jibe/v1/problems", problems, "instances/site-1/upf-1/vnf.yaml instances/site-2/upf-2/vnf.yaml instances/site-11/upf-11/vnf.yaml instances/site-101/upf-101/vnf.yaml"},
		"projects":  {"/jibe/v1/projects", projects, "site-1 site-2 site-11 site-101"},
		"packages":  {"/jibe/v1/packages", packages, "upf-1 upf-2 upf-11 upf-101"},
	} {
		if got := strings.Join(strings.Fields(output(t, map[string]any{c.path: c.list}, "get", use, "-o", "name")), " "); got != c.want {
			t.Errorf("%s stand as %s, want %s", use, got, c.want)
		}
	}
	var b strings.Builder
	vnfcs := []any{}
	for _, n := range []string{"11", "2", "101"} {
		vnfcs = append(vnfcs, map[string]any{"id": "u" + n, "vduId": "VDU1", "computeResource": map[string]any{"resourceId": "upf-" + n}})
	}
	v := instancesView()
	v.details(&b, &sheet{}, map[string]any{"id": "i", "instantiatedVnfInfo": map[string]any{"vnfcResourceInfo": vnfcs}})
	if got := b.String(); !(strings.Index(got, "upf-2 ") < strings.Index(got, "upf-11 ") && strings.Index(got, "upf-11 ") < strings.Index(got, "upf-101 ")) {
		t.Errorf("the VNFCs stand as\n%s", got)
	}
}
