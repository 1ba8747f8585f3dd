package grant

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/google/uuid"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/lcm"
	"github.com/jibe-vnfm/jibe/plan"
	"github.com/jibe-vnfm/jibe/vnfd"
)

// Facts are all that is known of an operation that asks for its grant.
type Facts struct {
	Operation *lcm.Operation
	// Instance is the intent that the operation leads to; of a termination, that which ends.
	// Package is the one that it names.
	Instance *desired.Instance
	Package  *vnfd.Package
	// FromVNFD is the vnfdId before a change of package, else "".
	FromVNFD string
	// Desired, Seen and Moves are those of the plan.
	Desired plan.Desired
	Seen    plan.Observed
	Moves   plan.Moves
	// Settings are those of the desired repository.
	Settings *desired.Settings
	// Base is the URL by which clients reach Jibe's API, without a slash at the end.
	Base string
}

// ids makes the ids of resource definitions: the same resource of the same operation always has
// the same, so that a request that is repeated asks for nothing new.
var ids = uuid.MustParse("0f1f3b5e-8a4f-5f0b-9d7c-6a1f0c2e7b11")

func (f *Facts) id(parts ...string) string {
	return uuid.NewSHA1(ids, []byte(f.Operation.ID+"/"+strings.Join(parts, "/"))).String()
}

func (f *Facts) flavour() *vnfd.Flavour {
	if f.Package == nil || f.Package.VNFD == nil {
		return &vnfd.Flavour{}
	}
	flavour, ok := f.Package.VNFD.Flavour(cmp.Or(f.Instance.Flavour, f.Package.VNFD.DefaultFlavour))
	if !ok {
		return &vnfd.Flavour{}
	}
	return flavour
}

// place is the name of the VIM at which units of the VDU run, and its type; both "" where that
// isn't known.
func (f *Facts) place(vdu string) (name, typ string) {
	at, err := f.Settings.PlaceOf(f.Instance, vdu)
	if err != nil {
		return "", ""
	}
	typ, _ = at.Type()
	return at.Name, typ
}

// Request is what the NFVO is asked. It is the same whenever the facts are.
func (f *Facts) Request() *Request {
	op := f.Operation
	r := &Request{
		VnfInstanceID: op.Instance, VnfLcmOpOccID: op.ID, VnfdID: cmp.Or(f.FromVNFD, f.Instance.VnfdID),
		FlavourID: f.flavour().ID, Operation: string(op.Type), Automatic: op.Automatic,
		Links: Links{
			VnfLcmOpOcc: Link{f.Base + "/vnflcm/v2/vnf_lcm_op_occs/" + op.ID},
			VnfInstance: Link{f.Base + "/vnflcm/v2/vnf_instances/" + op.Instance},
		},
	}
	if op.Type == lcm.ChangePackage && f.FromVNFD != "" && f.FromVNFD != f.Instance.VnfdID {
		r.DstVnfdID = f.Instance.VnfdID
	}
	var params struct {
		Level      string         `json:"instantiationLevelId"`
		Additional map[string]any `json:"additionalParams"`
	}
	if json.Unmarshal(op.Params, &params) == nil {
		r.InstantiationLevelID, r.AdditionalParams = params.Level, params.Additional
	}
	if op.Type == lcm.Instantiate {
		r.InstantiationLevelID = cmp.Or(r.InstantiationLevelID, f.Instance.InstantiationLevel, f.flavour().DefaultLevel)
	}
	going, renewed := f.going()
	coming := f.coming()
	f.remove(r, going)
	f.add(r, coming)
	f.update(r, renewed)
	f.constrain(r, coming, going)
	return r
}

