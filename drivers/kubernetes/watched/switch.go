package watched

import "time"

// settling is how long the controller that writes EndpointSlices may be behind. It
// takes milliseconds, and this is waited for only where nothing else shows it.
const settling = time.Second

// traffic is where a Service directs traffic.
type traffic struct {
	generation string
	// version is that of the Service when it was switched there, since when that was seen.
	version uint64
	since   time.Time
}

// carriedOn is the traffic of the Service as it is now, where prior is that of before,
// nil where nothing was known of it.
func (l *traffic) carriedOn(prior *traffic) *traffic {
	if l != nil && prior != nil && prior.generation == l.generation {
		return prior
	}
	if l != nil {
		l.since = time.Now()
	}
	return l
}

// unsettled is for how long the Service's EndpointSlices, the newest of which has the
// version, can't be trusted: a Service that is switched away and back soon after has the
// right ones from before, while its controller may have yet to write, in this order,
// the wrong and the right ones. It has written the right ones once it wrote any since.
func (l *traffic) unsettled(newest uint64) time.Duration {
	if l == nil || newest > l.version {
		return 0
	}
	return settling - time.Since(l.since)
}

// remind wakes the instance later: no watch reports that nothing happened.
func (c *Cache) remind(instance string, after time.Duration) {
	time.AfterFunc(after, func() { c.notify(instance) })
}
