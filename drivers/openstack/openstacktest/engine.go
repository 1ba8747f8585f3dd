package openstacktest

import (
	"container/heap"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
)

// work is what Heat does to a stack and to those nested in it: the resources exist half way,
// and are ready at the end.
type work struct {
	stack     *stack
	action    string
	at        time.Time // when its next part is due
	half      bool      // whether the first part is done
	failed    string    // why it will not succeed
	fault     string    // what is to go wrong, from the test
	resources []*resource
	ready     []func() // what becomes ready at the end
	cleanup   []func() // what goes at the end
	over      bool     // something else is done to the stack instead
}

// schedule is all work, the soonest due first.
type schedule []*work

func (s schedule) Len() int           { return len(s) }
func (s schedule) Less(i, j int) bool { return s[i].at.Before(s[j].at) }
func (s schedule) Swap(i, j int)      { s[i], s[j] = s[j], s[i] }
func (s *schedule) Push(x any)        { *s = append(*s, x.(*work)) }
func (s *schedule) Pop() any {
	old := *s
	x := old[len(old)-1]
	*s = old[:len(old)-1]
	return x
}

// begin starts the action. Work under way on the stack stops where it is, and leaves what it had
// yet to clean up or to wait for to the new work.
func (c *Cloud) begin(s *stack, action string) {
	w := &work{stack: s, action: action, at: time.Now().Add(c.opts.Delay / 2), fault: c.failureOf(s, action), cleanup: s.leftover}
	s.leftover = nil
	for _, x := range s.below() {
		w.absorb(x)
	}
	s.work = w
	if action != create {
		s.updated = later(s.updated)
	}
	s.state(action, inProgress, "Stack "+action+" started")
	heap.Push(&c.due, w)
}

func (w *work) absorb(s *stack) {
	old := s.work
	if old == nil || old == w {
		return
	}
	old.over, s.work = true, nil
	w.ready = append(w.ready, old.ready...)
	w.cleanup = append(w.cleanup, old.cleanup...)
	w.resources = append(w.resources, old.resources...)
}

// advance does what is due by now.
func (c *Cloud) advance(now time.Time) {
	c.turnPower(now)
	var held []*work
	for len(c.due) > 0 && !c.due[0].at.After(now) {
		w := heap.Pop(&c.due).(*work)
		switch {
		case w.over:
		case c.stuck[w.stack.name]:
			held = append(held, w)
		case !w.half:
			w.half = true
			c.doFirst(w)
			w.at = w.at.Add(c.opts.Delay - c.opts.Delay/2)
			heap.Push(&c.due, w)
		default:
			c.finish(w)
		}
	}
	for _, w := range held {
		heap.Push(&c.due, w)
	}
}

func (c *Cloud) doFirst(w *work) {
	var err error
	if w.action == remove {
		err = c.empty(w, w.stack)
	} else {
		err = c.fill(w, w.stack)
	}
	if err == nil && w.fault != "" {
		err = errors.New(w.fault)
	}
	if err != nil {
		w.failed = err.Error()
	}
}

func (c *Cloud) finish(w *work) {
	for _, f := range w.ready {
		f()
	}
	for _, r := range w.resources {
		if r.status == inProgress {
			r.state(r.action, complete, "state changed")
		}
	}
	if w.failed == "" {
		for _, f := range w.cleanup {
			f()
		}
	} else {
		w.stack.leftover = w.cleanup
	}
	w.stack.work = nil
	for _, s := range w.stack.below() {
		switch {
		case s.status != inProgress:
		case s == w.stack && w.failed != "":
			s.state(w.action, failed, fmt.Sprintf("Resource %s failed: %s", w.action, w.failed))
		default:
			s.state(s.action, complete, "Stack "+s.action+" completed successfully")
		}
	}
	if w.action == remove && w.failed == "" {
		c.end(w.stack)
	}
}

// end notes that the stack is deleted: only its record remains.
func (c *Cloud) end(s *stack) {
	s.deleted = time.Now()
	s.action, s.status, s.reason = remove, complete, "Stack DELETE completed successfully"
	c.tidy()
}

// tidy takes deleted stacks out of the list, unless they linger.
func (c *Cloud) tidy() {
	if !c.linger {
		c.order = slices.DeleteFunc(c.order, func(s *stack) bool { return !s.deleted.IsZero() })
	}
}

// byName is the oldest stack that has the name, nil if there is none.
func (c *Cloud) byName(name string) *stack {
	if i := slices.IndexFunc(c.order, func(s *stack) bool { return s.name == name }); i >= 0 {
		return c.order[i]
	}
	return nil
}

// born gives the stack an id and adds it to the list.
func (c *Cloud) born(s *stack) {
	s.id = uuid.NewString()
	s.created = time.Now().Truncate(time.Second)
	s.resources = map[string]*resource{}
	c.stacks[s.id] = s
	c.order = append(c.order, s)
}

// resourceError is an error of one resource, in Heat's words.
type resourceError struct {
	r    *resource
	kind string
	err  error
}

func (t *resourceError) Error() string {
	return fmt.Sprintf("%s: resources.%s: %s", t.kind, t.r.path(), t.err)
}

