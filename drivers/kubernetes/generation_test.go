package kubernetes_test

import (
	"io/fs"
	"slices"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/drivers"
	"github.com/jibe-vnfm/jibe/vnfd"
)

// updated is the source with a container update on top, whose package has the same
// descriptor.
func updated(src drivers.Source, files fs.FS, paths ...string) drivers.Source {
	in := *src.Instance
	next := &vnfd.Package{Tree: treeOf(files), Files: files, VNFD: src.Package.VNFD}
	if in.Base == "" {
		in.Base, src.Base = src.Package.Tree, src.Package
	}
	in.Package = next.Tree
	in.Overlays = append(slices.Clone(in.Overlays), desired.Overlay{Package: next.Tree, Paths: paths})
	return drivers.Source{Instance: &in, Package: next, Base: src.Base, Overlays: append(slices.Clone(src.Overlays), next)}
}
