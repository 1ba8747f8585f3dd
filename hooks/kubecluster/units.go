package kubecluster

import (
	"cmp"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strings"

	"github.com/jibe-vnfm/jibe/hooks"
	"github.com/jibe-vnfm/jibe/hooks/kubecluster/params"
	"github.com/jibe-vnfm/jibe/vnfd"
)

// role is the masters or the workers: what the parameters say of them, and the VDUs that play
// it.
type role struct {
	params.Role
	vdus []string
}

// machine is a unit that is, or is to be, a node.
type machine struct {
	hooks.Unit
	*role
	vduID string
}

// String names the machine to people, with the address to log in to.
func (m machine) String() string {
	text := m.vduID + " " + m.Name
	if a := m.sshAddress(); a != "" {
		text += " (" + a + ")"
	}
	return text
}

func (m machine) isMaster() bool { return m.Field == "master_node" }

// sshAddress returns where to log in, "" where nobody knows.
func (m machine) sshAddress() string { return m.address(m.SSHCP, false) }

// nodeAddress returns the machine's address as a node, "" where nobody knows. It is a fixed
// one, as the machine must know it itself.
func (m machine) nodeAddress() string { return m.address(m.NicCP, true) }

// address returns an address at a connection point; floating ones stand before fixed ones.
func (m machine) address(cp string, fixed bool) string {
	all := m.Addresses[cp]
	if len(all) == 0 {
		return ""
	}
	if !fixed {
		return all[0]
	}
	for _, a := range slices.Backward(all) {
		if ip, err := netip.ParseAddr(a); err == nil && ip.Is4() {
			return a
		}
	}
	return all[len(all)-1]
}

// reachable refuses a machine without the connection points that the parameters name.
func (m machine) reachable() error {
	for _, cp := range []string{m.SSHCP, m.NicCP} {
		if len(m.Addresses[cp]) == 0 {
			return fmt.Errorf("%s has no address at the connection point %q; see %s in the parameters (it has %s)", m, cp, m.Field, connectionPoints(m.Unit))
		}
	}
	return nil
}

func connectionPoints(u hooks.Unit) string {
	var names []string
	for name := range u.Addresses {
		names = append(names, name)
	}
	if slices.Sort(names); len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}

// findVDUs says which VDUs are masters and workers where the parameters name an aspect.
func (d *driver) findVDUs() error {
	for _, one := range []*role{&d.master, &d.worker} {
		if one.VDU != "" {
			one.vdus = []string{one.VDU}
			continue
		}
		vdus, err := d.scaledBy(one.Aspect)
		if err != nil {
			return fmt.Errorf("params.%s.%s.aspect_id: %w; name the VDU with vdu_id in its place", params.Name, one.Field, err)
		}
		one.vdus = vdus
	}
	for _, vdu := range d.master.vdus {
		if slices.Contains(d.worker.vdus, vdu) {
			return fmt.Errorf("params.%s: VDU %s can't be both master_node and worker_node", params.Name, vdu)
		}
	}
	return nil
}

// flavours returns what the package's VNFD says of the instance's flavour, of all where nobody
// knows which it has.
func (d *driver) flavours() ([]*vnfd.Flavour, error) {
	dir, err := d.packageDir()
	if err != nil {
		return nil, err
	}
	p, err := vnfd.Load(os.DirFS(dir))
	if err != nil {
		return nil, err
	}
	var all []*vnfd.Flavour
	for i := range p.VNFD.Flavours {
		if f := &p.VNFD.Flavours[i]; d.in.Instance.Flavour == "" || f.ID == d.in.Instance.Flavour {
			all = append(all, f)
		}
	}
	return all, nil
}

// scaledBy returns the VDUs that an aspect scales.
func (d *driver) scaledBy(aspect string) ([]string, error) {
	flavours, err := d.flavours()
	if err != nil {
		return nil, err
	}
	var vdus []string
	for _, f := range flavours {
		for _, v := range f.VDUs {
			if _, ok := v.Deltas[aspect]; ok {
				vdus = append(vdus, v.ID)
			}
		}
	}
	if len(vdus) == 0 {
		return nil, fmt.Errorf("the VNFD has no VDU that aspect %q scales", aspect)
	}
	return vdus, nil
}

// packageDir returns where the package's files are.
func (d *driver) packageDir() (string, error) {
	for _, p := range []*hooks.Package{d.in.After, d.in.Before} {
		if p != nil && p.Dir != "" {
			return p.Dir, nil
		}
	}
	return os.Getwd() // hooks run in their package
}

func (d *driver) roleOf(vdu string) *role {
	switch {
	case slices.Contains(d.master.vdus, vdu):
		return &d.master
	case slices.Contains(d.worker.vdus, vdu):
		return &d.worker
	}
	return nil
}

// of returns the machines of the cluster among the targets, in an order that stays the same:
// masters first, then by address.
func (d *driver) of(targets []hooks.Target) []machine {
	var out []machine
	for _, t := range targets {
		if r := d.roleOf(t.VduID); r != nil {
			out = append(out, machine{Unit: t.Unit, role: r, vduID: t.VduID})
		}
	}
	slices.SortFunc(out, func(a, b machine) int {
		switch {
		case a.isMaster() != b.isMaster() && a.isMaster():
			return -1
		case a.isMaster() != b.isMaster():
			return 1
		}
		x, _ := netip.ParseAddr(a.nodeAddress())
		y, _ := netip.ParseAddr(b.nodeAddress())
		return cmp.Or(x.Compare(y), cmp.Compare(a.Name, b.Name))
	})
	return out
}

// masters returns the masters that may answer: all but those that this operation has removed,
// or is about to.
func (d *driver) masters() []machine {
	goes := map[string]bool{}
	for _, t := range d.in.Removed {
		// A rollback keeps those that are still there.
		goes[t.Unit.ID] = !strings.Contains(d.in.Hook, "_rollback_") || !t.Unit.Ready
	}
	var all []hooks.Target
	for _, v := range d.in.VDUs {
		for _, u := range slices.Concat(v.Old, v.New) {
			if slices.Contains(d.master.vdus, v.ID) && !goes[u.ID] {
				all = append(all, hooks.Target{VduID: v.ID, Unit: u})
			}
		}
	}
	return slices.DeleteFunc(d.of(all), func(m machine) bool { return m.sshAddress() == "" })
}

// part splits masters from workers.
func part(all []machine) (masters, workers []machine) {
	for _, m := range all {
		if m.isMaster() {
			masters = append(masters, m)
		} else {
			workers = append(workers, m)
		}
	}
	return masters, workers
}

// names returns the names that a machine's node may have, the shortest first: users know nodes
// as worker and the last number of the address.
func (m machine) names() []string {
	prefix := "worker"
	if m.isMaster() {
		prefix = "master"
	}
	ip, err := netip.ParseAddr(m.nodeAddress())
	if err != nil || !ip.Is4() {
		return []string{prefix + "-" + strings.Trim(strings.NewReplacer(":", "-", ".", "-").Replace(m.nodeAddress()), "-")}
	}
	numbers := strings.Split(ip.String(), ".")
	var out []string
	for i := range slices.Backward(numbers) {
		out = append(out, prefix+strings.Join(numbers[i:], "-"))
	}
	return out
}
