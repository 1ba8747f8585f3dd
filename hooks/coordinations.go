package hooks

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/lcm"
	"github.com/jibe-vnfm/jibe/plan"
	"github.com/jibe-vnfm/jibe/vnfd"
)

// VnfcsInput is the input parameter of LCM coordination actions that names the VNFCs that the
// operation is about, as SOL002 v3.7.1 has it.
const VnfcsInput = "vnfcInstanceIds"

// Coordinated are the LCM coordination actions for which somebody outside is asked in the
// course of an operation of the type, as [plan.Desired.Coordinated] has them. s is the side
// that the operation leads to, but for a TERMINATE the one that runs.
func (s Side) Coordinated(t lcm.Type) map[string][]string {
	f := s.flavour()
	if f == nil || len(f.Coordinations) == 0 {
		return nil
	}
	points := []string{plan.HookName(string(t), false, "start"), plan.HookName(string(t), false, "end")}
	if t == lcm.ChangePackage {
		points = append(points, plan.CoordinateNew, plan.CoordinateOld)
	}
	out := map[string][]string{}
	for _, point := range points {
		for _, c := range f.Coordinations[point] {
			out[point] = append(out[point], c.Action)
		}
	}
	return out
}

// FindCoordinator refuses an operation of the type where nobody is known who could be asked
// for its LCM coordination actions. The error is an [*InvalidError].
func FindCoordinator(settings *desired.Settings, t lcm.Type, s Side) error {
	var asked []string
	for point, actions := range s.Coordinated(t) {
		for _, action := range actions {
			if c, err := s.flavour().Coordination(point, action); err == nil && !c.ByVNF {
				asked = append(asked, fmt.Sprintf("%s (%s)", action, point))
			}
		}
	}
	if len(asked) == 0 {
		return nil
	}
	if _, err := settings.Peer(settings.ProjectNameOf(s.Instance.Dir), desired.PeerEM, desired.InstanceFile, "em", s.Instance.EM); err != nil {
		slices.Sort(asked)
		return &InvalidError{Field: "em", Reason: fmt.Sprintf("%s asks an element manager for %s, and %s; or leave hooks and coordination out: hooks: %s in %s",
			t, strings.Join(asked, ", "), strings.TrimPrefix(err.Error(), desired.InstanceFile+": "), desired.HooksSkip, desired.InstanceFile)}
	}
	return nil
}

// Asking is an LCM coordination action as it is asked for.
type Asking struct {
	Action string
	// Inputs are inputParams. They may hold secrets in clear where the VNFD asks for a
	// parameter that is one.
	Inputs map[string]any
	// EM is the name of the element manager that the instance names, "" for the default one. VNF
	// is the root of the APIs of the VNF itself, "" where the element manager is asked.
	EM, VNF string
	// Who names the VNFC that is asked, for people.
	Who string
}

// Asking describes the LCM coordination action that the name of a hook stands for
// ([plan.CoordinationHook]). under is the URI of the coordination where it is under way, so that
// the VNFC that has accepted it is asked on; "" where it isn't.
func (f *Facts) Asking(name, under string) (*Asking, error) {
	base, unit := plan.HookUnit(name)
	point, action := plan.Coordination(base)
	flavour := f.Subject.flavour()
	if flavour == nil {
		return nil, &InvalidError{Field: "flavour", Reason: fmt.Sprintf("the VNFD has no flavour %q", f.Subject.Instance.Flavour)}
	}
	c, err := flavour.Coordination(point, action)
	if err != nil {
		return nil, &InvalidError{Field: "vnfdId", Reason: err.Error()}
	}
	a := &Asking{Action: action, EM: f.Subject.Instance.EM, Inputs: maps.Clone(c.Inputs)}
	if a.Inputs == nil {
		a.Inputs = map[string]any{}
	}
	given := map[string]any{}
	for key := range c.Inputs {
		if v, ok := f.Subject.Instance.Params[key]; ok {
			given[key] = v
		}
	}
	if given, err = f.reveal(given); err != nil {
		return nil, err
	}
	maps.Copy(a.Inputs, given)
	a.Inputs[VnfcsInput] = f.affected(unit)
	if c.ByVNF {
		a.VNF, a.Who, err = f.vnfEndpoint(flavour.CoordinationInterface, unit, under)
	}
	return a, err
}

