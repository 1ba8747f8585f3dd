package vnfd

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/jibe-vnfm/jibe/internal/safeyaml"
)

// The policies of SOL001 that declare LCM coordination actions (clause 6.10).
const (
	typeCoordinationAction = "tosca.policies.nfv.LcmCoordinationAction"
	typeCoordinations      = "tosca.policies.nfv.LcmCoordinationsForLcmOperation"
	typeSupportedInterface = "tosca.policies.nfv.SupportedVnfInterface"
)

// coordinationInterface is the interface_name of a VNF that coordinates by itself.
const coordinationInterface = "vnf_lcm_coordination"

// Coordination is an LCM coordination action (SOL002 clause 10) that the VNFD has asked for at
// a point of an operation.
type Coordination struct {
	// Action is action_name, the coordinationActionName of the request.
	Action string
	// ByVNF says that the VNF itself is asked (endpoint_type vnf), and not its element manager.
	ByVNF bool `json:",omitempty"`
	// Inputs are the input parameters with the values that the VNFD gives them. An instance
	// may give others, by their names.
	Inputs map[string]any `json:",omitempty"`
}

// CoordinationInterface is where the VNF itself is asked (SupportedVnfInterface).
type CoordinationInterface struct {
	Scheme string
	Port   int    // 0 is that of the scheme
	Path   string // in front of /lcmcoord/v1, "" or "/api"
	// VDUs are those whose VNFCs are asked: one of them that is ready.
	VDUs []string
}

