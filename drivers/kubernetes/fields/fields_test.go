package fields

import (
	"testing"
)

func TestAPathReadsAsPeopleWriteIt(t *testing.T) {
	for want, path := range map[string]Path{
		"spec.template.spec.containers[name=web].image": {"f:spec", "f:template", "f:spec", "f:containers", `k:{"name":"web"}`, "f:image"},
		"spec.ports[port=80,protocol=TCP].nodePort":     {"f:spec", "f:ports", `k:{"protocol":"TCP","port":80}`, "f:nodePort"},
		"metadata.labels[vnf.jibe.dev/instance]":        {"f:metadata", "f:labels", "f:vnf.jibe.dev/instance"},
		"metadata.finalizers[example.com/hold]":         {"f:metadata", "f:finalizers", `v:"example.com/hold"`},
		"data":                                          {"f:data"},
	} {
		if got := path.String(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
