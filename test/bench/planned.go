package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/test/process"
)

// planLimit is what the plan of a change of ten thousand instances may take.
const planLimit = 10 * time.Second

// planned measures the plan of a branch that brings all instances to another version.
func (b *bench) planned(ctx context.Context, j *jibe) error {
	if err := j.follow(ctx); err != nil {
		return err
	}
	changed := 0
	err := filepath.WalkDir(filepath.Join(j.clone, "instances"), func(name string, e os.DirEntry, err error) error {
		if err != nil || e.Name() != desired.InstanceFile {
			return err
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		changed++
		return os.WriteFile(name, bytes.ReplaceAll(text, []byte(vnfdID), []byte(nextVnfdID)), 0o644)
	})
	if err != nil {
		return err
	}
	if err := commit(ctx, j.clone, "Upgrade all"); err != nil {
		return err
	}
	if _, err := process.Git(ctx, j.clone, "push", "--quiet", "origin", "HEAD:refs/heads/upgrade"); err != nil {
		return err
	}
	start := time.Now()
	cmd := exec.CommandContext(ctx, b.binary, "plan", j.clone, "--base", "origin/main", "--head", "HEAD", "--server", j.URL, "--data", j.Data)
	out, err := cmd.CombinedOutput()
	took := time.Since(start)
	if exit, ok := errors.AsType[*exec.ExitError](err); !ok || exit.ExitCode() != 2 || !strings.Contains(string(out), fmt.Sprintf("%d instances would change", changed)) {
		return fmt.Errorf("jibe plan: %w\n%.2000s", err, out)
	}
	b.value(fmt.Sprintf("jibe plan of a branch that upgrades all %d", changed), short(took), took <= planLimit, "<= "+short(planLimit),
		fmt.Sprintf("%.0f instances/s, %d lines to read", float64(changed)/took.Seconds(), bytes.Count(out, []byte("\n"))))
	return j.follow(ctx)
}
