package sol_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/lcm"
	"github.com/jibe-vnfm/jibe/plan"
)

// on is a request that puts the connection point on the network.
func on(link, network, cpd, config string) string {
	return `{"id": "` + link + `", "resourceId": "` + network + `", "extCps": [{"cpdId": "` + cpd + `", "cpConfig": ` + config + `}]}`
}

const anyAddress = `{"cpProtocolData": [{"layerProtocol": "IP_OVER_ETHERNET", "ipOverEthernet": {"ipAddresses": [{"type": "IPV4", "numDynamicAddresses": 1}]}}]}`

func TestAChangeOfConnectivityCommitsHowTheVNFIsConnectedThen(t *testing.T) {
	address := func(ip string) desired.ExtCpConfig {
		return desired.ExtCpConfig{Protocols: []desired.CpProtocol{{LayerProtocol: "IP_OVER_ETHERNET", IPOverEthernet: &desired.IPOverEthernet{
			IPAddresses: []desired.IPAddress{{Type: "IPV4", FixedAddresses: []string{ip}, SubnetID: "sub1"}}}}}}
	}
	dynamic := desired.ExtCpConfig{Protocols: []desired.CpProtocol{{LayerProtocol: "IP_OVER_ETHERNET", IPOverEthernet: &desired.IPOverEthernet{
		IPAddresses: []desired.IPAddress{{Type: "IPV4", NumDynamicAddresses: 1}}}}}}
	given := []desired.ExtLinkPort{{ID: "given", ResourceHandle: desired.ResourceHandle{ResourceID: "p3"}}}
	cp := func(id string, config map[string]desired.ExtCpConfig) []desired.ExtCp {
		return []desired.ExtCp{{CpdID: id, CpConfig: config}}
	}
	left := desired.ExtVirtualLink{ID: "left", ResourceID: "ext1", ExtLinkPorts: given, ExtCps: cp("CP1", map[string]desired.ExtCpConfig{"a": address("10.0.0.1"), "b": {LinkPortID: "given"}})}
	for name, c := range map[string]struct {
		links string
		want  []desired.ExtVirtualLink
	}{
		"to another network": {on("right", "ext2", "CP1", `{"a": `+anyAddress+`}`),
			[]desired.ExtVirtualLink{{ID: "right", ResourceID: "ext2", ExtCps: cp("CP1", map[string]desired.ExtCpConfig{"a": dynamic})}}},
		"another connection point beside it": {on("right", "ext2", "CP2", `{"c": `+anyAddress+`}`),
			[]desired.ExtVirtualLink{left, {ID: "right", ResourceID: "ext2", ExtCps: cp("CP2", map[string]desired.ExtCpConfig{"c": dynamic})}}},
		"another address of one": {on("left", "ext1", "CP1", `{"a": `+anyAddress+`}`),
			[]desired.ExtVirtualLink{{ID: "left", ResourceID: "ext1", ExtLinkPorts: given, ExtCps: cp("CP1", map[string]desired.ExtCpConfig{"a": dynamic, "b": {LinkPortID: "given"}})}}},
		"instances of one connection point on two networks": {on("left", "ext1", "CP1", `{"a": `+anyAddress+`, "b": null}`) + ", " + on("right", "ext2", "CP1", `{"c": `+anyAddress+`}`),
			[]desired.ExtVirtualLink{{ID: "left", ResourceID: "ext1", ExtCps: cp("CP1", map[string]desired.ExtCpConfig{"a": dynamic})},
				{ID: "right", ResourceID: "ext2", ExtCps: cp("CP1", map[string]desired.ExtCpConfig{"c": dynamic})}}},
		"one is taken away": {on("left", "ext1", "CP1", `{"b": null}`),
			[]desired.ExtVirtualLink{{ID: "left", ResourceID: "ext1", ExtCps: cp("CP1", map[string]desired.ExtCpConfig{"a": address("10.0.0.1")})}}},
		"the network is another one": {on("left", "ext9", "CP1", `{"a": `+anyAddress+`, "b": null}`),
			[]desired.ExtVirtualLink{{ID: "left", ResourceID: "ext9", ExtCps: cp("CP1", map[string]desired.ExtCpConfig{"a": dynamic})}}},
	} {
		t.Run(name, func(t *testing.T) {
			e := setup(t)
			id, path := e.servers()
			op := e.begun(e.want(202, "POST", path+"/change_ext_conn", `{"extVirtualLinks": [`+c.links+`]}`))
			if d := cmp.Diff(c.want, e.intent(id).ExtVirtualLinks); d != "" {
				t.Error(d)
			}
			if o := occurrence(e, op); o.Operation != lcm.ChangeExtConn || o.ChangedExtConn != nil || !strings.Contains(string(o.OperationParams), `"extVirtualLinks":[{`) {
				t.Errorf("%+v", o)
			}
			commit := e.repo.commits[len(e.repo.commits)-1]
			if commit.Subject != "CHANGE_EXT_CONN "+commit.Dir {
				t.Error(commit.Subject)
			}
			a := server("VDU1", "a", "s1", "t1")
			e.record(op, []plan.Unit{a}, []plan.Resource{port(a, "p8", "CP1", c.want[len(c.want)-1].ResourceID, true, "10.0.0.8")})
			last := c.want[len(c.want)-1]
			links := occurrence(e, op).ChangedExtConn
			if len(links) == 2 {
				links = links[1:]
			}
			if len(links) != 1 || links[0].ID != last.ID || links[0].ResourceHandle.ResourceID != last.ResourceID {
				t.Fatalf("%+v", links)
			}
			if ports := links[0].ExtLinkPorts; last.ExtCps[0].CpdID == "CP1" && (len(ports) != 1 || ports[0].CpInstanceID != "cp-p8") {
				t.Errorf("%+v", ports)
			}
		})
	}
}

