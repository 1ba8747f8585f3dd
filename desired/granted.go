package desired

import (
	"fmt"
	"maps"
	"reflect"
	"slices"

	"go.yaml.in/yaml/v3"
)

// GrantedFile is the file beside vnf.yaml that says what an NFVO decided about the instance
// when it granted operations. Jibe writes it, and nobody else.
const GrantedFile = "granted.yaml"

// Granted is a parsed granted.yaml: where the VNF may run and what of it the NFVO holds ready
// at the VIM (SOL003 v3.3.1 clause 9.5.2.3). The zero value says nothing. It is immutable once
// parsed.
type Granted struct {
	// VIM is that of all VDUs that are placed nowhere else, in place of the one that vnf.yaml
	// names: a file under vims/, or a key of VIMConnections.
	VIM string `json:"vim,omitempty"`
	// VIMConnections are the connections that the NFVO gave; secrets in accessInfo are
	// references, never in clear.
	VIMConnections map[string]VIMConnection `json:"vimConnectionInfo,omitempty"`
	// VDUs is what was granted for the units of each VDU.
	VDUs map[string]GrantedVDU `json:"vdus,omitempty"`
	// ExtVirtualLinks and ExtManagedVirtualLinks stand beside those of vnf.yaml, and in the
	// place of those that they are given instead of.
	ExtVirtualLinks        []ExtVirtualLink        `json:"extVirtualLinks,omitempty"`
	ExtManagedVirtualLinks []ExtManagedVirtualLink `json:"extManagedVirtualLinks,omitempty"`
	// Instead is, by the id of a link above, the network that vnf.yaml said for it when the
	// NFVO gave another one. As long as vnf.yaml says that still, the granted one counts.
	Instead map[string]string `json:"instead,omitempty"`
}

// GrantedVDU is what was granted for the units of one VDU.
type GrantedVDU struct {
	// VIM is where they run, as in [Instance.Placement]; "" is the instance's VIM.
	VIM string `json:"vim,omitempty"`
	// Zones are those in which they may run, sorted, as the VIM names them.
	Zones []string `json:"zones,omitempty"`
	// Image and Flavour are the VIM's names or ids of the software image and the compute
	// flavour.
	Image   string `json:"image,omitempty"`
	Flavour string `json:"flavour,omitempty"`
	// Reservation is the VIM's id of the capacity that is reserved for them.
	Reservation string `json:"reservation,omitempty"`
}

// IsZero says whether nothing was granted for the VDU.
func (v GrantedVDU) IsZero() bool {
	return v.VIM == "" && len(v.Zones) == 0 && v.Image == "" && v.Flavour == "" && v.Reservation == ""
}

// ParseGranted reads a granted.yaml strictly. The error is an [*InvalidError] with everything
// that is wrong.
func ParseGranted(file string, data []byte) (*Granted, error) {
	d := &document{file: file}
	g := &Granted{}
	n := d.root(data)
	if n == nil {
		return g, d.err()
	}
	d.mapping(n, "",
		field{"vim", func(_, v *yaml.Node) { g.VIM = d.text(v, "vim", maxName) }},
		field{"vimConnectionInfo", func(_, v *yaml.Node) { g.VIMConnections = d.connections(v) }},
		field{"vdus", func(_, v *yaml.Node) { g.VDUs = d.grantedVDUs(v) }},
		field{linksKey, func(_, v *yaml.Node) { g.ExtVirtualLinks = d.links(v) }},
		field{"extManagedVirtualLinks", func(_, v *yaml.Node) { g.ExtManagedVirtualLinks = d.managed(v) }},
		field{"instead", func(_, v *yaml.Node) { g.Instead = d.texts(v, "instead") }},
	)
	if err := d.err(); err != nil {
		return nil, err
	}
	return g, nil
}

func (d *document) grantedVDUs(n *yaml.Node) map[string]GrantedVDU {
	out := map[string]GrantedVDU{}
	d.entries(n, "vdus", func(k, v *yaml.Node) {
		where := dotted("vdus", k.Value)
		var g GrantedVDU
		d.mapping(v, where,
			d.name(where, "vim", &g.VIM),
			field{"zones", func(_, v *yaml.Node) {
				d.items(v, dotted(where, "zones"), func(z *yaml.Node) { g.Zones = append(g.Zones, d.text(z, dotted(where, "zones"), maxName)) })
			}},
			d.name(where, "image", &g.Image),
			d.name(where, "flavour", &g.Flavour),
			d.name(where, "reservation", &g.Reservation),
		)
		out[k.Value] = g
	})
	return out
}

// grantedHead stands above every granted.yaml, for whoever finds it.
const grantedHead = "# What the NFVO decided when it granted operations on this VNF. Jibe writes this file: leave it as it is.\n"

