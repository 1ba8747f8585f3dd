package sol_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/jibe-vnfm/jibe/lcm"
	"github.com/jibe-vnfm/jibe/plan"
	"github.com/jibe-vnfm/jibe/sol"
	"github.com/jibe-vnfm/jibe/sol/notify"
)

const keystone = `{"vimId": "c", "vimType": "ETSINFV.OPENSTACK_KEYSTONE.V_3", "interfaceInfo": {"endpoint": "https://keystone:5000/v3"},
	"accessInfo": {"username": "jibe", "password": "very-secret", "project": "vnf", "userDomain": "Default", "projectDomain": "Default", "region": "r"}}`

const leftLink = `{"id": "left", "resourceId": "ext1", "extLinkPorts": [{"id": "given", "resourceHandle": {"resourceId": "p3"}}], "extCps": [{"cpdId": "CP1", "cpConfig": {
	"a": {"cpProtocolData": [{"layerProtocol": "IP_OVER_ETHERNET", "ipOverEthernet": {"ipAddresses": [{"type": "IPV4", "fixedAddresses": ["10.0.0.1"], "subnetId": "sub1"}]}}]},
	"b": {"linkPortId": "given"}}}]}`

const onOpenStack = `{"flavourId": "simple", "vimConnectionInfo": {"core": ` + keystone + `}, "extVirtualLinks": [` + leftLink + `],
	"extManagedVirtualLinks": [{"id": "m1", "vnfVirtualLinkDescId": "internalVL2", "resourceId": "net2"}]}`

func server(vdu, member, id, life string) plan.Unit {
	return plan.Unit{ID: id + "@" + life, Key: "Server/" + vdu + "/" + member, Name: id, VDU: vdu, Owner: "Stack/vnf-1", Ready: true, Kind: "OS::Nova::Server",
		Metadata: map[string]string{"flavor": "m1.tiny"}}
}

func port(unit plan.Unit, id, cp, network string, external bool, ip string) plan.Resource {
	return plan.Resource{Kind: plan.LinkPort, ID: id, Type: "OS::Neutron::Port", Name: cp, Unit: unit.Key, Network: network, External: external,
		MAC: "fa:16:3e:00:00:01", Addresses: []plan.Address{{IP: ip, Subnet: "sub1"}}}
}

// servers makes an instance that runs as two servers of VDU1 and one of VDU2 in a stack.
func (e *env) servers() (id, path string) {
	e.t.Helper()
	id = e.create()
	op := e.begun(e.want(202, "POST", api+"/vnf_instances/"+id+"/instantiate", onOpenStack))
	a, b, c := server("VDU1", "a", "s1", "t1"), server("VDU1", "b", "s2", "t1"), server("VDU2", "0", "s3", "t1")
	c.Created = time.Unix(0, 0)
	used := []plan.Resource{
		{Kind: plan.VirtualLink, ID: "net1", Type: "OS::Neutron::Net", Name: "internalVL1"},
		port(a, "p1", "CP1", "ext1", true, "10.0.0.1"), port(b, "p3", "port0", "ext1", true, "10.0.0.9"), // given, so that the VIM knows no connection point
		port(a, "p2", "CP2", "net1", false, "192.168.0.2"), port(c, "p4", "CP3", "net2", true, "fd00::4"),
		{Kind: plan.Storage, ID: "v1", Type: "OS::Cinder::Volume", Name: "data", Unit: a.Key},
	}
	e.view.mu.Lock()
	e.view.resources[id] = used
	e.view.objects[id] = []plan.ObservedObject{
		{Key: "Stack/vnf-1", Incarnation: "st-1", Passive: true, Ready: true, Retention: plan.RetainData},
		{Key: "Volume/VDU1/a/data", Incarnation: "v1", Retention: plan.RetainWithInstance},
		{Key: "Volume/VDU1/b/data", Incarnation: "v2", Retention: plan.RetainWithInstance},
	}
	e.view.mu.Unlock()
	e.record(op, []plan.Unit{a, b, c}, used)
	return id, api + "/vnf_instances/" + id
}

