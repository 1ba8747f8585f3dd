package plan

import "slices"

// instantiates is the operation that makes what wasn't there.
const instantiates = "INSTANTIATE"

// post hands over the objects that the VIM doesn't keep. An instantiation does so once, when
// the objects of their wave have been applied, and before any of them is waited for: one may
// need it to become ready. What the journal doesn't say was posted is posted again.
func (p *planner) post(objects []Object) {
	if p.journal.Operation != instantiates || p.journal.Rollback {
		return
	}
	var steps []Step
	for _, x := range objects {
		if x.Posted && !slices.Contains(p.journal.Posted, x.Key) {
			steps = append(steps, Step{Action: Post, Object: x.Key, Reason: "once, the VIM doesn't keep it"})
		}
	}
	p.add(steps...)
}

// Done is the journal in which it is noted what of the batch was posted: it MUST be durable
// after the driver has done the batch, and not before, as the VIM shows nothing of it. more is
// false where there is nothing to note.
func (j Journal) Done(batch []Step) (noted Journal, more bool) {
	noted = j
	noted.Posted = slices.Clone(j.Posted)
	for _, s := range batch {
		if s.Action == Post && !slices.Contains(noted.Posted, s.Object) {
			noted.Posted = append(noted.Posted, s.Object)
			more = true
		}
	}
	return noted, more
}
