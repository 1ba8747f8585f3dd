package ha

import (
	"context"
	"path/filepath"
	"slices"
	"strings"

	"github.com/jibe-vnfm/jibe/test/process"
)

// olderVersion is what a binary of this very source calls itself where there is no older one.
const olderVersion = "v0.0.0-older"

// sharedSince is a folder of each release that lets several replicas serve.
const sharedSince = "app/replicas"

// Older builds the binary from which replicas are upgraded, and returns what it calls itself: that
// of a commit or tag, or where that is "" of the newest release that lets several replicas serve.
// Where there is none, it is this source with another version. Its files are below dir.
func Older(ctx context.Context, dir, revision string) (binary, version string, err error) {
	if revision == "" {
		if revision, err = newestRelease(ctx); err != nil {
			return "", "", err
		}
	}
	if revision == "" {
		binary = filepath.Join(process.Root(), ".cache", "test", "jibe-older")
		return binary, olderVersion, process.Build(ctx, process.Root(), binary, "-ldflags", "-X main.version="+olderVersion)
	}
	commit, err := process.Git(ctx, process.Root(), "rev-parse", "--verify", revision+"^{commit}")
	if err != nil {
		return "", "", err
	}
	source := filepath.Join(dir, "source")
	if _, err := process.Git(ctx, process.Root(), "clone", "--quiet", "--shared", "--no-checkout", process.Root(), source); err != nil {
		return "", "", err
	}
	if _, err := process.Git(ctx, source, "checkout", "--quiet", "--detach", commit); err != nil {
		return "", "", err
	}
	binary = filepath.Join(dir, "jibe-older")
	return binary, revision, process.Build(ctx, source, binary, "-ldflags", "-X main.version="+revision)
}

// newestRelease is the newest tag of one that lets several replicas serve, "" where there is none.
func newestRelease(ctx context.Context) (string, error) {
	tags, err := process.Git(ctx, process.Root(), "tag", "--list", "v*", "--sort=-v:refname")
	if err != nil {
		return "", err
	}
	for tag := range strings.FieldsSeq(tags) {
		if _, err := process.Git(ctx, process.Root(), "cat-file", "-e", tag+":"+sharedSince); err == nil {
			return tag, nil
		}
	}
	return "", nil
}

// Versions are those of the members, sorted, as a replica sees them.
func (r *Rig) Versions(ctx context.Context) (list []string, err error) {
	var members []struct {
		Version string `json:"version"`
	}
	if err := r.Servers.Present().Get(ctx, "/jibe/v1/members", &members); err != nil {
		return nil, err
	}
	for _, m := range members {
		list = append(list, m.Version)
	}
	slices.Sort(list)
	return list, nil
}
