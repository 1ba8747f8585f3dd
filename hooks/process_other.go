//go:build !linux

package hooks

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"time"
)

// errLinux is returned for every run on a system whose processes can't be held
// together as Linux's can.
var errLinux = errors.New("hooks of packages are run on Linux only")

type identity struct{}

func (*identity) String() string    { return "the user that Jibe runs as" }
func (*identity) give(string) error { return errLinux }

type userPool struct{}

func (*userPool) giveBack(*identity) {}

// process is never made here.
type process struct {
	cmd      *exec.Cmd
	patience time.Duration
}

type end struct {
	reason string
	killed bool
	err    error
}

func (*process) start() error   { return errLinux }
func (*process) goAhead() error { return errLinux }
func (*process) abandon()       {}
func (*process) ended() end     { return end{err: errLinux} }

func (r *Runner) identity() (*identity, error)                          { return nil, errLinux }
func (r *Runner) makeDir() error                                        { return os.MkdirAll(r.Dir, 0o700) }
func (r *Runner) end(context.Context, Process) error                    { return errLinux }
func (r *Runner) removeCgroup(string) error                             { return nil }
func (r *Runner) probe(context.Context) error                           { return errLinux }
func (r *Runner) process(*workspace, *identity, Call) (*process, error) { return nil, errLinux }

func isRoot() bool                     { return os.Geteuid() == 0 }
func reachable(string, *identity) bool { return true }
func lockThread() (free func())        { return func() {} }
func awaitExit(int)                    {}
func killGroup(int)                    {}
func terminateGroup(int)               {}
func reap(int)                         {}
func killStrays(string)                {}
func identify(int) (Process, error)    { return Process{}, errLinux }