func TestAChangeOfConnectivityRefusesWhatCantBe(t *testing.T) {
	e := setup(t)
	id, path := e.servers()
	before := e.repo.text(id)
	for body, want := range map[string]struct {
		status int
		why    string
	}{
		`{}`: {400, "extVirtualLinks"},
		`{"extVirtualLinks": [` + on("left", "ext1", "CP1", `{"a": {"linkPortId": "nowhere"}}`) + `]}`:                                 {400, "nowhere"},
		`{"extVirtualLinks": [` + on("right", "ext2", "CP1", `{}`) + `]}`:                                                              {400, "cpConfig"},
		`{"extVirtualLinks": [` + on("right", "", "CP1", `{"a": `+anyAddress+`}`) + `]}`:                                               {400, "resourceId"},
		`{"extVirtualLinks": [{"id": "right", "resourceId": "ext2", "extCps": []}]}`:                                                   {400, "extCps"},
		`{"extVirtualLinks": [` + on("right", "ext2", "CP1", `{"a": {"segmentationId": "3"}}`) + `]}`:                                  {400, "segmentationId"},
		`{"extVirtualLinks": [` + leftLink + `, ` + leftLink + `]}`:                                                                    {400, "twice"},
		`{"extVirtualLinks": [` + leftLink + `]}`:                                                                                      {409, "already"},
		`{"extVirtualLinks": [` + leftLink + `], "vimConnectionInfo": {"core": ` + strings.Replace(keystone, `"vnf"`, `"x"`, 1) + `}}`: {422, "another VIM"},
		`{"extVirtualLinks": [` + leftLink + `], "extCps": []}`:                                                                        {400, "extCps"},
	} {
		if got := e.want(want.status, "POST", path+"/change_ext_conn", body).detail(t); !strings.Contains(got, want.why) {
			t.Errorf("%s: %s", body, got)
		}
	}
	if e.repo.text(id) != before {
		t.Error("something was written")
	}
	right := `{"extVirtualLinks": [` + on("right", "ext2", "CP1", `{"a": `+anyAddress+`}`) + `]}`
	if got := e.want(422, "POST", api+"/vnf_instances/"+e.instantiated()+"/change_ext_conn", right).detail(t); !strings.Contains(got, "Kubernetes") {
		t.Error(got)
	}
	e.want(409, "POST", api+"/vnf_instances/"+e.create()+"/change_ext_conn", right)
	e.want(404, "POST", api+"/vnf_instances/nope/change_ext_conn", right)
}

