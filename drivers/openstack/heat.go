package openstack

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"time"
)

// stackRecord is a stack as Heat lists it.
type stackRecord struct {
	ID      string   `json:"id"`
	Name    string   `json:"stack_name"`
	Status  string   `json:"stack_status"`
	Reason  string   `json:"stack_status_reason"`
	Created string   `json:"creation_time"`
	Updated string   `json:"updated_time"`
	Tags    []string `json:"tags"`
}

// The ends of Heat's states, which are an action and one of these.
const (
	inProgress = "_IN_PROGRESS"
	complete   = "_COMPLETE"
	failed     = "_FAILED"
)

func (s *stackRecord) inProgress() bool {
	return strings.HasSuffix(s.Status, inProgress) || s.deleting()
}
func (s *stackRecord) failed() bool   { return strings.HasSuffix(s.Status, failed) }
func (s *stackRecord) deleting() bool { return s.Status == "DELETE"+inProgress || s.deleted() }

// deleted says that all of the stack's resources are gone. It stays in Heat's list, and
// keeps its name, for as long as Heat takes to forget it: it isn't gone before.
func (s *stackRecord) deleted() bool { return s.Status == "DELETE"+complete }

// working says whether the last work on the stack succeeded and left something that runs.
func (s *stackRecord) working() bool {
	switch s.Status {
	case "DELETE" + complete, "SUSPEND" + complete:
		return false
	}
	return strings.HasSuffix(s.Status, complete)
}

// The tags of a stack. A tag has at most 80 characters.
const (
	tagJibe     = "jibe"
	tagInstance = "jibe-instance:"
	tagDigest   = "jibe-digest:"
	tagBody     = "jibe-body:"
)

// tag is what follows the prefix in the stack's tags, "" if it isn't among them.
func (s *stackRecord) tag(prefix string) string {
	for _, t := range s.Tags {
		if rest, ok := strings.CutPrefix(t, prefix); ok {
			return rest
		}
	}
	return ""
}

const stackPrefix = "vnf-"

var untagged = regexp.MustCompile(`^vnf-([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})(?:-(.+))?$`)

// instance is whose the stack is: as its tag says, else as its name does; "" for
// stacks of others. Of an id that is no UUID a name can't tell where it ends: then that
// is taken for it all.
func (s *stackRecord) instance() string {
	if id := s.tag(tagInstance); id != "" {
		return id
	}
	if m := untagged.FindStringSubmatch(s.Name); m != nil {
		return m[1]
	}
	id, _ := strings.CutPrefix(s.Name, stackPrefix)
	if id == s.Name {
		return ""
	}
	return id
}

// generation is that of the instance's stack, by its name.
func (s *stackRecord) generation(instance string) string {
	return generationOf(strings.TrimPrefix(strings.TrimPrefix(s.Name, stackPrefix+instance), "-"))
}

// stackKey is the key of the stack's object.
func stackKey(name string) string { return "Stack/" + name }

// resource is a resource of a stack, or of one nested in it.
type resource struct {
	Name     string `json:"resource_name"`
	Type     string `json:"resource_type"`
	Physical string `json:"physical_resource_id"`
	Status   string `json:"resource_status"`
	Reason   string `json:"resource_status_reason"`
	Created  string `json:"creation_time"`
	Links    []struct {
		Href string `json:"href"`
		Rel  string `json:"rel"`
	} `json:"links"`
}

const (
	typeServer  = "OS::Nova::Server"
	typePort    = "OS::Neutron::Port"
	typeVolume  = "OS::Cinder::Volume"
	typeNetwork = "OS::Neutron::Net"
	typeGroup   = "OS::Heat::AutoScalingGroup"
)

// stackID names a stack in a path: Heat takes either alone, but a name may be a
// successor's, and an id alone costs a redirection.
type stackID struct{ name, id string }

func (s stackID) String() string { return s.name + "/" + s.id }

func (s stackID) path(below ...string) []string {
	return append([]string{"stacks", s.name, s.id}, below...)
}

// link is the stack that the resource's link of the kind leads to: "stack" is the one
// that it stands in, "nested" the one that it is.
func (r *resource) link(rel string) stackID {
	for _, l := range r.Links {
		if l.Rel != rel {
			continue
		}
		parts := strings.Split(l.Href, "/")
		if n := len(parts); n >= 2 {
			return stackID{parts[n-2], parts[n-1]}
		}
	}
	return stackID{}
}

func (r *resource) inProgress() bool { return strings.HasSuffix(r.Status, inProgress) }