// record is finish with what the units use.
func (e *env) record(op string, units []plan.Unit, used []plan.Resource) {
	e.t.Helper()
	if _, err := e.oplog.Record(e.t.Context(), op, func(op *lcm.Operation, _ *lcm.Instance) error {
		op.ResourcesAfter = used
		return nil
	}); err != nil {
		e.t.Fatal(err)
	}
	e.finish(op, units...)
}

func TestServersAreShownWithWhatTheyUse(t *testing.T) {
	e := setup(t)
	id, path := e.servers()
	want := func(info *sol.InstantiatedVnfInfo) {
		t.Helper()
		c := info.VnfcResourceInfo[0]
		if c.ID != "s1" || c.ComputeResource != (sol.ResourceHandle{VimConnectionID: "core", ResourceID: "s1", VimLevelResourceType: "OS::Nova::Server"}) ||
			!slices.Equal(c.StorageResourceIDs, []string{"v1"}) || info.VnfcInfo[0].ID != "VDU1-s1" || info.VnfcInfo[0].VnfcResourceInfoID != "s1" {
			t.Errorf("%+v, %+v", c, info.VnfcInfo[0])
		}
		addresses := func(ip string) []sol.CpProtocolInfo {
			return []sol.CpProtocolInfo{{LayerProtocol: "IP_OVER_ETHERNET", IPOverEthernet: sol.IPOverEthernetInfo{MACAddress: "fa:16:3e:00:00:01",
				IPAddresses: []sol.IPAddressInfo{{Type: "IPV4", Addresses: []string{ip}, SubnetID: "sub1"}}}}}
		}
		if d := cmp.Diff([]sol.VnfcCpInfo{{ID: "CP1-s1", CpdID: "CP1", VnfExtCpID: "cp-p1", CpProtocolInfo: addresses("10.0.0.1")},
			{ID: "CP2-s1", CpdID: "CP2", VnfLinkPortID: "p2", CpProtocolInfo: addresses("192.168.0.2")}}, c.VnfcCpInfo); d != "" {
			t.Error(d)
		}
		if d := cmp.Diff([]sol.ExtCpInfo{{ID: "cp-p1", CpdID: "CP1", CpConfigID: "a", CpProtocolInfo: addresses("10.0.0.1"), ExtLinkPortID: "p1", AssociatedVnfcCpID: "CP1-s1"},
			{ID: "cp-req-given", CpdID: "CP1", CpConfigID: "b", CpProtocolInfo: addresses("10.0.0.9"), ExtLinkPortID: "req-given", AssociatedVnfcCpID: "CP1-s2"}}, info.ExtCpInfo); d != "" {
			t.Error(d)
		}
		handle := func(id, kind string) sol.ResourceHandle {
			return sol.ResourceHandle{VimConnectionID: "core", ResourceID: id, VimLevelResourceType: kind}
		}
		if l := info.ExtVirtualLinks; len(l) != 1 || l[0].ID != "left" || l[0].ResourceHandle != handle("ext1", "") || len(l[0].CurrentExtCps) != 1 ||
			!slices.Equal(l[0].ExtLinkPorts, []notify.ExtLinkPortInfo{{ID: "p1", ResourceHandle: handle("p1", "OS::Neutron::Port"), CpInstanceID: "cp-p1"},
				{ID: "req-given", ResourceHandle: handle("p3", "OS::Neutron::Port"), CpInstanceID: "cp-req-given"}}) {
			t.Errorf("%+v", l)
		}
		if d := cmp.Diff([]sol.VirtualLinkResourceInfo{{ID: "net1", VirtualLinkDesc: "internalVL1", NetworkResource: handle("net1", "OS::Neutron::Net"),
			VnfLinkPorts: []sol.VnfLinkPortInfo{{ID: "p2", ResourceHandle: handle("p2", "OS::Neutron::Port"), CpInstanceID: "CP2-s1", CpInstanceType: "VNFC_CP"}}}}, info.VirtualLinks); d != "" {
			t.Error(d)
		}
		if d := cmp.Diff([]sol.ExtManagedVirtualLinkInfo{{ID: "m1", VirtualLinkDesc: "internalVL2", NetworkResource: handle("net2", ""),
			VnfLinkPorts: []sol.VnfLinkPortInfo{{ID: "p4", ResourceHandle: handle("p4", "OS::Neutron::Port"), CpInstanceID: "CP3-s3", CpInstanceType: "VNFC_CP"}}}}, info.ExtManagedLinks); d != "" {
			t.Error(d)
		}
		if d := cmp.Diff([]sol.VirtualStorageResourceInfo{{ID: "v1", VirtualStorageDesc: "data", StorageResource: handle("v1", "OS::Cinder::Volume")}}, info.VirtualStorages); d != "" {
			t.Error(d)
		}
	}
	info := show(e, id).InstantiatedVnfInfo
	want(info)
	if d := cmp.Diff(map[string]any{"stack_id": "vnf-1/st-1"}, info.Metadata); d != "" {
		t.Error(d)
	}
	if body := string(e.want(200, "GET", path, "").body); strings.Contains(body, "very-secret") || !strings.Contains(body, `"project":"vnf"`) {
		t.Errorf("the connection is shown as %s", body)
	}
	e.view.stale = true
	if info = show(e, id).InstantiatedVnfInfo; info.Metadata["stale"] != true {
		t.Errorf("%v", info.Metadata)
	}
	want(info)
}

