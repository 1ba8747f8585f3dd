package hooks

import (
	"fmt"
	"slices"
	"strings"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/lcm"
	"github.com/jibe-vnfm/jibe/vnfd"
)

// Repositories knows which package repositories let the hooks of their packages run.
type Repositories interface {
	// Hooks says whether the hooks of the package may run: a repository that has the tree
	// allows it, and so does the host.
	Hooks(tree string) bool
	// WaysToHooks says for each repository that has the package what would let its hooks run.
	WaysToHooks(tree string) []string
}

// InvalidError is returned for intent that the hooks of a package can't be run with.
type InvalidError struct {
	// Field is the one of vnf.yaml that is at fault ("hooks", "update.coordinate.params").
	Field string
	// Reason says what is wrong and what to do about it.
	Reason string
}

func (e *InvalidError) Error() string { return e.Field + ": " + e.Reason }

// Permit refuses an operation whose hooks may not run, with an [*InvalidError] that names
// them and what can be done about it. To pass over them would end in a VNF of which nobody
// knows that they are missing: a scale-in that drained nothing.
func Permit(repositories Repositories, t lcm.Type, needed []Needed) error {
	var barred, remedies []string
	for _, x := range needed {
		if repositories.Hooks(x.Package.Tree) {
			continue
		}
		barred = append(barred, fmt.Sprintf("%s (%s)", x.Path, x.Hook))
		if way := allowing(repositories, x.Package); !slices.Contains(remedies, way) {
			remedies = append(remedies, way)
		}
	}
	if len(barred) == 0 {
		return nil
	}
	return &InvalidError{Field: "hooks", Reason: fmt.Sprintf(
		"%s needs hooks of the package that may not run: %s. %s", t, strings.Join(barred, ", "), waysOut(remedies...))}
}

// Runnable returns an error that says why a file of the package can't be run as a hook.
// Whether it may run doesn't matter to one that is skipped.
func Runnable(repositories Repositories, pkg *vnfd.Package, file string, skipped bool) error {
	if !skipped && !repositories.Hooks(pkg.Tree) {
		return fmt.Errorf("%s: package %s may not run hooks. %s", file, pkg.VNFD.ID, waysOut(allowing(repositories, pkg)))
	}
	if !hasFile(pkg, file) {
		return fmt.Errorf("package %s of VNFD %s has no file %s", pkg.Tree, pkg.VNFD.ID, file)
	}
	return nil
}

// waysOut says what can be done about hooks that may not run; remedies say what would
// allow them.
func waysOut(remedies ...string) string {
	return fmt.Sprintf("Either allow them: %s; or leave them out: hooks: %s in %s", strings.Join(remedies, ", and "), desired.HooksSkip, desired.InstanceFile)
}

// allowing says what would allow the hooks of the package.
func allowing(repositories Repositories, pkg *vnfd.Package) string {
	ways := repositories.WaysToHooks(pkg.Tree)
	if len(ways) == 0 {
		return fmt.Sprintf("no repository in %s has package %s of VNFD %s any more, bring it back to one that says hooks: true",
			desired.RepositoriesFile, pkg.Tree, pkg.VNFD.ID)
	}
	return strings.Join(ways, "; or ")
}
