package openstack_test

import (
	"errors"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/drivers"
	"github.com/jibe-vnfm/jibe/drivers/openstack"
	"github.com/jibe-vnfm/jibe/plan"
	"github.com/jibe-vnfm/jibe/vnfd"
)

const (
	topTemplate = `heat_template_version: 2013-05-23
parameters:
  nfv: {type: json}
resources:
  VDU1:
    type: OS::Heat::AutoScalingGroup
    properties:
      min_size: 1
      max_size: 3
      desired_capacity: {get_param: [nfv, VDU, VDU1, desired_capacity]}
      resource:
        type: VDU1.yaml
        properties: {image: {get_param: [nfv, VDU, VDU1, vcImageId]}, net: {get_param: [nfv, CP, CP1, network]}}
  VDU2:
    type: OS::Nova::Server
    properties: {image: {get_param: [nfv, VDU, VDU2, vcImageId]}, flavor: {get_param: [nfv, VDU, VDU2, computeFlavourId]}, networks: [{port: {get_resource: CP2}}]}
  CP2:
    type: OS::Neutron::Port
    properties: {network: {get_param: [nfv, CP, CP2, network]}, fixed_ips: [{ip_address: {get_param: [nfv, CP, CP2, fixed_ips, 0, ip_address]}}]}
`
	nestedTemplate = `heat_template_version: 2013-05-23
parameters: {image: {type: string}, net: {type: string}}
resources:
  VDU1:
    type: OS::Nova::Server
    properties: {image: {get_param: image}, flavor: m1.tiny, networks: [{network: {get_param: net}}]}
`
)

func link(cp string, addresses ...string) desired.ExtVirtualLink {
	config := desired.ExtCpConfig{}
	if len(addresses) > 0 {
		config.Protocols = []desired.CpProtocol{{LayerProtocol: "IP_OVER_ETHERNET", IPOverEthernet: &desired.IPOverEthernet{
			IPAddresses: []desired.IPAddress{{Type: "IPV4", FixedAddresses: addresses}},
		}}}
	}
	return desired.ExtVirtualLink{ID: cp + "-link", ResourceID: "net0", ExtCps: []desired.ExtCp{{CpdID: cp, CpConfig: map[string]desired.ExtCpConfig{"a": config}}}}
}

// aVNF is an instance of two VDUs, whose package change may alter before it's read.
func aVNF(change func(*desired.Instance, *vnfd.Flavour, map[string]string)) drivers.Source {
	in := &desired.Instance{ID: "i1", Flavour: "simple", ExtVirtualLinks: []desired.ExtVirtualLink{link("CP1"), link("CP2")}}
	flavour := vnfd.Flavour{
		ID: "simple",
		VDUs: []vnfd.VDU{
			{ID: "VDU1", Name: "web", Initial: 1, Max: -1, Image: "img1", ComputeFlavour: "m1.tiny", Deltas: map[string]int{"out": 1}},
			{ID: "VDU2", Name: "db", Initial: 1, Max: -1, Image: "img1", ComputeFlavour: "m1.small"},
		},
		Aspects: []vnfd.Aspect{{ID: "out", MaxLevel: 5}},
	}
	texts := map[string]string{"BaseHOT/simple/top.yaml": topTemplate, "BaseHOT/simple/nested/VDU1.yaml": nestedTemplate}
	if change != nil {
		change(in, &flavour, texts)
	}
	files := fstest.MapFS{}
	for name, s := range texts {
		files[name] = &fstest.MapFile{Data: []byte(s)}
	}
	return drivers.Source{Instance: in, Package: &vnfd.Package{Files: files, VNFD: &vnfd.VNFD{DefaultFlavour: "simple", Flavours: []vnfd.Flavour{flavour}}}}
}

