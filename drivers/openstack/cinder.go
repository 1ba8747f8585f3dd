package openstack

import (
	"context"
	"fmt"
	"net/http"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/blockstorage/v3/volumes"
)

// bootImage is the id of the image that the volume was made of, "" where it was made of
// none or is gone.
func (c *cloud) bootImage(ctx context.Context, volume string) (string, error) {
	var found *volumes.Volume
	err := c.call(ctx, cinder, func(client *gophercloud.ServiceClient) (err error) {
		found, err = volumes.Get(ctx, client, volume).Extract()
		return err
	})
	if is(err, http.StatusNotFound) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("volume %s: %w", volume, c.asUnavailable(err))
	}
	return found.VolumeImageMetadata["image_id"], nil
}
