package kubernetes

import (
	"context"
	"fmt"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/jibe-vnfm/jibe/drivers/kubernetes/manifest"
	"github.com/jibe-vnfm/jibe/drivers/kubernetes/raw"
	"github.com/jibe-vnfm/jibe/drivers/kubernetes/watched"
)

// schemas remembers those of custom resources for a while. They are asked for only where a
// manifest has nulls, whose meaning they say.
type schemas struct {
	known *lru.Cache[schema.GroupVersionResource, knownSchema]
}

type knownSchema struct {
	schema map[string]any // nil where there is none to be seen
	until  time.Time
}

const (
	// maxSchemas bounds how many are remembered.
	maxSchemas = 64
	// schemaAge is for how long one is believed: definitions change without a word.
	schemaAge = 10 * time.Second
)

func newSchemas() (*schemas, error) {
	known, err := lru.New[schema.GroupVersionResource, knownSchema](maxSchemas)
	if err != nil {
		return nil, err
	}

	return &schemas{known}, nil
}

var definitions = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}

// settleNulls is the object with its nulls as the definition of its kind has them. What isn't
// defined by one, or by one that the credentials may not read, has none.
func (d *Driver) settleNulls(ctx context.Context, obj *unstructured.Unstructured, mapping *meta.RESTMapping) (*unstructured.Unstructured, error) {
	if !manifest.HasNulls(obj) {
		return obj, nil
	}

	known, ok := d.schemas.known.Get(mapping.Resource)
	if !ok || time.Now().After(known.until) {
		name := mapping.Resource.Resource + "." + mapping.Resource.Group
		definition, err := d.get(ctx, d.client.Resource(definitions), name, metav1.GetOptions{})
		if err != nil && !apierrors.IsForbidden(err) {
			return nil, fmt.Errorf("look up definition %s: %w", name, watched.Unavailable(err))
		}
		known = knownSchema{schemaOf(definition, mapping.Resource.Version), time.Now().Add(schemaAge)}
		d.schemas.known.Add(mapping.Resource, known)
	}
	obj = obj.DeepCopy()
	manifest.SettleCustom(obj, known.schema)

	return obj, nil
}

// schemaOf is the schema that the definition, which may be nil, has for the version.
func schemaOf(definition *unstructured.Unstructured, version string) map[string]any {
	if definition == nil {
		return nil
	}
	for _, v := range raw.Maps(definition.Object, "spec", "versions") {
		if v["name"] == version {
			found, _, _ := unstructured.NestedMap(v, "schema", "openAPIV3Schema")
			return found
		}
	}

	return nil
}
