package openstack

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/orchestration/v1/stackevents"
	"github.com/gophercloud/gophercloud/v2/openstack/orchestration/v1/stackresources"
	"github.com/gophercloud/gophercloud/v2/openstack/orchestration/v1/stacks"
	"github.com/gophercloud/gophercloud/v2/openstack/orchestration/v1/stacktemplates"
	"github.com/gophercloud/gophercloud/v2/pagination"
)

// stackRecord is a stack as Heat lists it.
type stackRecord struct {
	stacks.ListedStack
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
	// tagInstallation is on stacks that were made or updated since there are installations.
	tagInstallation = "jibe-installation:"
	tagDigest       = "jibe-digest:"
	tagBody         = "jibe-body:"
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

// instance is the id of the instance that the stack belongs to, as its tag says, or else its
// name; "" for stacks of others. Where the id in a name is no UUID, its end can't be seen: then
// all of the name counts as the id.
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

// generation is that of the instance's stack, as its name says.
func (s *stackRecord) generation(instance string) string {
	return generationOf(strings.TrimPrefix(strings.TrimPrefix(s.Name, stackPrefix+instance), "-"))
}

// stackKey is the key of the stack's object.
func stackKey(name string) string { return "Stack/" + name }

const (
	typeServer  = "OS::Nova::Server"
	typePort    = "OS::Neutron::Port"
	typeVolume  = "OS::Cinder::Volume"
	typeNetwork = "OS::Neutron::Net"
	typeGroup   = "OS::Heat::AutoScalingGroup"
)

// stackID names a stack in a path. Heat takes name or id alone, but the name may be that of a
// successor, and the id alone costs a redirection.
type stackID struct{ name, id string }

func (s stackID) String() string { return s.name + "/" + s.id }

func (s stackID) path(below ...string) []string {
	return append([]string{"stacks", s.name, s.id}, below...)
}

// linkedStack is the stack that the resource's link of the kind leads to: "stack" is the one
// that it stands in, "nested" the one that it is.
func linkedStack(links []gophercloud.Link, rel string) stackID {
	for _, l := range links {
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

// pageSize is how many stacks a request asks for. Nova decides by itself.
const pageSize = 1000

// listStacks are all stacks of the project, but for nested ones.
func (c *cloud) listStacks(ctx context.Context) ([]*stackRecord, error) {
	all, err := c.stacks(ctx, url.Values{"limit": {fmt.Sprint(pageSize)}})
	if err != nil {
		return nil, fmt.Errorf("list stacks: %w", c.asUnavailable(err)) // the marker's stack may be gone
	}
	return all, nil
}

// stackNamed is the stack of the name, nil if there is none.
func (c *cloud) stackNamed(ctx context.Context, name string) (*stackRecord, error) {
	all, err := c.stacks(ctx, url.Values{"name": {name}})
	if err != nil {
		return nil, fmt.Errorf("stack %s: %w", name, c.asUnavailable(err))
	}
	var found *stackRecord
	for _, s := range all {
		if s.Name == name && (found == nil || s.order(found) < 0) {
			found = s
		}
	}
	return found, nil
}

func (c *cloud) stacks(ctx context.Context, query url.Values) ([]*stackRecord, error) {
	listed, err := readList(ctx, c, heat, "stacks", func(s *stacks.ListedStack) string { return s.ID }, query, "stacks")
	records := make([]*stackRecord, len(listed))
	for i, s := range listed {
		records[i] = &stackRecord{s}
	}
	return records, err
}

// order sorts stacks of one name, the one to keep first. Heat looks for the name first and makes
// the stack later: where two processes ask at once, both may get one. All processes keep the
// same one, the oldest.
func (s *stackRecord) order(other *stackRecord) int {
	if s.deleting() != other.deleting() {
		if other.deleting() {
			return -1
		}
		return 1
	}
	return cmp.Or(s.CreationTime.Compare(other.CreationTime), strings.Compare(s.ID, other.ID))
}

// findStack is the stack of the name and the id, nil if there is none.
func (c *cloud) findStack(ctx context.Context, id stackID) (*stackRecord, error) {
	// It is read as a stack of the list is, which has all that is needed. The rest of the
	// answer isn't kept: the stack's parameters may be secret.
	var found struct {
		Stack stacks.ListedStack `json:"stack"`
	}
	err := c.call(ctx, heat, func(client *gophercloud.ServiceClient) error {
		return stacks.Get(ctx, client, id.name, id.id).ExtractInto(&found)
	})
	if is(err, http.StatusNotFound) {
		return nil, nil // there is none, which is no error
	}
	if err != nil {
		return nil, fmt.Errorf("stack %s: %w", id.name, c.asUnavailable(err))
	}
	s := &stackRecord{found.Stack}
	if s.deleted() {
		return nil, nil // Heat shows it by its id long after it has forgotten the name
	}
	return s, nil
}

// outputs are the values of the stack's outputs, by name; those that Heat can't tell are nil.
func (c *cloud) outputs(ctx context.Context, s stackID) (map[string]any, error) {
	var found struct {
		Stack struct {
			Outputs []struct {
				Key   string `json:"output_key"`
				Value any    `json:"output_value"`
			} `json:"outputs"`
		} `json:"stack"`
	}
	if err := c.get(ctx, heat, &found, "", s.path()...); err != nil {
		return nil, fmt.Errorf("outputs of stack %s: %w", s.name, err)
	}
	all := map[string]any{}
	for _, o := range found.Stack.Outputs {
		all[o.Key] = o.Value
	}
	return all, nil
}

// deepest is how far Heat may nest stacks.
const deepest = 5

// resources are those of the stack and of the stacks in it. Heat gives them on one page.
func (c *cloud) resources(ctx context.Context, s stackID) ([]stackresources.Resource, error) {
	found, err := readList(ctx, c, heat, "resources", func(r *stackresources.Resource) string { return r.PhysicalID },
		url.Values{"nested_depth": {fmt.Sprint(deepest)}}, s.path("resources")...)
	if err != nil {
		return nil, fmt.Errorf("resources of stack %s: %w", s.name, err)
	}
	return found, nil
}

// newestEvents asks for the events of the stack and of those in it. The options of the typed
// package have no depth.
type newestEvents struct{}

// ToStackEventListQuery implements [stackevents.ListOptsBuilder].
func (newestEvents) ToStackEventListQuery() (string, error) {
	q := url.Values{"limit": {"100"}, "sort_dir": {"desc"}, "nested_depth": {fmt.Sprint(deepest)}}
	return "?" + q.Encode(), nil
}

// events are the newest of the stack and of those in it, at most a hundred.
func (c *cloud) events(ctx context.Context, s stackID) (newest []stackevents.Event, err error) {
	err = c.call(ctx, heat, func(client *gophercloud.ServiceClient) error {
		return stackevents.List(client, s.name, s.id, newestEvents{}).EachPage(ctx, func(_ context.Context, page pagination.Page) (bool, error) {
			var err error
			newest, err = stackevents.ExtractEvents(page)
			return false, err // older ones explain nothing
		})
	})
	return newest, err
}

// stackRequest is the body of a request to Heat. The options of the typed packages take a
// template as text and would read the files that it names, from the disk of this process too:
// here the template and its files are complete.
type stackRequest map[string]any

// ToStackCreateMap implements [stacks.CreateOptsBuilder].
func (b stackRequest) ToStackCreateMap() (map[string]any, error) { return b, nil }

// ToStackUpdateMap implements [stacks.UpdateOptsBuilder].
func (b stackRequest) ToStackUpdateMap() (map[string]any, error) { return b, nil }

// ToStackUpdatePatchMap implements [stacks.UpdatePatchOptsBuilder].
func (b stackRequest) ToStackUpdatePatchMap() (map[string]any, error) { return b, nil }

// ToStackTemplateValidateMap implements [stacktemplates.ValidateOptsBuilder].
func (b stackRequest) ToStackTemplateValidateMap() (map[string]any, error) { return b, nil }

// createStack has Heat begin to make a stack.
func (c *cloud) createStack(ctx context.Context, body stackRequest) error {
	return c.call(ctx, heat, func(client *gophercloud.ServiceClient) error {
		return stacks.Create(ctx, client, body).Err
	})
}

// updateStack has Heat begin to bring the stack to the body. With keep, parameters that aren't in
// the body stay as they are.
func (c *cloud) updateStack(ctx context.Context, s stackID, body stackRequest, keep bool) error {
	return c.call(ctx, heat, func(client *gophercloud.ServiceClient) error {
		if keep {
			return stacks.UpdatePatch(ctx, client, s.name, s.id, body).ExtractErr()
		}
		return stacks.Update(ctx, client, s.name, s.id, body).ExtractErr()
	})
}

// deleteStack has Heat begin to delete the stack, unless there is none.
func (c *cloud) deleteStack(ctx context.Context, s stackID) error {
	err := c.call(ctx, heat, func(client *gophercloud.ServiceClient) error {
		return stacks.Delete(ctx, client, s.name, s.id).ExtractErr()
	})
	if is(err, http.StatusNotFound) {
		return nil
	}
	return c.asUnavailable(err)
}

// validateTemplate asks Heat whether it would take the template.
func (c *cloud) validateTemplate(ctx context.Context, body stackRequest) error {
	return c.call(ctx, heat, func(client *gophercloud.ServiceClient) error {
		return stacktemplates.Validate(ctx, client, body).Err
	})
}

// markUnhealthy has Heat make the resource anew in its next update of the stack.
func (c *cloud) markUnhealthy(ctx context.Context, s stackID, resource string) error {
	return c.call(ctx, heat, func(client *gophercloud.ServiceClient) error {
		return stackresources.MarkUnhealthy(ctx, client, s.name, s.id, resource,
			stackresources.MarkUnhealthyOpts{MarkUnhealthy: true, ResourceStatusReason: unhealthy}).ExtractErr()
	})
}

// heatTime is the time as Heat writes it, "" for none.
func heatTime(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
}
