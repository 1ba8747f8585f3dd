package sol_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestTheConformanceTableNamesTestsThatExist keeps docs/sol-conformance.md honest.
func TestTheConformanceTableNamesTestsThatExist(t *testing.T) {
	table, err := os.ReadFile(filepath.Join("..", "docs", "sol-conformance.md"))
	if err != nil {
		t.Fatal(err)
	}
	var code strings.Builder
	for _, dir := range []string{".", "filter", "auth", "notify", "../internal/mergepatch", "../lcm", "../reconciler", "../hooks/kubecluster", "../examples", "../test/e2e"} {
		files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			b, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			code.Write(b)
		}
	}
	names := regexp.MustCompile("`((?:Test|Fuzz)[A-Za-z0-9]+)`").FindAllStringSubmatch(string(table), -1)
	if len(names) == 0 {
		t.Fatal("the table names no test")
	}
	for _, m := range names {
		if !strings.Contains(code.String(), "\nfunc "+m[1]+"(") {
			t.Errorf("there is no test %s", m[1])
		}
	}
}
