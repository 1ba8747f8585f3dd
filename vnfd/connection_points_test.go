package vnfd_test

import (
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
	"github.com/jibe-vnfm/jibe/vnfd"
)

func TestConnectionPointsStoragesAndSizesOfVirtualMachinesAreRead(t *testing.T) {
	files := base(t)
	const name = "Definitions/df.yaml"
	files["TOSCA-Metadata/TOSCA.meta"] = &fstest.MapFile{Data: []byte("TOSCA-Meta-File-Version: 1.0\nCSAR-Version: 1.1\nCreated-By: us\nEntry-Definitions: " + name + "\n")}
	files[name] = &fstest.MapFile{Data: []byte(strings.TrimLeft(`
tosca_definitions_version: tosca_simple_yaml_1_2
topology_template:
  substitution_mappings:
    node_type: tosca.nodes.nfv.VNF
    properties: {flavour_id: simple}
    requirements:
      front: [CP1, virtual_link]
  node_templates:
    VNF:
      type: tosca.nodes.nfv.VNF
      properties: {descriptor_id: d, descriptor_version: '1', provider: p, product_name: n, software_version: '1', flavour_id: simple}
    VDU1:
      type: tosca.nodes.nfv.Vdu.Compute
      properties:
        name: web
        sw_image_data: {name: img1}
      capabilities:
        virtual_compute:
          properties:
            requested_additional_capabilities:
              properties:
                requested_additional_capability_name: m1.tiny
                support_mandatory: true
      requirements:
        - virtual_storage: disk
        - virtual_storage: {node: more}
    disk: {type: tosca.nodes.nfv.Vdu.VirtualBlockStorage}
    more: {type: tosca.nodes.nfv.Vdu.VirtualBlockStorage}
    inner: {type: tosca.nodes.nfv.VnfVirtualLink}
    CP1:
      type: tosca.nodes.nfv.VduCp
      requirements: [virtual_binding: VDU1]
    CP2:
      type: tosca.nodes.nfv.VduCp
      requirements:
        - virtual_binding: VDU1
        - virtual_link: inner
`, "\n"))}
	p, err := vnfd.Load(files)
	if err != nil {
		t.Fatal(err)
	}
	f := p.VNFD.Flavours[0]
	got := []any{f.VDUs[0].Image, f.VDUs[0].ComputeFlavour, f.VDUs[0].Storages, f.Cps, f.Links, f.Storages, f.ExtCps}
	want := []any{
		"img1", "m1.tiny", []string{"disk", "more"},
		[]vnfd.Cp{{ID: "CP1", VDU: "VDU1"}, {ID: "CP2", VDU: "VDU1", Link: "inner"}},
		[]string{"inner"}, []string{"disk", "more"}, map[string]string{"front": "CP1"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
