package openstacktest

import (
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// listStacks lists what is asked for, the newest first.
func (c *Cloud) listStacks(in *call) answer {
	q := in.query
	nested, deleted := truth(q.Get("show_nested")), truth(q.Get("show_deleted"))
	var all []*stack
	for _, s := range slices.Backward(c.order) {
		if c.listed(s, q) && (nested || s.parent == nil) {
			all = append(all, s)
		}
	}
	if deleted {
		for _, s := range c.stacks {
			if !s.deleted.IsZero() && (nested || s.parent == nil) && c.listed(s, q) {
				all = append(all, s)
			}
		}
	}
	if m := q.Get("marker"); m != "" && !slices.ContainsFunc(all, func(s *stack) bool { return s.id == m }) {
		return missing("Stack", m)
	}
	shown, _ := page(all, func(s *stack) string { return s.id }, q, 0)
	list := []any{}
	for _, s := range shown {
		list = append(list, object{
			"id": s.id, "links": c.stackLinks(s), "stack_name": s.name, "description": "",
			"stack_status": s.action + "_" + s.status, "stack_status_reason": s.reason, "creation_time": zulu(s.created),
			"updated_time": orNull(s.updated), "deletion_time": orNull(s.deleted), "stack_owner": userName, "parent": parentID(s),
			"stack_user_project_id": c.project, "tags": s.tagList(true),
		})
	}
	return ok(object{"stacks": list})
}

func truth(s string) bool { return strings.EqualFold(s, "true") || s == "1" }

// listed says whether the stack fits the query.
func (c *Cloud) listed(s *stack, q map[string][]string) bool {
	has := func(tag string) bool { return slices.Contains(s.tags, tag) }
	for key, values := range q {
		for _, value := range values {
			tags := strings.Split(value, ",")
			fits := true
			switch key {
			case "tags":
				fits = !slices.ContainsFunc(tags, func(t string) bool { return !has(t) })
			case "tags_any":
				fits = slices.ContainsFunc(tags, has)
			case "not_tags":
				fits = slices.ContainsFunc(tags, func(t string) bool { return !has(t) })
			case "not_tags_any":
				fits = !slices.ContainsFunc(tags, has)
			case "name", "stack_name":
				fits = slices.Contains(values, s.name)
			case "id":
				fits = slices.Contains(values, s.id)
			case "status":
				fits = slices.Contains(values, s.status) || slices.Contains(values, s.action+"_"+s.status)
			}
			if !fits {
				return false
			}
		}
	}
	return true
}

// tagList is null in a list and [] in the view of one stack where there are none.
func (s *stack) tagList(listed bool) any {
	if len(s.tags) == 0 {
		if listed {
			return nil
		}
		return []any{}
	}
	return s.tags
}

func parentID(s *stack) any {
	if s.parent == nil {
		return nil
	}
	return s.parent.id
}

func orNull(t time.Time) any {
	if t.IsZero() {
		return nil
	}
	return zulu(t)
}

func (c *Cloud) stackLinks(s *stack) []any {
	return []any{object{"href": c.stackURL(s), "rel": "self"}}
}

func descriptionOf(t *template) string {
	if d := asText(t.raw["description"]); d != "" {
		return d
	}
	return "No description"
}

func (c *Cloud) stackJSON(s *stack) object {
	parameters := object{}
	for name, v := range c.pseudo(s) {
		parameters[name] = v
	}
	for name, v := range s.values {
		parameters[name] = asText(v)
	}
	outputs := []any{}
	declared, _ := s.template.raw["outputs"].(object)
	for name, section := range declared {
		m, _ := section.(object)
		v, err := c.scope(s).resolve(m["value"])
		if err != nil || hasUnknown(v) {
			v = nil
		}
		description := asText(m["description"])
		if description == "" {
			description = "No description given"
		}
		outputs = append(outputs, object{"output_key": name, "description": description, "output_value": v})
	}
	return object{
		"stack_name": s.name, "id": s.id, "links": c.stackLinks(s), "creation_time": zulu(s.created), "updated_time": orNull(s.updated),
		"deletion_time": orNull(s.deleted), "notification_topics": []any{}, "parameters": parameters, "description": descriptionOf(s.template),
		"template_description": descriptionOf(s.template), "capabilities": []any{}, "disable_rollback": s.keepOnFailure, "timeout_mins": s.timeout,
		"stack_owner": userName, "parent": parentID(s), "stack_user_project_id": c.project, "tags": s.tagList(false),
		"stack_status": s.action + "_" + s.status, "stack_status_reason": s.reason, "outputs": outputs,
	}
}

func (s *stack) environment() object {
	return object{
		"resource_registry": mergedRegistry(s.registry), "parameters": s.given, "parameter_defaults": object{},
		"event_sinks": []any{}, "encrypted_param_names": []any{},
	}
}

func mergedRegistry(registry object) object {
	out := object{"resources": object{}}
	for k, v := range registry {
		out[k] = v
	}
	return out
}

func (c *Cloud) resourcesJSON(s *stack, in *call) []any {
	depth, err := strconv.Atoi(in.query.Get("nested_depth"))
	if err != nil {
		depth = 0
	}
	detail := truth(in.query.Get("with_detail"))
	list := []any{}
	var of func(s *stack, depth int)
	of = func(s *stack, depth int) {
		for _, r := range s.living() {
			list = append(list, c.resourceJSON(r, detail))
		}
		if depth <= 0 {
			return
		}
		for _, r := range s.living() {
			if r.nested != nil {
				of(r.nested, depth-1)
			}
		}
	}
	of(s, depth)
	return list
}

func (c *Cloud) resourceJSON(r *resource, detail bool) object {
	at := c.stackURL(r.stack)
	links := []any{object{"href": at + "/resources/" + r.name, "rel": "self"}, object{"href": at, "rel": "stack"}}
	if r.nested != nil {
		links = append(links, object{"href": c.stackURL(r.nested), "rel": "nested"})
	}
	requiredBy := []any{}
	if d := r.stack.template.resources[r.name]; d != nil {
		requiredBy = r.stack.template.requiredBy(r.name)
	}
	out := object{
		"updated_time": zulu(r.updated), "creation_time": zulu(r.created), "logical_resource_id": r.name, "resource_name": r.name,
		"physical_resource_id": r.id, "resource_status": r.action + "_" + r.status, "resource_status_reason": r.reason, "resource_type": r.kind,
		"links": links, "required_by": requiredBy,
	}
	if r.stack.parent != nil {
		out["parent_resource"] = r.stack.holder
	}
	if detail {
		out["description"], out["attributes"] = "", c.attributesOf(r)
	}
	return out
}

// attributesOf are what Heat shows of the resource beside its state.
func (c *Cloud) attributesOf(r *resource) object {
	if r.nested != nil {
		if r.kind == "OS::Heat::AutoScalingGroup" {
			return object{"current_size": nil, "outputs": nil, "refs": nil, "refs_map": nil, "outputs_list": nil}
		}
		return object{}
	}
	shown, _ := c.attribute(r, []any{"show"}).(object)
	return orEmpty(shown)
}

func (c *Cloud) eventsJSON(s *stack) []any {
	list := []any{}
	for _, e := range slices.Backward(s.events) {
		at := c.stackURL(s) + "/resources/" + e.resource
		list = append(list, object{
			"id": e.id, "links": []any{
				object{"href": at + "/events/" + e.id, "rel": "self"}, object{"href": at, "rel": "resource"}, object{"href": c.stackURL(s), "rel": "stack"},
			},
			"event_time": zulu(e.at), "logical_resource_id": e.resource, "resource_name": e.resource, "physical_resource_id": e.physical,
			"resource_status": e.status, "resource_status_reason": e.reason,
		})
	}
	return list
}

// AsRead is a stack as people see it, for the messages of tests.
func (c *Cloud) AsRead(name string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.byName(name)
	if s == nil {
		return name + " doesn't exist"
	}
	c.advance(time.Now())
	text, err := json.MarshalIndent(c.resourcesJSON(s, &call{query: map[string][]string{"nested_depth": {"5"}}, method: http.MethodGet}), "", " ")
	if err != nil {
		return err.Error()
	}
	return s.action + "_" + s.status + " " + s.reason + "\n" + string(text)
}
