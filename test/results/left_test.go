package main

import (
	"os"
	"path/filepath"
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
	quick := write(t, "pass TestWhole", "skip TestSkipped", "skip TestRows/one", "pass TestRows",
		"output TestPart "+kit.InFull, "pass TestPart", "pass ")
	packages, pattern := filepath.Join(root, "packages"), filepath.Join(root, "pattern")

	err := leftOver(packages, pattern, root, []string{"m/p", module + "test/real", module + "test/none"}, quick)
	if err != nil {
		t.Fatal(err)
	}

	for file, want := range map[string]string{
		packages: module + "test/real m/p\n",
		pattern:  "^(ExampleMachine|TestMachines|TestPart|TestRows|TestSkipped)$\n",
	} {
		if got, err := os.ReadFile(file); err != nil || string(got) != want {
			t.Errorf("%s: %q, %v; want %q", filepath.Base(file), got, err, want)
		}
	}
}
