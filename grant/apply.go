package grant

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/lcm"
	"github.com/jibe-vnfm/jibe/vnfd"
)

// Apply is what the instance's granted.yaml is to say once the grant is followed. notes are
// lines for the operation's story: of what needs a person to know. seal encrypts a secret. The
// error is a [*WrongError] where the grant isn't one for the request, or can't be followed.
//
// What runs is never moved or made anew by a grant: zones, images, flavours and VIMs of a VDU
// change only where none of its units stay.
func (f *Facts) Apply(r *Request, g *Grant, seal func(endpoint, clear string) (string, error)) (next *desired.Granted, notes []string, err error) {
	if err := g.bounded(); err != nil {
		return nil, nil, err
	}
	switch {
	case g.VnfInstanceID != r.VnfInstanceID:
		return nil, nil, wrong("it is for VNF instance %q, and was asked for %s", clip(g.VnfInstanceID), r.VnfInstanceID)
	case g.VnfLcmOpOccID != r.VnfLcmOpOccID:
		return nil, nil, wrong("it is for operation %q, and was asked for %s", clip(g.VnfLcmOpOccID), r.VnfLcmOpOccID)
	}
	a := &applying{Facts: f, request: r, grant: g, next: &desired.Granted{}, vdus: map[string]*decided{}, base: map[string]desired.GrantedVDU{}}
	if was := f.Instance.Granted; was != nil && f.Operation.Type != lcm.Instantiate {
		*a.next = *was
		maps.Copy(a.base, was.VDUs)
	}
	for _, step := range []func() error{a.readInfos, a.vims, a.assets, a.join, a.links} {
		if err := step(); err != nil {
			return nil, nil, err
		}
	}
	if err := a.seal(seal); err != nil {
		return nil, nil, err
	}
	if _, err := a.next.Format(); err != nil {
		return nil, nil, wrong("%v", err)
	}
	return a.next, a.notes, nil
}

// applying is a grant on its way into granted.yaml.
type applying struct {
	*Facts
	request *Request
	grant   *Grant
	next    *desired.Granted
	// base is what was granted to VDUs before, with the VIMs at which they run from now on.
	base map[string]desired.GrantedVDU
	vdus map[string]*decided
	// names are the VIMs by the grant's keys and ids: the name by which Jibe knows each.
	names map[string]string
	fresh map[string]VIMConnection // connections that Jibe doesn't know yet, by name
	notes []string
}

// decided is what the grant says of the new units of one VDU.
type decided struct {
	vims, zones, reservations []string
	image, flavour            string
}

func (a *applying) of(vdu string) *decided {
	if a.vdus[vdu] == nil {
		a.vdus[vdu] = &decided{}
	}
	return a.vdus[vdu]
}

func include(list *[]string, s string) {
	if s != "" && !slices.Contains(*list, s) {
		*list = append(*list, s)
		slices.Sort(*list)
	}
}

// readInfos holds the grant's lists against those of the request.
func (a *applying) readInfos() error {
	if len(a.grant.Temp) > 0 {
		return wrong("it grants tempResources, and none were asked for")
	}
	zones := map[string]Zone{}
	for _, z := range a.grant.Zones {
		if z.ID == "" || z.ZoneID == "" {
			return wrong("a zone has no id or no zoneId")
		}
		zones[z.ID] = z
	}
	for _, list := range []struct {
		name    string
		granted []Info
		asked   []ResourceDefinition
	}{{"addResources", a.grant.Add, a.request.Add}, {"removeResources", a.grant.Remove, a.request.Remove}, {"updateResources", a.grant.Update, a.request.Update}} {
		seen := map[string]bool{}
		for _, info := range list.granted {
			i := slices.IndexFunc(list.asked, func(d ResourceDefinition) bool { return d.ID == info.ResourceDefinitionID })
			switch {
			case i < 0:
				return wrong("%s names the resource %q, which wasn't asked for", list.name, clip(info.ResourceDefinitionID))
			case seen[info.ResourceDefinitionID]:
				return wrong("%s names the resource %q twice", list.name, clip(info.ResourceDefinitionID))
			}
			seen[info.ResourceDefinitionID] = true
			zone, known := zones[info.ZoneID]
			if info.ZoneID != "" && !known {
				return wrong("%s names the zone %q, which isn't among its zones", list.name, clip(info.ZoneID))
			}
			if d := list.asked[i]; list.name == "addResources" && d.Type == compute {
				of := a.of(d.VduID)
				include(&of.zones, zone.ZoneID)
				include(&of.vims, cmp.Or(info.VIMConnectionID, zone.VIMConnectionID))
				include(&of.reservations, info.ReservationID)
			}
		}
		if n := len(list.granted); n > 0 && n < len(list.asked) {
			return wrong("%s grants %d of the %d resources that were asked for: all are needed", list.name, n, len(list.asked))
		}
	}
	return nil
}

