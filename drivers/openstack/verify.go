package openstack

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/jibe-vnfm/jibe/drivers"
	"github.com/jibe-vnfm/jibe/drivers/openstack/hot"
	"github.com/jibe-vnfm/jibe/reconciler/plan"
)

// Verify implements [drivers.Driver]: images, flavours and networks that the servers and
// ports name must exist, and Heat must take the template. Quotas are Heat's to find.
func (d *Driver) Verify(ctx context.Context, src drivers.Source, steps ...plan.Step) error {
	for _, s := range steps {
		if s.Action != plan.Apply {
			continue
		}
		if err := d.verify(ctx, src, s); err != nil {
			return fmt.Errorf("verify %s of instance %s: %w", s.Object, src.Instance.ID, err)
		}
	}
	return nil
}

func (d *Driver) verify(ctx context.Context, src drivers.Source, s plan.Step) error {
	rendered, err := d.rendered(src)
	if err != nil {
		return err
	}
	counts := map[string]int{}
	for vdu := range rendered.VDUs {
		counts[vdu] = 1
	}
	body, err := rendered.Create(counts)
	if err != nil {
		return &drivers.RefusedError{Object: s.Object, Reason: err.Error()}
	}
	live, err := asLive(body)
	if err != nil {
		return err
	}
	var checks []func() error
	for what, names := range live.named() {
		for _, name := range slices.Sorted(maps.Keys(names)) {
			checks = append(checks, func() error { return d.exists(ctx, what, name, names[name]) })
		}
	}
	if err := together(checks...); err != nil {
		var refused *drivers.RefusedError
		if !errors.As(err, &refused) {
			return err
		}
		return refused
	}
	err = d.cloud.ask(ctx, request{service: heat, method: http.MethodPost, path: []string{"validate"}, body: map[string]any{
		"template": body.Template, "files": nonNil(body.Files),
		"environment": map[string]any{"parameters": nonNil(body.Parameters)},
	}})
	return d.refused(s.Object, err)
}

// asLive is the body as Heat will tell it.
func asLive(b *hot.Body) (*liveBody, error) {
	same, err := plain(b.Template)
	if err != nil {
		return nil, err
	}
	t, _ := same.(map[string]any)
	return &liveBody{Template: t, Files: b.Files, Parameters: b.Parameters}, nil
}

// thing is a kind of what a template names and doesn't make itself.
type thing string

const (
	image   thing = "image"
	flavour thing = "flavour"
	network thing = "network"
)

// named are the things that the servers and ports of the template name, with the name of
// a resource that does. What only Heat can resolve is left out.
func (b *liveBody) named() map[thing]map[string]string {
	found := map[thing]map[string]string{image: {}, flavour: {}, network: {}}
	b.walk(b.Template, b.Parameters, found, 0)
	return found
}

func (b *liveBody) walk(template map[string]any, parameters map[string]any, found map[thing]map[string]string, depth int) {
	if depth > 5 {
		return // deeper than Heat may nest
	}
	here := &liveBody{Template: template, Parameters: parameters}
	note := func(what thing, resource string, value any) {
		if name, ok := here.resolve(value).(string); ok && name != "" {
			if found[what][name] == "" {
				found[what][name] = resource
			}
		}
	}
	resources, _ := template["resources"].(map[string]any)
	for name, r := range resources {
		r, _ := r.(map[string]any)
		properties, _ := r["properties"].(map[string]any)
		kind, _ := r["type"].(string)
		switch kind {
		case typeServer:
			note(image, name, properties["image"])
			note(flavour, name, properties["flavor"])
			nics, _ := properties["networks"].([]any)
			for _, nic := range nics {
				nic, _ := nic.(map[string]any)
				note(network, name, nic["network"])
			}
		case typePort:
			note(network, name, properties["network"])
			note(network, name, properties["network_id"])
		case typeVolume:
			note(image, name, properties["image"])
		case typeGroup:
			inner, _ := properties["resource"].(map[string]any)
			b.into(here, inner, found, depth)
		default:
			b.into(here, r, found, depth)
		}
	}
}

// into looks into the nested file that the resource is made of, if it is one.
func (b *liveBody) into(here *liveBody, r map[string]any, found map[thing]map[string]string, depth int) {
	kind, _ := r["type"].(string)
	file, ok := b.Files[kind]
	if !ok {
		return
	}
	var nested map[string]any
	if yaml.Unmarshal([]byte(file), &nested) != nil {
		return // Heat says it better
	}
	properties, _ := r["properties"].(map[string]any)
	values := map[string]any{}
	for name, v := range properties {
		if v = here.resolve(v); v != nil {
			values[name] = v
		}
	}
	b.walk(nested, values, found, depth+1)
}

// exists asks the service that has such things. An id is looked for first, as Heat does.
func (d *Driver) exists(ctx context.Context, what thing, name, resource string) error {
	missing := func() error {
		return &drivers.RefusedError{Object: resource, Reason: fmt.Sprintf("the VIM has no %s %q: name one that exists, or have it made", what, name)}
	}
	switch what {
	case flavour:
		return d.flavourExists(ctx, name, missing)
	case image:
		return d.listed(ctx, glance, name, missing, "images", "v2", "images")
	default:
		return d.listed(ctx, neutron, name, missing, "networks", "networks")
	}
}

func (d *Driver) flavourExists(ctx context.Context, name string, missing func() error) error {
	err := d.cloud.get(ctx, nova, nil, "", "flavors", url.PathEscape(name))
	if !is(err, http.StatusNotFound) {
		return d.cloud.asUnavailable(err)
	}
	marker := ""
	for {
		var page struct {
			Flavors []struct {
				ID   string `json:"id"`
				Name string `json:"name"`
			} `json:"flavors"`
			Links []any `json:"flavors_links"`
		}
		query := ""
		if marker != "" {
			query = url.Values{"marker": {marker}}.Encode()
		}
		if err := d.cloud.get(ctx, nova, &page, query, "flavors"); err != nil {
			return d.cloud.asUnavailable(err)
		}
		for _, f := range page.Flavors {
			if f.Name == name {
				return nil
			}
			marker = f.ID
		}
		if len(page.Links) == 0 || len(page.Flavors) == 0 {
			return missing()
		}
	}
}

// listed looks for the id, then for the name.
func (d *Driver) listed(ctx context.Context, s service, name string, missing func() error, list string, path ...string) error {
	if isID(name) {
		err := d.cloud.get(ctx, s, nil, "", append(path, name)...)
		if !is(err, http.StatusNotFound) {
			return d.cloud.asUnavailable(err)
		}
	}
	var page map[string]any
	query := url.Values{"name": {name}}.Encode()
	if err := d.cloud.get(ctx, s, &page, strings.ReplaceAll(query, "+", "%20"), path...); err != nil {
		return d.cloud.asUnavailable(err)
	}
	if found, _ := page[list].([]any); len(found) > 0 {
		return nil
	}
	return missing()
}
