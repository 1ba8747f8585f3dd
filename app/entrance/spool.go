package entrance

import (
	"io"
	"net/http"
	"sync"

	"github.com/jibe-vnfm/jibe/audit"
)

// spoolBound bounds what one caller may have the server take in at once: archives and pushes are
// written to the disk before they are looked at.
type spoolBound struct {
	most int64

	mu   sync.Mutex
	used map[string]int64 // by caller, bytes of the bodies under way
}

// mostSpooled are the bytes of all bodies that one caller may have under way. An archive and a
// push of the largest sizes that are taken fit in it together.
const mostSpooled = 6 << 30

func newSpoolBound() *spoolBound { return &spoolBound{most: mostSpooled, used: map[string]int64{}} }

// body is a request's body whose bytes count for whoever the request's entry says that it is from.
func (s *spoolBound) body(in io.ReadCloser, entry *audit.Entry) *spooledBody {
	return &spooledBody{ReadCloser: in, bound: s, entry: entry}
}

type spooledBody struct {
	io.ReadCloser
	bound *spoolBound
	entry *audit.Entry
	who   string
	used  int64
}

// Read implements [io.Reader]. Too much is an [*http.MaxBytesError], for which every handler has
// an answer.
func (b *spooledBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if !b.bound.add(b, int64(n)) {
		return 0, &http.MaxBytesError{Limit: b.bound.most}
	}
	return n, err
}

func (s *spoolBound) add(b *spooledBody, n int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if b.who == "" { // nobody reads a body before he knows whose it is
		r := b.entry.Record()
		b.who = r.Issuer + "\x00" + r.Identity
	}
	b.used += n
	s.used[b.who] += n
	return s.used[b.who] <= s.most
}

// release forgets the body's bytes when its request ends.
func (b *spooledBody) release() {
	b.bound.mu.Lock()
	defer b.bound.mu.Unlock()
	if b.used == 0 {
		return
	}
	if b.bound.used[b.who] -= b.used; b.bound.used[b.who] <= 0 {
		delete(b.bound.used, b.who)
	}
	b.used = 0
}