func TestAChangeOfConnectivityCanBeRolledBack(t *testing.T) {
	e := setup(t)
	_, path := e.servers()
	op := e.begun(e.want(202, "POST", path+"/change_ext_conn", `{"extVirtualLinks": [`+on("right", "ext2", "CP1", `{"a": `+anyAddress+`}`)+`]}`))
	e.move(op, nil, lcm.Broke)
	e.want(202, "POST", api+"/vnf_lcm_op_occs/"+op+"/rollback", "")
	if o := occurrence(e, op); o.OperationState != lcm.RollingBack {
		t.Errorf("%+v", o)
	}
}

func TestAChangeOfPackageMayConnectTheVNFAnew(t *testing.T) {
	e := setup(t)
	e.successor("vnfd-2", tree2, "2.1")
	id, path := e.servers()
	op := e.begun(e.want(202, "POST", path+"/change_vnfpkg", `{"vnfdId": "vnfd-2", "additionalParams": {"upgrade_type": "RollingUpdate"},
		"extVirtualLinks": [`+on("right", "ext2", "CP1", `{"a": `+anyAddress+`}`)+`],
		"extManagedVirtualLinks": [{"id": "m2", "vnfVirtualLinkDescId": "internalVL2", "resourceId": "net9"}, {"id": "m3", "vnfVirtualLinkDescId": "internalVL3", "resourceId": "net3"}]}`))
	in := e.intent(id)
	if len(in.ExtVirtualLinks) != 1 || in.ExtVirtualLinks[0].ID != "right" || in.VnfdID != "vnfd-2" {
		t.Errorf("%+v", in.ExtVirtualLinks)
	}
	if d := cmp.Diff([]desired.ExtManagedVirtualLink{{ID: "m2", VirtualLinkDescID: "internalVL2", ResourceID: "net9"}, {ID: "m3", VirtualLinkDescID: "internalVL3", ResourceID: "net3"}}, in.ExtManagedVirtualLinks); d != "" {
		t.Error(d)
	}
	e.record(op, []plan.Unit{server("VDU1", "a", "s1", "t2")}, nil)
	if o := occurrence(e, op); o.Operation != lcm.ChangePackage || len(o.ChangedExtConn) != 1 {
		t.Errorf("%+v", o)
	}
	for body, want := range map[string]string{
		`{"vnfdId": "vnfd-2", "additionalParams": {}, "extManagedVirtualLinks": [{"id": "m4", "vnfVirtualLinkDescId": "internalVL4"}]}`:                             "resourceId",
		`{"vnfdId": "vnfd-2", "additionalParams": {}, "extManagedVirtualLinks": [{"id": "m4", "vnfVirtualLinkDescId": "x", "resourceId": "y", "vnfLinkPort": []}]}`: "vnfLinkPort",
	} {
		if got := e.want(400, "POST", path+"/change_vnfpkg", body).detail(t); !strings.Contains(got, want) {
			t.Errorf("%s: %s", body, got)
		}
	}
}

