package desired

import (
	"fmt"
	"math"
	"slices"
	"time"

	"go.yaml.in/yaml/v3"
)

// GrantingFile says who grants operations.
const GrantingFile = "granting.yaml"

// The values of Granting.Repairs.
const (
	RepairsAsk   = "ask"
	RepairsLocal = "local"
)

// Granting is a parsed granting.yaml: who gives operations the right to go ahead (SOL003
// v3.3.1 clause 9). The zero value grants everything, as where there is no file. Policy and
// NFVO may stand side by side: the NFVO is asked for what the policy allows.
type Granting struct {
	// Policy are rules by which Jibe itself refuses; all must allow an operation.
	Policy []GrantRule `json:"policy,omitempty"`
	// NFVO is asked for each operation that adds, changes or removes resources; nil asks nobody.
	NFVO *NFVO `json:"nfvo,omitempty"`
	// Repairs is RepairsAsk (the default) or RepairsLocal: whether an automatic heal that makes
	// VNFCs anew is granted by the NFVO, or goes ahead without it.
	Repairs string `json:"repairs,omitempty"`
}

// GrantRule is one rule of the policy. The selectors say for which operations it holds; one
// that is empty holds for all.
type GrantRule struct {
	Name       string   `json:"name"`
	Operations []string `json:"operations,omitempty"` // "SCALE"
	VIMs       []string `json:"vims,omitempty"`
	VNFDs      []string `json:"vnfdIds,omitempty"`
	Flavours   []string `json:"flavours,omitempty"`
	// Deny refuses these operations.
	Deny bool `json:"deny,omitempty"`
	// MaxVNFCs is the most VNFCs that the instance may have afterwards; 0 is no limit.
	MaxVNFCs int `json:"maxVnfcs,omitempty"`
	// MaxInstances is the most instances that may be instantiated under the rule's selectors,
	// with the one that is asked for; 0 is no limit.
	MaxInstances int `json:"maxInstances,omitempty"`
}

// NFVO says which NFVO is asked, and how long it may take.
type NFVO struct {
	// Name is that of a peer of type [PeerNFVO]; "" is the default one, see [Settings.NFVO].
	Name string `json:"name,omitempty"`
	// Timeout bounds one request (default [DefaultNFVOTimeout]), Wait how long an operation
	// waits for its grant from its start on; 0 is the time that STARTING may take.
	Timeout time.Duration `json:"timeout,omitempty"`
	Wait    time.Duration `json:"wait,omitempty"`
}

// DefaultNFVOTimeout bounds one request to an NFVO that names no time.
const DefaultNFVOTimeout = 30 * time.Second

// NFVO returns the peer that grants operations, nil where no NFVO is asked. The error is a
// [*Problem]: the peer is missing.
func (s *Settings) NFVO() (*Peer, error) {
	if s.Granting.NFVO == nil {
		return nil, nil
	}
	return s.Peer("", PeerNFVO, GrantingFile, "nfvo.name", s.Granting.NFVO.Name)
}

// GrantedOperations are the types of operation that are granted (SOL003 v3.3.1 clause 9.5.4.3,
// but for snapshots): MODIFY_INFO isn't among them.
func GrantedOperations() []string {
	return []string{"INSTANTIATE", "SCALE", "SCALE_TO_LEVEL", "CHANGE_FLAVOUR", "TERMINATE", "HEAL", "OPERATE", "CHANGE_EXT_CONN", "CHANGE_VNFPKG"}
}

// ParseGranting reads granting.yaml strictly. The error is an [*InvalidError] with everything
// that is wrong.
func ParseGranting(file string, data []byte) (Granting, error) {
	d := &document{file: file}
	g := Granting{Repairs: RepairsAsk}
	n := d.root(data)
	if n == nil {
		return g, d.err()
	}
	d.mapping(n, "",
		field{"policy", func(_, v *yaml.Node) {
			d.list(v, "policy", func(where string, v *yaml.Node) { g.Policy = append(g.Policy, d.grantRule(v, where, g.Policy)) })
		}},
		field{"nfvo", func(_, v *yaml.Node) { g.NFVO = d.nfvo(v) }},
		field{"repairs", func(_, v *yaml.Node) { g.Repairs = d.oneOf(v, "repairs", RepairsAsk, RepairsLocal) }},
	)
	if err := d.err(); err != nil {
		return Granting{}, err
	}
	return g, nil
}

