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
	// longList is how many records a List reads before it reads ahead.
	longList = 256
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
	advise(tx, giveBack)
}

// What advise tells the kernel of the mapped file.
const (
	giveBack  = syscall.MADV_DONTNEED // take it out of the process's memory
	readAhead = syscall.MADV_NORMAL   // the neighbours of a page are read next
	readAlone = syscall.MADV_RANDOM   // they aren't: as bbolt maps a file
)

// advise tells the kernel how the file that tx has mapped is used. An error means that the
// kernel can't heed it, and changes nothing.
func advise(tx *bolt.Tx, advice uintptr) {
	_, _, _ = syscall.Syscall(syscall.SYS_MADVISE, tx.DB().Info().Data, uintptr(tx.Size()), advice)
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
