package kubernetes

import (
	"fmt"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/jibe-vnfm/jibe/drivers"
	"github.com/jibe-vnfm/jibe/drivers/kubernetes/confine"
	"github.com/jibe-vnfm/jibe/drivers/kubernetes/manifest"
)

// Confine implements [drivers.Driver]: see [confine.Checker.Check] and [Driver.outside].
func (d *Driver) Confine(r drivers.Rendering) []drivers.Violation {
	found := d.checker.Check(formOf(r), r.Source.Bounds)
	if form := formOf(r); form != nil {
		if key, where := d.outside(form.Desired.Objects); where != "" {
			found = append(found, drivers.Violation{File: form.Files[key], Object: key, Rule: drivers.RuleVIM, Detail: d.unused(where)})
		}
	}
	return found
}

// bounded refuses an object that turned out to be in no namespace where its project may not
// bring such: a rendering takes every kind that it doesn't know for one in namespaces.
func bounded(b *drivers.Bounds, gk schema.GroupKind, key string) error {
	if b == nil || confine.ClusterKindAllowed(b, gk) || manifest.InfoOf(gk).Posted {
		return nil
	}
	return &drivers.RefusedError{Object: key, Reason: fmt.Sprintf("is in no namespace at this cluster, and project %s may not bring such: "+
		"let kinds.clusterScoped of the project name %s, or leave it out of the package", b.Project, manifest.KindName(gk))}
}
