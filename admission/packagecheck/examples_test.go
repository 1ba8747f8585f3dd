package packagecheck_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jibe-vnfm/jibe/admission/packagecheck"
	"github.com/jibe-vnfm/jibe/vnfd"
	"github.com/jibe-vnfm/jibe/vnfd/csar"
)

const examples = "../../examples/packages"

// A wrong checksum here is repaired by csar.Rehash.
func TestEveryExamplePackageIsWithoutProblems(t *testing.T) {
	t.Parallel()

	dirs, err := os.ReadDir(examples)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, d := range dirs {
		if !d.IsDir() {
			continue
		}
		n++
		t.Run(d.Name(), func(t *testing.T) {
			files, err := csar.Dir(filepath.Join(examples, d.Name()))
			if err != nil {
				t.Fatal(err)
			}
			for _, p := range packagecheck.Validate(files) {
				// Secrets of an example are for show.
				if p.Severity == vnfd.Error || !strings.Contains(p.Message, "stands here in clear") {
					t.Error(p)
				}
			}
		})
	}
	if n < 2 {
		t.Errorf("found %d examples", n)
	}
}
