package plan

import (
	"maps"
	"slices"
)

// Journal holds, for the attempt under way, what the VIM can't show.
// The zero value means that no operation is open.
type Journal struct {
	// Operation is the ETSI type of the open operation ("SCALE"), or "".
	Operation string `json:"operation,omitempty"`
	// Rollback is set while the operation is being rolled back.
	Rollback bool `json:"rollback,omitempty"`
	// Granted is set once the grant was given, or where none is needed.
	Granted bool `json:"granted,omitempty"`
	// Hooks done in this operation, by name ("scale_start"); a drain is one of them.
	Hooks []string `json:"hooks,omitempty"`
	// Begun are the hooks that were started in this operation, done or not, in any
	// attempt: one that is begun and not done is run again, and knows it.
	Begun []string `json:"begun,omitempty"`
	// Redirected is set once a step was issued that switches traffic.
	Redirected bool `json:"redirected,omitempty"`
	// Pruned is set once a step was issued, before any rollback, that deletes what is no longer desired:
	// a view that is behind still shows it as it was.
	Pruned bool `json:"pruned,omitempty"`
	// Issued are the keys of the steps handed to the driver in this attempt. A
	// failure seen at the VIM counts only where a step on that object was issued.
	Issued []StepKey `json:"issued,omitempty"`
	// Touched is set once any step was handed to the driver, in any attempt.
	Touched bool `json:"touched,omitempty"`
	// Posted are the keys of objects that were posted in this operation, in any attempt.
	Posted []string `json:"posted,omitempty"`
	// Targets are the condemned incarnations ([Target]) that were alive when the
	// heal was asked for and that no step was issued against, in any attempt. One
	// that is gone all the same was replaced by somebody else, where what makes it still stands.
	Targets []Target `json:"targets,omitempty"`
	// Leaving are the units, by incarnation, that the hook at the operation's beginning
	// was given as those that will go ([Moves]): it has prepared for these.
	Leaving []string `json:"leaving,omitempty"`
	// Kept is [ObservedObject.Keep], by key, of objects that were deleted to be made anew.
	Kept map[string]string `json:"kept,omitempty"`
	// Rebuilt is set where the journal was lost in the first attempt: what the operation had done so
	// far can only be told by the VIM. Where that shows all that is wanted, nothing is left to do: hooks
	// and posts that were due on the way there aren't due again.
	Rebuilt bool `json:"rebuilt,omitempty"`
	// Known are the units that lived when the operation was asked for. They stand in
	// its record already, so they aren't encoded once more.
	Known []Unit `json:"-"`
}

// Aim is the journal of an operation that begins: the condemned incarnations
// that are alive now are its targets, beside those that it has already. One that
// is being deleted already is none, as it goes anyway. The journal keeps the handover of
// condemned objects from now on, as somebody else may delete them first.
func (j Journal) Aim(d Desired, o Observed) Journal {
	if len(d.Condemned) == 0 {
		return j
	}
	moot := o.moot(d)
	alive := make(map[string]bool, len(d.Condemned))
	for _, u := range o.Units {
		if !u.Deleting && d.Condemned[u.Key] == u.ID && moot[u.Key] == "" {
			alive[u.Key] = true
		}
	}
	j.Kept = maps.Clone(j.Kept)
	for _, x := range o.Objects {
		if d.Condemned[x.Key] != x.Incarnation || moot[x.Key] != "" {
			continue
		}
		if !x.Deleting {
			alive[x.Key] = true
		}
		if x.Keep != "" && slices.ContainsFunc(d.Objects, func(w Object) bool { return w.Key == x.Key }) {
			j.keep(x.Key, x.Keep)
		}
	}
	targets := slices.Clone(j.Targets)
	for _, key := range slices.Sorted(maps.Keys(alive)) {
		if t := TargetOf(key, d.Condemned[key]); !slices.Contains(targets, t) {
			targets = append(targets, t)
		}
	}
	j.Targets = targets
	return j
}

