package app

import (
	"context"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/jibe-vnfm/jibe/hooks"
	"github.com/jibe-vnfm/jibe/hooks/confine"
)

// checkHooks refuses flags about hooks that would not hold.
func (s *host) checkHooks() error {
	if s.Remote != "" {
		if err := s.AllowHooks.CheckForge(); err != nil {
			return fmt.Errorf("--allow-hooks: %w", err)
		}
	}
	if s.AllowHooks.String() == "" {
		return nil
	}
	s.Confinement.Secret = append(slices.Clone(s.Reach.Dirs), s.Data)
	return s.Confinement.Check()
}

// hookRunner makes what runs hooks. Hooks that a former process left running are ended
// first, and their files removed; they can't be another process's, as this one holds the
// lock of the data directory.
func (s *host) hookRunner(ctx context.Context, silence time.Duration) *hooks.Runner {
	r := &hooks.Runner{
		Dir: s.data.Hooks(), Silence: silence, User: s.HookUser, Confinement: s.Confinement, Cgroups: true,
		Log: func(in hooks.Input, program, line string) {
			s.Log.Info("hook wrote", "instance", in.Instance.ID, "operation", in.Operation.ID, "hook", in.Hook, "program", program, "line", line)
		},
	}
	if self, err := os.Executable(); err == nil {
		r.Tool = self // for jibe ssh
		r.Confinement.Launcher = []string{self, confine.Command}
	}
	if err := r.Sweep(); err != nil {
		s.Log.Warn("files that hooks of a former process left were not removed", "dir", r.Dir, "error", err)
	}
	if s.AllowHooks.String() != "" {
		s.tellConfinement(ctx, r)
	}
	return r
}

// tellConfinement logs how hooks are confined on this machine, where any may run.
func (s *host) tellConfinement(ctx context.Context, r *hooks.Runner) {
	how, err := r.Confined(ctx)
	switch {
	case err != nil:
		s.Log.ErrorContext(ctx, "hooks of packages can't be run", "error", err)
	case r.Confinement.Unconfined:
		s.Log.WarnContext(ctx, "hooks of packages aren't confined, as --unconfined-hooks says: they have all the rights of their user", "allowed", s.AllowHooks.String())
	default:
		s.Log.InfoContext(ctx, "hooks of packages are confined", "by", how, "allowed", s.AllowHooks.String())
	}
}
