package fields

import (
	"testing"

	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v6/value"
)

func TestAPathReadsAsPeopleWriteIt(t *testing.T) {
	for want, path := range map[string]fieldpath.Path{
		"spec.template.spec.containers[name=web].image": fieldpath.MakePathOrDie("spec", "template", "spec", "containers", fieldpath.KeyByFields("name", "web"), "image"),
		"spec.ports[port=80,protocol=TCP].nodePort":     fieldpath.MakePathOrDie("spec", "ports", fieldpath.KeyByFields("protocol", "TCP", "port", 80), "nodePort"),
		"metadata.labels[vnf.jibe.dev/instance]":        fieldpath.MakePathOrDie("metadata", "labels", "vnf.jibe.dev/instance"),
		"metadata.finalizers[example.com/hold]":         fieldpath.MakePathOrDie("metadata", "finalizers", value.NewValueInterface("example.com/hold")),
		"data":                                          fieldpath.MakePathOrDie("data"),
	} {
		if got := String(path); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
