package hot_test

import (
	"strings"
	"testing"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/drivers/openstack/hot"
	"github.com/jibe-vnfm/jibe/vnfd"
)

const connected = `heat_template_version: 2013-05-23
parameters: {nfv: {type: json}}
resources:
  VDU1:
    type: OS::Nova::Server
    properties: {flavor: m1.tiny, networks: [{port: {get_resource: CP1}}]}
  CP1:
    type: OS::Neutron::Port
    properties:
      network: {get_param: [nfv, CP, CP1, network]}
      mac_address: {get_param: [nfv, CP, CP1, mac_address]}
      fixed_ips: [{subnet: {get_param: [nfv, CP, CP1, fixed_ips, 0, subnet]}, ip_address: {get_param: [nfv, CP, CP1, fixed_ips, 0, ip_address]}}]
`

func TestEachVNFCGetsTheAddressOfItsOwnInstanceOfTheConnectionPoint(t *testing.T) {
	f, err := hot.Parse(folder(connected), "simple")
	if err != nil {
		t.Fatal(err)
	}
	over := func(e desired.IPOverEthernet) desired.ExtCpConfig {
		return desired.ExtCpConfig{Protocols: []desired.CpProtocol{{IPOverEthernet: &e}}}
	}
	in := hot.Input{
		Instance: "i1", Flavour: &vnfd.Flavour{ID: "simple", VDUs: vdu1("img1").VDUs, ExtCps: map[string]string{"front": "CP1"}},
		ExtVirtualLinks: []desired.ExtVirtualLink{{ID: "l", ResourceID: "net7", ExtCps: []desired.ExtCp{{CpdID: "front", CpConfig: map[string]desired.ExtCpConfig{
			"a": over(desired.IPOverEthernet{MACAddress: "fa:16:3e:00:00:01", IPAddresses: []desired.IPAddress{{FixedAddresses: []string{"10.0.0.7"}}}}),
			"b": over(desired.IPOverEthernet{IPAddresses: []desired.IPAddress{{SubnetID: "s", NumDynamicAddresses: 1}}}),
			"c": {},
		}}}}},
	}
	r, err := f.Render(in)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Check(map[string]int{"VDU1": 3}); err != nil {
		t.Error(err)
	}
	if err := r.Check(map[string]int{"VDU1": 4}); err == nil || !strings.Contains(err.Error(), "would be that of several of the 4 VNFCs") {
		t.Errorf("a fourth VNFC has the first one's address: %v", err)
	}
	b, err := r.Create(map[string]int{"VDU1": 3})
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"CP1-0": `{"fixed_ips":[{"ip_address":"10.0.0.7"}],"mac_address":"fa:16:3e:00:00:01","network":"net7"}`,
		"CP1-1": `{"fixed_ips":[{"subnet":"s"}],"network":"net7"}`,
		"CP1-2": `{"network":"net7"}`,
	} {
		if got := text(t, at(b.Template, "resources", name, "properties")); got != want {
			t.Errorf("%s is %s, want %s", name, got, want)
		}
	}
}
