package lcm_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/lcm"
	"github.com/jibe-vnfm/jibe/plan"
)

func server(key, id string) plan.Unit {
	return plan.Unit{ID: id, Key: "Server/VDU1/" + key, Name: plan.Unit{ID: id}.Resource(), VDU: "VDU1"}
}

func port(unit, id, network string, external bool, ips ...string) plan.Resource {
	r := plan.Resource{Kind: plan.LinkPort, ID: id, Name: "CP1", Unit: "Server/VDU1/" + unit, Network: network, External: external}
	for _, ip := range ips {
		r.Addresses = append(r.Addresses, plan.Address{IP: ip})
	}
	return r
}

func volume(unit, id string) plan.Resource {
	return plan.Resource{Kind: plan.Storage, ID: id, Name: "disk", Unit: "Server/VDU1/" + unit}
}

func network(id string, external bool) plan.Resource {
	return plan.Resource{Kind: plan.VirtualLink, ID: id, Name: "internal", External: external}
}

// short lists the changes, one text each.
func short(c lcm.Changes) (out []string) {
	ids := func(rs []plan.Resource) (ids []string) {
		for _, r := range rs {
			ids = append(ids, r.ID)
		}
		return ids
	}
	for _, v := range c.Vnfcs {
		out = append(out, fmt.Sprintf("vnfc %s %s ports %v storage +%v -%v", v.ChangeType, v.ID, ids(v.Ports), ids(v.Added), ids(v.Removed)))
	}
	for _, l := range c.Links {
		out = append(out, fmt.Sprintf("link %s %s %v", l.ChangeType, l.Resource.ID, ids(l.Ports)))
	}
	for _, s := range c.Storages {
		out = append(out, fmt.Sprintf("storage %s %s", s.ChangeType, s.Resource.ID))
	}
	for _, p := range c.Ports {
		out = append(out, fmt.Sprintf("port %s %s", p.ChangeType, p.Resource.ID))
	}
	return out
}

func TestWhatUnitsUseIsPartOfTheChanges(t *testing.T) {
	one := []plan.Unit{server("a", "s1@t1")}
	used := []plan.Resource{network("net1", false), port("a", "p1", "ext", true, "10.0.0.1"), port("a", "p2", "net1", false), volume("a", "v1")}
	for _, c := range []struct {
		name          string
		before, after []plan.Unit
		had, has      []plan.Resource
		want          []string
	}{
		{"nothing", one, one, used, used, nil},
		{"the first sight of what is used", one, one, nil, used, nil},
		{"instantiated", nil, one, nil, used, []string{"vnfc ADDED s1 ports [p1 p2] storage +[v1] -[]", "link ADDED net1 [p2]", "storage ADDED v1", "port ADDED p1"}},
		{"one more", one, append(one, server("b", "s2@t1")), used, append(used, port("b", "p3", "ext", true), port("b", "p4", "net1", false), volume("b", "v2")),
			[]string{"vnfc ADDED s2 ports [p3 p4] storage +[v2] -[]", "link LINK_PORT_ADDED net1 [p4]", "storage ADDED v2", "port ADDED p3"}},
		{"terminated", one, nil, used, nil, []string{"vnfc REMOVED s1 ports [p1 p2] storage +[] -[v1]", "link REMOVED net1 [p2]", "storage REMOVED v1", "port REMOVED p1"}},
		{"rebuilt in place", one, []plan.Unit{server("a", "s1@t2")}, used, used, []string{"vnfc MODIFIED s1 ports [] storage +[] -[]"}},
		{"replaced with its volume", one, []plan.Unit{server("a", "s2@t1")}, used, used,
			[]string{"vnfc REMOVED s1 ports [p1 p2] storage +[] -[v1]", "vnfc ADDED s2 ports [p1 p2] storage +[v1] -[]"}},
		{"connected to another network", one, one, used, []plan.Resource{used[0], port("a", "p9", "ext2", true), used[2], used[3]},
			[]string{"vnfc MODIFIED s1 ports [p1 p9] storage +[] -[]", "port REMOVED p1", "port ADDED p9"}},
		{"another address", one, one, used, []plan.Resource{used[0], port("a", "p1", "ext", true, "10.0.0.2"), used[2], used[3]},
			[]string{"vnfc MODIFIED s1 ports [p1] storage +[] -[]"}},
		{"a volume made anew", one, []plan.Unit{server("a", "s1@t2")}, used, []plan.Resource{used[0], used[1], used[2], volume("a", "v2")},
			[]string{"vnfc MODIFIED s1 ports [] storage +[v2] -[v1]", "storage REMOVED v1", "storage ADDED v2"}},
		{"a network in the place of its own is none outside", nil, one, nil, []plan.Resource{network("given", true), port("a", "p1", "given", true)},
			[]string{"vnfc ADDED s1 ports [p1] storage +[] -[]", "link ADDED given [p1]"}},
	} {
		op := lcm.Operation{Type: lcm.Scale, State: lcm.Completed, UnitsBefore: c.before, UnitsAfter: c.after, ResourcesBefore: c.had, ResourcesAfter: c.has}
		if d := cmp.Diff(c.want, short(op.Changes())); d != "" {
			t.Errorf("%s: %s", c.name, d)
		}
	}
}

func TestOnlyTheNetworksThatChangeAreShown(t *testing.T) {
	link := func(id, network string) desired.ExtVirtualLink {
		return desired.ExtVirtualLink{ID: id, ResourceID: network, ExtCps: []desired.ExtCp{{CpdID: id, CpConfig: map[string]desired.ExtCpConfig{id: {CreateLinkPort: true}}}}}
	}
	with := func(links ...desired.ExtVirtualLink) *desired.Instance {
		return &desired.Instance{ExtVirtualLinks: links}
	}
	for _, c := range []struct {
		before, after *desired.Instance
		want          []desired.ExtVirtualLink
	}{
		{with(link("a", "1"), link("b", "2")), with(link("a", "1"), link("b", "3"), link("c", "4")), []desired.ExtVirtualLink{link("b", "3"), link("c", "4")}},
		{with(link("a", "1")), with(link("a", "1")), nil},
		{with(link("a", "1")), with(), nil},
		{nil, with(link("a", "1")), nil},
		{&desired.Instance{State: desired.NotInstantiated}, with(link("a", "1")), nil},
	} {
		if d := cmp.Diff(c.want, lcm.ChangedLinks(c.before, c.after)); d != "" {
			t.Error(d)
		}
	}
}
