package sol

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/internal/mergepatch"
	"github.com/jibe-vnfm/jibe/lcm"
	"github.com/jibe-vnfm/jibe/sol/rest"
)

// changeExtConn is POST vnf_instances/{id}/change_ext_conn (SOL003 clause 5.4.11). It
// commits how the VNF is connected afterwards.
func (a *api) changeExtConn(w http.ResponseWriter, r *http.Request) error {
	var req changeExtConnRequest
	if err := rest.Read(w, r, &req); err != nil {
		return err
	}
	if len(req.ExtVirtualLinks) == 0 {
		return rest.Problem(http.StatusBadRequest, "attribute \"extVirtualLinks\" is missing: it names the networks, and the connection points that are to be on them")
	}
	return a.begin(w, r, request{typ: lcm.ChangeExtConn, params: params(req),
		next: func(_ context.Context, now *desired.Instance, _ sight) (*desired.Instance, error) {
			if err := running(now); err != nil {
				return nil, err
			}
			next := *now
			next.Held = ""
			vims, err := a.placeOn(&next, req.VimConnectionInfo, now.Placement)
			if err != nil {
				return nil, err
			}
			if err := a.samePlace(now, &next); err != nil {
				return nil, err
			}
			if err := connectable("extVirtualLinks", vims); err != nil {
				return nil, err
			}
			next.ExtVirtualLinks, err = reconnected(now.ExtVirtualLinks, req.ExtVirtualLinks)
			return &next, err
		},
		born: func(_ *lcm.Operation, now, after *desired.Instance) error {
			if !slices.Contains(desired.Changed(now, after), "extVirtualLinks") {
				return rest.Problem(http.StatusConflict, "VNF instance %s is connected as the request asks already", now.ID)
			}
			return nil
		}})
}

// connectable refuses to change how a VNF is connected if all of its VIMs are Kubernetes
// clusters.
func connectable(attr string, vims []string) error {
	if slices.ContainsFunc(vims, func(t string) bool { return !strings.HasPrefix(t, kubernetes) }) {
		return nil
	}
	return rest.Problem(http.StatusUnprocessableEntity,
		"%s can't be changed on Kubernetes: how a VNF is connected there is said by the manifests of its package; leave the attribute out", attr)
}

// linksOf reads the extVirtualLinks of a VNF that isn't connected yet.
func linksOf(asked []any) ([]desired.ExtVirtualLink, error) { return reconnected(nil, asked) }

// managedOf returns have with the requested extManagedVirtualLinks, each of which replaces
// one for the same virtual link.
func managedOf(have []desired.ExtManagedVirtualLink, asked []any) ([]desired.ExtManagedVirtualLink, error) {
	var fresh []desired.ExtManagedVirtualLink
	if err := rest.Exactly("extManagedVirtualLinks", asked, &fresh); err != nil {
		return nil, err
	}
	kept := slices.DeleteFunc(slices.Clone(have), func(l desired.ExtManagedVirtualLink) bool {
		return slices.ContainsFunc(fresh, func(f desired.ExtManagedVirtualLink) bool {
			return f.VirtualLinkDescID == l.VirtualLinkDescID || f.ID == l.ID
		})
	})
	return append(kept, fresh...), nil
}

// askedLink is ExtVirtualLinkData of a request: entries of cpConfig are merge patches, and
// null removes one (clause 4.4.1.12).
type askedLink struct {
	ID              string                `json:"id"`
	VIMConnectionID string                `json:"vimConnectionId"`
	ProviderID      string                `json:"resourceProviderId"`
	ResourceID      string                `json:"resourceId"`
	ExtCps          []askedCp             `json:"extCps"`
	ExtLinkPorts    []desired.ExtLinkPort `json:"extLinkPorts"`
}

type askedCp struct {
	CpdID    string         `json:"cpdId"`
	CpConfig map[string]any `json:"cpConfig"`
}

// connects says whether the request puts an instance of the connection point on the network.
func (c askedCp) connects() bool {
	for _, v := range c.CpConfig {
		if v != nil {
			return true
		}
	}
	return false
}

