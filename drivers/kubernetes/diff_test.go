package kubernetes

import (
	"testing"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/drivers/kubernetes/fields"
	"github.com/jibe-vnfm/jibe/drivers/kubernetes/manifest"
	"github.com/jibe-vnfm/jibe/drivers/kubernetes/manifest/sample"
	"github.com/jibe-vnfm/jibe/drivers/kubernetes/watched"
)

func TestAnEntryOfManagedFieldsMayLackAnything(t *testing.T) {
	for _, entry := range []string{
		"{manager: x, operation: Update, apiVersion: v1, fieldsType: FieldsV1, fieldsV1: {'f:data': {}}}",
		"{manager: x, operation: Update}",
		"{}",
		"{manager: jibe, operation: Apply, fieldsV1: {}}",
	} {
		u := sample.Object(t, "{apiVersion: v1, kind: ConfigMap, metadata: {name: a, resourceVersion: '7', managedFields: ["+entry+"]}, data: {a: c}}")
		rendered := sample.Object(t, "{apiVersion: v1, kind: ConfigMap, metadata: {name: a}, data: {a: b}}")
		f := watched.FactOf("", manifest.KindConfigMap, u)
		if fields.Own(f.Fields.Value(), rendered) {
			t.Errorf("%s: Jibe owns all", entry)
		}
		if found := differing("", desired.SecretNames{}, manifest.KindConfigMap, f.Key, u, rendered, rendered, maxDeviations); len(found) != 1 {
			t.Errorf("%s: told is %v", entry, found)
		}
	}
}
