package watched

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/jibe-vnfm/jibe/drivers/kubernetes/manifest"
	"github.com/jibe-vnfm/jibe/drivers/kubernetes/raw"
)

// scaledBy is the key of the workload that the autoscaler targets.
func scaledBy(u *unstructured.Unstructured) string {
	target := func(field string) string { return raw.String(u.Object, "spec", "scaleTargetRef", field) }
	group, _, versioned := strings.Cut(target("apiVersion"), "/")
	if !versioned {
		group = manifest.GroupCore
	}
	return manifest.Key(schema.GroupKind{Group: group, Kind: target("kind")}, u.GetNamespace(), target("name"))
}

// autoscaler is the key of the autoscaler that targets the workload regardless of who made it; "" where
// there is none.
func (c *Cache) autoscaler(workload string) string {
	c.mu.RLock()
	defer c.mu.RUnlock()
	var keys []string
	for key, f := range c.scalers[workload] {
		if !f.Deleting {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return strings.Join(keys, ", ")
}

// scaled are the instances whose workload the autoscaler targets. c.mu is held.
func (c *Cache) scaled(f *Fact) []string {
	if f.scales == "" {
		return nil
	}
	gk, _, _, _ := manifest.SplitKey(f.scales)
	if k := c.holder(gk, f.scales); k != nil && k.facts[f.scales] != nil {
		return []string{k.facts[f.scales].Instance}
	}
	return nil
}
