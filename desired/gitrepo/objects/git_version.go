package objects

import (
	"context"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/internal/git"
)

var versionNumber = regexp.MustCompile(`(\d+)\.(\d+)`)

// gitChecked is set once this process has found git to be new enough, so that it asks once for all its repositories.
var gitChecked atomic.Bool

// CheckGit is [CheckGitVersion] until that has succeeded.
func CheckGit(ctx context.Context) error {
	if gitChecked.Load() {
		return nil
	}

	err := CheckGitVersion(ctx)
	gitChecked.Store(err == nil)
	return err
}

// CheckGitVersion refuses a git that is too old to sync what is pushed.
func CheckGitVersion(ctx context.Context) error {
	out, err := git.Runner{}.Run(ctx, "version")
	if err != nil {
		return fmt.Errorf("%w: run git: %w (install git 2.36 or newer)", desired.ErrUnavailable, err)
	}
	m := versionNumber.FindStringSubmatch(out)
	if m == nil {
		return fmt.Errorf("git version says %q", strings.TrimSpace(out))
	}
	major, _ := strconv.Atoi(m[1])
	minor, _ := strconv.Atoi(m[2])
	if major < 2 || major == 2 && minor < 36 {
		return fmt.Errorf("git %s is too old: its core.fsync can't make a push durable (install git 2.36 or newer)", m[0])
	}
	return nil
}
