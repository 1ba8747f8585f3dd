package imports

import (
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestPackagesKeepTheirImportDirections(t *testing.T) {
	packages := load(t)
	for _, line := range Check(Rules(), packages) {
		t.Error(line)
	}
}

// load asks the go command, which knows of build constraints and of the module's border.
// Tests' own imports are left out: a test may wire what its package must not know.
func load(t *testing.T) []Package {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "list", "-deps", "-json=ImportPath,Standard,Imports", "./...")
	cmd.Dir = filepath.Join("..", "..")
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, stderr.String())
	}
	var packages []Package
	for decoder := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p Package
		if err := decoder.Decode(&p); errors.Is(err, io.EOF) {
			return packages
		} else if err != nil {
			t.Fatalf("go list: %v", err)
		}
		packages = append(packages, p)
	}
}

func TestCheckTellsTheChainThatBreaksARule(t *testing.T) {
	const m = Module + "/"
	packages := []Package{
		{ImportPath: "fmt", Standard: true},
		{ImportPath: "net/http", Standard: true},
		{ImportPath: "k8s.io/api/core/v1", Imports: []string{"example.org/far"}},
		{ImportPath: m + "plan", Imports: []string{"fmt"}},
		{ImportPath: m + "plan/impure", Imports: []string{"fmt", "example.org/x"}},
		{ImportPath: m + "api", Imports: []string{m + "middle", m + "drivers/api"}},
		{ImportPath: m + "middle", Imports: []string{m + "drivers/sim", "k8s.io/api/core/v1"}},
		{ImportPath: m + "drivers/sim", Imports: []string{"net/http"}},
		{ImportPath: m + "drivers/api"},
		{ImportPath: m + "driversalike", Imports: []string{m + "plan"}},
	}
	for _, test := range []struct {
		name string
		rule Rule
		want []string
	}{
		{name: "kept", rule: Rule{From: []string{"driversalike"}, Never: []string{"drivers/..."}}},
		{name: "standard library only", rule: Rule{From: []string{"plan/..."}, Never: []string{External}, Why: "pure"},
			want: []string{"plan/impure -> example.org/x: pure"}},
		{name: "through another package", rule: Rule{From: []string{"api"}, Never: []string{"drivers/sim"}, Why: "w"},
			want: []string{"api -> middle -> drivers/sim: w"}},
		{name: "of the standard library", rule: Rule{From: []string{"api"}, Never: []string{"net/http"}, Why: "w"},
			want: []string{"api -> middle -> drivers/sim -> net/http: w"}},
		{name: "a library's own imports are its own", rule: Rule{From: []string{"..."}, Never: []string{"example.org/far"}, Why: "w"}},
		{name: "every broken rule once", rule: Rule{From: []string{"api", "api/..."}, Never: []string{"k8s.io/..."}, Why: "w"},
			want: []string{"api -> middle -> k8s.io/api/core/v1: w"}},
		{name: "stale", rule: Rule{From: []string{"gone"}, Never: []string{External}},
			want: []string{"the rule for gone binds no package: was it renamed?"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, Check([]Rule{test.rule}, packages)); diff != "" {
				t.Error(diff)
			}
		})
	}
}
