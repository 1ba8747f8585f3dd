package sol

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"unicode"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/lcm"
	"github.com/jibe-vnfm/jibe/plan"
	"github.com/jibe-vnfm/jibe/sol/rest"
)

// heal is POST vnf_instances/{id}/heal (SOL003 clause 5.4.9; SOL002 has the choice
// of VNFCs). It commits tombstones of the incarnations that run now.
func (a *api) heal(w http.ResponseWriter, r *http.Request) error {
	var req healVnfRequest
	if err := rest.Read(w, r, &req); err != nil {
		return err
	}
	target, err := targetOf(req)
	if err != nil {
		return err
	}
	return a.begin(w, r, request{typ: lcm.Heal, params: params(req), beside: true,
		next: func(ctx context.Context, now *desired.Instance, seen sight) (*desired.Instance, error) {
			if err := running(now); err != nil {
				return nil, err
			}
			doomed, err := target.choose(now, seen)
			if err != nil {
				return nil, err
			}
			next := *now
			next.Held = ""
			next.Condemned = merged(now.Condemned, doomed)
			if len(now.Overlays) == 0 || !target.whole() {
				return &next, nil
			}
			// Container updates end: everything is created again, of the new package alone.
			next.Base, next.Overlays = "", nil
			return a.listing(ctx, now, &next, nil)
		},
		note: func(seen sight) string { return target.note(seen, req.Cause) }})
}

// merged returns the present tombstones and more.
func merged(standing, more map[string]string) map[string]string {
	if len(more) == 0 {
		return standing
	}
	out := maps.Clone(standing)
	if out == nil {
		out = map[string]string{}
	}
	maps.Copy(out, more)
	return out
}

// healTarget says what a HealVnfRequest is to heal.
type healTarget struct {
	// ids name single VNFCs; none means the whole VNF.
	ids []string
	// data says that storage is healed too: for the whole VNF the claims and volumes of
	// the package, for single VNFCs their own. units says that only VNFCs are healed.
	data, units bool
}

// targetOf reads the target from the request. It doesn't need to know what runs.
func targetOf(req healVnfRequest) (healTarget, error) {
	t := healTarget{ids: req.VnfcInstanceID.list}
	if req.VnfcInstanceID.set && len(t.ids) == 0 {
		return t, rest.Problem(http.StatusBadRequest, "vnfcInstanceId names no VNFC; leave it out to heal the whole VNF")
	}
	if v, ok := req.AdditionalParams["all"]; ok {
		all, ok := v.(bool)
		if !ok {
			return t, rest.Problem(http.StatusBadRequest, "additionalParams.all must be true or false")
		}
		t.data, t.units = all, !all
	}
	return t, nil
}

// whole says whether every object is created again, and not VNFCs alone.
func (t healTarget) whole() bool { return len(t.ids) == 0 && !t.units }

// choose returns tombstones for the target, of what runs now. There are none for a VNF of which nothing
// runs, and which is held for an operation that failed: its heal brings it back.
func (t healTarget) choose(now *desired.Instance, seen sight) (map[string]string, error) {
	instance := now.ID
	if !seen.fresh {
		return nil, rest.Problem(http.StatusServiceUnavailable, "the VIM of VNF instance %s can't be seen now, so it isn't known what runs there: ask again when it is back", instance)
	}
	objects, units, err := t.means(instance, seen)
	if err != nil {
		return nil, err
	}
	doomed := map[string]string{}
	for _, o := range objects {
		doomed[o.Key] = o.Incarnation
	}
	for _, u := range units {
		doomed[u.Key] = u.ID
	}
	if len(doomed) == 0 && now.Held != "" && len(t.ids) == 0 {
		return nil, nil
	}
	if len(doomed) == 0 {
		return nil, rest.Problem(http.StatusConflict, "there is nothing to heal on VNF instance %s: nothing of it runs now that isn't being deleted already", instance)
	}
	return doomed, nil
}

