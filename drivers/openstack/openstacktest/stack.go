package openstacktest

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
)

// States of Heat's stacks and resources, which follow an action and "_".
const (
	inProgress = "IN_PROGRESS"
	complete   = "COMPLETE"
	failed     = "FAILED"
)

// Actions of Heat.
const (
	create = "CREATE"
	update = "UPDATE"
	remove = "DELETE"
	check  = "CHECK"
)

// stack is one of Heat's.
type stack struct {
	id, name       string
	parent         *stack
	holder         string // the resource of the parent that it is
	template       *template
	files          map[string]string
	registry       object // of the environment: files by the type that they stand for
	given          object // parameters as they were sent
	values         object // all parameters, each of its type
	tags           []string
	timeout        any
	keepOnFailure  bool // disable_rollback
	action, status string
	reason         string
	created        time.Time
	updated        time.Time // zero before the first update
	deleted        time.Time // zero while it lives
	resources      map[string]*resource
	order          []string // of the resources, as they were made
	work           *work    // what is being done to it; nil where nothing is
	leftover       []func() // what failed work left to be cleaned up
	events         []event
}

// resource is one of a stack.
type resource struct {
	stack            *stack
	name, kind, id   string // id is that of what it stands for
	action, status   string
	reason           string
	created, updated time.Time
	properties       object // as they were last applied
	nested           *stack
	retain           bool
}

// event is one line of a stack's history.
type event struct {
	id, resource, physical, status, reason string
	at                                     time.Time
}

// mostEvents bounds a stack's history, as Heat does.
const mostEvents = 1000

func (s *stack) state(action, status, reason string) {
	s.action, s.status, s.reason = action, status, reason
	s.note(s.name, s.id, action+"_"+status, reason)
}

func (s *stack) note(resource, physical, status, reason string) {
	s.events = append(s.events, event{uuid.NewString(), resource, physical, status, reason, time.Now()})
	if len(s.events) > mostEvents {
		s.events = s.events[len(s.events)-mostEvents:]
	}
}

func (r *resource) state(action, status, reason string) {
	r.action, r.status, r.reason = action, status, reason
	r.stack.note(r.name, r.id, action+"_"+status, reason)
}

func (r *resource) touch() { r.updated = later(r.updated) }

// path names the resource as Heat does in reasons: "group.resources.member.resources.x".
func (r *resource) path() string {
	at := r.name
	for s := r.stack; s.parent != nil; s = s.parent {
		at = s.holder + ".resources." + at
	}
	return at
}

// living are the resources in the order in which they were made.
func (s *stack) living() []*resource {
	var list []*resource
	for _, name := range s.order {
		if r := s.resources[name]; r != nil {
			list = append(list, r)
		}
	}
	return list
}

func (s *stack) put(r *resource) {
	if s.resources[r.name] == nil {
		s.order = append(s.order, r.name)
	}
	s.resources[r.name] = r
}

func (s *stack) drop(name string) {
	delete(s.resources, name)
	s.order = slices.DeleteFunc(s.order, func(n string) bool { return n == name })
}

// find is the resource of the name, or with the id.
func (s *stack) find(name string) *resource {
	if r := s.resources[name]; r != nil {
		return r
	}
	for _, r := range s.resources {
		if r.id == name && name != "" {
			return r
		}
	}
	return nil
}

// below are the stack and all that are nested in it.
func (s *stack) below() []*stack {
	list := []*stack{s}
	for _, r := range s.living() {
		if r.nested != nil {
			list = append(list, r.nested.below()...)
		}
	}
	return list
}

// request is what a client wants a stack to be.
type request struct {
	Name            string            `json:"stack_name"`
	Template        any               `json:"template"`
	Files           map[string]string `json:"files"`
	Environment     any               `json:"environment"`
	Parameters      object            `json:"parameters"`
	Tags            any               `json:"tags"`
	Timeout         any               `json:"timeout_mins"`
	DisableRollback any               `json:"disable_rollback"`
	Clear           []string          `json:"clear_parameters"`
}

// revised is the stack as the request wants it, on nothing; s itself is as it was.
// existing means that what the request doesn't name stays (PATCH).
func (s *stack) revised(q *request, existing bool) (*stack, error) {
	next := &stack{id: s.id, name: s.name, parent: s.parent, holder: s.holder, timeout: s.timeout, keepOnFailure: s.keepOnFailure,
		files: map[string]string{}, registry: object{}, given: object{}, resources: s.resources}
	environment, err := parseEnvironment(q.Environment)
	if err != nil {
		return nil, err
	}
	if existing {
		maps.Copy(next.files, s.files)
		maps.Copy(next.registry, s.registry)
		maps.Copy(next.given, s.given)
		next.tags = s.tags
		next.template = s.template
	}
	for _, name := range q.Clear {
		delete(next.given, name)
	}
	maps.Copy(next.files, q.Files)
	if r, ok := environment["resource_registry"].(object); ok {
		maps.Copy(next.registry, r)
	}
	if p, ok := environment["parameters"].(object); ok {
		maps.Copy(next.given, p)
	}
	maps.Copy(next.given, q.Parameters)
	if q.Tags != nil {
		next.tags = nil
		for _, t := range strings.Split(asText(q.Tags), ",") {
			if t != "" {
				next.tags = append(next.tags, t)
			}
		}
	}
	if q.Timeout != nil {
		next.timeout = q.Timeout
	}
	if q.DisableRollback != nil {
		next.keepOnFailure = asText(q.DisableRollback) == "True"
	}
	if q.Template != nil || !existing {
		if next.template, err = parseTemplate(q.Template); err != nil {
			return nil, err
		}
	}
	next.values, err = next.template.parameters(next.given)
	return next, err
}

// adopt makes the stack what the revised one is.
func (s *stack) adopt(next *stack) {
	s.template, s.files, s.registry, s.given, s.values = next.template, next.files, next.registry, next.given, next.values
	s.tags, s.timeout, s.keepOnFailure = next.tags, next.timeout, next.keepOnFailure
}

// pseudo are the parameters that each template has.
func (c *Cloud) pseudo(s *stack) object {
	return object{"OS::stack_id": s.id, "OS::project_id": c.project, "OS::stack_name": s.name}
}

// scope is what the stack's template is resolved in.
func (c *Cloud) scope(s *stack) *scope {
	values := c.pseudo(s)
	maps.Copy(values, s.values)
	return &scope{
		parameters: values,
		reference: func(name string) any {
			if r := s.resources[name]; r != nil && r.id != "" {
				return r.id
			}
			return unknown{}
		},
		attribute: func(name string, path []any) any {
			r := s.resources[name]
			if r == nil || r.id == "" {
				return unknown{}
			}
			return c.attribute(r, path)
		},
	}
}
