package manifest_test

import (
	"strings"
	"testing"

	"github.com/jibe-vnfm/jibe/drivers/kubernetes/manifest"
	"github.com/jibe-vnfm/jibe/drivers/kubernetes/manifest/sample"
)

// shapes are those of the objects of an instance, by kind and name.
func shapes(t *testing.T, id, namespace, manifests string, level int) map[string]manifest.Shape {
	t.Helper()
	src := sample.Source(id, namespace, manifests, sample.TwoVDUs(), map[string]int{"front_aspect": level})
	form, err := manifest.NewRenderer([]byte("0123456789abcdef")).Render(src)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]manifest.Shape{}
	for _, obj := range form.Objects {
		name := obj.GetName()
		if name == manifest.InventoryName(id) {
			name = "inventory"
		}
		if found[obj.GetKind()+"/"+name], err = manifest.ShapeOf(obj, id); err != nil {
			t.Fatal(err)
		}
	}
	return found
}

const unusual = sample.FrontAndBack + `---
{apiVersion: radio.example.com/v1, kind: Radio, metadata: {name: north}, spec: {cells: 3}}
---
{apiVersion: v1, kind: ServiceAccount, metadata: {name: robot}}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: robot}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: reader}
subjects: [{kind: ServiceAccount, name: robot}]
`

func TestInstancesOfOnePackageHaveObjectsOfOneShape(t *testing.T) {
	one, other := shapes(t, "one", "amf", unusual, 0), shapes(t, "other", "smf", unusual, 3)
	for name, shape := range one {
		if shape != other[name] {
			t.Errorf("%s has another shape in another namespace, of another instance with another level", name)
		}
	}
	if len(one) != 8 || len(other) != len(one) {
		t.Errorf("%d and %d objects, want 8: the inventory too", len(one), len(other))
	}
}

func TestWhatAPackageWroteIsInTheShape(t *testing.T) {
	is := shapes(t, "front", "amf", unusual, 0)
	for name, change := range map[string][2]string{
		"Deployment/front":       {"containerPort: 8080", "containerPort: 8081"},
		"StatefulSet/front-back": {"serviceName: front", "serviceName: back"},
		"ConfigMap/settings":     {"mode: fast", "mode: slow"},
		"Radio/north":            {"cells: 3", "cells: 4"},
		"RoleBinding/robot":      {"name: reader", "name: writer"},
		// A text that happens to be the id of the instance, or its namespace, is text.
		"Service/front": {"name: http", "name: amf"},
	} {
		other := shapes(t, "amf", "front", strings.Replace(unusual, change[0], change[1], 1), 0)
		for all, shape := range is {
			if same := shape == other[all]; same == (all == name) {
				t.Errorf("%s -> %s: the same shape of %s: %v", change[0], change[1], all, same)
			}
		}
	}
}