// pageSize is how many stacks are asked for at once. Nova decides by itself.
const pageSize = 1000

// listStacks are all stacks of the project, but for nested ones.
func (c *cloud) listStacks(ctx context.Context) ([]*stackRecord, error) {
	var all []*stackRecord
	marker := ""
	for {
		q := url.Values{"limit": {fmt.Sprint(pageSize)}}
		if marker != "" {
			q.Set("marker", marker)
		}
		var page struct {
			Stacks []*stackRecord `json:"stacks"`
		}
		if err := c.get(ctx, heat, &page, q.Encode(), "stacks"); err != nil {
			return nil, fmt.Errorf("list stacks: %w", c.asUnavailable(err)) // the marker's stack may be gone
		}
		all = append(all, page.Stacks...)
		if len(page.Stacks) < pageSize {
			return all, nil
		}
		marker = page.Stacks[len(page.Stacks)-1].ID
	}
}

// standing is the stack of the name, nil if there is none.
func (c *cloud) standing(ctx context.Context, name string) (*stackRecord, error) {
	var page struct {
		Stacks []*stackRecord `json:"stacks"`
	}
	if err := c.get(ctx, heat, &page, url.Values{"name": {name}}.Encode(), "stacks"); err != nil {
		return nil, fmt.Errorf("stack %s: %w", name, c.asUnavailable(err))
	}
	var found *stackRecord
	for _, s := range page.Stacks {
		if s.Name == name && (found == nil || s.order(found) < 0) {
			found = s
		}
	}
	return found, nil
}

// order puts the stack to keep of those with one name first. Heat looks for the name first
// and makes the stack later: where two ask at once, both may get one. All processes keep
// the same one, the oldest.
func (s *stackRecord) order(other *stackRecord) int {
	if s.deleting() != other.deleting() {
		if other.deleting() {
			return -1
		}
		return 1
	}
	return cmp.Or(strings.Compare(s.Created, other.Created), strings.Compare(s.ID, other.ID))
}

// findStack is the stack of the name and the id, nil if there is none.
func (c *cloud) findStack(ctx context.Context, id stackID) (*stackRecord, error) {
	var found struct {
		Stack *stackRecord `json:"stack"`
	}
	err := c.get(ctx, heat, &found, "", id.path()...)
	if is(err, http.StatusNotFound) {
		return nil, nil // there is none, which is no error
	}
	if err != nil {
		return nil, fmt.Errorf("stack %s: %w", id.name, c.asUnavailable(err))
	}
	if found.Stack.deleted() {
		return nil, nil // Heat shows it by its id long after it has forgotten the name
	}
	return found.Stack, nil
}

// deepest is how far Heat may nest stacks.
const deepest = "nested_depth=5"

func (c *cloud) resources(ctx context.Context, s stackID) ([]*resource, error) {
	var list struct {
		Resources []*resource `json:"resources"`
	}
	if err := c.get(ctx, heat, &list, deepest, s.path("resources")...); err != nil {
		return nil, fmt.Errorf("resources of stack %s: %w", s.name, err)
	}
	return list.Resources, nil
}

// body is what the stack was created or last updated with, as Heat tells it.
func (c *cloud) body(ctx context.Context, s stackID) (*liveBody, error) {
	b := &liveBody{}
	var environment struct {
		Parameters map[string]any `json:"parameters"`
	}
	err := together(
		func() error { return c.get(ctx, heat, &b.Template, "", s.path("template")...) },
		func() error { return c.get(ctx, heat, &b.Files, "", s.path("files")...) },
		func() error { return c.get(ctx, heat, &environment, "", s.path("environment")...) },
	)
	if err != nil {
		return nil, fmt.Errorf("template of stack %s: %w", s.name, err)
	}
	b.Parameters = environment.Parameters
	return b, nil
}

// liveBody is what a stack was made of.
type liveBody struct {
	Template   map[string]any
	Files      map[string]string
	Parameters map[string]any
}

// plain is the value as JSON has it: what is sent and what Heat tells can then be compared.
func plain(v any) (any, error) {
	text, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	var same any
	return same, json.Unmarshal(text, &same)
}

// parseTime reads the times of all services: with and without zone or fraction.
func parseTime(s string) time.Time {
	for _, layout := range []string{time.RFC3339Nano, "2006-01-02T15:04:05.999999"} {
		if t, err := time.Parse(layout, s); err == nil {
			return t
		}
	}
	return time.Time{}
}