// reconnected returns have with the requested extVirtualLinks (clause 5.5.2.11). A
// connection point that is put on a network leaves its former one, and networks without
// connection points are left out.
func reconnected(have []desired.ExtVirtualLink, asked []any) ([]desired.ExtVirtualLink, error) {
	const attr = "extVirtualLinks"
	var links []askedLink
	if err := rest.Exactly(attr, asked, &links); err != nil {
		return nil, err
	}
	out := left(have, links)
	seen := map[string]bool{}
	for i, l := range links {
		switch {
		case l.ID == "":
			return nil, rest.Problem(http.StatusBadRequest, "%s[%d].id is missing", attr, i)
		case seen[l.ID]:
			return nil, rest.Problem(http.StatusBadRequest, "%s names %s twice", attr, quote(l.ID))
		case l.ResourceID == "":
			return nil, rest.Problem(http.StatusBadRequest, "%s[%d].resourceId is missing: it is the id of the network at the VIM", attr, i)
		case len(l.ExtCps) == 0:
			return nil, rest.Problem(http.StatusBadRequest, "%s[%d].extCps is missing: it names the connection points that are on the network", attr, i)
		}
		seen[l.ID] = true
		at := slices.IndexFunc(out, func(x desired.ExtVirtualLink) bool { return x.ID == l.ID })
		if at < 0 {
			out, at = append(out, desired.ExtVirtualLink{ID: l.ID}), len(out)
		}
		linked, err := l.onto(out[at], fmt.Sprintf("%s[%d]", attr, i))
		if err != nil {
			return nil, err
		}
		out[at] = linked
	}
	return slices.DeleteFunc(out, func(l desired.ExtVirtualLink) bool { return len(l.ExtCps) == 0 }), nil
}

// left returns have without the connection points that the request puts on other networks.
func left(have []desired.ExtVirtualLink, asked []askedLink) []desired.ExtVirtualLink {
	to := map[string][]string{} // by connection point, the networks that it is to be on
	for _, l := range asked {
		for _, cp := range l.ExtCps {
			if cp.connects() {
				to[cp.CpdID] = append(to[cp.CpdID], l.ID)
			}
		}
	}
	out := slices.Clone(have)
	for i, l := range out {
		out[i].ExtCps = slices.DeleteFunc(slices.Clone(l.ExtCps), func(cp desired.ExtCp) bool {
			return to[cp.CpdID] != nil && !slices.Contains(to[cp.CpdID], l.ID)
		})
	}
	return out
}

// onto returns now with the requested changes. Ports that nothing uses any more are left out.
func (l askedLink) onto(now desired.ExtVirtualLink, where string) (desired.ExtVirtualLink, error) {
	out := desired.ExtVirtualLink{ID: l.ID, VIMConnectionID: l.VIMConnectionID, ProviderID: l.ProviderID, ResourceID: l.ResourceID, ExtCps: slices.Clone(now.ExtCps)}
	for i, cp := range l.ExtCps {
		if cp.CpdID == "" || len(cp.CpConfig) == 0 {
			return out, rest.Problem(http.StatusBadRequest, "%s.extCps[%d] must have cpdId, and cpConfig with an entry for each instance of the connection point", where, i)
		}
		at := slices.IndexFunc(out.ExtCps, func(x desired.ExtCp) bool { return x.CpdID == cp.CpdID })
		if at < 0 {
			out.ExtCps, at = append(out.ExtCps, desired.ExtCp{CpdID: cp.CpdID}), len(out.ExtCps)
		}
		was, err := rest.Generic(out.ExtCps[at])
		if err != nil {
			return out, err
		}
		config := map[string]desired.ExtCpConfig{}
		had, _ := was["cpConfig"].(map[string]any)
		if err := rest.Exactly(fmt.Sprintf("%s.extCps[%d].cpConfig", where, i), mergepatch.Apply(had, cp.CpConfig), &config); err != nil {
			return out, err
		}
		out.ExtCps[at].CpConfig = config
	}
	out.ExtCps = slices.DeleteFunc(out.ExtCps, func(cp desired.ExtCp) bool { return len(cp.CpConfig) == 0 })
	ports := slices.DeleteFunc(slices.Clone(now.ExtLinkPorts), func(p desired.ExtLinkPort) bool {
		return slices.ContainsFunc(l.ExtLinkPorts, func(x desired.ExtLinkPort) bool { return x.ID == p.ID }) || !usesPort(out.ExtCps, p.ID)
	})
	out.ExtLinkPorts = slices.Concat(ports, l.ExtLinkPorts)
	return out, nil
}

func usesPort(cps []desired.ExtCp, id string) bool {
	return slices.ContainsFunc(cps, func(cp desired.ExtCp) bool {
		for c := range maps.Values(cp.CpConfig) {
			if c.LinkPortID == id {
				return true
			}
		}
		return false
	})
}