// Inherit is the journal of an operation that takes the place of one that didn't
// come to its end: it takes over the handover of objects that were deleted and not yet
// made anew.
func (j Journal) Inherit(unfinished Journal) Journal {
	kept := maps.Clone(unfinished.Kept)
	if kept == nil {
		return j
	}
	maps.Copy(kept, j.Kept)
	j.Kept = kept
	return j
}

// keep notes what the successor of the object must take over. The map must be
// the journal's own.
func (j *Journal) keep(key, what string) {
	if j.Kept == nil {
		j.Kept = map[string]string{}
	}
	j.Kept[key] = what
}

// Issue is the journal in which the batch is noted: it MUST be durable before
// the batch is handed to the driver. fresh is false where the journal has
// all of it already.
func (j Journal) Issue(batch []Step) (noted Journal, fresh bool) {
	noted = j
	noted.Issued, noted.Targets, noted.Kept = slices.Clone(j.Issued), slices.Clone(j.Targets), maps.Clone(j.Kept)
	for _, s := range batch {
		if s.Action == Wait || slices.Contains(noted.Issued, s.Key()) {
			continue
		}
		fresh, noted.Touched = true, true
		noted.Issued = append(noted.Issued, s.Key())
		if s.Incarnation != "" {
			noted.Targets = slices.DeleteFunc(noted.Targets, func(t Target) bool { return t == TargetOf(s.Object, s.Incarnation) })
		}
		if s.Action == Apply { // a target that still stands here was gone, with all that could have replaced it
			noted.Targets = slices.DeleteFunc(noted.Targets, func(t Target) bool { return noted.maker(t) == s.Object })
		}
		for _, id := range s.Victims {
			noted.Targets = slices.DeleteFunc(noted.Targets, func(t Target) bool { return t.is(id) })
		}
		if s.Action == Delete && s.Keep != "" {
			noted.keep(s.Object, s.Keep)
		}
		noted.Redirected = noted.Redirected || s.Directs
		noted.Pruned = noted.Pruned || s.Prunes && !noted.Rollback
	}
	return noted, fresh
}

// maker is the key of the object that the target is, or was a unit of.
func (j Journal) maker(t Target) string {
	for _, u := range j.Known {
		if t == TargetOf(u.Key, u.ID) && u.Owner != "" {
			return u.Owner
		}
	}
	return t.key()
}

// IssuedOn says whether a step on the object, or on a unit of it, was handed to
// the driver in this attempt: only then is a failure seen at the VIM this
// attempt's, and not yesterday's.
func (j Journal) IssuedOn(key string) bool {
	return slices.ContainsFunc(j.Issued, func(step StepKey) bool { return step.on(key) })
}

// issuedAgainst says whether a step of this attempt deletes the incarnation.
func (j Journal) issuedAgainst(incarnation string) bool {
	return slices.ContainsFunc(j.Issued, func(step StepKey) bool { return step.deletes(incarnation) })
}

// blank says whether nothing was done since the journal was lost.
func (j Journal) blank() bool {
	return j.Rebuilt && len(j.Issued) == 0 && len(j.Hooks) == 0 && len(j.Begun) == 0 && len(j.Posted) == 0
}

// Pass takes the step at the head of the plan as done: the grant, a hook or a drain, of
// which the VIM shows nothing. It returns the journal that says so, and what is left of the
// plan. That is what [Compute] would answer with that journal, as no other step depends on
// it: so that one look needs only one answer.
func (j Journal) Pass(steps []Step) (Journal, []Step) {
	switch head := steps[0]; head.Action {
	case Grant:
		j.Granted = true
	case Hook, Drain:
		j.Hooks = append(slices.Clone(j.Hooks), head.Object)
	default:
		panic("plan: the VIM shows what came of " + head.String())
	}
	return j, steps[1:]
}
