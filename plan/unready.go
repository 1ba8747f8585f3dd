package plan

// Unready are the waits for the objects whose units (VNFCs) don't all run as they should, with what is
// known of why. It asks nothing of objects without units, and nothing of what an object is made of: what
// has drifted and runs is ready.
func Unready(d Desired, o Observed) []Step {
	p := newPlanner(d, o, Journal{})
	var waits []Step
	for _, x := range d.Objects {
		if len(p.groups[x.Key]) == 0 || x.Once || x.Posted {
			continue
		}
		if s, ok := p.unready(x.Key); ok {
			waits = append(waits, s)
		}
	}
	return waits
}
