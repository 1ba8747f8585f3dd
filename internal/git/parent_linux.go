package git

import "syscall"

// endWithParent has the kernel kill git as soon as Jibe is dead: a git that outlives a
// killed Jibe writes into a repository that the next Jibe has already cleaned and opened.
func endWithParent(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGKILL }
