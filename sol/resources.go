package sol

import (
	"maps"
	"reflect"
	"strings"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/plan"
	"github.com/jibe-vnfm/jibe/sol/notify"
)

// The kinds of objects and units that the API shows as resources.
const (
	kindPod         = "Pod"
	kindStack       = "Stack"
	kindService     = "Service"
	kindClaim       = "PersistentVolumeClaim"
	kindStatefulSet = "StatefulSet"
)

// VnfcResourceInfo is SOL003 clause 5.5.3.5. Its id is the VIM's id of the unit: a pod
// that was replaced under its old name has a new one, a server that was rebuilt in place
// hasn't.
type VnfcResourceInfo struct {
	ID                 string         `json:"id"`
	VduID              string         `json:"vduId"`
	VnfdID             string         `json:"vnfdId,omitempty"`
	ComputeResource    ResourceHandle `json:"computeResource"`
	StorageResourceIDs []string       `json:"storageResourceIds,omitempty"`
	VnfcCpInfo         []VnfcCpInfo   `json:"vnfcCpInfo,omitempty"`
	Metadata           map[string]any `json:"metadata,omitempty"`
}

// VirtualLinkResourceInfo is VnfVirtualLinkResourceInfo of SOL003 clause 5.5.3.6: a
// Service, or a network of the VNF.
type VirtualLinkResourceInfo struct {
	ID              string            `json:"id"`
	VirtualLinkDesc string            `json:"vnfVirtualLinkDescId"`
	NetworkResource ResourceHandle    `json:"networkResource"`
	VnfLinkPorts    []VnfLinkPortInfo `json:"vnfLinkPorts,omitempty"`
}

// VirtualStorageResourceInfo is SOL003 clause 5.5.3.7: a claim of storage, or a volume.
type VirtualStorageResourceInfo struct {
	ID                 string         `json:"id"`
	VirtualStorageDesc string         `json:"virtualStorageDescId"`
	StorageResource    ResourceHandle `json:"storageResource"`
}

// ResourceHandle is SOL003 clause 4.4.1.7.
type ResourceHandle = notify.ResourceHandle

// named is an object of the instance, as its key names it.
type named struct{ name, incarnation, vim string }

// namedOf returns the objects of a kind that aren't being deleted, in their order; vim is
// the connection of those whose key names none.
func namedOf(objects []plan.ObservedObject, kind, vim string) (out []named) {
	for _, o := range objects {
		rest, ok := strings.CutPrefix(o.Key, kind+"/")
		namespace, name, _ := strings.Cut(rest, "/")
		if !ok || o.Deleting {
			continue
		}
		n := named{name, o.Incarnation, vim}
		if at, _, spread := strings.Cut(namespace, ":"); spread {
			n.vim = at
		}
		out = append(out, n)
	}
	return out
}

// virtualLinks returns the Services.
func virtualLinks(objects []plan.ObservedObject, vim string) (out []VirtualLinkResourceInfo) {
	for _, n := range namedOf(objects, kindService, vim) {
		out = append(out, VirtualLinkResourceInfo{ID: n.incarnation, VirtualLinkDesc: n.name,
			NetworkResource: ResourceHandle{VimConnectionID: n.vim, ResourceID: n.name, VimLevelResourceType: kindService}})
	}
	return out
}

// virtualStorages returns the claims: those of the package by their name, those of a
// StatefulSet by the name of the template that they are made of.
func virtualStorages(objects []plan.ObservedObject, vim string) (out []VirtualStorageResourceInfo) {
	sets := namedOf(objects, kindStatefulSet, vim)
	for _, n := range namedOf(objects, kindClaim, vim) {
		out = append(out, VirtualStorageResourceInfo{ID: n.incarnation, VirtualStorageDesc: template(n.name, sets),
			StorageResource: ResourceHandle{VimConnectionID: n.vim, ResourceID: n.name, VimLevelResourceType: kindClaim}})
	}
	return out
}

// template returns the name of the claim template of a StatefulSet that the claim was made
// of ("<template>-<set>-<ordinal>"), or the claim's own name where it was made of none.
func template(claim string, sets []named) string {
	head := strings.TrimRight(claim, "0123456789")
	if head == claim {
		return claim
	}
	for _, set := range sets {
		if t, ok := strings.CutSuffix(head, "-"+set.name+"-"); ok && t != "" {
			return t
		}
	}
	return claim
}

// withFiles returns metadata with the list of manifests that run, where clients look for
// it. It leaves an entry of that name in git alone.
func withFiles(metadata map[string]any, in *desired.Instance) map[string]any {
	files, ok := in.Params[defFiles]
	if _, own := metadata[defFiles]; own || !ok {
		return metadata
	}
	out := maps.Clone(metadata)
	if out == nil {
		out = map[string]any{}
	}
	out[defFiles] = files
	return out
}

// withoutFiles returns a patch of metadata without the entry that [withFiles] shows: a
// client that sends back what it read must not write it into git.
func withoutFiles(metadata map[string]any, now *desired.Instance) map[string]any {
	if _, own := now.Metadata[defFiles]; own || !desired.IsInstantiated(now.State) || !reflect.DeepEqual(metadata[defFiles], now.Params[defFiles]) {
		return metadata
	}
	out := maps.Clone(metadata)
	delete(out, defFiles)
	return out
}