// means returns the objects and units of the target. Claims of a StatefulSet, namespaces
// and definitions always stay.
func (t healTarget) means(instance string, seen sight) (objects []plan.ObservedObject, units []plan.Unit, err error) {
	if !t.whole() {
		if units, err = t.vnfcs(instance, seen); err == nil && t.data {
			objects, err = storageOf(units, seen)
		}
		return objects, units, err
	}
	kept := map[string]bool{}
	for _, o := range seen.Objects {
		switch {
		case o.Deleting:
		case o.Retention == plan.RetainNot || t.data && o.Retention == plan.RetainData:
			objects = append(objects, o)
		case o.Retention == plan.RetainData:
			kept[o.Key] = true
		}
	}
	for _, u := range sorted(seen.Units) {
		if kept[u.Owner] { // its owner stays, but the unit is replaced
			units = append(units, u)
		}
	}
	return objects, units, nil
}

// storageOf returns the volumes that only these units use. It refuses units whose owner
// replaces them itself: the VIM can't create the volumes of single ones again.
func storageOf(units []plan.Unit, seen sight) ([]plan.ObservedObject, error) {
	var out []plan.ObservedObject
	for _, u := range units {
		if !passive(u, seen) {
			return nil, rest.Problem(http.StatusBadRequest,
				"additionalParams.all can't be true together with vnfcInstanceId: Kubernetes can't heal single networks or volumes; leave one of them out")
		}
		for _, o := range seen.Objects {
			if !o.Deleting && slices.ContainsFunc(seen.Resources, func(r plan.Resource) bool {
				return r.Kind == plan.Storage && r.Unit == u.Key && r.ID == o.Incarnation
			}) {
				out = append(out, o)
			}
		}
	}
	return out, nil
}

// passive says whether the unit has a passive owner, so that Jibe decides what becomes of it.
func passive(u plan.Unit, seen sight) bool {
	return slices.ContainsFunc(seen.Objects, func(o plan.ObservedObject) bool { return o.Key == u.Owner && o.Passive })
}

// vnfcs returns the units with the ids, or all units if there are no ids. An id is
// vnfcResourceInfo.id, the VIM's name (computeResource.resourceId) or vnfcInfo.id.
func (t healTarget) vnfcs(instance string, seen sight) ([]plan.Unit, error) {
	if len(t.ids) == 0 {
		return sorted(seen.Units), nil
	}
	names := naming(seen.Units)
	var out []plan.Unit
	asked := map[string]string{} // incarnation -> the id that the request has for it
	for _, id := range t.ids {
		u, err := names.one(instance, id, seen)
		if err != nil {
			return nil, err
		}
		if was, twice := asked[u.ID]; twice {
			if was == id {
				return nil, rest.Problem(http.StatusBadRequest, "vnfcInstanceId holds %s twice", quote(id))
			}
			return nil, rest.Problem(http.StatusBadRequest, "vnfcInstanceId holds the same VNFC twice: %s is %s", quote(id), quote(was))
		}
		asked[u.ID] = id
		out = append(out, u)
	}
	return out, nil
}

// vnfcNames finds units by the ids that clients may use.
type vnfcNames map[string][]plan.Unit

// vnfcInfoID returns vnfcInfo.id of the unit.
func vnfcInfoID(u plan.Unit) string { return u.VDU + "-" + u.Name }

func naming(units []plan.Unit) vnfcNames {
	names := make(vnfcNames, 3*len(units))
	for _, u := range units {
		forms := []string{u.ID, u.Resource(), u.Name, vnfcInfoID(u)}
		slices.Sort(forms)
		for _, form := range slices.Compact(forms) {
			names[form] = append(names[form], u)
		}
	}
	return names
}

