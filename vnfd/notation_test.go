package vnfd_test

import (
	"errors"
	"io/fs"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jibe-vnfm/jibe/vnfd"
)

// One file with everything in it, in TOSCA's shorter notations.
func TestShortNotationsMeanTheSame(t *testing.T) {
	files := fstest.MapFS{
		vnfd.MetaFile:    {Data: []byte("Entry-Definitions: ./vnfd.yaml\n")},
		"hooks/heal.sh":  {Data: []byte("#!/bin/sh\n")},
		"lib/a.yaml":     {Data: []byte("node_types: {a.Vdu: {derived_from: tosca.nodes.nfv.Vdu.Compute}}")},
		"lib/sub/b.yaml": {Data: []byte("imports: [../c.yaml]\n")},
		"lib/c.yaml":     {Data: []byte("policy_types: {c.Initial: {derived_from: tosca.policies.nfv.VduInitialDelta}}")},
		"lib/d.yaml":     {Data: []byte("{}")},
		"vnfd.yaml": {Data: []byte(`
imports:
  - file: lib/a.yaml
  - b: lib/sub/b.yaml
  - d: {file: lib/d.yaml}
  - https://example.com/etsi_nfv_sol001_vnfd_types.yaml
topology_template:
  inputs:
    name: {default: Sample}
  node_templates:
    VNF:
      type: tosca.nodes.nfv.VNF
      properties:
        descriptor_id: d1
        descriptor_version: 1
        provider: Company
        product_name: {get_input: name}
        software_version: 2.0
        vnfm_info: jibe
        flavour_id: only
      requirements:
        virtual_link_external: []
        dependency: A
      interfaces:
        Vnflcm:
          operations:
            heal_start: hooks/heal.sh
            heal_end: {implementation: heal}
            scale_end: {implementation: {primary: heal, timeout: 1200}}
      artifacts:
        heal: hooks/heal.sh
    A:
      type: a.Vdu
      properties: {name: a}
  policies:
    aspects:
      type: tosca.policies.nfv.ScalingAspects
      properties: {aspects: {x: {max_scale_level: 2}}}
    deltas:
      type: tosca.policies.nfv.VduScalingAspectDeltas
      properties: {aspect: x, deltas: {any: {number_of_instances: 3}}}
      targets: [A]
    initial:
      type: c.Initial
      properties: {initial_delta: {number_of_instances: 1}}
      targets: [A]
`)},
	}
	p, err := vnfd.Load(files)
	if err != nil {
		t.Fatal(err)
	}
	want := &vnfd.VNFD{
		ID: "d1", Version: "1", Provider: "Company", ProductName: "Sample", SoftwareVersion: "2.0",
		DefaultFlavour: "only", VnfmInfo: []string{"jibe"},
		Flavours: []vnfd.Flavour{{
			ID:      "only",
			VDUs:    []vnfd.VDU{{ID: "A", Name: "a", Initial: 1, Deltas: map[string]int{"x": 3}, Levels: map[string]int{}, Max: -1}},
			Aspects: []vnfd.Aspect{{ID: "x", MaxLevel: 2}},
			Hooks:   map[string]string{"heal_start": "hooks/heal.sh", "heal_end": "hooks/heal.sh", "scale_end": "hooks/heal.sh"},

			HookTimeouts: map[string]time.Duration{"scale_end": 20 * time.Minute},
		}},
	}
	if diff := cmp.Diff(want, p.VNFD); diff != "" {
		t.Error(diff)
	}
	if unused := p.Unused(); unused != nil {
		t.Error("unused:", unused)
	}
	files["lib/e.yml"] = &fstest.MapFile{}
	if diff := cmp.Diff([]string{"lib/e.yml"}, p.Unused()); diff != "" {
		t.Error(diff)
	}
}

// brokenFS fails for one file, as a disk does.
type brokenFS struct {
	fs.FS
	name string
}

var errDisk = errors.New("input/output error")

func (b brokenFS) Open(name string) (fs.File, error) {
	if name == b.name {
		return nil, &fs.PathError{Op: "open", Path: name, Err: errDisk}
	}
	return b.FS.Open(name)
}

func TestFileThatCanNotBeReadIsNotTheAuthorsFault(t *testing.T) {
	for _, name := range []string{vnfd.MetaFile, "Definitions/top.yaml", "Definitions/types.yaml", "Scripts/scale.py"} {
		_, err := vnfd.Load(brokenFS{base(t), name})
		if _, ok := errors.AsType[*vnfd.InvalidError](err); ok || !errors.Is(err, errDisk) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestInvalidErrorNamesEveryProblemInOneLine(t *testing.T) {
	files := base(t)
	delete(files, "Definitions/types.yaml")
	delete(files, "Definitions/df.yaml")
	_, err := vnfd.Load(files)
	const want = "the VNF package is invalid: Definitions/top.yaml:4: Definitions/types.yaml isn't in the package; Definitions/top.yaml:5: Definitions/df.yaml isn't in the package"
	if err == nil || err.Error() != want {
		t.Error(err)
	}
}
