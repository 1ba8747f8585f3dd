// Package clock moves the time of day of one process, and of no other: that of the machine stays as
// it is. It owns the building of such a binary and the file by which its clock is moved; the code
// that is built into it is in [moved].
package clock

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/jibe-vnfm/jibe/test/ha/clock/moved"
	"github.com/jibe-vnfm/jibe/test/process"
)

// begin is the file that is added to the main package.
const begin = `package main

import "github.com/jibe-vnfm/jibe/test/ha/clock/moved"

var _ = moved.Begin()
`

// Build builds the jibe of this source tree such that its clock can be moved, and returns the
// binary's path. Nothing is written among the sources.
func Build(ctx context.Context) (binary string, err error) {
	dir, err := os.MkdirTemp("", "jibe-clock-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir)
	overlay, err := write(dir)
	if err != nil {
		return "", err
	}
	binary = filepath.Join(process.Root(), ".cache", "test", "jibe-clock")
	return binary, process.Build(ctx, process.Root(), binary, "-overlay", overlay)
}

// write writes the overlay: a file that the main package seems to have.
func write(dir string) (name string, err error) {
	main := filepath.Join(dir, "clock.go")
	if err := os.WriteFile(main, []byte(begin), 0o644); err != nil {
		return "", err
	}
	text, err := json.Marshal(map[string]any{"Replace": map[string]string{filepath.Join(process.Root(), "cmd", "jibe", "clock_of_tests.go"): main}})
	if err != nil {
		return "", err
	}
	name = filepath.Join(dir, "overlay.json")
	return name, os.WriteFile(name, text, 0o644)
}

// Clock is the clock of the processes that have its environment.
type Clock struct{ file string }

// New is a clock that is right, with its file in a folder that exists.
func New(dir string) (*Clock, error) {
	c := &Clock{filepath.Join(dir, "clock")}
	return c, c.Move(0)
}

// Environment is what its processes need beside their own.
func (c *Clock) Environment() string { return moved.EnvFile + "=" + c.file }

// Move has the clock be ahead of the machine's by a time of whole seconds, or behind it. Processes
// that run see it at once.
func (c *Clock) Move(by time.Duration) error {
	f, err := os.OpenFile(c.file, os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		return fmt.Errorf("move the clock: %w", err)
	}
	defer f.Close()
	var text [moved.Size]byte
	binary.NativeEndian.PutUint64(text[:], uint64(int64(by/time.Second)))
	if _, err := f.WriteAt(text[:], 0); err != nil {
		return fmt.Errorf("move the clock: %w", err)
	}
	return f.Close()
}
