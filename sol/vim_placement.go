package sol

import (
	"cmp"
	"fmt"
	"maps"
	"net/http"
	"slices"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/sol/rest"
)

// placeOn writes the VIMs of a request into the instance and returns their types. A
// connection without interfaceInfo or accessInfo names a VIM of the desired repository.
// Without any connection the instance keeps its VIM, else it gets the default VIM. placement
// maps VDUs that run at another VIM than the others to keys of connections, or to names or
// ids of VIMs of the repository; the other VDUs run at the first connection by key at which
// none is placed.
func (a *api) placeOn(in *desired.Instance, connections map[string]VimConnectionInfo, placement map[string]string) ([]string, error) {
	settings, err := a.Repo.Settings()
	if err != nil {
		return nil, fmt.Errorf("VIMs of the desired repository: %w", err)
	}
	files := map[string]string{} // key of a connection -> the name of its file under vims/
	inline := map[string]desired.VIMConnection{}
	for _, key := range slices.Sorted(maps.Keys(connections)) {
		c := connections[key]
		if len(c.InterfaceInfo) == 0 || len(c.AccessInfo) == 0 {
			vim := vimByID(settings, c.VimID)
			if vim == nil {
				return nil, rest.Problem(http.StatusNotFound, "vimConnectionInfo.%s has no interfaceInfo and accessInfo, and no file under vims/ has the vimId %q", key, c.VimID)
			}
			files[key] = vim.Name
			continue
		}
		if inline[key], err = inlineConnection(key, c); err != nil {
			return nil, err
		}
	}
	next := *in
	next.Placement = nil
	for _, vdu := range slices.Sorted(maps.Keys(placement)) {
		name := cmp.Or(files[placement[vdu]], placement[vdu])
		_, given := inline[name]
		_, had := in.VIMConnections[name]
		if vim := vimByID(settings, name); !given && !had && vim != nil {
			name = vim.Name
		} else if !given && !had {
			return nil, rest.Problem(http.StatusBadRequest, "additionalParams.%s.%s names %s, which is neither a key of vimConnectionInfo nor a VIM under vims/", placementKey, vdu, quote(name))
		}
		if next.Placement == nil {
			next.Placement = map[string]string{}
		}
		next.Placement[vdu] = name
	}
	if len(connections) > 0 {
		connect(&next, slices.Collect(maps.Keys(connections)), files, inline, placement, settings.DefaultVIM())
	}
	types, err := vimTypes(settings, &next)
	if err == nil {
		*in = next
	}
	return types, err
}

// connect has the instance run at the connections with the given keys: files under vims/,
// or connections of its own. Connections of the instance at which VDUs are placed stay.
// Where VDUs are placed at all of the keys, its main connection stays too, or else it gets
// the default VIM.
func connect(in *desired.Instance, keys []string, files map[string]string, inline map[string]desired.VIMConnection, placement map[string]string, fallback string) {
	slices.Sort(keys)
	asked, placed := slices.Collect(maps.Values(placement)), slices.Collect(maps.Values(in.Placement))
	i := slices.IndexFunc(keys, func(k string) bool { return !slices.Contains(asked, k) })
	stays := ""
	switch {
	case i >= 0:
		in.VIM = files[keys[i]]
	case in.VIM == "" && len(in.VIMConnections) > 0:
		stays = in.MainConnection()
	case in.VIM == "" && fallback != "":
		in.VIM = fallback
	}
	kept := map[string]desired.VIMConnection{}
	for key, c := range in.VIMConnections {
		if key == stays || slices.Contains(placed, key) {
			kept[key] = c
		}
	}
	for key, c := range inline {
		if in.VIM == "" || slices.Contains(placed, key) {
			kept[key] = c
		}
	}
	in.VIMConnections = kept
	if len(kept) == 0 {
		in.VIMConnections = nil
	}
}

