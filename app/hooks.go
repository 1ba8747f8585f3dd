package app

import (
	"os"

	"github.com/jibe-vnfm/jibe/hooks"
)

// hookRunner makes what runs hooks. Hooks that a former process left running are ended
// first, and their files removed; they can't be another process's, as this one holds the
// lock of the data directory.
func (s *Server) hookRunner() *hooks.Runner {
	r := &hooks.Runner{
		Dir: s.data.Hooks(), User: s.HookUser,
		Log: func(in hooks.Input, program, line string) {
			s.Log.Info("hook wrote", "instance", in.Instance.ID, "operation", in.Operation.ID, "hook", in.Hook, "program", program, "line", line)
		},
	}
	if tool, err := os.Executable(); err == nil {
		r.Tool = tool // for jibe ssh
	}
	if err := r.Sweep(); err != nil {
		s.Log.Warn("files that hooks of a former process left were not removed", "dir", r.Dir, "error", err)
	}
	return r
}
