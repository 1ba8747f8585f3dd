// Package testenv decides which tests may use real parts, and hands them those that "make test-all" has
// started. A plain "go test", and so "make test", needs Go and git alone: each test that needs a real
// part asks here first, and is skipped. "make test-all" sets [EnvRequire], and then nothing is skipped:
// what is missing is installed or built, or the test fails.
//
// The control plane is in test/kubeenv, the cloud in test/osenv: their clients are large, and few tests
// need them.
package testenv

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// EnvRequire names the environment variable that, when "1", has tests use real parts and fails those
// that find one missing.
const EnvRequire = "JIBE_TEST_REQUIRE"

// Required reports whether tests of real parts run.
func Required() bool { return os.Getenv(EnvRequire) == "1" }

// Real skips the test unless tests of real parts run. part is what the test needs, such as "a real
// Gitea".
func Real(t testing.TB, part string) {
	t.Helper()

	if !Required() {
		t.Skipf("it needs %s: make test-all runs it, and so does go test with %s=1", part, EnvRequire)
	}
}

// EnvChaos names the environment variable that, when "1", has the tests run that are too long, or too random, to
// judge each change by.
const EnvChaos = "JIBE_TEST_CHAOS"

// Chaos skips the test unless "make chaos" runs it, and then as [Real] does. It is the first line of a test, by
// which the Makefile finds it.
func Chaos(t testing.TB, part string) {
	t.Helper()

	if os.Getenv(EnvChaos) != "1" {
		t.Skipf("it needs %s, and minutes: make chaos runs it, and so does go test with %s=1 and %s=1", part, EnvRequire, EnvChaos)
	}

	Real(t, part)
}

// Program returns the path of a program of one of Debian's packages, which is installed where it is
// missing and this process is root. It skips the test as [Real] does.
func Program(t testing.TB, program, debian string) string {
	t.Helper()
	Real(t, program+" (Debian's "+debian+")")

	if path, err := exec.LookPath(program); err == nil {
		return path
	}

	Install(t, program, debian)

	path, err := exec.LookPath(program)
	if err != nil {
		t.Fatal(err)
	}

	return path
}

// Install installs one of Debian's packages for what a test needs of it.
func Install(t testing.TB, what, debian string) {
	t.Helper()

	if out, err := exec.CommandContext(t.Context(), filepath.Join(Root(), "test", "need"), what, debian).CombinedOutput(); err != nil {
		t.Fatalf("%s is missing, and Debian's %s can't be installed: %v\n%s", what, debian, err, out)
	}
}

// errNotBuilt is returned where the programs of a control plane are not built on this machine.
var errNotBuilt = errors.New("the programs of a control plane are not built yet: run test/controlplane/controlplane build")

// ControlPlane returns the folder with the programs of test/controlplane. It doesn't build them, which takes minutes.
func ControlPlane(ctx context.Context) (string, error) {
	dir, err := exec.CommandContext(ctx, controlPlane(), "cached").Output()
	if err != nil {
		return "", errNotBuilt
	}

	return strings.TrimSpace(string(dir)), nil
}

// BuildControlPlane builds the programs of test/controlplane where they are missing.
func BuildControlPlane(t testing.TB) {
	t.Helper()

	if _, err := ControlPlane(t.Context()); err == nil {
		return
	}

	if out, err := exec.CommandContext(t.Context(), controlPlane(), "build").CombinedOutput(); err != nil {
		t.Fatalf("%s build: %v: %s", controlPlane(), err, out)
	}
}

func controlPlane() string { return filepath.Join(Root(), "test", "controlplane", "controlplane") }

// Root returns the project's folder, which is above the one that the process was in when it first asked. What was
// compiled with -trimpath doesn't know where its source was.
func Root() string { return root() }

var root = sync.OnceValue(func() string {
	dir, err := os.Getwd()
	if err != nil {
		panic(err)
	}

	for at := dir; ; at = filepath.Dir(at) {
		text, err := os.ReadFile(filepath.Join(at, "go.mod"))
		if err == nil && bytes.HasPrefix(text, []byte("module github.com/jibe-vnfm/jibe\n")) {
			return at
		}

		if at == filepath.Dir(at) {
			panic("no folder above " + dir + " is the project's: start the program in the project's folder")
		}
	}
})
