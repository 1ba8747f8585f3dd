package sol

import (
	"maps"
	"reflect"
	"strings"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/reconciler/plan"
)

// The kinds of Kubernetes that are shown as virtual links and storages.
const (
	kindService     = "Service"
	kindClaim       = "PersistentVolumeClaim"
	kindStatefulSet = "StatefulSet"
)

// namesOf are the names of the objects of a kind that aren't going, with their
// incarnations, in the order of objects.
func namesOf(objects []plan.ObservedObject, kind string) (names, incarnations []string) {
	for _, o := range objects {
		rest, ok := strings.CutPrefix(o.Key, kind+"/")
		_, name, _ := strings.Cut(rest, "/")
		if ok && !o.Deleting {
			names, incarnations = append(names, name), append(incarnations, o.Incarnation)
		}
	}
	return names, incarnations
}

// virtualLinks are the Services.
func virtualLinks(objects []plan.ObservedObject, vim string) (out []VirtualLinkResourceInfo) {
	names, incarnations := namesOf(objects, kindService)
	for i, name := range names {
		out = append(out, VirtualLinkResourceInfo{ID: incarnations[i], VirtualLinkDesc: name,
			NetworkResource: ResourceHandle{VimConnectionID: vim, ResourceID: name, VimLevelResourceType: kindService}})
	}
	return out
}

// virtualStorages are the claims: those of the package by their name, those of a
// StatefulSet by the name of the template that they are made of.
func virtualStorages(objects []plan.ObservedObject, vim string) (out []VirtualStorageResourceInfo) {
	names, incarnations := namesOf(objects, kindClaim)
	sets, _ := namesOf(objects, kindStatefulSet)
	for i, name := range names {
		out = append(out, VirtualStorageResourceInfo{ID: incarnations[i], VirtualStorageDesc: template(name, sets),
			StorageResource: ResourceHandle{VimConnectionID: vim, ResourceID: name, VimLevelResourceType: kindClaim}})
	}
	return out
}

// template is the name of the claim template of a StatefulSet that the claim was made
// of ("<template>-<set>-<ordinal>"), or the claim's own where it was made of none.
func template(claim string, sets []string) string {
	head := strings.TrimRight(claim, "0123456789")
	if head == claim {
		return claim
	}
	for _, set := range sets {
		if t, ok := strings.CutSuffix(head, "-"+set+"-"); ok && t != "" {
			return t
		}
	}
	return claim
}

// withFiles is metadata with the manifests that run, as clients find them there. An
// entry of that name which git has is left alone.
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

// withoutFiles is a patch of metadata without what [withFiles] only shows: a client
// that sends back what it read must not write it into git.
func withoutFiles(metadata map[string]any, now *desired.Instance) map[string]any {
	if _, own := now.Metadata[defFiles]; own || now.State != desired.Instantiated || !reflect.DeepEqual(metadata[defFiles], now.Params[defFiles]) {
		return metadata
	}
	out := maps.Clone(metadata)
	delete(out, defFiles)
	return out
}
