//go:build linux && (amd64 || arm64)

// Package moved has a process see another time of day than its machine does, while its monotonic
// clock goes on as it was: what happens where a machine's clock is set. Only builds for tests have
// it, by [github.com/jibe-vnfm/jibe/test/ha/clock].
//
// Go asks the kernel's vDSO for the time, which no library can be put before (as libfaketime is).
// The address that it calls is a variable of the runtime that other packages may refer to; here it
// becomes that of a function that adds an offset to the time of day alone.
package moved

import (
	"fmt"
	"os"
	"syscall"
	"unsafe"
)

// EnvFile names the environment variable that names the file with the offset: eight bytes, whole
// seconds, in the machine's order of bytes. A write to the file counts at once.
const EnvFile = "JIBE_TEST_WALL_CLOCK"

// Size is that of the file.
const Size = 8

//go:linkname vdsoClockgettimeSym runtime.vdsoClockgettimeSym
var vdsoClockgettimeSym uintptr

// offset is read by wallClock: where the file is mapped.
var offset *int64 //nolint:unused // by wallClock, in assembly

// wallClock is called as the kernel's clock_gettime is, from Go's runtime alone.
func wallClock() //nolint:unused // its address is taken in assembly

// addressOfWallClock is what the runtime has to call.
func addressOfWallClock() uintptr

// Begin has this process follow the file that its environment names. It does nothing where none is
// named, and ends the process where the file can't be followed: it would prove nothing.
func Begin() bool {
	name := os.Getenv(EnvFile)
	if name == "" {
		return false
	}
	if err := follow(name); err != nil {
		fmt.Fprintf(os.Stderr, "the clock that %s names can't be followed: %v\n", EnvFile, err)
		os.Exit(1)
	}
	return true
}

func follow(name string) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if info.Size() != Size {
		return fmt.Errorf("%s has %d bytes, want %d", name, info.Size(), Size)
	}
	mapped, err := syscall.Mmap(int(f.Fd()), 0, Size, syscall.PROT_READ, syscall.MAP_SHARED)
	if err != nil {
		return fmt.Errorf("map %s: %w", name, err)
	}
	offset = (*int64)(unsafe.Pointer(&mapped[0])) // mapped until the process ends
	vdsoClockgettimeSym = addressOfWallClock()
	return nil
}
