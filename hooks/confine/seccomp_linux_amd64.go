package confine

import "golang.org/x/sys/unix"

// forbiddenHere are system calls that only this architecture has.
var forbiddenHere = []uint32{unix.SYS_IOPERM, unix.SYS_IOPL, unix.SYS_MODIFY_LDT, unix.SYS_USELIB, unix.SYS__SYSCTL, unix.SYS_NFSSERVCTL}

// ofFilesHere belong to ofFiles.
var ofFilesHere = []uint32{unix.SYS_CHMOD, unix.SYS_CHOWN, unix.SYS_LCHOWN}