func (d *document) grantRule(n *yaml.Node, where string, others []GrantRule) GrantRule {
	var r GrantRule
	before := len(d.problems)
	names := func(key string, to *[]string, known ...string) field {
		return field{key, func(_, v *yaml.Node) {
			d.items(v, dotted(where, key), func(v *yaml.Node) {
				if len(known) > 0 {
					*to = append(*to, d.oneOf(v, dotted(where, key), known...))
					return
				}
				*to = append(*to, d.text(v, dotted(where, key), maxName))
			})
		}}
	}
	number := func(key string, to *int) field {
		return field{key, func(_, v *yaml.Node) {
			var most int32
			if v.Kind != yaml.ScalarNode || v.ShortTag() != "!!int" || v.Decode(&most) != nil || most < 1 {
				d.fail(v, fmt.Sprintf("write a whole number from 1 to %d", math.MaxInt32), "%q can't be %s", dotted(where, key), described(v))
			}
			*to = int(most)
		}}
	}
	d.mapping(n, where,
		d.name(where, "name", &r.Name),
		names("operations", &r.Operations, GrantedOperations()...),
		names("vims", &r.VIMs), names("vnfdIds", &r.VNFDs), names("flavours", &r.Flavours),
		field{"deny", func(_, v *yaml.Node) { r.Deny = d.boolean(v, dotted(where, "deny")) }},
		number("maxVnfcs", &r.MaxVNFCs), number("maxInstances", &r.MaxInstances),
	)
	if len(d.problems) > before {
		return r
	}
	d.needed(n, where, "name", r.Name)
	if slices.ContainsFunc(others, func(o GrantRule) bool { return o.Name == r.Name }) {
		d.fail(n, "rename one of them: a refusal names its rule", "rule %q is given twice", clip(r.Name))
	}
	switch limits := r.MaxVNFCs > 0 || r.MaxInstances > 0; {
	case r.Deny && limits:
		d.fail(n, "keep one of them", "rule %q refuses everything, so that its limits mean nothing", clip(r.Name))
	case !r.Deny && !limits:
		d.fail(n, "add deny: true, maxVnfcs or maxInstances", "rule %q refuses nothing", clip(r.Name))
	case r.MaxInstances > 0 && len(r.Operations) > 0 && !slices.Equal(r.Operations, []string{"INSTANTIATE"}):
		d.fail(n, "remove operations", "rule %q limits the instances, which only INSTANTIATE makes more", clip(r.Name))
	}
	return r
}

func (d *document) nfvo(n *yaml.Node) *NFVO {
	o := &NFVO{Timeout: DefaultNFVOTimeout}
	d.mapping(n, "nfvo",
		field{"name", func(_, v *yaml.Node) {
			if o.Name = d.text(v, "nfvo.name", 0); v.ShortTag() == "!!str" && !settingName.MatchString(o.Name) {
				d.fail(v, "use the name of an entry in "+PeersFile+" with type: "+PeerNFVO, "%q can't name an NFVO", clip(o.Name))
			}
		}},
		field{"timeout", func(_, v *yaml.Node) { o.Timeout = d.period(v, "nfvo.timeout", 5*time.Minute) }},
		field{"wait", func(_, v *yaml.Node) { o.Wait = d.period(v, "nfvo.wait", 7*24*time.Hour) }},
	)
	return o
}

// period reads a duration above zero, and at most most.
func (d *document) period(n *yaml.Node, where string, most time.Duration) time.Duration {
	before := len(d.problems)
	s := d.text(n, where, maxName)
	if len(d.problems) > before {
		return 0
	}
	t, err := time.ParseDuration(s)
	if err != nil || t <= 0 || t > most {
		d.fail(n, fmt.Sprintf("write a time such as 30s or 2m, at most %s", most), "%q can't be %q", where, clip(s))
	}
	return t
}
