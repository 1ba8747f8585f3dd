package lcm

// NeedsProof reports whether the record has what reaches git or a hook as it stands, and so could say
// where credentials go: what hooks and those who coordinate have handed over, entries and VIMs that hooks
// have set, and the grant with its VIMs. A record that has any of it is only taken with a proof that
// this installation wrote it.
func (o *Operation) NeedsProof() bool {
	if o.HandOver != "" || !o.Modified.IsZero() || o.Grant != nil {
		return true
	}
	for i := range o.Coordinations {
		if o.Coordinations[i].Outputs != "" {
			return true
		}
	}
	return false
}

// Distrust marks the operation as one whose record has no proof. One that hasn't ended loses what needs
// a proof. What an ended one has stays to be shown, and isn't committed.
func (o *Operation) Distrust() {
	o.Unproven = true
	if o.State.Ended() {
		return
	}
	o.HandOver, o.Modified, o.Grant = "", Entries{}, nil
	kept := make([]Coordination, len(o.Coordinations))
	for i, c := range o.Coordinations {
		c.Outputs = ""
		kept[i] = c
	}
	o.Coordinations = kept
}