// stays says whether units of the VDU stay as they are.
func (a *applying) stays(vdu string) bool {
	n := 0
	for _, u := range a.Seen.Units {
		if u.VDU == vdu && !u.Deleting && !slices.Contains(a.Moves.Leaving, u.ID) {
			n++
		}
	}
	for _, g := range a.Moves.Going {
		if g.VDU == vdu && (!g.AtMost || a.remakes()) {
			n -= g.Count
		}
	}
	return n > 0
}

// join puts what was decided about VDUs beside what was granted before.
func (a *applying) join() error {
	all := maps.Clone(a.base)
	for _, vdu := range slices.Sorted(maps.Keys(a.vdus)) {
		d, old := a.vdus[vdu], all[vdu]
		if len(d.reservations) > 1 {
			return wrong("it has several reservations for the units of VDU %s (%s): one template makes them all", vdu, strings.Join(d.reservations, ", "))
		}
		now := old
		reservation := strings.Join(d.reservations, "")
		for _, x := range []struct {
			what     string
			to       *string
			is, said string
		}{{"image", &now.Image, old.Image, d.image}, {"flavour", &now.Flavour, old.Flavour, d.flavour}, {"reservation", &now.Reservation, old.Reservation, reservation}} {
			switch changed, err := a.changes(vdu, x.what, x.is, x.said); {
			case err != nil:
				return err
			case changed:
				*x.to = x.said
			}
		}
		within := len(old.Zones) > 0 && !slices.ContainsFunc(d.zones, func(z string) bool { return !slices.Contains(old.Zones, z) })
		if !within || !a.stays(vdu) {
			switch changed, err := a.changes(vdu, "zone", strings.Join(old.Zones, ", "), strings.Join(d.zones, ", ")); {
			case err != nil:
				return err
			case changed:
				now.Zones = d.zones
			}
		}
		all[vdu] = now
	}
	maps.DeleteFunc(all, func(_ string, v desired.GrantedVDU) bool { return v.IsZero() })
	a.next.VDUs = all
	return nil
}

// changes says whether what was granted for a VDU changes to what the grant says now. It is an
// error where units that stay would have to be made anew for it.
func (a *applying) changes(vdu, what, is, said string) (bool, error) {
	switch {
	case said == "" || said == is:
		return false, nil
	case !a.stays(vdu):
		return true, nil
	case is == "":
		a.notes = append(a.notes, fmt.Sprintf("the NFVO grants the %s %s for new VNFCs of VDU %s, whose VNFCs were made before without one: it counts when they are all made anew", what, clip(said), vdu))
		return false, nil
	}
	return false, wrong("it gives the %s %s to new VNFCs of VDU %s, and its VNFCs that stay have %s: one template makes them all, so that they would be made anew", what, clip(said), vdu, is)
}

// assets reads the images and flavours.
func (a *applying) assets() error {
	flavour := a.flavour()
	put := func(kind, id, vim, value string, matches func(*vnfd.VDU) bool, to func(*decided) *string) error {
		found := slices.Contains(flavour.Storages, id)
		if value == "" {
			return wrong("it maps the %s %q to nothing", kind, clip(id))
		}
		set := func(vdu string) error {
			if vim != "" && a.names[vim] != a.at(vdu) {
				return nil // it is the one of another VIM
			}
			p := to(a.of(vdu))
			if *p != "" && *p != value {
				return wrong("it maps the %s of VDU %s to %s and to %s", kind, vdu, clip(*p), clip(value))
			}
			*p = value
			return nil
		}
		if found {
			if err := set(id); err != nil {
				return err
			}
		}
		for i := range flavour.VDUs {
			if v := &flavour.VDUs[i]; id == v.ID || id == v.Name || matches(v) {
				found = true
				if err := set(v.ID); err != nil {
					return err
				}
			}
		}
		if !found {
			return wrong("it names the %s %q, which flavour %s of the VNFD doesn't have", kind, clip(id), flavour.ID)
		}
		return nil
	}
	for _, x := range a.grant.VIMAssets.Flavours {
		if err := put("virtual compute descriptor", x.DescID, x.VIMConnectionID, x.FlavourID,
			func(v *vnfd.VDU) bool { return v.ComputeFlavour != "" && v.ComputeFlavour == x.DescID }, func(d *decided) *string { return &d.flavour }); err != nil {
			return err
		}
	}
	for _, x := range a.grant.VIMAssets.Images {
		if err := put("software image", x.ImageID, x.VIMConnectionID, x.VIMImageID,
			func(v *vnfd.VDU) bool { return v.Image != "" && v.Image == x.ImageID }, func(d *decided) *string { return &d.image }); err != nil {
			return err
		}
	}
	return nil
}