// inlineConnection reads a connection that names no file but has all attributes itself.
func inlineConnection(key string, c VimConnectionInfo) (desired.VIMConnection, error) {
	normal, ok := desired.NormalVIMType(c.VimType)
	if !ok {
		return desired.VIMConnection{}, rest.Problem(http.StatusBadRequest, "vimConnectionInfo.%s.vimType %q is not supported", key, c.VimType)
	}
	out := desired.VIMConnection{VimID: c.VimID, VimType: normal, InterfaceInfo: c.InterfaceInfo, AccessInfo: c.AccessInfo, Extra: rest.Object(c.Extra)}
	if gap, remedy := out.Gap(); gap != "" {
		return out, rest.Problem(http.StatusBadRequest, "vimConnectionInfo.%s: %s; %s", key, gap, remedy)
	}
	if found, remedy := out.OfKubeconfig(); found != "" {
		return out, rest.Problem(http.StatusBadRequest, "vimConnectionInfo.%s: %s; %s", key, found, remedy)
	}
	return out, nil
}

// vimTypes returns the types of the VIMs at which the instance runs, its main one first.
func vimTypes(settings *desired.Settings, in *desired.Instance) ([]string, error) {
	var types []string
	places, err := settings.Places(in)
	if err == nil {
		for _, p := range places {
			var t string
			if t, err = p.Type(); err != nil {
				break
			}
			types = append(types, t)
		}
	}
	if err != nil {
		return nil, rest.Problem(http.StatusUnprocessableEntity, "%v; the request has no vimConnectionInfo that names another", err)
	}
	return types, nil
}

func vimByID(s *desired.Settings, id string) *desired.VIM {
	if id == "" {
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(s.VIMs)) {
		if s.VIMs[name].ID == id {
			return s.VIMs[name]
		}
	}
	return s.VIMs[id]
}

// samePlace refuses to take a VNF that runs, or a VDU of it, to another VIM.
func (a *api) samePlace(now, next *desired.Instance) error {
	settings, err := a.Repo.Settings()
	if err != nil {
		return fmt.Errorf("VIMs of the desired repository: %w", err)
	}
	vdus := map[string]bool{"": true}
	for _, placed := range []map[string]string{now.Placement, next.Placement} {
		for vdu := range placed {
			vdus[vdu] = true
		}
	}
	for _, vdu := range slices.Sorted(maps.Keys(vdus)) {
		was, err := settings.PlaceOf(now, vdu)
		is, unknown := settings.PlaceOf(next, vdu)
		if err != nil && unknown != nil && err.Error() == unknown.Error() {
			continue // the request doesn't change what nobody knows
		}
		if err := cmp.Or(err, unknown); err != nil {
			return rest.Problem(http.StatusUnprocessableEntity, "%v", err)
		}
		if !was.Same(is) {
			what := "VNF instance " + now.ID
			if vdu != "" {
				what = "VDU " + vdu + " of " + what
			}
			return rest.Problem(http.StatusUnprocessableEntity,
				"vimConnectionInfo names another VIM than %s runs on (%s): a VNF that runs can't be taken elsewhere; terminate it and instantiate it there",
				what, cmp.Or(was.Endpoint(), was.Name))
		}
	}
	return nil
}

// placementKey is the parameter for VDUs that run at another VIM than the others:
// VDU -> key in vimConnectionInfo, or name or vimId of a VIM of the desired repository.
const placementKey = "placement"

// placementOf reads [placementKey]; the result is nil where params don't have it.
func placementOf(params map[string]any) (map[string]string, error) {
	v, ok := params[placementKey]
	if !ok {
		return nil, nil
	}
	m, ok := v.(map[string]any)
	out := map[string]string{}
	for _, vdu := range slices.Sorted(maps.Keys(m)) {
		if out[vdu], _ = m[vdu].(string); out[vdu] == "" {
			ok = false
		}
	}
	if !ok {
		return nil, rest.Problem(http.StatusBadRequest, "additionalParams.%s must map ids of VDUs to keys of vimConnectionInfo", placementKey)
	}
	return out, nil
}
