package sol

import (
	"cmp"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/jibe-vnfm/jibe/desired"
)

// placeOn writes the VIM that the request means into the instance, and returns
// its type. A connection without interfaceInfo or accessInfo names a VIM of the
// desired repository; without any connection it is what the instance says already,
// else the default VIM. Only the first connection by key is ever used, as clients
// know it.
func (a *api) placeOn(in *desired.Instance, connections map[string]VimConnectionInfo) (string, error) {
	settings, err := a.Repo.Settings()
	if err != nil {
		return "", fmt.Errorf("VIMs of the desired repository: %w", err)
	}
	if len(connections) == 0 {
		switch {
		case in.VIM != "":
			if vim := settings.VIMs[in.VIM]; vim != nil {
				return vim.Type, nil
			}
			return "", problem(http.StatusUnprocessableEntity, "vnf.yaml names the VIM %q, but there is no vims/%s.yaml", in.VIM, in.VIM)
		case len(in.VIMConnections) > 0:
			first := slices.Min(slices.Collect(maps.Keys(in.VIMConnections)))
			return in.VIMConnections[first].VimType, nil
		}
		vim := defaultVIM(settings)
		if vim == nil {
			return "", problem(http.StatusUnprocessableEntity, "the request has no vimConnectionInfo, and no file under vims/ says default: true")
		}
		return vim.Type, nil
	}
	inline := map[string]desired.VIMConnection{}
	var named *desired.VIM
	first := ""
	for i, key := range slices.Sorted(maps.Keys(connections)) {
		c := connections[key]
		if len(c.InterfaceInfo) == 0 || len(c.AccessInfo) == 0 {
			vim := vimByID(settings, c.VimID)
			if vim == nil {
				return "", problem(http.StatusNotFound, "vimConnectionInfo.%s has no interfaceInfo and accessInfo, and no file under vims/ has the vimId %q", key, c.VimID)
			}
			if i == 0 {
				named = vim
			}
			continue
		}
		normal, ok := desired.NormalVIMType(c.VimType)
		if !ok {
			return "", problem(http.StatusBadRequest, "vimConnectionInfo.%s.vimType %q is not supported", key, c.VimType)
		}
		if i == 0 {
			first = normal
		}
		inline[key] = desired.VIMConnection{VimID: c.VimID, VimType: normal, InterfaceInfo: c.InterfaceInfo, AccessInfo: c.AccessInfo, Extra: object(c.Extra)}
	}
	if named != nil {
		in.VIM, in.VIMConnections = named.Name, nil
		return named.Type, nil
	}
	in.VIM, in.VIMConnections = "", inline
	return first, nil
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

// place is where an instance runs, as far as git tells.
type place struct {
	// name is that of a file under vims/, or "".
	name, vimType, endpoint string
}

// placeOf is where the intent has the instance run.
func (a *api) placeOf(in *desired.Instance) (place, error) {
	if in.VIM == "" && len(in.VIMConnections) > 0 {
		c := in.VIMConnections[slices.Min(slices.Collect(maps.Keys(in.VIMConnections)))]
		normal, _ := desired.NormalVIMType(c.VimType)
		return place{vimType: normal, endpoint: sameForm(c.InterfaceInfo["endpoint"])}, nil
	}
	settings, err := a.Repo.Settings()
	if err != nil {
		return place{}, fmt.Errorf("VIMs of the desired repository: %w", err)
	}
	vim := settings.VIMs[in.VIM]
	if in.VIM == "" {
		vim = defaultVIM(settings)
	}
	if vim == nil {
		return place{name: in.VIM}, nil
	}
	return place{name: vim.Name, vimType: vim.Type, endpoint: sameForm(vim.Endpoint)}, nil
}

// samePlace refuses to take a VNF that runs to another VIM.
func (a *api) samePlace(now, next *desired.Instance) error {
	was, err := a.placeOf(now)
	if err != nil {
		return err
	}
	is, err := a.placeOf(next)
	if err != nil {
		return err
	}
	known := was.endpoint != "" || was.name == "" && is.name == ""
	if was.name != "" && was.name == is.name || known && was.vimType == is.vimType && was.endpoint == is.endpoint {
		return nil
	}
	return problem(http.StatusUnprocessableEntity,
		"vimConnectionInfo names another VIM than VNF instance %s runs on (%s): a VNF that runs can't be taken elsewhere; terminate it and instantiate it there",
		now.ID, cmp.Or(was.endpoint, was.name, was.vimType))
}

// sameForm writes the endpoint of a VIM so that two ways of writing it are equal.
func sameForm(endpoint string) string {
	u, err := url.Parse(endpoint)
	if err != nil || u.Host == "" {
		return endpoint
	}
	u.Host = strings.ToLower(u.Host)
	switch u.Scheme {
	case "https":
		u.Host = strings.TrimSuffix(u.Host, ":443")
	case "http":
		u.Host = strings.TrimSuffix(u.Host, ":80")
	}
	u.Path = strings.TrimRight(u.Path, "/")
	return u.String()
}
