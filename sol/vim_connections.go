package sol

import (
	"cmp"
	"maps"
	"slices"

	"github.com/jibe-vnfm/jibe/desired"
)

// vimName returns the key in vimConnectionInfo of the instance's main VIM, which runs all
// VDUs without a placement.
func (a *api) vimName(in *desired.Instance) string {
	switch settings, err := a.Repo.Settings(); {
	case in.VIM != "":
		return in.VIM
	case len(in.VIMConnections) > 0:
		return in.MainConnection()
	case err == nil:
		return settings.DefaultVIM()
	}
	return ""
}

// connections returns vimConnectionInfo without secrets: the main VIM of the instance, and
// those at which it places VDUs.
func (a *api) connections(in *desired.Instance) map[string]VimConnectionInfo {
	out := map[string]VimConnectionInfo{}
	settings, err := a.Repo.Settings()
	if err != nil {
		settings = &desired.Settings{}
	}
	for _, name := range append(slices.Collect(maps.Values(in.Placement)), a.vimName(in)) {
		c, inline := in.VIMConnections[name]
		vim := settings.VIMs[name]
		switch {
		case inline && name != in.VIM:
			out[name] = shownConnection(c)
		case vim != nil:
			out[name] = connectionTo(vim)
		}
	}
	if in.VIM == "" { // others that a request gave are kept, and shown
		for name, c := range in.VIMConnections {
			out[name] = shownConnection(c)
		}
	}
	return out
}

func shownConnection(c desired.VIMConnection) VimConnectionInfo {
	return VimConnectionInfo{VimID: c.VimID, VimType: c.VimType, InterfaceInfo: withoutSecrets(c.InterfaceInfo),
		AccessInfo: withoutSecrets(c.AccessInfo), Extra: redacted(desired.SecretNames{}, c.Extra)}
}

// connectionTo shows a file under vims/.
func connectionTo(vim *desired.VIM) VimConnectionInfo {
	c := VimConnectionInfo{VimID: cmp.Or(vim.ID, vim.Name), VimType: vim.Type}
	if vim.Endpoint != "" {
		c.InterfaceInfo = map[string]string{"endpoint": vim.Endpoint}
	}
	for key, value := range map[string]string{"region": vim.Region, "project": vim.Project, "projectDomain": vim.ProjectDomain, "userDomain": vim.UserDomain} {
		if value == "" {
			continue
		}
		if c.AccessInfo == nil {
			c.AccessInfo = map[string]string{}
		}
		c.AccessInfo[key] = value
	}
	return c
}

func withoutSecrets(m map[string]string) map[string]string {
	out := make(map[string]string, len(m))
	for k, v := range m {
		if !desired.IsSecretKey(k) && !desired.IsRef(v) && !desired.IsSecretValue(v) {
			out[k] = v
		}
	}
	return out
}
