package openstack

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/flavors"
	"github.com/gophercloud/gophercloud/v2/openstack/image/v2/images"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/networks"
	"github.com/gophercloud/gophercloud/v2/pagination"

	"github.com/jibe-vnfm/jibe/drivers"
	"github.com/jibe-vnfm/jibe/drivers/openstack/hot"
	"github.com/jibe-vnfm/jibe/plan"
)

// Verify implements [drivers.Driver]: the images, flavours and networks that servers and ports
// name must exist, and Heat must take the template. Heat checks quotas only when it works.
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
	rendered, err := templatesOf(r)
	if err != nil {
		return err
	}
	now, err := d.seenSince(ctx, r.Source.Instance.ID)
	if err != nil {
		return err
	}
	if err := d.own(now.foreign[strings.TrimPrefix(s.Object, "Stack/")]); err != nil {
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
	err = d.cloud.validateTemplate(ctx, stackRequest{
		"template": body.Template, "files": nonNil(body.Files),
		"environment": map[string]any{"parameters": nonNil(body.Parameters)},
	})
	return d.refused(s.Object, err)
}

// exists refuses the fact where the VIM has no such thing.
func (d *Driver) exists(ctx context.Context, f hot.Fact) error {
	found, err := false, error(nil)
	switch f.Kind {
	case hot.FactFlavour:
		found, err = d.cloud.hasFlavour(ctx, f.Value)
	case hot.FactImage:
		found, err = d.cloud.hasImage(ctx, f.Value)
	default:
		found, err = d.cloud.hasNetwork(ctx, f.Value)
	}
	switch {
	case err != nil:
		return d.cloud.asUnavailable(err)
	case !found:
		return &drivers.RefusedError{Object: f.Where, Reason: fmt.Sprintf("the VIM has no %s %q: name one that exists, or have it made", f.Kind, f.Value)}
	}
	return nil
}

// hasFlavour says whether there is a flavour of the id or the name.
func (c *cloud) hasFlavour(ctx context.Context, named string) (bool, error) {
	err := c.call(ctx, nova, func(client *gophercloud.ServiceClient) error {
		return flavors.Get(ctx, client, url.PathEscape(named)).Err
	})
	if !is(err, http.StatusNotFound) {
		return err == nil, err
	}
	// Pages are asked for by their markers, as readList says.
	for opts := (flavors.ListOpts{}); ; {
		found, more := false, false
		err := c.call(ctx, nova, func(client *gophercloud.ServiceClient) error {
			return flavors.ListDetail(client, opts).EachPage(ctx, func(_ context.Context, page pagination.Page) (bool, error) {
				list, err := flavors.ExtractFlavors(page)
				if err != nil {
					return false, err
				}
				found = slices.ContainsFunc(list, func(f flavors.Flavor) bool { return f.Name == named })
				opts.Marker = list[len(list)-1].ID // an empty page doesn't come here
				next, err := page.NextPageURL()
				more = next != ""
				return false, err
			})
		})
		if err != nil || found || !more {
			return found, err
		}
	}
}

// hasImage says whether there is an image of the id or the name.
func (c *cloud) hasImage(ctx context.Context, named string) (bool, error) {
	return c.has(ctx, glance, named, func(client *gophercloud.ServiceClient) error {
		return images.Get(ctx, client, named).Err
	}, func(client *gophercloud.ServiceClient) pagination.Pager {
		return images.List(client, images.ListOpts{Name: named})
	})
}

// hasNetwork says whether there is a network of the id or the name.
func (c *cloud) hasNetwork(ctx context.Context, named string) (bool, error) {
	return c.has(ctx, neutron, named, func(client *gophercloud.ServiceClient) error {
		return networks.Get(ctx, client, named).Err
	}, func(client *gophercloud.ServiceClient) pagination.Pager {
		return networks.List(client, networks.ListOpts{Name: named})
	})
}

// has looks for the id, where it may be one, and then for the name.
func (c *cloud) has(ctx context.Context, s service, named string,
	get func(*gophercloud.ServiceClient) error, list func(*gophercloud.ServiceClient) pagination.Pager) (found bool, err error) {
	if isID(named) {
		if err := c.call(ctx, s, get); !is(err, http.StatusNotFound) {
			return err == nil, err
		}
	}
	err = c.call(ctx, s, func(client *gophercloud.ServiceClient) error {
		return list(client).EachPage(ctx, func(context.Context, pagination.Page) (bool, error) {
			found = true // an empty page doesn't come here
			return false, nil
		})
	})
	return found, err
}
