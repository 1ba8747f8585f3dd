package sol

import (
	"encoding/json"
	"net/http"

	"github.com/jibe-vnfm/jibe/lcm"
	"github.com/jibe-vnfm/jibe/sol/rest"
	"github.com/jibe-vnfm/jibe/vnfd"
)

// victimsKey is the parameter of a scale-in that names the VNFCs to remove.
const victimsKey = "vnfcInstanceId"

// victims are the VNFCs that a scale-in is to remove; none where it leaves the choice to Jibe.
type victims []string

// victimsOf reads them from the request. It doesn't need to know what runs.
func victimsOf(req scaleVnfRequest) (victims, error) {
	v, ok := req.AdditionalParams[victimsKey]
	if !ok {
		return nil, nil
	}
	b, err := json.Marshal(v)
	var ids []string
	if err != nil || json.Unmarshal(b, &ids) != nil || len(ids) == 0 {
		return nil, rest.Problem(http.StatusBadRequest, "additionalParams.%s must be a list of ids of VNFCs; leave it out to have the newest ones go", victimsKey)
	}
	if req.Type != lcm.ScaleIn {
		return nil, rest.Problem(http.StatusBadRequest, "additionalParams.%s names VNFCs that go; a %s takes none away", victimsKey, req.Type)
	}
	return ids, nil
}

// choose returns tombstones of the named VNFCs, as they run now.
func (v victims) choose(instance, aspect string, steps int, f *vnfd.Flavour, seen sight) (map[string]string, error) {
	if len(v) == 0 {
		return nil, nil
	}
	if !seen.fresh {
		return nil, rest.Problem(http.StatusServiceUnavailable, "the VIM of VNF instance %s can't be seen now, so it isn't known what runs there: ask again when it is back", instance)
	}
	units, err := healTarget{ids: v}.vnfcs(instance, seen)
	if err != nil {
		return nil, err
	}
	left := map[string]int{} // VDU -> how many more the steps remove
	for _, vdu := range f.VDUs {
		left[vdu.ID] = vdu.Deltas[aspect] * steps
	}
	doomed := map[string]string{}
	for _, u := range units {
		switch {
		case !moves(f, u.VDU, aspect):
			return nil, rest.Problem(http.StatusBadRequest, "additionalParams.%s: VNFC %s is of VDU %s, which aspect %s doesn't scale", victimsKey, vnfcInfoID(u), u.VDU, aspect)
		case left[u.VDU] == 0:
			return nil, rest.Problem(http.StatusBadRequest, "additionalParams.%s names more VNFCs of VDU %s than %d steps of aspect %s take away", victimsKey, u.VDU, steps, aspect)
		case !passive(u, seen):
			return nil, rest.Problem(http.StatusUnprocessableEntity, "additionalParams.%s: Kubernetes chooses itself which pods of a workload go; leave it out", victimsKey)
		}
		left[u.VDU]--
		doomed[u.Key] = u.ID
	}
	return doomed, nil
}

// moves says whether the aspect scales the VDU.
func moves(f *vnfd.Flavour, vdu, aspect string) bool {
	for _, v := range f.VDUs {
		if v.ID == vdu {
			return v.Deltas[aspect] > 0
		}
	}
	return false
}
