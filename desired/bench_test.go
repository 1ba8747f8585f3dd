package desired_test

import (
	"testing"

	"github.com/jibe-vnfm/jibe/desired"
)

const typical = `# The AMF of Tokyo.
id: 3f6c0bd4-4e2b-4b8c-9c51-0b7d1f6b8a11
name: amf-tokyo-1
vnfdId: b1bb0ce7-ebca-4fa7-95ed-4840d70a1177
package: 9f31c2a09f31c2a09f31c2a09f31c2a09f31c2a0
state: instantiated
flavour: simple
levels: {vdu1_aspect: 2}   # by planning
vim: kube-a
params:
  lcm-kubernetes-def-files:
    - Files/kubernetes/deployment.yaml
  namespace: amf
`

func BenchmarkParseInstance(b *testing.B) {
	for b.Loop() {
		if _, err := desired.ParseInstance(someFile, []byte(typical)); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkEditOneLevel(b *testing.B) {
	for b.Loop() {
		if _, err := desired.Edit(someFile, []byte(typical), desired.KeyValue{Path: []string{"levels", "vdu1_aspect"}, Value: 3}); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkFormat(b *testing.B) {
	in, err := desired.ParseInstance(someFile, []byte(typical))
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if _, err := desired.Format(in); err != nil {
			b.Fatal(err)
		}
	}
}
