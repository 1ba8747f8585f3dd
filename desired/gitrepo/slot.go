package gitrepo

import (
	"unique"

	"github.com/jibe-vnfm/jibe/desired"
)

// slot is one directory and the instance in it. It is immutable.
type slot struct {
	rev    desired.Revision // Instance "" where no content could ever be parsed
	name   string           // of the VNF
	traits unique.Handle[traits]
	needs  []desired.Need
	// problems are set where the directory's content isn't obeyed: rev is then the last good
	// revision.
	problems []*desired.Problem
	// lost says that the directory has lost the id of what runs; a person may accept that.
	lost bool
	// absent is the reason for which the directory is missing although the instance wasn't removed, nil if it is there.
	absent *desired.Problem
	// exposed are the secrets that stand in the file in clear. The file is obeyed
	// nevertheless.
	exposed []*desired.Problem
	// links are the symbolic links and submodules in the directory. What else is in it is in effect nevertheless.
	links []*desired.Problem
	// stray says that the problems don't matter unless rev is an instance, see misnamed.
	stray bool
	// clashes says that a folder of its path is spelled like another one. Where it is held for that, rev has no instance.
	clashes bool
	// alike is the problem of an instance that is in effect although it would be held for that if it began now.
	alike *desired.Problem
}

// traits are what many instances have in common, and are kept once for all of them.
type traits struct {
	description, vnfdID, pkg, state, flavour, held, drift, em, vim string
	suspend                                                        bool
}

// holds makes the slot that of the instance in the file.
func (s *slot) holds(in *desired.Instance) {
	s.rev.Instance = in.ID
	s.describe(in)
}

func (s *slot) describe(in *desired.Instance) {
	s.name, s.needs = in.Name, in.Needs
	s.traits = unique.Make(traits{description: in.Description, vnfdID: in.VnfdID, pkg: in.Package, state: in.State, flavour: in.Flavour, held: in.Held, drift: in.Drift, em: in.EM, vim: in.VIM, suspend: in.Suspend})
}

// slotOf is the slot of an instance that was read at a revision.
func slotOf(rev desired.Revision, in *desired.Instance) *slot {
	s := &slot{rev: rev}
	s.describe(in)
	return s
}

// state is that of the instance, "" where it isn't known.
func (s *slot) state() string { return s.head().State }

// obeyed returns a new slot of the same instance at the same revision, with nothing said
// against it.
func (s *slot) obeyed() *slot {
	return &slot{rev: s.rev, name: s.name, traits: s.traits, needs: s.needs}
}

// head returns the instance of the slot.
func (s *slot) head() desired.Head {
	h := desired.Head{Revision: s.rev, Name: s.name, Needs: s.needs}
	if s.traits != (unique.Handle[traits]{}) {
		t := s.traits.Value()
		h.Description, h.VnfdID, h.Package = t.description, t.vnfdID, t.pkg
		h.State, h.Flavour, h.Held, h.Drift, h.EM, h.VIM, h.Suspend = t.state, t.flavour, t.held, t.drift, t.em, t.vim, t.suspend
	}
	return h
}