// Format writes the granted.yaml, nil where it would say nothing. The same content always
// gives the same text. It parses the result before it returns it; the error names content that
// no file may hold.
func (g *Granted) Format() ([]byte, error) {
	if g.IsZero() {
		return nil, nil
	}
	n, err := node(reflect.ValueOf(*g))
	if err != nil {
		return nil, fmt.Errorf("format %s: %w", GrantedFile, err)
	}
	out, err := encode(n, 2, false)
	if err != nil {
		return nil, fmt.Errorf("format %s: %w", GrantedFile, err)
	}
	if _, err := ParseGranted(GrantedFile, out); err != nil {
		return nil, fmt.Errorf("format %s: %w", GrantedFile, err)
	}
	return append([]byte(grantedHead), out...), nil
}

// IsZero says whether nothing was granted but the right to go ahead. nil is zero.
func (g *Granted) IsZero() bool {
	return g == nil || empty(plain(reflect.ValueOf(*g)))
}

// Same says whether the two say the same. nil says nothing.
func (g *Granted) Same(other *Granted) bool {
	if g.IsZero() || other.IsZero() {
		return g.IsZero() == other.IsZero()
	}
	return sameAny(plain(reflect.ValueOf(*g)), plain(reflect.ValueOf(*other)))
}

// WithGrant is the intent as it counts: the instance with what was granted to it in the
// places of vnf.yaml that say the same thing. It is what is rendered, and where it runs. An
// instance that has nothing at a VIM, or to which nothing was granted, is returned as it is.
func (in *Instance) WithGrant() *Instance {
	g := in.Granted
	if g.IsZero() || !MayHaveObjects(in) {
		return in
	}
	out := *in
	if g.VIM != "" {
		out.VIM = g.VIM
	}
	if len(g.VIMConnections) > 0 {
		out.VIMConnections = maps.Clone(in.VIMConnections)
		if out.VIMConnections == nil {
			out.VIMConnections = map[string]VIMConnection{}
		}
		maps.Copy(out.VIMConnections, g.VIMConnections)
	}
	if _, own := g.VIMConnections[out.VIM]; own {
		// A connection has the name that a file would have: where the main VIM is one, no other
		// connection may stand beside it but those of VDUs.
		out.VIM, out.VIMConnections = "", out.connectionsWith(g.VIM)
	}
	out.Placement = g.placement(in.Placement)
	out.ExtVirtualLinks = joined(in.ExtVirtualLinks, g.ExtVirtualLinks, g.Instead, func(l ExtVirtualLink) (string, string) { return l.ID, l.ResourceID })
	out.ExtManagedVirtualLinks = joined(in.ExtManagedVirtualLinks, g.ExtManagedVirtualLinks, g.Instead, func(l ExtManagedVirtualLink) (string, string) { return l.ID, l.ResourceID })
	return &out
}

// placement is the placement of vnf.yaml with that which was granted.
func (g *Granted) placement(own map[string]string) map[string]string {
	granted := map[string]string{}
	for vdu, v := range g.VDUs {
		if v.VIM != "" {
			granted[vdu] = v.VIM
		}
	}
	if len(granted) == 0 {
		return own
	}
	all := maps.Clone(own)
	if all == nil {
		return granted
	}
	maps.Copy(all, granted)
	return all
}

// connectionsWith are the connections of the instance that it still uses where the one called
// main is its VIM.
func (in *Instance) connectionsWith(main string) map[string]VIMConnection {
	placed := slices.Collect(maps.Values(in.Placement))
	for _, v := range in.Granted.VDUs {
		placed = append(placed, v.VIM)
	}
	out := map[string]VIMConnection{}
	for name, c := range in.VIMConnections {
		if name == main || slices.Contains(placed, name) {
			out[name] = c
		}
	}
	return out
}

// joined are the links of vnf.yaml with those that were granted. of is the id of a link and its
// network.
func joined[L any](own, granted []L, instead map[string]string, of func(L) (id, network string)) []L {
	out := slices.Clone(own)
	for _, g := range granted {
		id, _ := of(g)
		i := slices.IndexFunc(out, func(l L) bool { x, _ := of(l); return x == id })
		if i < 0 {
			out = append(out, g)
			continue
		}
		if _, network := of(out[i]); instead[id] != "" && instead[id] == network {
			out[i] = g
		}
	}
	return out
}

// ForeignGrant is the problem of a commit that changes what was granted to an instance that
// may have objects, or brings something as granted to one that had none yet; nil where it does neither.
// file is the path of its granted.yaml.
func ForeignGrant(file string, before, after *Instance) *Problem {
	switch {
	case !MayHaveObjects(after):
		return nil // a grant counts for nothing there
	case !MayHaveObjects(before):
		if after.Granted.IsZero() {
			return nil
		}
		return &Problem{File: file, Message: "only Jibe writes what an NFVO has granted, and nothing was granted to this VNF yet", Remedy: "remove the file"}
	case before.Granted.Same(after.Granted):
		return nil
	}
	return &Problem{File: file, Message: "only Jibe writes what the NFVO has granted, and this commit changes it",
		Remedy: "leave the file as it is at head (git checkout origin/main -- " + file + "); to run the VNF elsewhere, terminate it and instantiate it anew"}
}