// links reads the networks.
func (a *applying) links() error {
	changed := map[string]bool{} // which the operation asks for itself
	for _, l := range a.Operation.ExtLinks {
		changed[l.ID] = true
	}
	own := map[string]string{}
	for _, l := range a.Instance.ExtVirtualLinks {
		own[l.ID] = l.ResourceID
	}
	for _, l := range a.Instance.ExtManagedVirtualLinks {
		own[l.ID] = l.ResourceID
	}
	instead := map[string]string{}
	next := slices.DeleteFunc(slices.Clone(a.next.ExtVirtualLinks), func(l desired.ExtVirtualLink) bool { return changed[l.ID] })
	for _, l := range a.grant.ExtVirtualLinks {
		l.VIMConnectionID = cmp.Or(a.names[l.VIMConnectionID], l.VIMConnectionID)
		if i := slices.IndexFunc(next, func(x desired.ExtVirtualLink) bool { return x.ID == l.ID }); i >= 0 {
			next[i] = l
		} else {
			next = append(next, l)
		}
	}
	managed := slices.Clone(a.next.ExtManagedVirtualLinks)
	for _, l := range a.grant.ExtManagedVirtualLinks {
		l.VIMConnectionID = cmp.Or(a.names[l.VIMConnectionID], l.VIMConnectionID)
		if i := slices.IndexFunc(managed, func(x desired.ExtManagedVirtualLink) bool { return x.ID == l.ID }); i >= 0 {
			managed[i] = l
		} else {
			managed = append(managed, l)
		}
	}
	replaces := func(id, network string) {
		switch was, old := own[id], a.next.Instead[id]; {
		case was != "" && was != network:
			instead[id] = was
		case old != "":
			instead[id] = old
		}
	}
	for _, l := range next {
		replaces(l.ID, l.ResourceID)
	}
	for _, l := range managed {
		replaces(l.ID, l.ResourceID)
	}
	a.next.ExtVirtualLinks, a.next.ExtManagedVirtualLinks, a.next.Instead = next, managed, instead
	return nil
}

// seal makes connections of those that Jibe doesn't know yet, with their secrets encrypted.
func (a *applying) seal(seal func(endpoint, clear string) (string, error)) error {
	for _, name := range slices.Sorted(maps.Keys(a.fresh)) {
		c := a.fresh[name]
		typ, ok := desired.NormalVIMType(c.VimType)
		if !ok {
			return wrong("vimConnectionInfo.%s has the vimType %q, which isn't known", clip(name), clip(c.VimType))
		}
		out := desired.VIMConnection{VimID: c.VimID, VimType: typ, InterfaceInfo: map[string]string{}, AccessInfo: map[string]string{}, Extra: c.Extra}
		endpoint, err := flat(c.InterfaceInfo["endpoint"])
		if err != nil {
			return wrong("vimConnectionInfo.%s.endpoint: %v", clip(name), err)
		}
		for _, part := range []struct {
			from map[string]any
			to   map[string]string
		}{{c.InterfaceInfo, out.InterfaceInfo}, {c.AccessInfo, out.AccessInfo}} {
			for _, key := range slices.Sorted(maps.Keys(part.from)) {
				text, err := flat(part.from[key])
				if err != nil {
					return wrong("vimConnectionInfo.%s.%s: %v", clip(name), clip(key), err)
				}
				if desired.IsRef(text) {
					return wrong("vimConnectionInfo.%s.%s is a reference: an NFVO gives values", clip(name), clip(key))
				}
				if desired.IsSecretKey(key) && text != "" {
					if text, err = seal(endpoint, text); err != nil {
						return fmt.Errorf("encrypt the connection %s that was granted: %w", name, err)
					}
				}
				part.to[key] = text
			}
		}
		if gap, _ := out.Gap(); gap != "" {
			return wrong("vimConnectionInfo.%s: %s", clip(name), gap)
		}
		if found, _ := out.OfKubeconfig(); found != "" {
			return wrong("vimConnectionInfo.%s: %s", clip(name), found)
		}
		if len(out.Extra) > 0 && !sameJSON(desired.SecretNames{}.Strip(out.Extra), out.Extra) {
			return wrong("vimConnectionInfo.%s.extra holds a secret: they belong in accessInfo", clip(name))
		}
		if a.next.VIMConnections == nil {
			a.next.VIMConnections = map[string]desired.VIMConnection{}
		}
		a.next.VIMConnections[name] = out
	}
	return nil
}

// flat is a value of interfaceInfo or accessInfo as text.
func flat(v any) (string, error) {
	switch v := v.(type) {
	case nil:
		return "", nil
	case string:
		return v, nil
	case bool, float64:
		b, err := json.Marshal(v)
		return string(b), err
	}
	return "", fmt.Errorf("must be text")
}

func sameJSON(a, b any) bool {
	x, err1 := json.Marshal(a)
	y, err2 := json.Marshal(b)
	return err1 == nil && err2 == nil && string(x) == string(y)
}

// maxWords is how much of an NFVO's own words a message takes over, in bytes.
const maxWords = 1000

// clip cuts somebody else's text short, and takes out what would spoil a line.
func clip(s string) string { return clipTo(s, maxWords) }

func clipTo(s string, most int) string {
	s = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, s)
	if len(s) > most {
		s = strings.ToValidUTF8(s[:most], "") + "…"
	}
	return s
}
