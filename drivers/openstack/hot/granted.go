package hot

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/jibe-vnfm/jibe/desired"
)

// size sets of what a VDU is made: as it was granted, else as the VNFD says.
func (in *Input) size(entry map[string]any, id, flavour, image string) {
	g := in.Granted[id]
	set(entry, keyFlavour, cmp.Or(g.Flavour, flavour))
	set(entry, keyImage, cmp.Or(g.Image, image))
	set(entry, keyReserved, g.Reservation)
	if len(g.Zones) == 1 {
		set(entry, keyZone, g.Zones[0])
	}
}

// checkGranted refuses what was granted and the templates can't follow, as they don't read it.
func (f *Folder) checkGranted(in *Input, paths [][]string) error {
	for _, id := range sorted(in.Granted) {
		g := in.Granted[id]
		if in.Runs != nil && !in.Runs(id) {
			continue
		}
		if len(g.Zones) > 1 {
			return &InputError{desired.GrantedFile, fmt.Sprintf("VDU %s was granted several zones (%v), and a template makes all of its servers in one", id, g.Zones)}
		}
		for _, x := range []struct{ what, key, value string }{
			{"zone", keyZone, zoneOf(g)}, {"image", keyImage, g.Image}, {"flavour", keyFlavour, g.Flavour}, {"reservation", keyReserved, g.Reservation},
		} {
			reads := slices.ContainsFunc(paths, func(p []string) bool {
				if len(p) < 2 {
					return true // a nested file reads parts of it
				}
				vdu, known := in.vdu(p[1], unindexed(p[1]))
				return p[0] == "VDU" && (p[1] == id || known && vdu.ID == id) && (len(p) == 2 || p[2] == x.key)
			})
			if x.value != "" && !reads {
				return &InputError{desired.GrantedFile, fmt.Sprintf("the %s %s was granted for VDU %s, and no template in %s reads it: have one read nfv.VDU.%s.%s", x.what, x.value, id, f.Dir, id, x.key)}
			}
		}
	}
	return nil
}

func zoneOf(g desired.GrantedVDU) string {
	if len(g.Zones) == 0 {
		return ""
	}
	return g.Zones[0]
}