// going are the units that the plan takes away, and those that it may change in place. Where an
// active owner chooses who goes, they are those that it is expected to choose: the newest.
func (f *Facts) going() (going, renewed []plan.Unit) {
	for _, u := range f.Seen.Units {
		if slices.Contains(f.Moves.Leaving, u.ID) {
			going = append(going, u)
		}
	}
	for _, n := range f.Moves.Going {
		var stay []plan.Unit
		for _, u := range f.Seen.Units {
			if u.VDU == n.VDU && u.Owner == n.Owner && !u.Deleting && !slices.Contains(f.Moves.Leaving, u.ID) {
				stay = append(stay, u)
			}
		}
		slices.SortFunc(stay, func(a, b plan.Unit) int { return cmp.Or(b.Created.Compare(a.Created), cmp.Compare(b.Key, a.Key)) })
		stay = stay[:min(n.Count, len(stay))]
		if n.AtMost && !f.remakes() {
			renewed = append(renewed, stay...)
			continue
		}
		going = append(going, stay...)
	}
	byKey := func(a, b plan.Unit) int { return cmp.Or(cmp.Compare(a.Key, b.Key), cmp.Compare(a.ID, b.ID)) }
	slices.SortFunc(going, byKey)
	slices.SortFunc(renewed, byKey)
	return going, renewed
}

// remakes says whether the operation's kind of change makes units anew where it changes their
// owner.
func (f *Facts) remakes() bool {
	return f.Operation.Type == lcm.ChangePackage || f.Operation.Type == lcm.Heal || f.Operation.Type == lcm.ChangeFlavour
}

// coming is how many units of each VDU the plan makes.
func (f *Facts) coming() map[string]int {
	out := map[string]int{}
	for _, n := range f.Moves.Coming {
		if !n.AtMost || f.remakes() {
			out[n.VDU] += n.Count
		}
	}
	return out
}

// handle names the unit to the NFVO.
func (f *Facts) handle(u plan.Unit) *desired.ResourceHandle {
	vim, _ := f.place(u.VDU)
	return &desired.ResourceHandle{VIMConnectionID: cmp.Or(u.VIM, vim), ResourceID: u.Resource(), Type: u.Kind}
}

func (f *Facts) remove(r *Request, going []plan.Unit) {
	gone := map[string]bool{}
	for _, u := range going {
		gone[u.Key] = true
		r.Remove = append(r.Remove, ResourceDefinition{ID: f.id("remove", u.ID), Type: compute, VduID: u.VDU,
			VnfdID: f.of(r.VnfdID), TemplateID: u.VDU, Resource: f.handle(u)})
	}
	vim, _ := f.place("")
	for _, x := range f.Seen.Resources {
		if x.External || x.Unit != "" && !gone[x.Unit] || x.Unit == "" && f.Operation.Type != lcm.Terminate {
			continue
		}
		r.Remove = append(r.Remove, ResourceDefinition{ID: f.id("remove", string(x.Kind), x.ID), Type: string(x.Kind), VnfdID: f.of(r.VnfdID), TemplateID: x.Name,
			Resource: &desired.ResourceHandle{VIMConnectionID: cmp.Or(x.VIM, vim), ResourceID: x.ID, Type: x.Type}})
	}
}

// of is the VNFD that a definition is of, where a change of package makes that a question.
func (f *Facts) of(id string) string {
	if f.Operation.Type == lcm.ChangePackage {
		return id
	}
	return ""
}

func (f *Facts) add(r *Request, coming map[string]int) {
	flavour := f.flavour()
	vnfdID := f.of(f.Instance.VnfdID)
	for _, id := range slices.Sorted(maps.Keys(coming)) {
		vdu, known := flavour.VDU(id)
		_, typ := f.place(id)
		for i := range coming[id] {
			unit := f.id("add", id, fmt.Sprint(i))
			r.Add = append(r.Add, ResourceDefinition{ID: unit, Type: compute, VduID: id, VnfdID: vnfdID, TemplateID: id})
			if !known {
				continue
			}
			for _, storage := range vdu.Storages {
				r.Add = append(r.Add, ResourceDefinition{ID: storage + "-" + unit, Type: string(plan.Storage), VnfdID: vnfdID, TemplateID: storage})
			}
			for _, cp := range flavour.Cps {
				// A cluster's pods have no ports that anybody grants, and a port that was given exists.
				if cp.VDU == id && typ != desired.VIMKubernetes && !f.portGiven(flavour, cp.ID) {
					r.Add = append(r.Add, ResourceDefinition{ID: cp.ID + "-" + unit, Type: string(plan.LinkPort), VnfdID: vnfdID, TemplateID: cp.ID})
				}
			}
		}
	}
	if _, typ := f.place(""); f.Operation.Type != lcm.Instantiate || typ == desired.VIMKubernetes {
		return
	}
	for _, link := range flavour.Links {
		if !slices.ContainsFunc(f.Instance.ExtManagedVirtualLinks, func(l desired.ExtManagedVirtualLink) bool { return l.VirtualLinkDescID == link }) {
			r.Add = append(r.Add, ResourceDefinition{ID: f.id("add", string(plan.VirtualLink), link), Type: string(plan.VirtualLink), TemplateID: link})
		}
	}
}

