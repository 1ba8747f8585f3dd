package openstacktest

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

var stackName = regexp.MustCompile(`^[a-zA-Z][a-zA-Z0-9_.-]{0,254}$`)

// heat answers for Heat.
func (c *Cloud) heat(in *call) answer {
	switch {
	case in.is(http.MethodGet, "stacks"):
		return c.listStacks(in)
	case in.is(http.MethodPost, "stacks"):
		return c.createStack(in)
	case in.is(http.MethodPost, "validate"):
		return c.validateTemplate(in)
	case in.path[0] != "stacks":
		return unrouted()
	}
	s, redirect := c.lookup(in)
	switch {
	case redirect != "":
		return answer{status: http.StatusFound, header: map[string]string{"Location": redirect}, body: object{
			"code": http.StatusFound, "title": "Found", "message": "The resource was found at <a href=\"" + redirect + "\">" + redirect + "</a>;",
		}}
	case s == nil && len(in.path) > 3 && c.stacks[in.path[2]] == nil && c.byName(in.path[1]) != nil:
		return unrouted()
	case s == nil:
		return missing("Stack", in.path[1])
	}
	a := c.stackCall(s, in)
	if a.status == http.StatusAccepted {
		a.body = object{"message": "The request is accepted for processing.<br /><br />\n\n\n", "code": "202 Accepted", "title": "Accepted"}
	}
	return a
}

// unrouted is the answer where Heat has nothing at all.
func unrouted() answer {
	return answer{status: http.StatusNotFound, body: object{"message": "The resource could not be found.<br /><br />\n\n\n", "code": "404 Not Found", "title": "Not Found"}}
}

func missing(what, name string) answer {
	return fail(Heat, http.StatusNotFound, "EntityNotFound", fmt.Sprintf("The %s (%s) could not be found.", what, name))
}

// lookup is the stack of the path stacks/<name>/<id>/…. Where only one of them is given
// Heat redirects to the path with both.
func (c *Cloud) lookup(in *call) (s *stack, redirect string) {
	if len(in.path) >= 3 {
		if s := c.stacks[in.path[2]]; s != nil && s.name == in.path[1] {
			return s, ""
		}
		if len(in.path) > 3 || !slices.Contains([]string{"resources", "events", "template", "files", "environment", "outputs"}, in.path[2]) {
			return nil, ""
		}
	}
	s = c.byName(in.path[1])
	if s == nil {
		s = c.stacks[in.path[1]]
	}
	if s == nil {
		return nil, ""
	}
	to := c.stackURL(s)
	for _, p := range in.path[2:] {
		to += "/" + url.PathEscape(p)
	}
	if q := in.query.Encode(); q != "" {
		to += "?" + q
	}
	return s, to
}

func (c *Cloud) stackURL(s *stack) string {
	return c.endpoint(Heat) + "/stacks/" + s.name + "/" + s.id
}

func (c *Cloud) stackCall(s *stack, in *call) answer {
	in.path = in.path[3:]
	if !s.deleted.IsZero() && in.method == http.MethodDelete {
		return missing("Stack", s.name)
	}
	switch {
	case in.is(http.MethodGet):
		return ok(object{"stack": c.stackJSON(s)})
	case in.is(http.MethodPut), in.is(http.MethodPatch):
		return c.updateStack(s, in)
	case in.is(http.MethodDelete):
		if s.action != remove || s.status == failed {
			c.begin(s, remove)
		}
		return answer{status: http.StatusNoContent}
	case in.is(http.MethodGet, "template"):
		return ok(s.template.raw)
	case in.is(http.MethodGet, "files"):
		return ok(s.files)
	case in.is(http.MethodGet, "environment"):
		return ok(s.environment())
	case in.is(http.MethodGet, "events"):
		return ok(object{"events": c.eventsJSON(s)})
	case in.is(http.MethodGet, "resources"):
		return ok(object{"resources": c.resourcesJSON(s, in)})
	case in.is(http.MethodGet, "resources", "*"):
		r := s.find(in.path[1])
		if r == nil {
			return noResource(s, in.path[1])
		}
		return ok(object{"resource": c.resourceJSON(r, true)})
	case in.is(http.MethodPatch, "resources", "*"):
		return c.mark(s, in)
	}
	return unrouted()
}

func noResource(s *stack, name string) answer {
	return fail(Heat, http.StatusNotFound, "ResourceNotFound", fmt.Sprintf("The Resource (%s) could not be found in Stack %s.", name, s.name))
}

// refusedBy is the answer to an error of a request's content.
func refusedBy(err error) answer {
	var r *refusal
	if errors.As(err, &r) {
		return fail(Heat, r.status, r.kind, r.message)
	}
	return fail(Heat, http.StatusBadRequest, "StackValidationFailed", err.Error())
}

func parseRequest(in *call) (*request, error) {
	var q request
	if err := json.Unmarshal(in.body, &q); err != nil {
		return nil, refuse("HTTPBadRequest", "The server could not comply with the request since it is either malformed or otherwise incorrect: %s", err)
	}
	return &q, nil
}

func parseEnvironment(v any) (object, error) {
	switch e := v.(type) {
	case object:
		return e, nil
	case string:
		var parsed object
		if err := yaml.Unmarshal([]byte(e), &parsed); err != nil {
			return nil, refuse("HTTPBadRequest", "Environment not in valid format: %s", err)
		}
		return parsed, nil
	}
	return object{}, nil
}

