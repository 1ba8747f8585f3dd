package kubernetes

import (
	"errors"
	"fmt"
	"slices"
	"strings"

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
	more := "namespaces in " + desired.VIMFile(d.vim.Name)
	if d.vim.InCluster {
		more += ", or namespaces.names of the chart,"
	}
	return fmt.Sprintf("is in namespace %s, and VIM %s is used in %s alone: give params.namespace one of these, or have an administrator add it to %s and give the VIM's credentials the rights there",
		namespace, d.vim.Name, some(d.vim.Namespaces), more)
}

// outside returns the first of the objects that is in no namespace which the VIM is used in, and why that is wrong; ""
// for none.
func (d *Driver) outside(objects []plan.Object) (key, why string) {
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
		if reason := d.unused(namespace); reason != "" {
			key, why = x.Key, reason
		}
	}
	return key, why
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

	key, why := d.outside(objects)
	if why == "" {
		return nil
	}
	gk, _, _, _ := manifest.SplitKey(key)
	return &drivers.UnlistedError{VIM: d.vim.Name, Kind: manifest.KindName(gk), Since: d.began, Err: errors.New(strings.TrimPrefix(why, "is "))}
}
