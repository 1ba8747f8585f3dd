package packages

import (
	"cmp"
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/google/uuid"

	"github.com/jibe-vnfm/jibe/desired"
)

// ErrDisabled is returned for a package of which nothing new may be made, because somebody has
// disabled it.
var ErrDisabled = errors.New("the package is disabled")

// ErrReadOnly is returned where no package repository is Jibe's to write, or a package is in
// one that isn't.
var ErrReadOnly = errors.New("not Jibe's to write")

// firstRepository is the URL of the package repository that a first start makes.
const firstRepository = "packages.git"

// space is the name space of the ids of packages that came by git.
var space = uuid.MustParse("0d0e4bcb-6d5c-4f0e-9a6e-6b6f1a7f7c55")

// DerivedID is the API's id of a package that came by git: it stays the same for a vnfdId,
// wherever the package is.
func DerivedID(vnfdID string) string { return uuid.NewSHA1(space, []byte("vnfd "+vnfdID)).String() }

// Onboarding returns the package repository that Jibe writes to, or ErrReadOnly: the one that
// says "onboarding: true", else the one that a first start makes.
func Onboarding(repos []desired.Repository) (desired.Repository, error) {
	i := slices.IndexFunc(repos, func(r desired.Repository) bool { return r.Onboarding })
	if i < 0 {
		i = slices.IndexFunc(repos, func(r desired.Repository) bool { return path.Clean(r.URL) == firstRepository && r.Branch != "" })
	}
	if i < 0 {
		return desired.Repository{}, fmt.Errorf("no package repository is %w: in %s, add \"onboarding: true\" and a branch to one that Jibe may push to", ErrReadOnly, desired.RepositoriesFile)
	}
	return repos[i], nil
}

// Local says whether the repository is one below the data directory's packages/ folder.
func Local(r desired.Repository) bool {
	return !strings.Contains(r.URL, ":") && !filepath.IsAbs(r.URL)
}

// RemoteOnly refuses repositories below the data directory's packages/ folder: where several
// replicas serve, each has a disk of its own. It is to be called before anything else.
func (c *Catalogue) RemoteOnly() { c.remoteOnly = true }

// LocalError says of which of the repositories replicas can't make use, nil where there is none.
func LocalError(repos []desired.Repository) error {
	for _, r := range repos {
		if Local(r) {
			return fmt.Errorf("package repository %s (%s): %w", r.Name, r.URL, errLocal)
		}
	}
	return nil
}

// errLocal is of a repository that only one of several replicas could have.
var errLocal = errors.New("it is a folder of this replica's disk, which the other replicas don't have: put it on a git server, and its URL into " + desired.RepositoriesFile)

// home is the repository that Jibe writes to.
func (c *Catalogue) home() (desired.Repository, error) {
	home, err := Onboarding(c.Repositories())
	switch {
	case err != nil:
	case c.remoteOnly && Local(home):
		err = fmt.Errorf("package repository %s is %w: %w", home.Name, ErrReadOnly, errLocal)
	case c.apart != "" && sameURL(home.URL, c.apart):
		err = fmt.Errorf("package repository %s is %w: it is the desired repository, to which only instances and settings are written: give packages a repository of their own", home.Name, ErrReadOnly)
	}
	return home, err
}

// NeverWrite names the desired repository on its git server: whoever may upload packages must not
// write there. It is to be called before anything else.
func (c *Catalogue) NeverWrite(url string) { c.apart = url }

// sameURL says whether both are written as the same repository.
func sameURL(a, b string) bool {
	clean := func(s string) string { return strings.TrimSuffix(strings.TrimRight(s, "/"), ".git") }
	return clean(a) == clean(b)
}

// Onboarded is a package as the API shows it: content, or a place for some, under an id.
type Onboarded struct {
	ID string
	// Record is what is known beside the files, nil where nothing is.
	Record *Record
	// Entry is the content, nil where there is none. Of several trees with one vnfdId it is the
	// one that counts ([Catalogue.Find]).
	Entry *Entry
	// Problem is why content that is there can't be used, nil where it can.
	Problem error
	// Disabled says that nothing new may be made of the content, by whichever of its ids
	// somebody has said so.
	Disabled bool
}

// Onboarded returns all packages, by id. A vnfdId is one package, under an id of its own; it
// has several ids where the same content was brought under each.
func (c *Catalogue) Onboarded() []Onboarded { return slices.Clone(c.index.Load().onboarded) }

// Onboard returns the package with the API's id, or ErrUnknown.
func (c *Catalogue) Onboard(id string) (Onboarded, error) {
	list := c.index.Load().onboarded
	i, ok := slices.BinarySearchFunc(list, id, func(o Onboarded, id string) int { return cmp.Compare(o.ID, id) })
	if !ok {
		return Onboarded{}, fmt.Errorf("%w: id %.100q", ErrUnknown, id)
	}
	return list[i], nil
}

// disabled returns the record that disables the vnfdId, nil where none does.
func (ix *index) disabled(vnfdID string) *Record {
	for _, r := range ix.records {
		if r.Disabled && r.VnfdID == vnfdID {
			return r
		}
	}
	return nil
}

// refuseDisabled is ErrDisabled where the vnfdId is disabled.
func (ix *index) refuseDisabled(vnfdID string) error {
	r := ix.disabled(vnfdID)
	if r == nil {
		return nil
	}
	return fmt.Errorf("%w: VNFD id %q, by the package %s (set its operationalState to ENABLED, or use another package)", ErrDisabled, vnfdID, r.ID)
}

// onboard makes the list of packages out of entries and records.
func (ix *index) onboard() {
	named := map[string]bool{} // vnfdIds that a record has
	add := func(id string, r *Record, vnfdID string) {
		o := Onboarded{ID: id, Record: r}
		if e := ix.byVnfd[vnfdID]; vnfdID != "" && len(e) > 0 {
			o.Entry, o.Disabled = e[0], ix.disabled(vnfdID) != nil
			if p, bad := ix.unsound[e[0]]; bad {
				o.Problem = p
			}
		} else if e := ix.hidden[vnfdID]; e != nil {
			o.Entry, o.Problem = e, ix.unverified[e.Tree]
		}
		ix.onboarded = append(ix.onboarded, o)
	}
	for _, r := range ix.records {
		named[r.VnfdID] = true
		add(r.ID, r, r.VnfdID)
	}
	for vnfdID := range ix.byVnfd {
		if !named[vnfdID] {
			add(DerivedID(vnfdID), nil, vnfdID)
		}
	}
	for vnfdID := range ix.hidden {
		if !named[vnfdID] && ix.byVnfd[vnfdID] == nil {
			add(DerivedID(vnfdID), nil, vnfdID)
		}
	}
	slices.SortFunc(ix.onboarded, func(a, b Onboarded) int { return cmp.Compare(a.ID, b.ID) })
}

// record adds what the repository, if it is the one that Jibe writes to, says of packages at
// its version.
func (b *builder) record(r desired.Repository, versions []version) error {
	home, err := Onboarding(b.next.repos)
	if err != nil || home.Name != r.Name || len(versions) == 0 {
		return nil
	}
	at := versions[0]
	records, problems, err := b.store.records(at.commit, r.Path)
	if err != nil {
		return fmt.Errorf("read records at %s: %w", at.name, err)
	}
	b.next.records, b.next.at = records, at.commit
	for name, err := range problems {
		b.next.problems = append(b.next.problems, Unusable{Repository: r.Name, Ref: at.name, Path: name, Err: err})
	}
	return nil
}
