package grant

import (
	"maps"
	"slices"

	"github.com/jibe-vnfm/jibe/desired"
)

// vims finds out where the VNF is to run.
func (a *applying) vims() error {
	if err := a.nameVIMs(); err != nil {
		return err
	}
	only := ""
	if len(a.grant.VIMConnections) == 1 {
		for key := range a.grant.VIMConnections {
			only = a.names[key]
		}
	}
	at := map[string]string{} // VDU -> VIM that the grant gives to its new units
	for _, vdu := range slices.Sorted(maps.Keys(a.vdus)) {
		name := only
		switch said := a.vdus[vdu].vims; {
		case len(said) > 1:
			return wrong("it puts units of VDU %s at several VIMs (%v): Jibe runs all of a VDU at one", vdu, said)
		case len(said) == 1:
			known := false
			if name, known = a.names[said[0]]; !known {
				return wrong("it names the VIM %q, which is neither among its vimConnectionInfo nor known to Jibe", clip(said[0]))
			}
		}
		if name == "" {
			continue
		}
		now, _ := a.place(vdu)
		if name != now && a.runs() {
			return wrong("it puts VDU %s at the VIM %s, and the VNF runs at %s: what runs isn't taken to another VIM", vdu, clip(name), now)
		}
		at[vdu] = name
	}
	if a.runs() || len(at) == 0 {
		a.fresh = nil // what runs has its connection
		return nil
	}
	a.settle(at)
	return nil
}

// runs says whether anything of the VNF exists.
func (a *applying) runs() bool { return len(a.Seen.Units) > 0 || len(a.Seen.Objects) > 0 }

// settle writes down where each VDU runs. Most of them make the main VIM.
func (a *applying) settle(at map[string]string) {
	present, _ := a.place("")
	votes := map[string]int{}
	for _, name := range at {
		votes[name]++
	}
	main := slices.MaxFunc(slices.Sorted(maps.Keys(votes)), func(x, y string) int {
		if votes[x] != votes[y] {
			return votes[x] - votes[y]
		}
		if x == present || y != present && x < y { // the first one, so that the answer is always the same
			return 1
		}
		return -1
	})
	if main != present {
		a.next.VIM = main
	}
	used := []string{main}
	for vdu, name := range at {
		v := a.base[vdu]
		v.VIM = ""
		if now, _ := a.place(vdu); name != main || now != present { // or vnf.yaml places it elsewhere
			v.VIM = name
			used = append(used, name)
		}
		a.base[vdu] = v
	}
	maps.DeleteFunc(a.fresh, func(name string, _ VIMConnection) bool { return !slices.Contains(used, name) })
}

// at is the VIM of the VDU once the grant is followed.
func (a *applying) at(vdu string) string {
	if v := a.base[vdu].VIM; v != "" {
		return v
	}
	now, _ := a.place(vdu)
	if present, _ := a.place(""); a.next.VIM != "" && now == present {
		return a.next.VIM
	}
	return now
}

// nameVIMs finds the name of each VIM that the grant may mean: a file under vims/ by its name or
// id, a connection of the instance, or one that the grant brings itself.
func (a *applying) nameVIMs() error {
	a.names, a.fresh = map[string]string{}, map[string]VIMConnection{}
	own := a.Instance.WithGrant().VIMConnections
	for name := range own {
		a.names[name] = name
	}
	for name, v := range a.Settings.VIMs {
		a.names[name] = name
		if v.ID != "" {
			a.names[v.ID] = name
		}
	}
	for _, key := range slices.Sorted(maps.Keys(a.grant.VIMConnections)) {
		c := a.grant.VIMConnections[key]
		endpoint, _ := c.InterfaceInfo["endpoint"].(string)
		typ, _ := desired.NormalVIMType(c.VimType)
		known := ""
		for _, name := range slices.Sorted(maps.Keys(a.Settings.VIMs)) {
			v := a.Settings.VIMs[name]
			if c.VimID != "" && (v.ID == c.VimID || v.ID == "" && name == c.VimID) ||
				endpoint != "" && typ == v.Type && typ != desired.VIMOpenStack && desired.SameEndpoint(endpoint, v.Endpoint) {
				known = name
			}
		}
		_, had := own[key]
		switch {
		case known != "":
			a.names[key] = known
		case had: // the request's own connection, which the grant repeats
			a.names[key] = key
		case len(c.InterfaceInfo) == 0 || len(c.AccessInfo) == 0:
			return wrong("vimConnectionInfo.%s has no interfaceInfo and accessInfo, and no file under vims/ has the vimId %q", clip(key), clip(c.VimID))
		case a.Settings.VIMs[key] != nil:
			return wrong("vimConnectionInfo.%s is another VIM than %s", clip(key), desired.VIMFile(key))
		default:
			a.names[key], a.fresh[key] = key, c
			if c.VimID != "" {
				a.names[c.VimID] = key
			}
		}
	}
	return nil
}