func renderer(t *testing.T) *openstack.Driver {
	t.Helper()
	d, err := openstack.New(drivers.VIM{Name: "lab", Endpoint: "http://127.0.0.1:9/v3", Username: "u", Password: "p", Project: "p"}, openstack.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d
}

func TestAnInstanceIsOneStackWithAGroupForEachVDU(t *testing.T) {
	t.Parallel()

	d := renderer(t)
	src := aVNF(func(in *desired.Instance, _ *vnfd.Flavour, _ map[string]string) { in.Levels = map[string]int{"out": 2} })
	got, err := d.Render(src)
	if err != nil {
		t.Fatal(err)
	}
	if len(got.Objects) != 1 || len(got.Objects[0].Digest) != 32 {
		t.Fatalf("objects are %v", got.Objects)
	}
	if g := got.Groups; len(g) != 2 || len(g[0].Digest) != 32 || len(g[1].Digest) != 32 || g[0].Digest == g[1].Digest {
		t.Fatalf("groups are %v", got.Groups)
	}
	want := plan.Desired{
		Objects: []plan.Object{{Key: "Stack/vnf-i1", Digest: got.Objects[0].Digest}},
		Groups: []plan.Group{{VDU: "VDU1", Owner: "Stack/vnf-i1", Count: 3, Digest: got.Groups[0].Digest},
			{VDU: "VDU2", Owner: "Stack/vnf-i1", Count: 1, Digest: got.Groups[1].Digest}},
		Generation: "0",
	}
	if diff := cmp.Diff(want, got.Desired); diff != "" {
		t.Error(diff)
	}
}

func TestTheDigestDependsOnContentAndNotOnNumbers(t *testing.T) {
	t.Parallel()

	d := renderer(t)
	digest := func(change func(*desired.Instance, *vnfd.Flavour, map[string]string)) string {
		want, err := d.Render(aVNF(change))
		if err != nil {
			t.Fatal(err)
		}
		return want.Objects[0].Digest
	}
	base := digest(nil)
	if digest(func(in *desired.Instance, _ *vnfd.Flavour, _ map[string]string) { in.Levels = map[string]int{"out": 2} }) != base {
		t.Error("a number of VNFCs changed it")
	}
	for name, change := range map[string]func(*desired.Instance, *vnfd.Flavour, map[string]string){
		"image": func(_ *desired.Instance, f *vnfd.Flavour, _ map[string]string) { f.VDUs[0].Image = "img2" },
		"network": func(in *desired.Instance, _ *vnfd.Flavour, _ map[string]string) {
			in.ExtVirtualLinks[0].ResourceID = "net1"
		},
		"nested": func(_ *desired.Instance, _ *vnfd.Flavour, files map[string]string) {
			files["BaseHOT/simple/nested/VDU1.yaml"] = strings.Replace(nestedTemplate, "m1.tiny", "m1.small", 1)
		},
	} {
		if digest(change) == base {
			t.Errorf("another %s didn't change it", name)
		}
	}
}

func TestAnotherGenerationIsAnotherStack(t *testing.T) {
	t.Parallel()

	got, err := renderer(t).Render(aVNF(func(in *desired.Instance, _ *vnfd.Flavour, _ map[string]string) { in.Generation = "green" }))
	if err != nil || got.Generation != "green" || got.Objects[0].Key != "Stack/vnf-i1-green" || got.Groups[0].Owner != "Stack/vnf-i1-green" {
		t.Error(got, err)
	}
}

func TestOfAVNFOnTwoVIMsOnlyWhatRunsHereIsRendered(t *testing.T) {
	t.Parallel()

	src := aVNF(func(_ *desired.Instance, f *vnfd.Flavour, _ map[string]string) {
		f.VDUs = append(f.VDUs, vnfd.VDU{ID: "VDU3", Name: "cnf", Max: -1})
	})
	src.VDUs = []string{"VDU2"}
	got, err := renderer(t).Render(src)
	if err != nil || len(got.Groups) != 1 || got.Groups[0].VDU != "VDU2" {
		t.Error(got, err)
	}
	src.VDUs = []string{"VDU3"}
	_, err = renderer(t).Render(src)
	refused(t, err, "placement.VDU3: the VDU isn't in BaseHOT/simple/top.yaml")
}

func TestIntentThatNoStackCanHonourIsRefusedByItsField(t *testing.T) {
	t.Parallel()

	d := renderer(t)
	for _, c := range []struct {
		name   string
		change func(*desired.Instance, *vnfd.Flavour, map[string]string)
		want   string
	}{
		{"flavour", func(in *desired.Instance, _ *vnfd.Flavour, _ map[string]string) { in.Flavour = "big" }, `flavour: the VNFD has no deployment flavour "big"`},
		{"level", func(in *desired.Instance, _ *vnfd.Flavour, _ map[string]string) { in.Levels = map[string]int{"out": 9} }, "levels: "},
		{"group's bounds", func(in *desired.Instance, _ *vnfd.Flavour, _ map[string]string) { in.Levels = map[string]int{"out": 3} }, "BaseHOT/simple/top.yaml:9: group VDU1 has at most 3 members"},
		{"id", func(in *desired.Instance, _ *vnfd.Flavour, _ map[string]string) { in.ID = "a/b" }, "id: "},
		{"generation", func(in *desired.Instance, _ *vnfd.Flavour, _ map[string]string) { in.Generation = "0" }, "generation: "},
		{"network", func(in *desired.Instance, _ *vnfd.Flavour, _ map[string]string) { in.ExtVirtualLinks = nil }, "extVirtualLinks: no network is known for connection point CP1"},
		{"image", func(_ *desired.Instance, f *vnfd.Flavour, _ map[string]string) { f.VDUs[1].Image = "" }, "params.nfv.VDU.VDU2.vcImageId: "},
		{"templates", func(_ *desired.Instance, _ *vnfd.Flavour, files map[string]string) { clear(files) }, "BaseHOT/simple: isn't in the package"},
		{"a template", func(_ *desired.Instance, _ *vnfd.Flavour, files map[string]string) {
			files["BaseHOT/simple/top.yaml"] = "a: ["
		}, "BaseHOT/simple/top.yaml:1: "},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := d.Render(aVNF(c.change))
			refused(t, err, c.want)
		})
	}
}

func refused(t *testing.T, err error, want string) {
	t.Helper()
	if _, ok := errors.AsType[*drivers.RefusedError](err); !ok || !strings.Contains(err.Error(), want) {
		t.Errorf("got %v, want a refusal with %s", err, want)
	}
}