func TestAnOperationTellsWhatItDidToServers(t *testing.T) {
	e := setup(t)
	id, path := e.servers()
	op := e.begun(e.want(202, "POST", path+"/scale", scaleOut))
	// One was rebuilt in place meanwhile, with a new volume; one came.
	a, b, c, d := server("VDU1", "a", "s1", "t2"), server("VDU1", "b", "s2", "t1"), server("VDU2", "0", "s3", "t1"), server("VDU1", "c", "s4", "t1")
	used := slices.Clone(e.view.resources[id])
	used[len(used)-1].ID = "v9"
	used = append(used, port(d, "p5", "CP1", "ext1", true, "10.0.0.7"), port(d, "p6", "CP2", "net1", false, "192.168.0.7"))
	e.record(op, []plan.Unit{a, b, c, d}, used)
	got, err := json.Marshal(occurrence(e, op).ResourceChanges)
	if err != nil {
		t.Fatal(err)
	}
	var have, want any
	json.Unmarshal(got, &have)
	const server = `"metadata": {"flavor": "m1.tiny"}, "computeResource": {"vimConnectionId": "vim1", "vimLevelResourceType": "OS::Nova::Server", "resourceId"`
	if err := json.Unmarshal([]byte(`{"affectedVnfcs": [
			{"id": "s1", "vduId": "VDU1", "changeType": "MODIFIED", `+server+`: "s1"}, "addedStorageResourceIds": ["v9"], "removedStorageResourceIds": ["v1"]},
			{"id": "s4", "vduId": "VDU1", "changeType": "ADDED", `+server+`: "s4"}, "affectedVnfcCpIds": ["CP1-s4", "CP2-s4"]}],
		"affectedVirtualLinks": [{"id": "net1", "vnfVirtualLinkDescId": "internalVL1", "changeType": "LINK_PORT_ADDED", "vnfLinkPortIds": ["p6"],
			"networkResource": {"resourceId": "net1", "vimConnectionId": "vim1", "vimLevelResourceType": "OS::Neutron::Net"}}],
		"affectedExtLinkPorts": [{"id": "p5", "changeType": "ADDED", "extCpInstanceId": "cp-p5", "resourceHandle": {"resourceId": "p5", "vimConnectionId": "vim1", "vimLevelResourceType": "OS::Neutron::Port"}}],
		"affectedVirtualStorages": [{"id": "v1", "virtualStorageDescId": "data", "changeType": "REMOVED", "storageResource": {"resourceId": "v1", "vimConnectionId": "vim1", "vimLevelResourceType": "OS::Cinder::Volume"}},
			{"id": "v9", "virtualStorageDescId": "data", "changeType": "ADDED", "storageResource": {"resourceId": "v9", "vimConnectionId": "vim1", "vimLevelResourceType": "OS::Cinder::Volume"}}]}`), &want); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want, have); d != "" {
		t.Error(d)
	}
}

