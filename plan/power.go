package plan

// Units of passive owners are turned off and on by the plan. An active owner is asked for
// none, and for as many as before again: its units are made anew.

// operates is the operation that stops and starts a VNF.
const operates = "OPERATE"

// stopped says whether the unit should be turned off.
func (p *planner) stopped(u *Unit) bool {
	for _, g := range p.groups[u.Owner] {
		if g.VDU == u.VDU {
			return g.Stopped
		}
	}
	return false
}

// settled says whether the unit does what it should: run, or be turned off.
func (p *planner) settled(u *Unit) bool {
	if p.stopped(u) {
		return u.Stopped && !u.Ready
	}
	return u.Ready && !u.Stopped
}

// state is what the owner's units should be, in a word.
func (p *planner) state(owner string) string {
	for _, g := range p.groups[owner] {
		if g.Stopped {
			return "stopped"
		}
	}
	return "ready"
}

// power turns the units of passive owners off or on, all at once. One that is neither on nor
// off, as the VIM does something else with it, is waited for. A graceful stop leaves them time
// before.
func (p *planner) power(objects []Object) {
	var stops, starts []Step
	for _, x := range objects {
		now, exists := p.objects[x.Key]
		if !exists || !now.Passive || now.Deleting || p.doomed(now) != "" {
			continue
		}
		for _, u := range p.order(x.Key) {
			s := Step{Object: u.Key, Incarnation: u.ID, Owner: x.Key}
			switch shall := p.stopped(u); {
			case shall && !u.Stopped && u.Ready:
				s.Action = Stop
				stops = append(stops, s)
			case !shall && u.Stopped:
				s.Action, s.Reason = Start, "it is stopped"
				starts = append(starts, s)
			default:
				continue
			}
			p.moved[x.Key] = true
		}
	}
	if len(stops) > 0 && p.desired.Grace && p.journal.Operation == operates {
		p.once(Drain, graceful)
	}
	p.add(append(stops, starts...)...)
}

// hasten ends units sooner that are being deleted, where they get less time than they ask for.
func (p *planner) hasten() {
	if p.desired.Within == nil {
		return
	}
	var steps []Step
	for _, u := range p.sorted {
		if u.Deleting && u.Grace > *p.desired.Within {
			steps = append(steps, Step{Action: DeleteUnit, Object: u.Key, Incarnation: u.ID, Owner: u.Owner, Within: p.desired.Within,
				Reason: "it has less time than it asks for"})
		}
	}
	p.add(steps...)
}