// fill brings the stack's resources to its template. The first error ends it.
func (c *Cloud) fill(w *work, s *stack) error {
	for _, name := range s.template.order {
		if err := c.ensure(w, s, s.template.resources[name]); err != nil {
			return err
		}
	}
	for _, r := range slices.Backward(s.living()) {
		if s.template.resources[r.name] != nil {
			continue
		}
		w.cleanup = append(w.cleanup, func() {
			if s.resources[r.name] == r && s.template.resources[r.name] == nil {
				c.destroy(r)
				s.drop(r.name)
			}
		})
	}
	return nil
}

// ensure brings one resource to its definition.
func (c *Cloud) ensure(w *work, s *stack, d *definition) error {
	kind, file := c.kindOf(s, d.kind)
	resolved, err := c.scope(s).resolve(d.properties)
	if err != nil {
		return err
	}
	properties, _ := resolved.(object)
	if properties == nil {
		properties = object{}
	}
	old := s.resources[d.name]
	if old == nil {
		return c.make(w, &resource{stack: s, name: d.name, kind: d.kind, retain: d.retain}, kind, file, properties)
	}
	// To Heat all nested files are one type.
	sameType := old.kind == d.kind || file != "" && old.nested != nil && old.kind != "OS::Heat::AutoScalingGroup"
	if !sameType || c.mustReplace(old, kind, properties) {
		w.cleanup = append(w.cleanup, func() { c.destroy(old) })
		return c.make(w, &resource{stack: s, name: d.name, kind: d.kind, retain: d.retain}, kind, file, properties)
	}
	same := reflect.DeepEqual(old.properties, properties)
	if same && !kind.nests && old.status != failed {
		return nil
	}
	old.state(update, inProgress, "state changed")
	old.touch()
	w.resources = append(w.resources, old)
	if err := c.trouble(w, kind); err != nil {
		return c.stumble(w, old, err)
	}
	if kind.nests {
		err = c.nest(w, old, kind, file, properties)
	} else if !same {
		err = kind.update(c, w, old, properties)
	}
	if err != nil {
		return c.stumble(w, old, err)
	}
	old.kind, old.properties = d.kind, properties
	return nil
}

// make creates what the resource stands for.
func (c *Cloud) make(w *work, r *resource, kind *kind, file string, properties object) error {
	r.created = time.Now().Truncate(time.Second)
	r.updated = r.created
	r.stack.put(r)
	r.state(create, inProgress, "state changed")
	w.resources = append(w.resources, r)
	r.properties = properties
	err := c.trouble(w, kind)
	switch {
	case err != nil:
	case kind.nests:
		err = c.nest(w, r, kind, file, properties)
	default:
		r.id, err = kind.create(c, w, r, properties)
	}
	if err != nil {
		return c.stumble(w, r, err)
	}
	return nil
}

// trouble is the error that a test wants, at the first server.
func (c *Cloud) trouble(w *work, kind *kind) error {
	if w.fault == "" || !kind.server {
		return nil
	}
	reason := w.fault
	w.fault = ""
	if kind, rest, ok := strings.Cut(reason, "|"); ok {
		return says(kind, "%s", rest)
	}
	return says("", "%s", reason)
}

// saying is an error in the words of the service that would say it, as a part of what
// Heat says then: kind is the name of its exception there.
type saying struct{ kind, text string }

func (s *saying) Error() string { return s.text }

func says(kind, format string, args ...any) error {
	return &saying{kind, fmt.Sprintf(format, args...)}
}

// stumble marks the resource as failed, and the stacks above it within the work.
func (c *Cloud) stumble(w *work, r *resource, err error) error {
	var t *resourceError
	if !errors.As(err, &t) {
		kind := "ResourceInError"
		var said *saying
		if errors.As(err, &said) && said.kind != "" {
			kind = said.kind
		}
		t = &resourceError{r, kind, err}
	}
	r.state(r.action, failed, t.Error())
	if s := r.stack; s != w.stack && s.status == inProgress {
		s.state(s.action, failed, fmt.Sprintf("Resource %s failed: %s", s.action, t))
	}
	return t
}

// mustReplace says whether the resource gets a successor instead of an update.
func (c *Cloud) mustReplace(r *resource, k *kind, next object) bool {
	switch {
	case r.status == failed && r.action == check:
		return true
	case r.status == failed && r.id == "" && r.nested == nil:
		return true
	case k.nests:
		return false
	case r.status == failed && k.broken(c, r):
		return true
	}
	return k.replaces(r.properties, next)
}

// empty deletes the stack's resources, the last made first.
func (c *Cloud) empty(w *work, s *stack) error {
	for _, r := range slices.Backward(s.living()) {
		kind, _ := c.kindOf(s, r.kind)
		r.state(remove, inProgress, "state changed")
		if err := c.trouble(w, kind); err != nil {
			return c.stumble(w, r, err)
		}
		if r.nested != nil {
			r.nested.state(remove, inProgress, "Stack DELETE started")
			if err := c.empty(w, r.nested); err != nil {
				return c.stumble(w, r, err)
			}
		}
		c.destroy(r)
		s.drop(r.name)
	}
	return nil
}

// destroy deletes what the resource stands for, if it still exists.
func (c *Cloud) destroy(r *resource) {
	if r.nested != nil {
		for _, inner := range slices.Backward(r.nested.living()) {
			c.destroy(inner)
			r.nested.drop(inner.name)
		}
		if r.nested.work != nil {
			r.nested.work.over = true
		}
		c.end(r.nested)
		return
	}
	kind, _ := c.kindOf(r.stack, r.kind)
	if r.id != "" && !r.retain {
		kind.destroy(c, r)
	}
}
