package app

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"

	"github.com/jibe-vnfm/jibe/hooks"
)

// programs runs the programs of packages. What a former process left of any is ended
// and removed first; the lock of the data directory says that it is no other's.
func (s *Server) programs() *hooks.Runner {
	r := &hooks.Runner{
		Dir: s.data.programs(), User: s.HookUser,
		Log: func(in hooks.Input, program, line string) {
			s.Log.Info("program wrote", "instance", in.Instance.ID, "operation", in.Operation.ID, "hook", in.Hook, "program", program, "line", line)
		},
	}
	if tool, err := os.Executable(); err == nil {
		r.Tool = tool // for jibe ssh
	}
	if err := r.Sweep(); err != nil {
		s.Log.Warn("what programs of a former process left was not removed", "dir", r.Dir, "error", err)
	}
	return r
}

// programs is where what programs need is written while they run. Where Jibe is root
// that can't be below the data directory, which their user may not enter; the name is
// then the same at each start.
func (d *Data) programs() string {
	if os.Geteuid() != 0 {
		return d.path("programs")
	}
	sum := sha256.Sum256([]byte(d.Dir))
	return filepath.Join(os.TempDir(), "jibe-programs-"+hex.EncodeToString(sum[:8]))
}
