package watched

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/jibe-vnfm/jibe/drivers/kubernetes/manifest"
)

// Instances returns the ids of the instances of which there are objects that say themselves that this installation made
// them. An error wraps [drivers.ErrUnavailable]: something can't be seen.
func (c *Cache) Instances(ctx context.Context) ([]string, error) {
	if err := c.Sync(ctx, always()); err != nil {
		return nil, err
	}
	c.mu.RLock()
	defer c.mu.RUnlock()
	ids := make([]string, 0, len(c.instances))
	for id, facts := range c.instances {
		for _, f := range facts {
			if f.installed && (f.TopLevel() || f.claimOfSet()) && !manifest.InfoOf(f.GroupKind).Shared {
				ids = append(ids, id)
				break
			}
		}
	}
	return ids, nil
}

// always returns the kinds that are watched for every VIM. Those that are true must be seen, of the others what the
// credentials let be seen.
func always() map[schema.GroupKind]bool {
	kinds := make(map[schema.GroupKind]bool, len(manifest.Kinds))
	for gk, info := range manifest.Kinds {
		if info.Always {
			kinds[gk] = gk == manifest.KindPod || gk == manifest.KindClaim || gk == manifest.KindConfigMap
		}
	}
	return kinds
}
