package read

import "slices"

// Identified has the obeyed slot for each id, and tells which ids have changed.
type Identified struct {
	ordered[*Slot]
	// Changed are the ids that were set or removed since they were taken last, where somebody
	// watches. They stay with the index until it is the one that counts: nobody is told of
	// what can't be seen yet.
	Changed []string
	// TooMany says that they are more than mostChanged, and no longer named.
	TooMany bool
	Watched bool
}

// MostChanged bounds what a push copies where no reader takes what has changed.
const MostChanged = 4096

// Set puts a slot under an id.
func (o *Identified) Set(id string, s *Slot) {
	o.ordered.set(id, s)
	o.note(id)
}

// Remove removes the slot of an id.
func (o *Identified) Remove(id string) {
	o.ordered.remove(id)
	o.note(id)
}

func (o *Identified) note(id string) {
	switch {
	case !o.Watched || o.TooMany:
	case len(o.Changed) == MostChanged:
		o.Changed, o.TooMany = nil, true
	default:
		o.Changed = append(o.Changed, id)
	}
}

// Copy is a copy that changes apart from its original.
func (o *Identified) Copy() Identified {
	return Identified{ordered: o.ordered.copy(), Changed: slices.Clip(o.Changed), TooMany: o.TooMany, Watched: o.Watched}
}
