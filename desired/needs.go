package desired

import (
	"path"
	"slices"
	"strings"

	"github.com/Masterminds/semver/v3"
	"go.yaml.in/yaml/v3"
)

// needsKey is the key of [Instance.Needs].
const needsKey = "needs"

// maxNeeds bounds what one instance may need: each start asks all of it.
const maxNeeds = 50

// Need is another instance that must be there and ready.
type Need struct {
	// Instance is its directory: "instances/core/udm".
	Instance string `json:"instance"`
	// Version is a range of semantic versions in which the version of its VNFD (vnfdVersion) must
	// be; "" is any.
	Version string `json:"version,omitempty"`
}

// Satisfied says whether a version of a VNFD is in the need's range. One that is no semantic version
// is in no range.
func (n Need) Satisfied(version string) bool {
	if n.Version == "" {
		return true
	}
	within, err := semver.NewConstraint(n.Version)
	if err != nil {
		return false
	}
	v, err := semver.NewVersion(version)
	return err == nil && within.Check(v)
}

// NeedsInstance says whether one of the needs is the instance in a directory.
func NeedsInstance(needs []Need, dir string) bool {
	return slices.ContainsFunc(needs, func(n Need) bool { return n.Instance == dir })
}

// needs reads what an instance needs. An entry may be written as the directory alone.
func (d *document) needs(n *yaml.Node) (out []Need) {
	d.items(n, needsKey, func(v *yaml.Node) {
		var need Need
		if v.Kind == yaml.ScalarNode && !isNull(v) {
			need.Instance = d.instanceDir(v, needsKey)
		} else {
			d.mapping(v, needsKey,
				field{"instance", func(_, v *yaml.Node) { need.Instance = d.instanceDir(v, needsKey+".instance") }},
				field{"version", func(_, v *yaml.Node) {
					need.Version = d.text(v, needsKey+".version", maxName)
					d.constraint(v, needsKey+".version", need.Version)
				}},
			)
		}
		switch {
		case need.Instance == "" && len(d.problems) == 0:
			d.fail(v, "name its directory: instance: instances/core/udm", "an entry of %q has no \"instance\"", needsKey)
		case need.Instance != "" && NeedsInstance(out, need.Instance):
			d.fail(v, "remove one of them", "%q has %s twice", needsKey, need.Instance)
		}
		out = append(out, need)
	})
	if len(out) > maxNeeds {
		d.fail(n, "name those only that it needs directly", "%q has more than %d entries", needsKey, maxNeeds)
	}
	return out
}

// instanceDir reads the directory of an instance; "" is one that can be none.
func (d *document) instanceDir(n *yaml.Node, where string) string {
	before := len(d.problems)
	dir := d.text(n, where, maxName)
	if len(d.problems) > before {
		return ""
	}
	if dir != path.Clean(dir) || !strings.HasPrefix(dir, "instances/") || strings.ContainsAny(dir, "\x00\n") {
		d.fail(n, "write the directory of an instance as it stands in the repository, such as instances/core/udm", "%q can't be the directory of an instance: %q", where, clip(dir))
		return ""
	}
	return dir
}