func (c *Cloud) createStack(in *call) answer {
	q, err := parseRequest(in)
	if err != nil {
		return refusedBy(err)
	}
	s, err := c.planned(q)
	if err != nil {
		return refusedBy(err)
	}
	if c.racing > 0 {
		c.racing-- // Heat looks whether the name is taken, and makes the stack later
	} else if c.byName(q.Name) != nil {
		return fail(Heat, http.StatusConflict, "StackExists", fmt.Sprintf("The Stack (%s) already exists.", q.Name))
	}
	c.born(s)
	c.begin(s, create)
	return answer{status: http.StatusCreated, header: map[string]string{"Location": c.stackURL(s)}, body: object{"stack": object{
		"id": s.id, "links": []any{object{"href": c.stackURL(s), "rel": "self"}},
	}}}
}

// planned is the stack that the request asks for, made of nothing yet.
func (c *Cloud) planned(q *request) (*stack, error) {
	if !stackName.MatchString(q.Name) {
		return nil, invalid(`Invalid stack name %s must contain only alphanumeric or "_-." characters, must start with alpha and must be 255 characters or less.`, q.Name)
	}
	empty := &stack{name: q.Name, keepOnFailure: true, resources: map[string]*resource{}}
	if q.Template == nil {
		return nil, refuse("HTTPBadRequest", "No template specified")
	}
	s, err := empty.revised(q, false)
	if err != nil {
		return nil, err
	}
	return s, c.validate(s, "")
}

func (c *Cloud) updateStack(s *stack, in *call) answer {
	if s.action == remove && s.status != failed {
		return fail(Heat, http.StatusBadRequest, "NotSupported", "Updating a stack when it is deleting is not supported.")
	}
	next, err := c.nextOf(s, in, in.method == http.MethodPatch)
	if err != nil {
		return refusedBy(err)
	}
	s.adopt(next)
	c.begin(s, update)
	return answer{status: http.StatusAccepted}
}

func (c *Cloud) nextOf(s *stack, in *call, existing bool) (*stack, error) {
	q, err := parseRequest(in)
	if err != nil {
		return nil, err
	}
	if q.Template == nil && !existing {
		return nil, refuse("HTTPBadRequest", "No template specified")
	}
	next, err := s.revised(q, existing)
	if err != nil {
		return nil, err
	}
	return next, c.validate(next, "")
}

func (c *Cloud) validateTemplate(in *call) answer {
	q, err := parseRequest(in)
	if err != nil {
		return refusedBy(err)
	}
	t, err := parseTemplate(q.Template)
	if err != nil {
		return refusedBy(err)
	}
	below := &stack{template: t, files: q.Files, registry: object{}}
	for _, d := range t.resources {
		kind, _ := c.kindOf(below, d.kind)
		if kind == nil {
			return refusedBy(invalid("The Resource Type (%s) could not be found.", d.kind))
		}

		// Values are looked at when the stack is made: parameters may be missing here.
		p, _ := d.properties.(object)
		if err := kind.known("resources."+d.name, p); err != nil {
			return refusedBy(err)
		}
	}
	shown := object{}
	declared, _ := t.raw["parameters"].(object)
	for name, schema := range declared {
		m, _ := schema.(object)
		kind := asText(m["type"])
		p := object{"Type": strings.ToUpper(kind[:min(1, len(kind))]) + kind[min(1, len(kind)):], "Description": asText(m["description"]), "NoEcho": "false", "Label": name}
		if v, ok := m["default"]; ok {
			p["Default"] = v
		}
		if v, ok := q.Parameters[name]; ok {
			p["Value"] = v
		}
		shown[name] = p
	}
	return ok(object{
		"Description": descriptionOf(t), "Parameters": shown,
		"Environment": object{"resource_registry": object{"resources": object{}}, "parameters": orEmpty(q.Parameters), "parameter_defaults": object{}, "event_sinks": []any{}},
	})
}

func orEmpty(m object) object {
	if m == nil {
		return object{}
	}
	return m
}

// mark is the request that says of a resource that it is of no use, or is after all.
func (c *Cloud) mark(s *stack, in *call) answer {
	var q struct {
		Unhealthy any    `json:"mark_unhealthy"`
		Reason    string `json:"resource_status_reason"`
	}
	if err := json.Unmarshal(in.body, &q); err != nil || q.Unhealthy == nil {
		return fail(Heat, http.StatusBadRequest, "HTTPBadRequest", "Missing mandatory (mark_unhealthy) key from mark unhealthy request")
	}
	unhealthy, isBool := q.Unhealthy.(bool)
	if !isBool {
		return fail(Heat, http.StatusBadRequest, "HTTPBadRequest", fmt.Sprintf("Unrecognized value '%v' for \"mark_unhealthy\", acceptable values are: true, false", q.Unhealthy))
	}
	r := s.find(in.path[1])
	switch {
	case r == nil:
		return noResource(s, in.path[1])
	case r.status == inProgress:
		return fail(Heat, http.StatusConflict, "ActionInProgress", fmt.Sprintf("Stack %s already has an action (%s) in progress.", s.name, r.action))
	case unhealthy && (r.action != check || r.status != failed):
		r.state(check, failed, q.Reason)
	case !unhealthy && r.action == check && r.status == failed:
		r.state(check, complete, q.Reason)
	}
	return ok(null)
}
