package hot

// Rendered is a package's templates with everything of one instance filled in, but for
// the number of VNFCs.
type Rendered struct {
	// Digest identifies the whole, without numbers.
	Digest string
	// VDUs are the definitions of the VDUs that run here, by id.
	VDUs map[string]*Definition
}

// Create is the body of a new stack with that many VNFCs of each VDU.
func (r *Rendered) Create(counts map[string]int) (*Body, error) {
	return r.Update(Live{}, Want{Counts: counts})
}

// Update is the body of an update of the top stack: the shared part as rendered; each
// VDU with an outdated member that Want doesn't renew keeps the definition in the live
// template, the others get the new one; members that aren't victims stay.
func (r *Rendered) Update(live Live, want Want) (*Body, error) {
	return nil, nil
}

// RenewInGroup is the body of an update of a group's own nested stack (the resource
// Definition.Resource of the top stack), out of that stack's live template and files,
// that makes the members new and leaves the others as they are. It is nil where only an
// update of the top stack can do it: where the definition needs something that only Heat can
// resolve.
//
// Heat keeps a definition for each member in the template of that stack, and any update
// of the stacks above hands each member its own again: a member whose own stack alone
// was updated would be put back by the next one.
func (r *Rendered) RenewInGroup(vdu string, group Live, members ...string) (*Body, error) {
	return nil, nil
}
