// Package build compiles Jibe as it is given to others: static, stripped, and the same byte for
// byte wherever it is built from the same sources by the same Go.
package build

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// Release is what is built: the sources, and what they are called.
type Release struct {
	Root    string    // folder of the sources
	Version string    // as git describe says, or as given
	Commit  string    // "" where the sources are no clone
	Date    time.Time // of the commit, or of SOURCE_DATE_EPOCH: every file that is made has it
}

// Of reads from git, and from SOURCE_DATE_EPOCH where it is set, what the sources in root are. A
// version and a commit that are given count instead of git's.
func Of(ctx context.Context, root, version, commit string) (Release, error) {
	root, err := filepath.Abs(root)
	if err != nil {
		return Release{}, err
	}
	r := Release{Root: root, Version: version, Commit: commit}
	git := func(args ...string) string {
		out, err := exec.CommandContext(ctx, "git", append([]string{"-C", root}, args...)...).Output()
		if err != nil {
			return ""
		}
		return strings.TrimSpace(string(out))
	}
	if r.Version == "" {
		r.Version = git("describe", "--tags", "--always", "--dirty")
	}
	if r.Version == "" {
		return r, errors.New("the version isn't known, as git tells none: give it (VERSION=…, or --version)")
	}
	if r.Commit == "" {
		r.Commit = git("rev-parse", "HEAD")
	}
	seconds := os.Getenv("SOURCE_DATE_EPOCH")
	if seconds == "" {
		seconds = git("log", "-1", "--format=%ct")
	}
	if seconds == "" {
		return r, errors.New("the time of the release isn't known, as git tells none: set SOURCE_DATE_EPOCH (seconds since 1970)")
	}
	n, err := strconv.ParseInt(seconds, 10, 64)
	if err != nil {
		return r, fmt.Errorf("SOURCE_DATE_EPOCH is %q: want seconds since 1970", seconds)
	}
	r.Date = time.Unix(n, 0).UTC()
	return r, nil
}

// Command is the go command that compiles Jibe for an architecture of Linux into the file out.
// Neither folder nor user nor what git knows beside the version gets into the binary.
func (r Release) Command(ctx context.Context, arch, out string) *exec.Cmd {
	flags := fmt.Sprintf("-s -w -buildid= -X main.version=%s -X main.commit=%s -X main.date=%s", r.Version, r.Commit, r.Date.Format(time.RFC3339))
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=false", "-ldflags", flags, "-o", out, "./cmd/jibe")
	cmd.Dir = r.Root
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH="+arch, "GOAMD64=v1", "GOARM64=v8.0", "GOFLAGS=-mod=readonly", "GOWORK=off", "GOEXPERIMENT=")
	return cmd
}

// Binary compiles Jibe into the file out.
func (r Release) Binary(ctx context.Context, arch, out string) error {
	cmd := r.Command(ctx, arch, out)
	var problem bytes.Buffer
	cmd.Stderr = &problem
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("compile for %s: %w\n%s", arch, err, problem.Bytes())
	}
	return nil
}
