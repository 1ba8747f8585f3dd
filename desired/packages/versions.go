package packages

import (
	"fmt"
	"slices"

	"github.com/Masterminds/semver/v3"
)

// Version is one version of a package: an entry whose tag has a semantic version.
type Version struct {
	Entry
	Semver *semver.Version
}

// Versions returns the versions, ascending, of the package that the tree is one of: the
// packages at the same path of the same repository, at every tag that has a semantic version.
// now is the highest of them that is the tree. Versions whose checksums don't hold, or
// that are disabled, are left out of all. It costs no I/O.
//
// A tree that upstream has moved on from is known by its VNFD id, as long as only one version
// has that: a tag was moved. Otherwise, and where the repository has no tags, there are no
// versions.
func (c *Catalogue) Versions(tree, vnfdID string) (now *semver.Version, all []Version) {
	ix := c.index.Load()
	home := ix.home(tree, vnfdID)
	if home == nil {
		return nil, nil
	}
	for _, e := range slices.Backward(ix.entries) { // they stand newest first
		if e.Repository != home.Repository || e.Path != home.Path {
			continue
		}
		v := semverOf(e.Ref)
		if v == nil {
			continue
		}
		if e == home || e.Tree == tree {
			now = v
		}
		if _, bad := ix.unsound[e]; !bad && ix.disabled(e.VnfdID) == nil {
			all = append(all, Version{*e, v})
		}
	}
	return now, all
}

// Best returns the newest package of the product (vnfProductName) whose version the constraint takes: the
// semantic version of its tag, else its descriptor_version. Packages that couldn't be used are left
// out. Two of the same version under different VNFD ids are an error, as nobody knows which is meant. It
// costs no I/O.
func (c *Catalogue) Best(product, constraint string) (Version, error) {
	takes, err := semver.NewConstraint(constraint)
	if err != nil {
		return Version{}, fmt.Errorf("%q is no constraint of versions: %w", constraint, err)
	}
	ix := c.index.Load()
	var best Version
	var other string // VNFD id of another one of that version
	for _, e := range ix.entries {
		if _, bad := ix.unsound[e]; bad || e.About == nil || e.About.ProductName != product || ix.disabled(e.VnfdID) != nil {
			continue
		}
		v := semverOf(e.Ref)
		if v == nil {
			v = semverOf(e.Version)
		}
		if v == nil || !takes.Check(v) {
			continue
		}
		switch {
		case best.Semver == nil || v.GreaterThan(best.Semver):
			best, other = Version{*e, v}, ""
		case v.Equal(best.Semver) && e.VnfdID != best.VnfdID:
			other = e.VnfdID
		}
	}
	switch {
	case best.Semver == nil:
		return Version{}, fmt.Errorf("%w: no repository has one of that product and range", ErrUnknown)
	case other != "":
		return Version{}, fmt.Errorf("two packages are of version %s: %s and %s; name to.vnfdId", best.Semver, best.VnfdID, other)
	}
	return best, nil
}

// home returns an entry with a semantic version that is the tree, or has taken its place.
func (ix *index) home(tree, vnfdID string) *Entry {
	if ix.trees[tree] != nil {
		for _, e := range ix.entries {
			if e.Tree == tree && semverOf(e.Ref) != nil {
				return e
			}
		}
		return nil
	}
	var only *Entry
	for _, e := range ix.byVnfd[vnfdID] {
		if semverOf(e.Ref) == nil {
			continue
		}
		if only != nil {
			return nil // it may have been any of them
		}
		only = e
	}
	return only
}