// affected are the VNFCs that a coordination is about, by vnfcInfo.id: the one that it is asked
// for, else those that the operation has added and those that it removes.
func (f *Facts) affected(unit string) []string {
	ids := []string{}
	add := func(vdu, name string) {
		if id := vdu + "-" + name; !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	if unit != "" {
		for _, u := range f.live() {
			if u.Key == unit {
				add(u.VDU, u.Name)
			}
		}
		return ids
	}
	added, removed, _ := f.moved()
	for _, t := range slices.Concat(added, removed) {
		add(t.VduID, t.Unit.Name)
	}
	slices.Sort(ids)
	return ids
}

// vnfEndpoint is the root of the APIs of the VNF, at the VNFC for which it is asked where that has
// the interface, else at the first that has it and is ready. The one at which a coordination is
// under way comes before all others.
func (f *Facts) vnfEndpoint(at *vnfd.CoordinationInterface, unit, under string) (root, who string, err error) {
	units := f.live()
	slices.SortFunc(units, func(a, b plan.Unit) int { return cmp.Compare(a.Key, b.Key) })
	itself := slices.ContainsFunc(units, func(u plan.Unit) bool { return u.Key == unit && slices.Contains(at.VDUs, u.VDU) })
	for _, u := range units {
		address := unitOf(u, f.Observed.Resources).Address
		if !slices.Contains(at.VDUs, u.VDU) || address == "" {
			continue
		}
		if at.Port != 0 {
			address = net.JoinHostPort(address, strconv.Itoa(at.Port))
		} else if strings.Contains(address, ":") {
			address = "[" + address + "]"
		}
		here, name := (&url.URL{Scheme: at.Scheme, Host: address, Path: at.Path}).String(), u.VDU+"-"+u.Name
		if under != "" && strings.HasPrefix(under, at.Scheme+"://"+address+"/") {
			return here, name, nil
		}
		if root == "" && u.Ready && (!itself || u.Key == unit) {
			root, who = here, name
		}
	}
	if root != "" {
		return root, who, nil
	}
	if itself {
		return "", "", fmt.Errorf("VNFC %s isn't ready, or has no address at which it could be asked", unit)
	}
	return "", "", fmt.Errorf("no VNFC of VDU %s is ready and has an address at which it could be asked", strings.Join(at.VDUs, ", "))
}

// Coordination is what came of an LCM coordination action, as hooks that follow are given it.
type Coordination struct {
	Point  string `json:"point"`
	Action string `json:"action"`
	Unit   string `json:"unit,omitempty"`
	Result string `json:"result"`
	// Outputs are outputParams.
	Outputs map[string]any `json:"outputParams,omitempty"`
}

// coordinations are what came of those that the operation has asked for so far.
func (f *Facts) coordinations() ([]Coordination, error) {
	var out []Coordination
	for _, c := range f.Operation.Coordinations {
		if c.Result == "" {
			continue
		}
		base, unit := plan.HookUnit(c.Hook)
		point, action := plan.Coordination(base)
		came := Coordination{Point: point, Action: action, Unit: unit, Result: c.Result}
		if c.Outputs != "" {
			clear, err := f.reveal(map[string]any{"outputs": c.Outputs})
			if err != nil {
				return nil, err
			}
			if err := json.Unmarshal([]byte(clear["outputs"].(string)), &came.Outputs); err != nil {
				return nil, fmt.Errorf("outputs of coordination %s: %w", c.ID, err)
			}
		}
		out = append(out, came)
	}
	return out, nil
}
