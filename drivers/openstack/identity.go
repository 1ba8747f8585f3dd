package openstack

import (
	"context"
	"fmt"

	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/tokens"

	"github.com/jibe-vnfm/jibe/drivers"
)

var _ drivers.Identifier = (*Driver)(nil)

// Identity implements [drivers.Identifier]: it is the id of the project that the token is for.
func (d *Driver) Identity(ctx context.Context) (string, error) {
	if _, err := d.cloud.client(ctx, heat); err != nil {
		return "", err
	}
	d.cloud.mu.Lock()
	defer d.cloud.mu.Unlock()
	result, ok := d.cloud.provider.GetAuthResult().(interface {
		ExtractProject() (*tokens.Project, error)
	})
	if !ok {
		return "", nil
	}
	project, err := result.ExtractProject()
	if err != nil {
		return "", fmt.Errorf("project of the token: %w: %w", drivers.ErrUnavailable, err)
	}
	if project == nil {
		return "", nil
	}
	return project.ID, nil
}
