package openstack

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/limits"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/tokens"

	"github.com/jibe-vnfm/jibe/drivers"
)

// Look takes a token of the project, and reads what it is good for: its roles, the services of
// the catalogue, the project's limits. It changes nothing.
func Look(ctx context.Context, vim drivers.VIM, o Options) (s drivers.Sight, err error) {
	if o.Parallel <= 0 {
		o.Parallel = 4
	}
	c, err := newCloud(ctx, vim, o)
	if err != nil {
		return s, err
	}
	defer c.close()
	if s, err = c.lookAtKeystone(ctx); err != nil {
		return s, c.unavailable("Keystone", err)
	}
	// Without one of these no VNF can be run; Cinder is for those with volumes.
	for _, service := range []service{heat, nova, neutron, glance, cinder} {
		if _, err := c.client(ctx, service); err != nil {
			if c.provider == nil {
				return s, err
			}
			s.Lacking = append(s.Lacking, fmt.Sprintf("an endpoint of %s in the catalogue", service))
		}
	}
	if token, ok := c.provider.GetAuthResult().(tokens.CreateResult); ok {
		if roles, err := token.ExtractRoles(); err == nil {
			var names []string
			for _, r := range roles {
				names = append(names, r.Name)
			}
			slices.Sort(names)
			s.Notes = append(s.Notes, "roles: "+strings.Join(names, ", "))
			if len(names) > 0 && !slices.ContainsFunc(names, func(n string) bool { return !strings.EqualFold(n, "reader") }) {
				s.Lacking = append(s.Lacking, "a role that may change anything (it has reader only)")
			}
		}
	}
	if nova := c.services[nova]; nova != nil {
		got, err := limits.Get(ctx, nova, nil).Extract()
		if err != nil {
			return s, c.unavailable("Nova", err)
		}
		a := got.Absolute
		s.Notes = append(s.Notes, fmt.Sprintf("quota: %d of %d servers, %d of %d cores, %d of %d MiB of memory", a.TotalInstancesUsed, a.MaxTotalInstances,
			a.TotalCoresUsed, a.MaxTotalCores, a.TotalRAMUsed, a.MaxTotalRAMSize))
		if a.MaxTotalInstances >= 0 && a.TotalInstancesUsed >= a.MaxTotalInstances {
			s.Lacking = append(s.Lacking, "room for another server in the quota")
		}
	}
	return s, nil
}

// lookAtKeystone reads what needs no credentials.
func (c *cloud) lookAtKeystone(ctx context.Context) (s drivers.Sight, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.vim.Endpoint, nil)
	if err != nil {
		return s, err
	}
	asked := time.Now()
	resp, err := c.http.Do(req)
	if err != nil {
		return s, err
	}
	defer resp.Body.Close()
	if at, err := http.ParseTime(resp.Header.Get("Date")); err == nil {
		s.Timed, s.Skew = true, at.Sub(asked.Add(time.Since(asked)/2).Truncate(time.Second))
	}
	if resp.TLS != nil && len(resp.TLS.PeerCertificates) > 0 {
		s.Expires = resp.TLS.PeerCertificates[0].NotAfter
	}
	s.Version = "OpenStack (Keystone v3)"
	return s, nil
}