func TestHealingServersCondemnsThemTheirVolumesOrTheStack(t *testing.T) {
	one := map[string]string{"Server/VDU1/a": "s1@t1"}
	all := map[string]string{"Server/VDU1/a": "s1@t1", "Server/VDU1/b": "s2@t1", "Server/VDU2/0": "s3@t1"}
	for body, want := range map[string]struct {
		condemned map[string]string
		note      string
	}{
		`{"vnfcInstanceId": ["s1"]}`:                                    {one, "Heal VNFC s1 (Server/VDU1/a)\n"},
		`{"vnfcInstanceId": ["VDU1-s1"]}`:                               {one, "Heal VNFC s1 (Server/VDU1/a)\n"},
		`{"vnfcInstanceId": ["s1"], "additionalParams": {"all": true}}`: {map[string]string{"Server/VDU1/a": "s1@t1", "Volume/VDU1/a/data": "v1"}, "Heal VNFC s1 (Server/VDU1/a)\nHeal its storage v1 (Volume/VDU1/a/data)\n"},
		`{"vnfcInstanceId": ["s3"], "additionalParams": {"all": true}}`: {map[string]string{"Server/VDU2/0": "s3@t1"}, "Heal VNFC s3 (Server/VDU2/0)\n"},
		`{}`:                                   {all, "Heal the whole VNF (0 objects and 3 VNFCs)\n"},
		`{"additionalParams": {"all": false}}`: {all, "Heal the VNFCs of the whole VNF (3 VNFCs)\n"},
		`{"additionalParams": {"all": true}}`:  {map[string]string{"Stack/vnf-1": "st-1"}, "Heal the whole VNF (1 objects)\n"},
	} {
		e := setup(t)
		id, path := e.servers()
		e.begun(e.want(202, "POST", path+"/heal", body))
		if d := cmp.Diff(want.condemned, e.condemned(id)); d != "" {
			t.Errorf("%s: %s", body, d)
		}
		if note := e.repo.commits[len(e.repo.commits)-1].Body; note != want.note {
			t.Errorf("%s: %q", body, note)
		}
	}
}

func TestAScaleInMayNameTheVNFCsThatGo(t *testing.T) {
	e := setup(t)
	id, path := e.servers()
	const scaleOut = `{"type": "SCALE_OUT", "aspectId": "vdu1_aspect"}`
	out := e.begun(e.want(202, "POST", path+"/scale", scaleOut))
	e.finish(out, server("VDU1", "a", "s1", "t1"), server("VDU1", "b", "s2", "t1"), server("VDU2", "0", "s3", "t1"))
	in := func(ids string) string {
		return `{"type": "SCALE_IN", "aspectId": "vdu1_aspect", "additionalParams": {"vnfcInstanceId": ` + ids + `}}`
	}
	for body, why := range map[string]string{
		in(`"s1"`): "must be a list", in(`[]`): "must be a list", in(`["s1", "s2"]`): "more VNFCs of VDU VDU1 than 1 steps", in(`["s3"]`): "doesn't scale",
		in(`["nope"]`): "is no VNFC", in(`["s1", "s1"]`): "twice",
		strings.Replace(in(`["s1"]`), "SCALE_IN", "SCALE_OUT", 1): "takes none away",
	} {
		if got := e.want(400, "POST", path+"/scale", body).detail(t); !strings.Contains(got, why) {
			t.Errorf("%s: %s", body, got)
		}
	}
	op := e.begun(e.want(202, "POST", path+"/scale", in(`["VDU1-s1"]`)))
	if got := e.intent(id); got.Levels["vdu1_aspect"] != 0 || !cmp.Equal(got.Condemned, map[string]string{"Server/VDU1/a": "s1@t1"}) {
		t.Errorf("%v %v", got.Levels, got.Condemned)
	}
	if p := string(occurrence(e, op).OperationParams); !strings.Contains(p, `"vnfcInstanceId":["VDU1-s1"]`) {
		t.Error(p)
	}
	e.view.objects[id][0].Passive = false
	e.finish(op, server("VDU1", "a", "s1", "t1"))
	e.finish(e.begun(e.want(202, "POST", path+"/scale", scaleOut)), server("VDU1", "a", "s1", "t1"))
	e.want(422, "POST", path+"/scale", in(`["s1"]`))
}
