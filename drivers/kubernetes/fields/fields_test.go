package fields

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v6/value"
	"sigs.k8s.io/yaml"
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

func TestASetOwnsAnObjectWhenItHasEachFieldOfIt(t *testing.T) {
	const service = "apiVersion: v1\nkind: Service\nmetadata: {name: s, labels: {a: b}}\n"
	const radio = "apiVersion: example.com/v1\nkind: Radio\nmetadata: {name: r}\n"
	for _, c := range []struct {
		name, set, object string
		own               bool
	}{
		{"everything", `{"f:metadata":{"f:labels":{"f:a":{}}},"f:spec":{"f:type":{}}}`, service + "spec: {type: NodePort}", true},
		{"a label is somebody else's", `{"f:metadata":{"f:labels":{"f:x":{}}},"f:spec":{"f:type":{}}}`, service + "spec: {type: NodePort}", false},
		{"a field is somebody else's", `{"f:metadata":{"f:labels":{"f:a":{}}},"f:spec":{"f:clusterIP":{}}}`, service + "spec: {type: NodePort}", false},
		{"a field that is null", `{"f:spec":{"f:mode":{}}}`, radio + "spec: {mode: null}", true},
		{"a field that was null, and is somebody else's", `{"f:spec":{"f:bands":{}}}`, radio + "spec: {bands: 1, mode: null}", false},
		{"a map that is empty", `{"f:metadata":{"f:labels":{"f:a":{}}}}`, service + "spec: {}", true},
		{"an item by its keys, one of which has its default",
			`{"f:metadata":{"f:labels":{"f:a":{}}},"f:spec":{"f:ports":{"k:{\"port\":80,\"protocol\":\"TCP\"}":{".":{},"f:name":{},"f:port":{}}}}}`,
			service + "spec: {ports: [{name: web, port: 80}]}", true},
		{"an item of another protocol",
			`{"f:metadata":{"f:labels":{"f:a":{}}},"f:spec":{"f:ports":{"k:{\"port\":80,\"protocol\":\"UDP\"}":{".":{},"f:name":{},"f:port":{}}}}}`,
			service + "spec: {ports: [{name: web, port: 80}]}", false},
		{"a field of an item is somebody else's",
			`{"f:metadata":{"f:labels":{"f:a":{}}},"f:spec":{"f:ports":{"k:{\"port\":80,\"protocol\":\"TCP\"}":{".":{},"f:port":{}}}}}`,
			service + "spec: {ports: [{name: web, port: 80}]}", false},
		{"an item by its value", `{"f:metadata":{"f:labels":{"f:a":{}}},"f:spec":{"f:ips":{"v:\"10.0.0.1\"":{}}}}`, service + "spec: {ips: [10.0.0.1]}", true},
		{"another value", `{"f:metadata":{"f:labels":{"f:a":{}}},"f:spec":{"f:ips":{"v:\"10.0.0.1\"":{}}}}`, service + "spec: {ips: [10.0.0.2]}", false},
		{"a list as a whole", `{"f:metadata":{"f:labels":{"f:a":{}}},"f:spec":{"f:ips":{}}}`, service + "spec: {ips: [10.0.0.2]}", true},
		{"a map of a kind of Kubernetes' as a whole", `{"f:metadata":{"f:labels":{"f:a":{}}},"f:spec":{"f:selector":{}}}`, service + "spec: {selector: {a: b}}", true},
		{"what may be left of a custom resource's map", `{"f:spec":{"f:bands":{}}}`, radio + "spec: {bands: {low: 1}}", false},
		{"no set", "", service, false},
		{"no JSON", "{", service, false},
	} {
		u := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(c.object), &u.Object); err != nil {
			t.Fatal(err)
		}
		if own := Own(c.set, u); own != c.own {
			t.Errorf("%s: %v", c.name, own)
		}
	}
}

func TestASetHasAFieldWhereItHasTheWholeOrAPart(t *testing.T) {
	set := Parse(`{"f:spec":{"f:whole":{},"f:parts":{"f:one":{}}}}`)
	for path, in := range map[string]bool{"spec": true, "spec.whole": true, "spec.whole.x": true, "spec.parts": true, "spec.parts.one": true, "spec.parts.two": false, "status": false} {
		var p fieldpath.Path
		for name := range strings.SplitSeq(path, ".") {
			p = append(p, fieldpath.FieldNameElement(name))
		}
		if In(p, set) != in {
			t.Errorf("%s: %v", path, !in)
		}
	}
}
