package kubernetes

import (
	"unique"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/jibe-vnfm/jibe/drivers"
	"github.com/jibe-vnfm/jibe/drivers/kubernetes/fields"
	"github.com/jibe-vnfm/jibe/drivers/kubernetes/manifest"
	"github.com/jibe-vnfm/jibe/drivers/kubernetes/watched"
)

// fieldsKey names a question about managed fields that has one answer for all
// instances of a package: whose values differ, but not the names of their fields.
type fieldsKey struct {
	base, flavour, generation, state, kind, name string
	fields                                       unique.Handle[string]
}

// maxComplete bounds how many answers are remembered. The questions are as many as the
// objects of a package; what drifts adds some.
const maxComplete = 1 << 14

// drifted says whether the object is suspected to differ from its render:
// someone took over fields that Jibe applied. Somebody who changes a field's value
// becomes its manager, so no value has to be kept or read: it is enough that each
// rendered field is still ours. An object that Examine cleared isn't suspected until
// it has changed.
func (d *Driver) drifted(src drivers.Source, r *manifest.Form, f *watched.Fact) bool {
	if r == nil || src.Package == nil || src.Package.Tree == "" || src.Foundation().Tree == "" {
		return false
	}
	key := fieldsKey{manifest.PackageKey(src), src.Instance.Flavour, src.Instance.Generation, src.Instance.State, manifest.KindName(f.GroupKind), f.Name, f.Fields}
	if f.Inventory != "" {
		key.name = "" // the inventory's name is the instance's
	}
	complete, known := d.complete.Get(key)
	if !known {
		if r.Objects[f.Key] == nil {
			return false
		}
		complete = fields.Own(f.Fields.Value(), r.Objects[f.Key])
		d.complete.Add(key, complete)
	}
	return !complete && !d.findings.cleared(f)
}

// accepted takes note of what the server made of a write: it may keep fields
// otherwise than they were sent (a webhook rewrites them). Such an object isn't
// suspected before somebody touches it.
func (d *Driver) accepted(f *watched.Fact, applied *unstructured.Unstructured) {
	if fields.Own(f.Fields.Value(), applied) {
		d.findings.forget(f.Key)
		return
	}
	d.findings.put(f.Key, finding{state: stateOf(f)}, d.watches)
}
