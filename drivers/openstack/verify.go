package openstack

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/jibe-vnfm/jibe/drivers"
	"github.com/jibe-vnfm/jibe/drivers/openstack/hot"
	"github.com/jibe-vnfm/jibe/plan"
)

// Verify implements [drivers.Driver]: images, flavours and networks that the servers and
// ports name must exist, and Heat must take the template. Quotas are Heat's to find.
func (d *Driver) Verify(ctx context.Context, r drivers.Rendering, steps ...plan.Step) error {
	for _, s := range steps {
		if s.Action != plan.Apply {
			continue
		}
		if err := d.verify(ctx, r, s); err != nil {
			return fmt.Errorf("VIM %s: %w", d.vim.Name, drivers.About(s.Object, err))
		}
	}
	return nil
}

func (d *Driver) verify(ctx context.Context, r drivers.Rendering, s plan.Step) error {
	rendered, err := formOf(r)
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
	var checks []func() error
	seen := map[string]bool{}
	for _, f := range rendered.Facts() {
		if what := string(f.Kind) + " " + f.Value; f.Kind.Shareable() && !seen[what] {
			seen[what] = true
			checks = append(checks, func() error { return d.exists(ctx, f) })
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

// exists asks the service that has such things.
func (d *Driver) exists(ctx context.Context, f hot.Fact) error {
	missing := func() error {
		return &drivers.RefusedError{Object: f.Where, Reason: fmt.Sprintf("the VIM has no %s %q: name one that exists, or have it made", f.Kind, f.Value)}
	}
	switch f.Kind {
	case hot.FactFlavour:
		return d.flavourExists(ctx, f.Value, missing)
	case hot.FactImage:
		return d.listed(ctx, glance, f.Value, missing, "images", "images")
	default:
		return d.listed(ctx, neutron, f.Value, missing, "networks", "networks")
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
