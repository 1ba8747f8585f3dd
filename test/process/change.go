package process

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/jibe-vnfm/jibe/desired"
)

// ErrUnanswered is returned for a push of which nobody knows whether it was accepted:
// the server went while it ran.
var ErrUnanswered = errors.New("nobody knows whether it was accepted")

// ChangeInstance makes the vnf.yaml of a directory what next makes of its newest text
// (nil where there is none), commits and pushes, and does so again where another push was
// faster. A result of nil removes the directory. remote is asked for the repository's path
// or URL right before each push. It returns the commit that was accepted, or "" where
// next changed nothing. A push that ends the instance says so.
func (c *Clone) ChangeInstance(ctx context.Context, remote func() string, dir, message string, next func(old []byte) ([]byte, error)) (string, error) {
	for {
		if err := c.Reset(ctx); err != nil {
			return "", err
		}
		file := path.Join(dir, desired.InstanceFile)
		var old []byte
		if text, err := c.Read(file); err == nil {
			old = []byte(text)
		}
		text, err := next(old)
		if err != nil {
			return "", err
		}
		if slices.Equal(text, old) {
			return "", nil
		}
		if text == nil {
			err = c.Remove(dir)
		} else {
			err = c.Write(file, string(text))
		}
		if err != nil {
			return "", err
		}
		commit, err := c.Commit(ctx, message)
		if err != nil {
			return "", err
		}
		args := []string{"push", "--quiet"}
		if ends(old, text) {
			args = append(args, "--push-option", "terminate=1") // as a person who means it
		}
		_, err = Git(ctx, c.Dir, append(args, remote(), "HEAD:refs/heads/main")...)
		switch {
		case err == nil:
			return commit, nil
		case ctx.Err() != nil:
			return "", fmt.Errorf("push: no end in time: %w", err)
		case Overtaken(err):
			continue
		case strings.Contains(err.Error(), "jibe refuses this push"):
			return "", err
		}
		return "", fmt.Errorf("push of %s: %w: %w", commit, ErrUnanswered, err)
	}
}

// ends reports whether a change of an instance's file removes the instance, or ends what runs.
func ends(old, text []byte) bool {
	if old == nil || text == nil {
		return old != nil
	}
	was, err := desired.ParseInstance(desired.InstanceFile, old)
	if err != nil || !desired.IsInstantiated(was.State) {
		return false
	}
	now, err := desired.ParseInstance(desired.InstanceFile, text)
	return err == nil && !desired.IsInstantiated(now.State)
}

// Overtaken says whether a push failed because the branch had moved.
func Overtaken(err error) bool {
	for _, sign := range []string{"fetch first", "non-fast-forward", "cannot lock ref", "failed to update ref", "incorrect old value", "stale info"} {
		if strings.Contains(err.Error(), sign) {
			return true
		}
	}
	return false
}
