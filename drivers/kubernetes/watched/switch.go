package watched

import (
	"slices"
	"time"
)

// following is how long those who send requests to a Service's pods (kube-proxy on each node,
// which gathers changes for up to a second, and load balancers) may be behind its
// EndpointSlices. It is longer than the controller that writes these is behind the Service.
const following = 2 * time.Second

// traffic is where a Service directs traffic.
type traffic struct {
	generation string
	// since is when it was first seen to direct it there.
	since time.Time
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

// carriedOn is the slice as it is now, where prior is that of before, nil where nothing was
// known of it. It remembers when an address was last taken out.
func (s *sliceFact) carriedOn(prior *sliceFact) *sliceFact {
	if s == nil || prior == nil {
		return s
	}
	s.lost = prior.lost
	for _, e := range prior.endpoints {
		if !slices.ContainsFunc(s.endpoints, func(x endpoint) bool { return x.pod == e.pod }) {
			s.lost = time.Now()
		}
	}
	return s
}

// unfollowed is for how long requests may still be sent to where the Service directed traffic
// before; lost is when an address was last taken out of its EndpointSlices. A Service that is
// switched away and back soon after has the right slices from before, while its controller may
// have yet to write, in this order, the wrong and the right ones: that has an end by then, too.
func (l *traffic) unfollowed(lost time.Time) time.Duration {
	if l == nil {
		return 0
	}
	if l.since.After(lost) {
		lost = l.since
	}
	return following - time.Since(lost)
}

// remind wakes the instance later: no watch reports that nothing happened.
func (c *Cache) remind(instance string, after time.Duration) {
	time.AfterFunc(after, func() { c.notify(instance) })
}
