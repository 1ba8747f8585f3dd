package notify

import (
	"cmp"

	"github.com/jibe-vnfm/jibe/lcm"
	"github.com/jibe-vnfm/jibe/plan"
)

// ResourceChanges is the attribute of that name of VnfLcmOpOcc (SOL003 clause 5.5.2.13);
// a notification has its attributes itself.
type ResourceChanges struct {
	AffectedVnfcs           []AffectedVnfc           `json:"affectedVnfcs,omitempty"`
	AffectedVirtualLinks    []AffectedVirtualLink    `json:"affectedVirtualLinks,omitempty"`
	AffectedExtLinkPorts    []AffectedExtLinkPort    `json:"affectedExtLinkPorts,omitempty"`
	AffectedVirtualStorages []AffectedVirtualStorage `json:"affectedVirtualStorages,omitempty"`
}

// AffectedVnfc is AffectedVnfc (clause 5.5.3.13).
type AffectedVnfc struct {
	ID              string            `json:"id"`
	VduID           string            `json:"vduId"`
	ChangeType      lcm.ChangeType    `json:"changeType"`
	ComputeResource ResourceHandle    `json:"computeResource"`
	Metadata        map[string]string `json:"metadata,omitempty"`
	CpIDs           []string          `json:"affectedVnfcCpIds,omitempty"`
	AddedStorages   []string          `json:"addedStorageResourceIds,omitempty"`
	RemovedStorages []string          `json:"removedStorageResourceIds,omitempty"`
}

// AffectedVirtualLink is AffectedVirtualLink (clause 5.5.3.14).
type AffectedVirtualLink struct {
	ID              string         `json:"id"`
	VirtualLinkDesc string         `json:"vnfVirtualLinkDescId"`
	ChangeType      lcm.ChangeType `json:"changeType"`
	NetworkResource ResourceHandle `json:"networkResource"`
	LinkPortIDs     []string       `json:"vnfLinkPortIds,omitempty"`
}

// AffectedExtLinkPort is AffectedExtLinkPort (clause 5.5.3.14a).
type AffectedExtLinkPort struct {
	ID             string         `json:"id"`
	ChangeType     lcm.ChangeType `json:"changeType"`
	ExtCpID        string         `json:"extCpInstanceId"`
	ResourceHandle ResourceHandle `json:"resourceHandle"`
}

// AffectedVirtualStorage is AffectedVirtualStorage (clause 5.5.3.15).
type AffectedVirtualStorage struct {
	ID                 string         `json:"id"`
	VirtualStorageDesc string         `json:"virtualStorageDescId"`
	ChangeType         lcm.ChangeType `json:"changeType"`
	StorageResource    ResourceHandle `json:"storageResource"`
}

// ResourceHandle is ResourceHandle (clause 4.4.1.7).
type ResourceHandle struct {
	VimConnectionID      string `json:"vimConnectionId,omitempty"`
	ResourceID           string `json:"resourceId"`
	VimLevelResourceType string `json:"vimLevelResourceType,omitempty"`
}

// CpID returns the id of a VNFC's connection point (vnfcCpInfo).
func CpID(cpd string, u plan.Unit) string { return cpd + "-" + u.Name }

// Affected returns the resources that the operation affected, nil where there are none.
func Affected(op *lcm.Operation) *ResourceChanges {
	changes := op.Changes()
	if changes.Empty() {
		return nil
	}
	out := &ResourceChanges{}
	for _, c := range changes.Vnfcs {
		a := AffectedVnfc{ID: c.ID, VduID: c.Unit.VDU, ChangeType: c.ChangeType, Metadata: c.Unit.Metadata,
			ComputeResource: ResourceHandle{VimConnectionID: cmp.Or(c.Unit.VIM, op.VIM), ResourceID: c.Unit.Name, VimLevelResourceType: c.Unit.Kind},
			AddedStorages:   ids(c.Added), RemovedStorages: ids(c.Removed)}
		seen := map[string]bool{}
		for _, p := range c.Ports {
			if id := CpID(p.Name, c.Unit); !seen[id] { // one that went and one that came are of one connection point
				a.CpIDs, seen[id] = append(a.CpIDs, id), true
			}
		}
		out.AffectedVnfcs = append(out.AffectedVnfcs, a)
	}
	for _, c := range changes.Links {
		out.AffectedVirtualLinks = append(out.AffectedVirtualLinks, AffectedVirtualLink{ID: c.Resource.ID, VirtualLinkDesc: c.Resource.Name,
			ChangeType: c.ChangeType, NetworkResource: HandleOf(c.Resource, op.VIM), LinkPortIDs: ids(c.Ports)})
	}
	names := given(op)
	for _, c := range changes.Ports {
		id := cmp.Or(names[c.Resource.ID], c.Resource.ID)
		out.AffectedExtLinkPorts = append(out.AffectedExtLinkPorts, AffectedExtLinkPort{ID: id, ChangeType: c.ChangeType,
			ExtCpID: ExtPort{PortID: id}.CpInstanceID(), ResourceHandle: HandleOf(c.Resource, op.VIM)})
	}
	for _, c := range changes.Storages {
		out.AffectedVirtualStorages = append(out.AffectedVirtualStorages, AffectedVirtualStorage{ID: c.Resource.ID, VirtualStorageDesc: c.Resource.Name,
			ChangeType: c.ChangeType, StorageResource: HandleOf(c.Resource, op.VIM)})
	}
	return out
}

func ids(resources []plan.Resource) []string {
	var out []string
	for _, r := range resources {
		out = append(out, r.ID)
	}
	return out
}