// one returns the unit with the id. Where there isn't exactly one, it refuses the request.
func (n vnfcNames) one(instance, id string, seen sight) (plan.Unit, error) {
	found := n[id]
	for _, u := range found {
		if u.Resource() == id { // the VIM's id goes before names of others
			found = []plan.Unit{u}
			break
		}
	}
	switch {
	case len(found) > 1:
		var ids []string
		for _, u := range found {
			ids = append(ids, u.Resource())
		}
		return plan.Unit{}, rest.Problem(http.StatusBadRequest, "vnfcInstanceId %s means more than one VNFC: say which by its vnfcResourceInfo id, one of %s", quote(id), strings.Join(ids, ", "))
	case len(found) == 1 && found[0].Deleting:
		return plan.Unit{}, rest.Problem(http.StatusBadRequest, "vnfcInstanceId %s: %s is being deleted already; %s", quote(id), found[0].Name, current(instance, seen))
	case len(found) == 1:
		return found[0], nil
	}
	for _, u := range naming(seen.Others)[id] {
		return plan.Unit{}, rest.Problem(http.StatusBadRequest, "vnfcInstanceId %s (%s) can't be healed: %s; %s", quote(id), u.Key, cmp.Or(u.Reason, "it is no VNFC"), current(instance, seen))
	}
	return plan.Unit{}, rest.Problem(http.StatusBadRequest, "vnfcInstanceId %s is no VNFC of VNF instance %s; %s", quote(id), instance, current(instance, seen))
}

// mostIDs is how many VNFCs an error lists.
const mostIDs = 50

// current lists what could be healed, by the ids of vnfcInfo and vnfcResourceInfo.
func current(instance string, seen sight) string {
	units := sorted(seen.Units)
	if len(units) == 0 {
		return "it has no VNFC now"
	}
	var ids []string
	for _, u := range units[:min(len(units), mostIDs)] {
		ids = append(ids, fmt.Sprintf("%s (%s)", vnfcInfoID(u), u.Resource()))
	}
	if more := len(units) - len(ids); more > 0 {
		ids = append(ids, fmt.Sprintf("and %d more", more))
	}
	return "the VNFCs are now: " + strings.Join(ids, ", ")
}

// mostID is how much of an id an error quotes.
const mostID = 100

func quote(id string) string {
	if len(id) > mostID {
		return fmt.Sprintf("%.*q…", mostID, id)
	}
	return fmt.Sprintf("%q", id)
}

// note returns the body of the commit's message: what is healed, and why.
func (t healTarget) note(seen sight, cause string) string {
	var b strings.Builder
	objects, units, _ := t.means("", seen) // choose has found them in the same sight
	switch {
	case len(t.ids) > 0:
		for _, u := range units {
			fmt.Fprintf(&b, "Heal VNFC %s (%s)\n", u.Resource(), u.Key)
		}
		for _, o := range objects {
			fmt.Fprintf(&b, "Heal its storage %s (%s)\n", o.Incarnation, o.Key)
		}
	case t.units:
		fmt.Fprintf(&b, "Heal the VNFCs of the whole VNF (%d VNFCs)\n", len(units))
	case len(units) > 0:
		fmt.Fprintf(&b, "Heal the whole VNF (%d objects and %d VNFCs)\n", len(objects), len(units))
	default:
		fmt.Fprintf(&b, "Heal the whole VNF (%d objects)\n", len(objects))
	}
	if cause = oneLine(cause); cause != "" {
		fmt.Fprintf(&b, "Cause: %s\n", cause)
	}
	return b.String()
}

// mostCause is how much of a cause is in the commit, in characters; the whole
// of it is in the operation's parameters.
const mostCause = 300

// oneLine returns s without line ends, control characters and marks that turn the direction
// of writing, so that it can't be taken for anything else in a commit's message.
func oneLine(s string) string {
	s = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, s)
	r := []rune(strings.Join(strings.Fields(s), " "))
	if len(r) > mostCause {
		return string(r[:mostCause]) + "…"
	}
	return string(r)
}

// vnfcIDs is a list of ids. It distinguishes an empty list, or null, from an absent one,
// which means the whole VNF.
type vnfcIDs struct {
	list []string
	set  bool
}

// UnmarshalJSON implements [json.Unmarshaler].
func (v *vnfcIDs) UnmarshalJSON(b []byte) error {
	v.list, v.set = nil, true
	if json.Unmarshal(b, &v.list) != nil {
		return rest.Problem(http.StatusBadRequest, "attribute \"vnfcInstanceId\" must be a list of ids")
	}
	return nil
}

// MarshalJSON implements [json.Marshaler].
func (v vnfcIDs) MarshalJSON() ([]byte, error) { return json.Marshal(v.list) }

// IsZero keeps an absent list absent.
func (v vnfcIDs) IsZero() bool { return !v.set }
