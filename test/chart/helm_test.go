// Package chart tests charts/jibe with helm itself: what it renders, what it refuses, what an
// API server says of it, and what becomes of it on a real node.
package chart

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jibe-vnfm/jibe/test/process"
	"github.com/jibe-vnfm/jibe/test/testenv"
)

// chartDir is the chart.
func chartDir() string { return filepath.Join(process.Root(), "charts", "jibe") }

// helm returns the path of the program, as this project builds it. It skips the test as [testenv.Real]
// does.
func helm(t testing.TB) string {
	t.Helper()
	testenv.Real(t, "helm, which is built from source")

	script := filepath.Join(process.Root(), "test", "chart", "helm")
	cmd := exec.CommandContext(t.Context(), script)
	var said bytes.Buffer
	cmd.Stderr = &said

	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v: %s", script, err, &said)
	}

	return strings.TrimSpace(string(out))
}

// environment keeps helm's own files out of the home directory.
func environment(t testing.TB) []string {
	t.Helper()
	dir := t.TempDir()
	return append(os.Environ(), "HELM_CACHE_HOME="+dir, "HELM_CONFIG_HOME="+dir, "HELM_DATA_HOME="+dir)
}

// run runs a program and returns what it prints; the error has what it says.
func run(ctx context.Context, env []string, stdin string, argv ...string) (string, error) {
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Env = env
	cmd.Stdin = strings.NewReader(stdin)
	var out, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &said
	if err := cmd.Run(); err != nil {
		return out.String(), fmt.Errorf("%s %s: %w: %s%s", filepath.Base(argv[0]), strings.Join(argv[1:min(len(argv), 4)], " "), err, &said, &out)
	}
	return out.String(), nil
}
