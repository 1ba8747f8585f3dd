package process_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/drivers/openstack/openstacktest"
	"github.com/jibe-vnfm/jibe/test/kit"
	"github.com/jibe-vnfm/jibe/test/nfvo"
	"github.com/jibe-vnfm/jibe/test/process"
)

// The NFVO names a cloud that Jibe doesn't know, with its credentials, and zone, image, flavour
// and network in it: the templates get them, and no secret stands in git in clear.
func TestServersAreMadeWhereAndOfWhatTheNFVOGrants(t *testing.T) {
	kit.Long(t)
	t.Parallel()
	const indexed, dir = "3a5c1f0e-6d0b-4f7e-9c55-0f6f2a9e1b50", "instances/vm"
	cloud := openstacktest.New(t, openstacktest.Options{})
	image, flavour := cloud.AddImage("granted"), cloud.AddFlavor("granted", 1, 64)
	at := cloud.VIM()
	n := nfvo.New(t)
	f := &forge{t: t, Server: process.Start(t, filepath.Join(t.TempDir(), "data"))}
	f.PushPackages(t, []string{indexed}, process.Root()+"/examples/packages/vm-indexed-1.0")
	f.work = process.NewWorkTree(t, f.Desired())
	f.push(map[string]string{
		"vims/a.yaml": "type: openstack\ndefault: true\nendpoint: " + at.Endpoint + "\nproject: " + at.Project + "\nregion: " + at.Region +
			"\ncredentials:\n  username: " + at.Username + "\n  password: " + f.Encrypt(t, at.Password) + "\n",
		"peers.yaml":    "- {name: nfvo-a, type: nfvo, default: true, endpoint: '" + n.URL + "'}\n",
		"granting.yaml": "nfvo: {}\n",
	})
	network := func(id, cp string) map[string]any {
		return map[string]any{"id": id, "resourceId": "net0", "extCps": []any{map[string]any{"cpdId": cp, "cpConfig": map[string]any{
			id: map[string]any{"cpProtocolData": []any{map[string]any{"layerProtocol": "IP_OVER_ETHERNET"}}}}}}}
	}
	n.Decide(func(a nfvo.Ask) nfvo.Decision {
		d := inZone("zone-7")(a)
		d.With["vimConnectionInfo"] = map[string]any{"theirs": map[string]any{
			"vimId": "id-of-theirs", "vimType": at.Type, "interfaceInfo": map[string]any{"endpoint": at.Endpoint},
			"accessInfo": map[string]any{"username": at.Username, "password": at.Password, "project": at.Project, "region": at.Region},
		}}
		d.With["vimAssets"] = map[string]any{
			"softwareImages":          []any{map[string]any{"vnfdSoftwareImageId": "VDU1", "vimSoftwareImageId": "granted"}, map[string]any{"vnfdSoftwareImageId": "VDU2", "vimSoftwareImageId": "granted"}},
			"computeResourceFlavours": []any{map[string]any{"vnfdVirtualComputeDescId": "VDU1", "vimFlavourId": "granted"}},
		}
		d.With["extVirtualLinks"] = []any{network("left", "CP1"), network("right", "CP2")}
		return d
	})
	f.push(map[string]string{dir + "/vnf.yaml": "name: vm\nvnfdId: " + indexed + "\nflavour: simple\nhooks: skip\nextVirtualLinks:\n" +
		"  - {id: left, resourceId: net0, extCps: [{cpdId: CP1, cpConfig: {left: {cpProtocolData: [{layerProtocol: IP_OVER_ETHERNET}]}}}]}\n" +
		"  - {id: right, resourceId: net0, extCps: [{cpdId: CP2, cpConfig: {right: {cpProtocolData: [{layerProtocol: IP_OVER_ETHERNET}]}}}]}\n"})
	id := desired.DeriveID(dir)
	f.becomes(id, "INSTANTIATE COMPLETED")
	ask := n.Asked()[0]
	types := map[string]int{}
	for _, x := range ask.List("addResources") {
		types[x["type"].(string)]++
	}
	if types["COMPUTE"] != 2 || types["LINKPORT"] != 2 || types["STORAGE"] != 1 {
		t.Errorf("it was asked for %v", types)
	}
	text := f.granted(dir)
	if strings.Contains(text, at.Password) || !strings.Contains(text, "password: age:") || !strings.Contains(text, "vim: theirs") {
		t.Errorf("granted.yaml says:\n%s", text)
	}
	provider, err := openstack.AuthenticatedClient(t.Context(), gophercloud.AuthOptions{IdentityEndpoint: at.Endpoint, Username: at.Username, Password: at.Password,
		DomainName: at.UserDomain, TenantName: at.Project})
	if err != nil {
		t.Fatal(err)
	}
	nova, err := openstack.NewComputeV2(provider, gophercloud.EndpointOpts{Region: at.Region})
	if err != nil {
		t.Fatal(err)
	}
	pages, err := servers.List(nova, servers.ListOpts{}).AllPages(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	list, err := servers.ExtractServers(pages)
	if err != nil || len(list) != 2 {
		t.Fatalf("%d servers, %v", len(list), err)
	}
	for _, s := range list {
		if s.AvailabilityZone != "zone-7" {
			t.Errorf("server %s is in zone %s", s.Name, s.AvailabilityZone)
		}
		if s.Image["id"] != image {
			t.Errorf("server %s is of the image %v, want %s", s.Name, s.Image["id"], image)
		}
		if strings.Contains(s.Name, "VDU1") != (s.Flavor["id"] == flavour) {
			t.Errorf("server %s has the flavour %v", s.Name, s.Flavor["id"])
		}
	}
	f.vnf(dir)
	f.push(map[string]string{dir + "/vnf.yaml": f.work.Read(dir+"/vnf.yaml") + "state: notInstantiated\n"})
	f.becomes(id, "INSTANTIATE COMPLETED, TERMINATE COMPLETED")
	if last := n.Asked()[1]; len(last.Of("removeResources", "VDU1")) != 1 {
		t.Errorf("the termination asked for %v", last.Body)
	}
}
