package confine

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"
)

// shmSize bounds what a run keeps in memory as files below /dev/shm.
const shmSize = "64m"

// InNamespaces has the command, which is the launcher, started as the first process of
// namespaces of its own: of processes, mounts, and what processes share memory by. Where this
// process isn't root they belong to a user namespace, in which the launcher may mount, and look at
// processes and directories; the user stays who it is.
func InNamespaces(cmd *exec.Cmd) {
	a := cmd.SysProcAttr
	a.Cloneflags |= unix.CLONE_NEWPID | unix.CLONE_NEWNS | unix.CLONE_NEWIPC
	uid, gid := os.Geteuid(), os.Getegid()
	if uid == 0 {
		return
	}
	a.Cloneflags |= unix.CLONE_NEWUSER
	a.UidMappings = []syscall.SysProcIDMap{{ContainerID: uid, HostID: uid, Size: 1}}
	a.GidMappings = []syscall.SysProcIDMap{{ContainerID: gid, HostID: gid, Size: 1}}
	a.AmbientCaps = []uintptr{unix.CAP_SYS_ADMIN, unix.CAP_SYS_PTRACE, unix.CAP_SETPCAP, unix.CAP_DAC_READ_SEARCH}
}

// furnish makes what the run sees of the machine its own, and returns the devices that are.
// Without a /proc of its own it would see other processes: then it is an error.
func furnish(s *Spec) (devices []string, err error) {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return nil, fmt.Errorf("keep mounts to the run: %w", err)
	}
	const plain = unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC
	if err := unix.Mount("proc", "/proc", "proc", plain, ""); err != nil {
		return nil, fmt.Errorf("mount /proc for the run: %w", err)
	}
	// A run does without what of these can't be had.
	if unix.Mount("tmpfs", "/dev/shm", "tmpfs", plain, "mode=1777,size="+shmSize) == nil {
		devices = append(devices, "/dev/shm")
	}
	if unix.Mount("devpts", "/dev/pts", "devpts", unix.MS_NOSUID|unix.MS_NOEXEC, "newinstance,ptmxmode=0666,mode=0620") == nil {
		devices = append(devices, "/dev/pts")
	}
	if err := readOnly(append(slices.Clone(s.Write), devices...)); err != nil {
		return nil, err
	}
	if slices.Contains(devices, "/dev/pts") && unix.Mount("/dev/pts/ptmx", "/dev/ptmx", "", unix.MS_BIND, "") == nil {
		devices = append(devices, "/dev/ptmx")
	}
	if s.Passwd != "" {
		if err := unix.Mount(s.Passwd, "/etc/passwd", "", unix.MS_BIND, ""); err != nil {
			return nil, fmt.Errorf("name the user of the run: %w", err)
		}
	}
	return devices, nil
}

// readOnly lets nothing be written but what the run may write to: Landlock doesn't keep an owner
// from changing modes, and where Jibe isn't root the run's user owns what is Jibe's.
func readOnly(but []string) error {
	if err := unix.MountSetattr(unix.AT_FDCWD, "/", unix.AT_RECURSIVE, &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY}); err != nil {
		return fmt.Errorf("let the run write nothing of the machine: %w", err)
	}
	for _, dir := range but {
		if err := unix.Mount(dir, dir, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
			return fmt.Errorf("let the run write to %s: %w", dir, err)
		}
		if err := unix.MountSetattr(unix.AT_FDCWD, dir, 0, &unix.MountAttr{Attr_clr: unix.MOUNT_ATTR_RDONLY}); err != nil {
			return fmt.Errorf("let the run write to %s: %w", dir, err)
		}
	}
	return nil
}
