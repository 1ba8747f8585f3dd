package ha

import (
	"errors"
	"fmt"
	"syscall"
)

// diskSize is that of a replica's disk, bytes. What nobody has written takes no memory.
const diskSize = 1 << 30

// disk is a file system of a replica's own: it can be full, as no other's is then.
type disk struct{ dir string }

// mountDisk makes one on a folder that exists. It needs the rights of root.
func mountDisk(dir string) (*disk, error) {
	if err := syscall.Mount("jibe", dir, "tmpfs", 0, fmt.Sprintf("mode=0700,size=%d", diskSize)); err != nil {
		return nil, fmt.Errorf("mount a disk at %s: %w", dir, err)
	}
	return &disk{dir}, nil
}

// fillTries is how often a disk that is written to is tried to be filled.
const fillTries = 100

// fill leaves no room: the disk becomes as small as what is on it.
func (d *disk) fill() (err error) {
	for range fillTries {
		var s syscall.Statfs_t
		if err = syscall.Statfs(d.dir, &s); err != nil {
			break
		}
		err = d.resize((s.Blocks - s.Bfree) * uint64(s.Bsize))
		if !errors.Is(err, syscall.EINVAL) { // that is somebody who wrote meanwhile
			break
		}
	}
	return err
}

// free gives it its room back.
func (d *disk) free() error { return d.resize(diskSize) }

func (d *disk) resize(size uint64) error {
	err := syscall.Mount("jibe", d.dir, "tmpfs", syscall.MS_REMOUNT, fmt.Sprintf("size=%d", size))
	if err != nil {
		return fmt.Errorf("let the disk at %s have %d bytes: %w", d.dir, size, err)
	}
	return nil
}

// close takes it away, with all that is on it.
func (d *disk) close() error {
	if d == nil {
		return nil
	}
	return syscall.Unmount(d.dir, syscall.MNT_DETACH)
}
