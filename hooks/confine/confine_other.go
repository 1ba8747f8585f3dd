//go:build !linux

package confine

import "os/exec"

// System is what programs of the system are made of.
var System []string

// Cgroups are on Linux only.
type Cgroups struct{ Controllers []string }

// InNamespaces does nothing here: programs are confined on Linux only.
func InNamespaces(*exec.Cmd) {}

// Main fails: programs are confined on Linux only.
func Main() (exit int) { return 1 }
