package ui

import (
	"github.com/Masterminds/semver/v3"

	"github.com/jibe-vnfm/jibe/internal/natural"
)

// versionOf is the version that an instance has of a package.
type versionOf struct{ pkg, version string }

// outdated has, for each version than which another instance has a newer one of the package, the newest of them.
func outdated(cells []*cell) map[versionOf]string {
	best, seen := map[string]string{}, map[versionOf]string{}
	for _, c := range cells {
		v := versionOf{c.Package, c.Version}
		if _, known := seen[v]; known || v.pkg == "" || v.version == "" {
			continue
		}
		seen[v] = ""
		if was, known := best[v.pkg]; !known || newer(v.version, was) {
			best[v.pkg] = v.version
		}
	}
	for v := range seen {
		if newer(best[v.pkg], v.version) {
			seen[v] = best[v.pkg]
		}
	}
	return seen
}

// newer says whether a version comes after another: as Semantic Versioning orders them where both are of that
// form, by which 1.0-rc.1 comes before 1.0, else as people count.
func newer(a, b string) bool {
	if x, err := semver.NewVersion(a); err == nil {
		if y, err := semver.NewVersion(b); err == nil {
			return x.GreaterThan(y)
		}
	}
	return natural.Compare(a, b) > 0
}

// NewerThan is the newest version of the cell's package that another instance has, "" where none has a newer one.
func (p *fleetPage) NewerThan(c *cell) string { return p.outdated[versionOf{c.Package, c.Version}] }
