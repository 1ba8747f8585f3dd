package main

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/jibe-vnfm/jibe/test/kit"
)

func TestWhatAQuickRunLeftOutIsToldByPackageAndName(t *testing.T) {
	root := t.TempDir()
	if err := os.MkdirAll(filepath.Join(root, "test", "real"), 0o755); err != nil {
		t.Fatal(err)
	}
	source := "package real\n\nfunc TestMachines(t *testing.T) {}\n\nfunc helper() {}\n\nfunc ExampleMachine() {}\n"
	if err := os.WriteFile(filepath.Join(root, "test", "real", "real_test.go"), []byte(source), 0o600); err != nil {
		t.Fatal(err)
	}
	quick, err := read(write(t, "pass TestWhole", "skip TestSkipped", "skip TestRows/one", "pass TestRows",
		"output TestPart "+kit.InFull, "pass TestPart", "pass "))
	if err != nil {
		t.Fatal(err)
	}

	packages, pattern, err := leftOver(quick, root, []string{"m/p", module + "test/real", module + "test/none"})

	if want := []string{module + "test/real", "m/p"}; err != nil || !slices.Equal(packages, want) {
		t.Errorf("packages %q, %v; want %q", packages, err, want)
	}
	if want := "^(ExampleMachine|TestMachines|TestPart|TestRows|TestSkipped)$"; pattern != want {
		t.Errorf("pattern %q, want %q", pattern, want)
	}
}