// actionName is what an action may be called: it is a part of names in the journal.
var actionName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]{0,127}$`)

// The points of a change of package beside its start and end: when what comes is ready, and
// when what goes isn't needed any more. A rolling change of VMs has the first for each VNFC.
const (
	PointNew = "coordinate_new"
	PointOld = "coordinate_old"
)

// coordinatedOperations are the values of vnf_lcm_operation, with the name of the operation
// in the Vnflcm interface.
func coordinatedOperations() map[string]string {
	return map[string]string{
		"instantiate": "instantiate", "terminate": "terminate", "scale": "scale", "scale_to_level": "scale_to_level", "heal": "heal",
		"change_current_package": "change_current_package", "change_vnfpkg": "change_current_package", "change_current_vnf_package": "change_current_package",
		"change_external_connectivity": "change_external_connectivity", "change_ext_conn": "change_external_connectivity",
		"modify_information": "modify_information", "modify_info": "modify_information",
		"change_flavour": "change_flavour", "operate": "operate",
	}
}

// coordinationAction is an action as its policy declares it.
type coordinationAction struct {
	Coordination
	stage string // "start", "end", PointNew or PointOld
}

// coordinations reads at which points of its operations the flavour has somebody outside asked
// for a coordination action.
func (l *loader) coordinations(f *Flavour, byType map[string][]policy) {
	actions := map[string]coordinationAction{}
	for _, p := range byType[typeCoordinationAction] {
		a, ok := l.coordinationAction(p)
		if _, twice := actions[a.Action]; ok && twice {
			l.fail(p.file, p.key, "LCM coordination action %s is declared twice", a.Action)
			continue
		}
		if ok {
			actions[a.Action] = a
		}
	}
	for _, p := range byType[typeSupportedInterface] {
		l.coordinationInterface(f, p)
	}
	named := map[string]bool{}
	for _, p := range byType[typeCoordinations] {
		for n := range safeyaml.Items(l.list(p.file, p.props, "referenced_coordination_actions")) {
			l.warn(p.file, n, "policy %s: referenced_coordination_actions are never asked for: declare the action here, with a policy of type %s", p.id, typeCoordinationAction)
		}
		for n := range safeyaml.Items(l.list(p.file, p.props, "actions")) {
			if name, ok := safeyaml.Text(n); ok {
				named[name] = true
			}
		}
		l.coordinated(f, p, actions)
	}
	for _, p := range byType[typeCoordinationAction] {
		if name := l.text(p.file, p.props, "action_name"); actions[name].Action != "" && !named[name] {
			l.warn(p.file, p.key, "LCM coordination action %s is never asked for: no policy of type %s names it", name, typeCoordinations)
		}
	}
}

func (l *loader) coordinationAction(p policy) (a coordinationAction, ok bool) {
	before := l.errors()
	a.Action = l.text(p.file, p.props, "action_name")
	if !actionName.MatchString(a.Action) {
		l.fail(p.file, p.key, "policy %s: action_name %q must be letters, digits, '_', '.' and '-', at most 128", p.id, a.Action)
		return a, false
	}
	action := l.mapping(p.file, p.props, "action")
	switch kind := l.text(p.file, action, "endpoint_type"); strings.ToLower(kind) {
	case "", "mgmt":
	case "vnf":
		a.ByVNF = true
	default:
		l.fail(p.file, action, "policy %s: endpoint_type %q must be mgmt or vnf", p.id, kind)
	}
	switch stage := l.text(p.file, action, "coordination_stage"); strings.ToLower(stage) {
	case "start", "end", PointNew, PointOld:
		a.stage = strings.ToLower(stage)
	default:
		l.fail(p.file, p.key, "policy %s: coordination_stage %q must be start, end, %s or %s: else nobody knows when to ask", p.id, stage, PointNew, PointOld)
	}
	if inputs := l.mapping(p.file, action, "input_parameters"); inputs != nil {
		// They are sent as JSON, and TOSCA's functions would be sent as they are written.
		err := inputs.Decode(&a.Inputs)
		if err == nil {
			_, err = json.Marshal(a.Inputs)
		}
		if err != nil {
			l.fail(p.file, inputs, "policy %s: input_parameters can't be sent as JSON: write text, numbers, true, false, lists and mappings with text as keys", p.id)
		}
		for k, v := range safeyaml.Pairs(inputs) {
			for f := range safeyaml.Pairs(v) {
				if strings.HasPrefix(f.Value, "get_") {
					l.fail(p.file, f, "policy %s: %s isn't resolved in input parameter %s: write its default; an instance gives another value in its params", p.id, f.Value, k.Value)
				}
			}
		}
	}
	return a, l.errors() == before
}

// coordinated reads one policy that says which actions an operation has.
func (l *loader) coordinated(f *Flavour, p policy, actions map[string]coordinationAction) {
	name := l.text(p.file, p.props, "vnf_lcm_operation")
	operation, ok := coordinatedOperations()[strings.ToLower(name)]
	if !ok {
		l.fail(p.file, p.key, "policy %s: Jibe has no operation %q to coordinate", p.id, name)
		return
	}
	for n := range safeyaml.Items(l.list(p.file, p.props, "actions")) {
		name, _ := safeyaml.Text(n)
		a, ok := actions[name]
		if !ok {
			l.fail(p.file, n, "policy %s names action %q, which no policy of type %s declares", p.id, name, typeCoordinationAction)
			continue
		}
		point := operation + "_" + a.stage
		if a.stage == PointNew || a.stage == PointOld {
			if point = a.stage; operation != "change_current_package" {
				l.fail(p.file, n, "policy %s: action %s has the stage %s, which only a change of package has", p.id, name, a.stage)
				continue
			}
		}
		switch {
		case a.ByVNF && f.CoordinationInterface == nil:
			l.fail(p.file, n, "policy %s: the VNF itself is asked for action %s, but no policy of type %s with interface_name %s says where", p.id, name, typeSupportedInterface, coordinationInterface)
			continue
		case a.ByVNF && (point == "instantiate_start" || point == "terminate_end"):
			l.fail(p.file, n, "policy %s: the VNF itself can't be asked for action %s at %s: it isn't there", p.id, name, point)
			continue
		case slices.ContainsFunc(f.Coordinations[point], func(c Coordination) bool { return c.Action == name }):
			l.fail(p.file, n, "policy %s: action %s is named twice for %s", p.id, name, point)
			continue
		}
		if f.Coordinations == nil {
			f.Coordinations = map[string][]Coordination{}
		}
		f.Coordinations[point] = append(f.Coordinations[point], a.Coordination)
	}
}

// coordinationInterface reads where the VNF itself is asked; other interfaces don't concern
// Jibe.
func (l *loader) coordinationInterface(f *Flavour, p policy) {
	if l.text(p.file, p.props, "interface_name") != coordinationInterface {
		return
	}
	if f.CoordinationInterface != nil {
		l.fail(p.file, p.key, "a flavour can have only one policy of type %s for %s", typeSupportedInterface, coordinationInterface)
		return
	}
	uri := l.mapping(p.file, p.props, "details", "uri_components")
	i := &CoordinationInterface{Scheme: l.text(p.file, uri, "scheme"), Path: strings.TrimRight(l.text(p.file, uri, "path"), "/")}
	if i.Scheme != "http" && i.Scheme != "https" {
		l.fail(p.file, p.key, "policy %s: details.uri_components.scheme %q must be http or https", p.id, i.Scheme)
	}
	if n, ok := l.number(p.file, uri, "authority", "port"); ok {
		if i.Port = n; n < 1 || n > 65535 {
			l.fail(p.file, p.key, "policy %s: port %d must be 1 to 65535", p.id, n)
		}
	}
	if i.Path != "" && !strings.HasPrefix(i.Path, "/") || strings.ContainsAny(i.Path, "?# \\") {
		l.fail(p.file, p.key, "policy %s: path %q must begin with / and be nothing but a path", p.id, i.Path)
	}
	for _, n := range p.targets {
		name, _ := safeyaml.Text(n)
		switch at := slices.IndexFunc(f.Cps, func(c Cp) bool { return c.ID == name || f.ExtCps[name] == c.ID && name != "" }); {
		case at >= 0 && !slices.Contains(i.VDUs, f.Cps[at].VDU):
			i.VDUs = append(i.VDUs, f.Cps[at].VDU)
		case at >= 0:
		case slices.ContainsFunc(f.VDUs, func(v VDU) bool { return v.ID == name }):
			i.VDUs = append(i.VDUs, name)
		default:
			l.fail(p.file, n, "policy %s: target %q is neither a connection point nor a VDU of the flavour", p.id, name)
		}
	}
	if len(p.targets) == 0 {
		l.fail(p.file, p.key, "policy %s: targets must name the connection point, or the VDU, at which the interface is", p.id)
	}
	f.CoordinationInterface = i
}

// Coordination returns the action that is asked for at a point of the flavour's operations.
func (f *Flavour) Coordination(point, action string) (Coordination, error) {
	for _, c := range f.Coordinations[point] {
		if c.Action == action {
			return c, nil
		}
	}
	return Coordination{}, fmt.Errorf("flavour %s has no LCM coordination action %s at %s", f.ID, action, point)
}
