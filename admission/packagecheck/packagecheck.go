// Package packagecheck judges VNF packages: the one function by which `jibe package validate`
// and the server say what is wrong with a package. It puts together what the parts know that
// use a package, and has no rule of its own.
package packagecheck

import (
	"io/fs"

	"github.com/jibe-vnfm/jibe/drivers/kubernetes/manifest"
	"github.com/jibe-vnfm/jibe/drivers/openstack/hot"
	"github.com/jibe-vnfm/jibe/vnfd"
	"github.com/jibe-vnfm/jibe/vnfd/csar"
)

// Validate returns everything that is wrong with the package whose root is files. A package with
// an error is refused; a warning is about something that works, though hardly as it was meant,
// or that only some instances meet.
func Validate(files fs.FS) []vnfd.Problem {
	pkg, problems := csar.Check(files)
	if pkg != nil {
		problems = append(problems, Judge(pkg)...)
	}
	return vnfd.SortProblems(problems)
}

// Judge is the part of [Validate] about what instances are rendered of: manifests and Heat
// templates. The catalogue, which reads the rest itself, judges packages in git by it.
func Judge(pkg *vnfd.Package) []vnfd.Problem {
	return append(manifest.Validate(pkg), hot.Validate(pkg)...)
}
