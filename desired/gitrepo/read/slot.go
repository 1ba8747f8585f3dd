package read

import (
	"unique"

	"github.com/jibe-vnfm/jibe/desired"
)

// Slot is one directory and the instance in it. It is immutable.
type Slot struct {
	Rev    desired.Revision // Instance "" where no content could ever be parsed
	Name   string           // of the VNF
	traits unique.Handle[traits]
	needs  []desired.Need
	// Problems are set where the directory's content is not in effect: rev is then the last good
	// revision.
	Problems []*desired.Problem
	// Lost says that the directory has lost the id of what runs; a person may accept that.
	Lost bool
	// Absent is the reason for which the directory is missing although the instance wasn't removed, nil if it is there.
	Absent *desired.Problem
	// Exposed are the secrets that stand in the file in clear. The file is obeyed
	// nevertheless.
	Exposed []*desired.Problem
	// Links are the symbolic links and submodules in the directory. What else is in it is in effect nevertheless.
	Links []*desired.Problem
	// Stray says that the problems don't matter unless rev is an instance, see misnamed.
	Stray bool
	// Clashes says that a folder of its path is spelled like another one. Where it is held for that, rev has no instance.
	Clashes bool
	// alike is the problem of an instance that is in effect although it would be held for that if it began now.
	alike *desired.Problem
}

// traits are what many instances have in common, and are kept once for all of them.
type traits struct {
	description, vnfdID, pkg, state, flavour, held, drift, em, vim string
	suspend                                                        bool
}

// Holds makes the slot that of the instance in the file.
func (s *Slot) Holds(in *desired.Instance) {
	s.Rev.Instance = in.ID
	s.Describe(in)
}

// Describe takes over what lists show of an instance.
func (s *Slot) Describe(in *desired.Instance) {
	s.Name, s.needs = in.Name, in.Needs
	s.traits = unique.Make(traits{description: in.Description, vnfdID: in.VnfdID, pkg: in.Package, state: in.State, flavour: in.Flavour, held: in.Held, drift: in.Drift, em: in.EM, vim: in.VIM, suspend: in.Suspend})
}

// SlotOf is the slot of an instance that was read at a revision.
func SlotOf(rev desired.Revision, in *desired.Instance) *Slot {
	s := &Slot{Rev: rev}
	s.Describe(in)
	return s
}

// state is that of the instance, "" where it isn't known.
func (s *Slot) state() string { return s.Head().State }

// obeyed returns a new slot of the same instance at the same revision, with nothing said
// against it.
func (s *Slot) obeyed() *Slot {
	return &Slot{Rev: s.Rev, Name: s.Name, traits: s.traits, needs: s.needs}
}

// Head returns the instance of the slot.
func (s *Slot) Head() desired.Head {
	h := desired.Head{Revision: s.Rev, Name: s.Name, Needs: s.needs}
	if s.traits != (unique.Handle[traits]{}) {
		t := s.traits.Value()
		h.Description, h.VnfdID, h.Package = t.description, t.vnfdID, t.pkg
		h.State, h.Flavour, h.Held, h.Drift, h.EM, h.VIM, h.Suspend = t.state, t.flavour, t.held, t.drift, t.em, t.vim, t.suspend
	}
	return h
}