func TestVDUsArePlacedAtTheConnectionsThatTheRequestNames(t *testing.T) {
	const kube = `{"vimType": "kubernetes", "interfaceInfo": {"endpoint": "https://k8s:6443"}, "accessInfo": {"bearer_token": "very-secret"}}`
	body := func(connections, placement string) string {
		return `{"flavourId": "simple", "vimConnectionInfo": {` + connections + `}, "additionalParams": {"lcm-kubernetes-def-files": ["Files/a.yaml"], "placement": ` + placement + `}}`
	}
	files := func(e *env) {
		e.repo.settings.VIMs["core"] = &desired.VIM{Name: "core", ID: "core-id", Type: desired.VIMOpenStack, Endpoint: "https://keystone:5000/v3", Project: "vnf", Region: "r"}
		e.repo.settings.VIMs["kube"] = &desired.VIM{Name: "kube", Type: desired.VIMKubernetes, Endpoint: "https://k8s:6443", Default: true}
	}
	for name, c := range map[string]struct {
		connections, placement string
		vim, main              string
		own                    []string
		placed                 map[string]string
	}{
		"both connections are given":    {`"a": ` + keystone + `, "b": ` + kube, `{"VDU2": "a"}`, "", "b", []string{"a", "b"}, map[string]string{"VDU2": "a"}},
		"both are files":                {`"a": {"vimId": "core-id"}, "b": {"vimId": "kube"}`, `{"VDU2": "a"}`, "kube", "kube", nil, map[string]string{"VDU2": "core"}},
		"the main one is a file":        {`"a": ` + keystone + `, "b": {"vimId": "kube"}`, `{"VDU2": "a"}`, "kube", "kube", []string{"a"}, map[string]string{"VDU2": "a"}},
		"the main one is the default":   {`"a": ` + keystone, `{"VDU2": "a"}`, "kube", "kube", []string{"a"}, map[string]string{"VDU2": "a"}},
		"the placed one is a file's id": {`"b": ` + kube, `{"VDU2": "core-id"}`, "", "b", []string{"b"}, map[string]string{"VDU2": "core"}},
		"without any connection at all": {``, `{"VDU2": "core"}`, "", "kube", nil, map[string]string{"VDU2": "core"}},
		"nothing is placed":             {`"b": ` + kube, `{}`, "", "b", []string{"b"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			e := setup(t)
			files(e)
			id := e.create()
			op := e.begun(e.want(202, "POST", api+"/vnf_instances/"+id+"/instantiate", body(c.connections, c.placement)))
			in := e.intent(id)
			if in.VIM != c.vim || !cmp.Equal(c.placed, in.Placement) || len(in.VIMConnections) != len(c.own) || in.Params["placement"] != nil {
				t.Errorf("vim %q, placement %v, connections %v, params %v", in.VIM, in.Placement, in.VIMConnections, in.Params)
			}
			for _, key := range c.own {
				if _, ok := in.VIMConnections[key]; !ok {
					t.Errorf("connection %s isn't kept", key)
				}
			}
			s := server("VDU2", "0", "s3", "t1")
			e.finish(op, pod("a", "VDU1", "vdu1-1"), s)
			shown := show(e, id)
			for i, want := range map[int]string{0: c.main, 1: c.placed["VDU2"]} {
				if want != "" && shown.InstantiatedVnfInfo.VnfcResourceInfo[i].ComputeResource.VimConnectionID != want {
					t.Errorf("VNFC %d is at %+v, want %s", i, shown.InstantiatedVnfInfo.VnfcResourceInfo[i].ComputeResource, want)
				}
				if _, ok := shown.VimConnectionInfo[want]; want != "" && !ok {
					t.Errorf("connection %s isn't shown: %v", want, shown.VimConnectionInfo)
				}
			}
			// A VNF that runs stays where it is, also when its connection is renewed.
			if len(c.own) > 0 {
				e.finish(e.begun(e.want(202, "PATCH", api+"/vnf_instances/"+id, `{"vimConnectionInfo": {"`+c.own[0]+`": {"accessInfo": {"password": "new-secret", "bearer_token": "new-secret"}}}}`)))
				if now := e.intent(id); !cmp.Equal(now.Placement, in.Placement) || now.VIM != in.VIM || len(now.VIMConnections) != len(in.VIMConnections) {
					t.Errorf("vim %q, placement %v, connections %v", now.VIM, now.Placement, now.VIMConnections)
				}
				e.want(422, "PATCH", api+"/vnf_instances/"+id, `{"vimConnectionInfo": {"`+c.own[0]+`": {"interfaceInfo": {"endpoint": "https://elsewhere"}}}}`)
			}
		})
	}
	e := setup(t)
	files(e)
	id := e.create()
	for placement, why := range map[string]string{`{"VDU2": "nowhere"}`: "nowhere", `{"VDU9": "b"}`: "VDU9", `["VDU2"]`: "must map", `{"VDU2": 1}`: "must map"} {
		if got := e.want(400, "POST", api+"/vnf_instances/"+id+"/instantiate", body(`"b": `+kube, placement)).detail(t); !strings.Contains(got, why) {
			t.Errorf("%s: %s", placement, got)
		}
	}
	half := strings.Replace(keystone, `"project": "vnf", `, "", 1)
	if got := e.want(400, "POST", api+"/vnf_instances/"+id+"/instantiate", `{"flavourId": "simple", "vimConnectionInfo": {"core": `+half+`}}`).detail(t); !strings.Contains(got, "accessInfo.project is missing") || strings.Contains(got, "very-secret") {
		t.Error(got)
	}
}
