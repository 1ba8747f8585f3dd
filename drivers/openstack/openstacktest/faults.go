package openstacktest

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// Fault makes requests fail; see [Cloud.Inject].
type Fault struct {
	Service Service // "" is each of them
	Method  string  // "" is each one
	Path    string  // what the path contains; "" is each path
	// Status is the answer's; 0 cuts the connection, as if nothing listened.
	Status int
	// Lost means that the service does the work, and that its answer is lost.
	Lost bool
	// RetryAfter, if positive, goes with the answer (429, 503), in seconds.
	RetryAfter int
	// Message is the service's own; "" is the usual one.
	Message string
	// Times is how often; 0 is until Clear.
	Times int

	hits int
}

// Inject makes the requests that the fault describes fail from now on. A fault given
// earlier goes before one given later.
func (c *Cloud) Inject(f Fault) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.faults = append(c.faults, &f)
}

// Down makes nothing listen where the service was.
func (c *Cloud) Down(s Service) { c.Inject(Fault{Service: s}) }

// Clear ends all faults of requests and of stacks, quotas too.
func (c *Cloud) Clear() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.faults, c.failing, c.quota, c.linger = nil, nil, -1, false
	c.tidy()
	clear(c.stuck)
}

func (c *Cloud) fault(s Service, method, path string) *Fault {
	for _, f := range c.faults {
		if (f.Service == "" || f.Service == s) && (f.Method == "" || f.Method == method) && strings.Contains(path, f.Path) &&
			(f.Times == 0 || f.hits < f.Times) {
			f.hits++
			return f
		}
	}
	return nil
}

func (c *Cloud) faulty(s Service, f *Fault) answer {
	message := f.Message
	var a answer
	switch {
	case f.Status == http.StatusUnauthorized && message == "":
		a = c.unauthorized(s)
	default:
		if message == "" {
			message = map[int]string{
				http.StatusForbidden:           "You are not authorized to perform the requested action.",
				http.StatusConflict:            "There was a conflict when trying to complete your request.",
				http.StatusTooManyRequests:     "This request was rate-limited.",
				http.StatusInternalServerError: "Unexpected API Error. Please report this at http://bugs.launchpad.net/ and attach the API log if possible.",
				http.StatusServiceUnavailable:  "The server is currently unavailable. Please try again at a later time.",
			}[f.Status]
		}
		a = fail(s, f.Status, http.StatusText(f.Status), message)
	}
	if f.RetryAfter > 0 {
		if a.header == nil {
			a.header = map[string]string{}
		}
		a.header["Retry-After"] = strconv.Itoa(f.RetryAfter)
	}
	return a
}

// ExpireTokens makes every token given so far worthless.
func (c *Cloud) ExpireTokens() {
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.tokens)
}

// failure makes a stack's next work end badly.
type failure struct {
	stack  string // what its name begins with
	action string
	reason string
}

// FailNext makes the next action (CREATE, UPDATE, DELETE) on a stack whose name begins
// with prefix end in *_FAILED. The first server that is worked on bears the reason; what
// comes before it is done.
func (c *Cloud) FailNext(prefix, action, reason string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.failing = append(c.failing, failure{prefix, action, reason})
}

func (c *Cloud) failureOf(st *stack, action string) string {
	for i, f := range c.failing {
		if f.action == action && strings.HasPrefix(st.name, f.stack) {
			c.failing = slices.Delete(c.failing, i, i+1)
			return f.reason
		}
	}
	return ""
}

// Stick keeps the stack IN_PROGRESS, in what it does now and what it is asked later,
// until Unstick or Clear.
func (c *Cloud) Stick(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stuck[name] = true
}

// Unstick lets the stack go on.
func (c *Cloud) Unstick(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.stuck, name)
}

// Linger has, with true, deleted stacks stay in the list and keep their names, as Heat's do
// until it has tidied up after them. With false the cloud tidies up.
func (c *Cloud) Linger(on bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.linger = on
	c.tidy()
}

// Race makes the next n stacks though there may be others of their names already, as
// Heat does where two ask at once.
func (c *Cloud) Race(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.racing = n
}

// Quota bounds the number of servers in the project.
func (c *Cloud) Quota(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.quota = n
}

// Requests is how many requests the service got, those that failed included; for "" it is the
// sum of all services.
func (c *Cloud) Requests(s Service) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	if s != "" {
		return c.counts[s]
	}
	n := 0
	for _, x := range c.counts {
		n += x
	}
	return n
}

// Asked are the latest requests, oldest first, at most 10,000 of them or somewhat more.
func (c *Cloud) Asked() []Request {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.seen)
}
