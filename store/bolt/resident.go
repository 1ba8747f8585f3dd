package bolt

import (
	"bytes"
	"os"
	"strconv"
	"syscall"

	bolt "go.etcd.io/bbolt"
)

const (
	// trimAfter is how many records are touched before trim looks at the memory.
	trimAfter = 512
	// maxMapped is how many bytes of mapped files stay in the process's memory, the program
	// itself among them.
	maxMapped = 128 << 20
)

// trim keeps the mapped file from filling the process's memory. bbolt reads by mapping the
// file, and the kernel counts each page that was ever read, with its neighbours, as the
// process's until memory is short. Pages that are given back are read again from the kernel's
// cache. It must be called within tx, so that the mapping stays where it is.
func (s *Store) trim(tx *bolt.Tx) {
	if s.touched.Add(1) < trimAfter {
		return
	}
	s.touched.Store(0)
	if mapped() < maxMapped {
		return
	}
	// An error means that the kernel can't: then it does as it does for every file.
	_, _, _ = syscall.Syscall(syscall.SYS_MADVISE, tx.DB().Info().Data, uintptr(tx.Size()), syscall.MADV_DONTNEED)
}

// mapped returns how many bytes of mapped files are in the process's memory, or 0 where the
// system doesn't tell.
func mapped() int {
	statm, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0
	}
	fields := bytes.Fields(statm) // size, resident, shared…, in pages
	if len(fields) < 3 {
		return 0
	}
	n, err := strconv.Atoi(string(fields[2]))
	if err != nil {
		return 0
	}
	return n * os.Getpagesize()
}
