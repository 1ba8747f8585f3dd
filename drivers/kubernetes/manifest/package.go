package manifest

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/jibe-vnfm/jibe/drivers"
)

// manifests are what the package contributes to every one of its instances, with
// the container updates that lie on it: read once.
func (r *Renderer) manifests(src drivers.Source) ([]manifest, error) {
	return r.remembered(src, PackageKey(src), func() ([]manifest, error) {
		files, err := definitionFiles(src.Instance.Params, src.Foundation())
		if err != nil {
			return nil, err
		}
		all, err := readManifests(src.Foundation(), files)
		if err != nil {
			return nil, err
		}
		if all, err = pinned(src, all); err != nil {
			return nil, err
		}
		return overlay(src, all)
	})
}

// remembered is what read makes, once for each key. A package without a tree hash
// (a working copy) can change, and isn't remembered.
func (r *Renderer) remembered(src drivers.Source, key string, read func() ([]manifest, error)) ([]manifest, error) {
	fixed := src.Foundation().Tree != ""
	for _, pkg := range src.Overlays {
		fixed = fixed && pkg.Tree != ""
	}
	for _, pin := range src.Pinned {
		fixed = fixed && pin.Package.Tree != ""
	}
	if found, ok := r.read.Get(key); ok && fixed {
		return found, nil
	}
	all, err := read()
	if err == nil && fixed {
		r.read.Add(key, all)
	}
	return all, err
}

// PackageKey names the manifests of an instance, before they are its generation's,
// whatever else differs between instances of its package.
func PackageKey(src drivers.Source) string {
	key := src.Package.Tree
	if src.Base != nil {
		key += "\x00\x00" + src.Base.Tree
	}
	switch list := src.Instance.Params[paramFiles].(type) {
	case []string:
		key += "\x00" + strings.Join(list, "\x00")
	case []any:
		for _, x := range list {
			key += "\x00" + fmt.Sprint(x)
		}
	case nil:
	default:
		key += fmt.Sprintf("\x00%T", list)
	}
	for i, pkg := range src.Overlays {
		paths, _ := json.Marshal(src.Instance.Overlays[i].Paths) // strings always can be
		key += "\x00\x00" + pkg.Tree + string(paths)
	}
	for _, vdu := range slices.Sorted(maps.Keys(src.Pinned)) {
		files, _ := json.Marshal(src.Pinned[vdu].Files) // strings always can be
		key += "\x00\x00vdu " + src.Instance.Flavour + "\x00" + vdu + "\x00" + src.Pinned[vdu].Package.Tree + string(files)
	}
	if src.VDUs != nil {
		key += "\x00\x00at " + strings.Join(src.VDUs, "\x00")
	}
	return key
}
