package confine

import "golang.org/x/sys/unix"

// forbiddenHere are system calls that only this architecture has.
var forbiddenHere = []uint32{unix.SYS_IOPERM, unix.SYS_IOPL, unix.SYS_MODIFY_LDT, unix.SYS_USELIB, unix.SYS__SYSCTL, unix.SYS_NFSSERVCTL}

// missingHere belong to missing.
var missingHere = []uint32{unix.SYS_INOTIFY_INIT}

// ofFilesHere belong to ofFiles.
var ofFilesHere = []uint32{unix.SYS_CHMOD, unix.SYS_CHOWN, unix.SYS_LCHOWN, unix.SYS_FUTIMESAT, unix.SYS_UTIME, unix.SYS_UTIMES}
