package vnfd_test

import (
	"errors"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/jibe-vnfm/jibe/vnfd"
)

// coordinated is a VNFD with these policies, and types derived from SOL001's.
func coordinated(policies string) fstest.MapFS {
	return fstest.MapFS{
		vnfd.MetaFile: {Data: []byte("Entry-Definitions: vnfd.yaml\n")},
		"vnfd.yaml": {Data: []byte(`policy_types:
  acme.DrainSessions:
    derived_from: tosca.policies.nfv.LcmCoordinationAction
topology_template:
  node_templates:
    VNF:
      type: tosca.nodes.nfv.VNF
      properties: {descriptor_id: d1, descriptor_version: 1, provider: Company, product_name: Sample, software_version: 2.0, vnfm_info: jibe, flavour_id: only}
    A:
      type: tosca.nodes.nfv.Vdu.Compute
      properties: {name: a, vdu_profile: {min_number_of_instances: 1, max_number_of_instances: 3}}
    ACP:
      type: tosca.nodes.nfv.VduCp
      requirements: [{virtual_binding: A}]
  policies:
    initial:
      type: tosca.policies.nfv.VduInitialDelta
      properties: {initial_delta: {number_of_instances: 1}}
      targets: [A]
` + policies)},
	}
}

func TestAFlavourSaysWhoIsAskedAtWhichPoint(t *testing.T) {
	p, err := vnfd.Load(coordinated(`
    drain:
      type: acme.DrainSessions
      properties:
        action_name: drain_sessions
        action: {description: d, coordination_stage: START, input_parameters: {seconds: 30, pool: blue}}
    ready:
      type: tosca.policies.nfv.LcmCoordinationAction
      properties: {action_name: take-over, action: {endpoint_type: vnf, coordination_stage: end}}
    each:
      type: tosca.policies.nfv.LcmCoordinationAction
      properties: {action_name: handover, action: {endpoint_type: mgmt, coordination_stage: coordinate_new}}
    at:
      type: tosca.policies.nfv.SupportedVnfInterface
      properties:
        interface_name: vnf_lcm_coordination
        details: {uri_components: {scheme: https, authority: {port: 8443}, path: /vnf/}}
      targets: [ACP]
    other-interface:
      type: tosca.policies.nfv.SupportedVnfInterface
      properties: {interface_name: vnf_indicator}
      targets: [ACP]
    scaled:
      type: tosca.policies.nfv.LcmCoordinationsForLcmOperation
      properties: {vnf_lcm_operation: scale, actions: [drain_sessions, take-over]}
    upgraded:
      type: tosca.policies.nfv.LcmCoordinationsForLcmOperation
      properties: {vnf_lcm_operation: change_vnfpkg, actions: [drain_sessions, handover]}
`))
	if err != nil {
		t.Fatal(err)
	}
	f := p.VNFD.Flavours[0]
	drain := vnfd.Coordination{Action: "drain_sessions", Inputs: map[string]any{"seconds": 30, "pool": "blue"}}
	want := map[string][]vnfd.Coordination{
		"scale_start":                  {drain},
		"scale_end":                    {{Action: "take-over", ByVNF: true}},
		"change_current_package_start": {drain},
		"coordinate_new":               {{Action: "handover"}},
	}
	if diff := cmp.Diff(want, f.Coordinations); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(&vnfd.CoordinationInterface{Scheme: "https", Port: 8443, Path: "/vnf", VDUs: []string{"A"}}, f.CoordinationInterface); diff != "" {
		t.Error(diff)
	}
}

func TestCoordinationThatCouldNeverBeAskedForIsRefused(t *testing.T) {
	const action = "\n    a:\n      type: tosca.policies.nfv.LcmCoordinationAction\n      properties: {action_name: drain, action: {coordination_stage: start%s}}"
	const operation = "\n    o:\n      type: tosca.policies.nfv.LcmCoordinationsForLcmOperation\n      properties: {vnf_lcm_operation: %s, actions: [%s]}"
	fill := func(s string, with ...string) string {
		for _, w := range with {
			s = strings.Replace(s, "%s", w, 1)
		}
		return s
	}
	plain := fill(action, "")
	for name, c := range map[string]struct{ policies, want string }{
		"a name that the journal couldn't hold": {fill(strings.Replace(action, "drain", "a@b", 1), ""), `action_name "a@b" must be letters`},
		"no stage":                              {strings.Replace(plain, "start", `""`, 1), `coordination_stage "" must be start, end`},
		"an unknown endpoint type":              {fill(action, ", endpoint_type: em"), `endpoint_type "em" must be mgmt or vnf`},
		"an operation that Jibe hasn't":         {plain + fill(operation, "create_snapshot", "drain"), `Jibe has no operation "create_snapshot"`},
		"an action that nothing declares":       {plain + fill(operation, "scale", "drian"), `names action "drian", which no policy`},
		"an action twice":                       {plain + fill(operation, "scale", "drain, drain"), `action drain is named twice for scale_start`},
		"a declaration twice":                   {plain + strings.Replace(plain, "    a:", "    b:", 1), `action drain is declared twice`},
		"a stage of a change of package":        {strings.Replace(plain, "start", "coordinate_old", 1) + fill(operation, "scale", "drain"), `the stage coordinate_old, which only a change of package has`},
		"the VNF without an interface":          {fill(action, ", endpoint_type: vnf") + fill(operation, "scale", "drain"), `no policy of type tosca.policies.nfv.SupportedVnfInterface`},
		"the VNF before it is there": {fill(action, ", endpoint_type: vnf") + fill(operation, "instantiate", "drain") +
			"\n    i:\n      type: tosca.policies.nfv.SupportedVnfInterface\n      properties: {interface_name: vnf_lcm_coordination, details: {uri_components: {scheme: http}}}\n      targets: [A]", `can't be asked for action drain at instantiate_start: it isn't there`},
		"an interface nowhere":        {"\n    i:\n      type: tosca.policies.nfv.SupportedVnfInterface\n      properties: {interface_name: vnf_lcm_coordination, details: {uri_components: {scheme: ftp, authority: {port: 70000}, path: x}}}\n      targets: [B]", `target "B" is neither`},
		"an input that is a function": {fill(action, ", input_parameters: {a: {get_input: x}}"), `get_input isn't resolved in input parameter a`},
		"an input that isn't JSON":    {fill(action, ", input_parameters: {a: .nan}"), `input_parameters can't be sent as JSON`},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := vnfd.Load(coordinated(c.policies + "\n"))
			var invalid *vnfd.InvalidError
			if !errors.As(err, &invalid) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want %q", err, c.want)
			}
		})
	}
	_, problems, err := vnfd.Check(coordinated(plain + "\n"))
	if err != nil || len(problems) != 1 || !strings.Contains(problems[0].String(), "LCM coordination action drain is never asked for") {
		t.Errorf("an action that no operation names: %v, %v", problems, err)
	}
}