// portGiven says whether the client gave the ports of the connection point.
func (f *Facts) portGiven(flavour *vnfd.Flavour, cp string) bool {
	for _, link := range f.Instance.ExtVirtualLinks {
		for _, e := range link.ExtCps {
			if e.CpdID != cp && flavour.ExtCps[e.CpdID] != cp {
				continue
			}
			for _, c := range e.CpConfig {
				if c.LinkPortID != "" {
					return true
				}
			}
		}
	}
	return false
}

// update names what stays and may be changed in place: units, and the ports on networks that the
// operation changes.
func (f *Facts) update(r *Request, renewed []plan.Unit) {
	if f.Operation.Type == lcm.Operate && len(r.Add)+len(r.Remove) == 0 {
		renewed = f.Seen.Units // which are turned on or off
	}
	for _, u := range renewed {
		r.Update = append(r.Update, ResourceDefinition{ID: f.id("update", u.ID), Type: compute, VduID: u.VDU, TemplateID: u.VDU, Resource: f.handle(u)})
	}
	if f.Operation.Type != lcm.ChangeExtConn {
		return
	}
	flavour := f.flavour()
	changed := map[string]bool{}
	for _, link := range f.Operation.ExtLinks {
		for _, e := range link.ExtCps {
			changed[cmp.Or(flavour.ExtCps[e.CpdID], e.CpdID)] = true
		}
	}
	vim, _ := f.place("")
	for _, x := range f.Seen.Resources {
		if x.Kind == plan.LinkPort && changed[x.Name] {
			r.Update = append(r.Update, ResourceDefinition{ID: f.id("update", string(x.Kind), x.ID), Type: string(x.Kind), TemplateID: x.Name,
				Resource: &desired.ResourceHandle{VIMConnectionID: cmp.Or(x.VIM, vim), ResourceID: x.ID, Type: x.Type}})
		}
	}
}

// constrain adds what must stand together or apart: by the affinity rules of the VNFD, and by
// what Jibe can do, which runs all units of a VDU at one VIM.
func (f *Facts) constrain(r *Request, coming map[string]int, going []plan.Unit) {
	refs := func(vdus ...string) (all []ResourceRef, fresh bool) {
		for _, d := range r.Add {
			if d.Type == compute && slices.Contains(vdus, d.VduID) {
				all, fresh = append(all, ResourceRef{IDType: idGrant, ResourceID: d.ID}), true
			}
		}
		for _, u := range f.Seen.Units {
			leaves := slices.ContainsFunc(going, func(g plan.Unit) bool { return g.ID == u.ID })
			if slices.Contains(vdus, u.VDU) && !u.Deleting && !leaves {
				h := f.handle(u)
				all = append(all, ResourceRef{IDType: idAtVIM, ResourceID: h.ResourceID, VIMConnectionID: h.VIMConnectionID})
			}
		}
		return all, fresh
	}
	for _, a := range f.flavour().Affinities {
		kind := affine
		if a.Anti {
			kind = antiAffin
		}
		if all, fresh := refs(a.VDUs...); fresh && len(all) > 1 {
			r.Placement = append(r.Placement, PlacementConstraint{Kind: kind, Scope: strings.ToUpper(a.Scope), Resource: all})
		}
	}
	for _, vdu := range slices.Sorted(maps.Keys(coming)) {
		if all, fresh := refs(vdu); fresh && len(all) > 1 {
			r.VIMConstraints = append(r.VIMConstraints, VIMConstraint{Resource: all})
		}
	}
}
