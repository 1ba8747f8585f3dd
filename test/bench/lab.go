package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/jibe-vnfm/jibe/test/lab"
	"github.com/jibe-vnfm/jibe/test/process"
)

// spawn starts the server that is measured: the binary, or the laboratory where profiles
// are wanted.
func (b *bench) spawn(data string, args ...string) (*process.Server, error) {
	if b.profiles == "" {
		return process.StartBinary(b.binary, data, args...)
	}
	return b.spawnLab(data, args...)
}

func (b *bench) spawnLab(data string, args ...string) (*process.Server, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	name := ""
	if b.profiles != "" {
		name = filepath.Join(b.profiles, fmt.Sprintf("%s-%02d", b.part, len(b.profiled)+1))
		b.profiled = append(b.profiled, name)
	}
	// Whoever starts a server hands its own environment on.
	if err := errors.Join(os.Setenv(lab.EnvBinary, b.binary), os.Setenv(lab.EnvProfile, name)); err != nil {
		return nil, err
	}
	return process.StartBinary(self, data, args...)
}

// tops prints which functions the servers of this part spent most in: CPU time, and memory
// in use at their end.
func (b *bench) tops(ctx context.Context) {
	if b.profiles == "" {
		return
	}
	for _, kind := range []struct{ ending, title, sample string }{
		{"cpu", "CPU time", "cpu"},
		{"heap", "memory in use at the end", "inuse_space"},
		{"heap", "memory allocated", "alloc_space"},
	} {
		var files []string
		for _, name := range b.profiled {
			if _, err := os.Stat(name + ".heap"); err == nil { // one that was killed wrote none
				files = append(files, name+"."+kind.ending)
			}
		}
		if len(files) == 0 {
			return
		}
		args := append([]string{"tool", "pprof", "-top", "-nodecount=10", "-sample_index=" + kind.sample}, files...)
		out, err := exec.CommandContext(ctx, "go", args...).Output()
		if err != nil {
			b.note("profiles: %s", err)
			return
		}
		b.note("profile of %d servers: %s", len(files), kind.title)
		b.line(string(out))
	}
}
