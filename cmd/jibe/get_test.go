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
