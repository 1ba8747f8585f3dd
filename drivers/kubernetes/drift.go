package kubernetes

import (
	"unique"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/jibe-vnfm/jibe/drivers"
)

// fieldsKey names a question about managed fields that has one answer for all
// instances of a package: whose values differ, but not the names of their fields.
type fieldsKey struct {
	base, flavour, generation, kind, name string
	fields                                unique.Handle[string]
}

// maxComplete bounds how many answers are remembered. The questions are as many as the
// objects of a package; what drifts adds some.
const maxComplete = 1 << 14

// drifted says whether the object is suspected to differ from its render:
// someone took over fields that Jibe applied. Whoever changes a field's value
// becomes its manager, so no value has to be kept or read: it is enough that each
// rendered field is still ours. What Examine cleared isn't suspected until it has
// changed.
func (d *Driver) drifted(src drivers.Source, r *render, f *fact) bool {
	if r == nil || src.Package == nil || src.Package.Tree == "" || src.Foundation().Tree == "" {
		return false
	}
	key := fieldsKey{baseKey(src), src.Instance.Flavour, src.Instance.Generation, kindName(f.gk), f.name, f.fields}
	if f.kinds != "" {
		key.name = "" // the inventory's name is the instance's
	}
	complete, known := d.complete.Get(key)
	if !known {
		if r.objects[f.key] == nil {
			return false
		}
		complete = owns(f.fields.Value(), r.objects[f.key])
		d.complete.Add(key, complete)
	}
	return !complete && !d.findings.cleared(f)
}

// accepted takes note of what the server made of a write: it may keep fields
// otherwise than they were sent (a webhook rewrites them). Such an object isn't
// suspected before somebody touches it.
func (d *Driver) accepted(f *fact, applied *unstructured.Unstructured) {
	if owns(f.fields.Value(), applied) {
		d.findings.forget(f.key)
		return
	}
	d.findings.put(f.key, finding{state: stateOf(f)}, d.cache)
}
