package kubernetes

import (
	"fmt"
	"slices"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/drivers"
	"github.com/jibe-vnfm/jibe/drivers/kubernetes/manifest"
	"github.com/jibe-vnfm/jibe/plan"
)

// A VIM may name the namespaces in which its credentials have rights. The driver then sees nothing of any other: what
// an instance has there must neither count as missing, and be made again, nor as gone.

// unused returns why nothing is written in the namespace; "" where it may be.
func (d *Driver) unused(namespace string) string {
	if len(d.vim.Namespaces) == 0 || slices.Contains(d.vim.Namespaces, namespace) {
		return ""
	}
	return fmt.Sprintf("is in namespace %s, and VIM %s is used in %s alone: give params.namespace one of these, or %s",
		namespace, d.vim.Name, some(d.vim.Namespaces), d.naming())
}

// naming is how another namespace is named.
func (d *Driver) naming() string {
	where := "namespaces in " + desired.VIMFile(d.vim.Name)
	if d.vim.InCluster {
		where += ", or to namespaces.names of the chart,"
	}
	return "have an administrator add it to " + where + " and give the VIM's credentials the rights there"
}

// outside returns the first of the objects that is in no namespace which the VIM is used in, and that namespace; "" for none.
func (d *Driver) outside(objects []plan.Object) (key, where string) {
	if len(d.vim.Namespaces) == 0 {
		return "", ""
	}
	for _, x := range objects {
		gk, namespace, name, _ := manifest.SplitKey(x.Key)
		if gk == manifest.KindNamespace {
			namespace = name
		}
		if namespace == "" || key != "" && x.Key > key {
			continue
		}
		if !slices.Contains(d.vim.Namespaces, namespace) {
			key, where = x.Key, namespace
		}
	}
	return key, where
}

// unseen returns the error of an instance that has, or had, something in a namespace which isn't watched; nil of all
// others. Where it isn't known what stood, the instance's own parameters tell.
func (d *Driver) unseen(r drivers.Rendering) error {
	if len(d.vim.Namespaces) == 0 {
		return nil
	}
	objects := r.Desired.Objects
	if r.Former != nil {
		objects = slices.Concat(objects, r.Former.Desired.Objects)
	}
	if named, ok := r.Source.Instance.Params[manifest.ParamNamespace].(string); ok && len(objects) == 0 && named != "" {
		objects = []plan.Object{{Key: manifest.Key(manifest.KindPod, named, "any")}}
	}

	key, where := d.outside(objects)
	if where == "" {
		return nil
	}
	gk, _, _, _ := manifest.SplitKey(key)
	return &drivers.UnlistedError{VIM: d.vim.Name, Kind: manifest.KindName(gk), Since: d.began, Err: fmt.Errorf(
		"namespace %s isn't watched, as VIM %s is used in %s alone: %s", where, d.vim.Name, some(d.vim.Namespaces), d.naming())}
}
