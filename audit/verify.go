package audit

import (
	"bufio"
	"bytes"
	"cmp"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
)

// Check says what [Verify] holds files against.
type Check struct {
	// Key is that of the installation. Without it only the digests that need none are compared:
	// that finds damage, and nobody who knew what he did.
	Key []byte
	// Ends are ends of the chain that are known from elsewhere: what Jibe noted, logged or showed.
	// The files must have each, or begin after it.
	Ends []Head
	// Partial allows files that begin with another record than the first.
	Partial bool
}

// Verified is what was found to be whole.
type Verified struct {
	First uint64 // number of the first record
	End   Head
}

// BadError names the first line that isn't what it should be.
type BadError struct {
	File   string
	Line   int // 0 where lines are missing at the end
	Reason string
}

// Error implements error.
func (e *BadError) Error() string {
	if e.Line == 0 {
		return e.File + ": " + e.Reason
	}
	return fmt.Sprintf("%s:%d: %s", e.File, e.Line, e.Reason)
}

// ErrEmpty is returned when files hold no record at all.
var ErrEmpty = errors.New("there is no record")

// Verify checks the files of one log, in whichever order they are named; those whose names end
// with .gz are unpacked. An error that is no [*BadError] means that it isn't known.
func Verify(c Check, files ...string) (Verified, error) {
	ordered, err := order(files)
	if err != nil {
		return Verified{}, err
	}
	v := verifier{Check: c}
	for _, f := range ordered {
		if err := v.file(f.name); err != nil {
			return v.Verified, err
		}
	}
	if v.First == 0 {
		return v.Verified, ErrEmpty
	}
	last := ordered[len(ordered)-1].name
	for _, end := range c.Ends {
		if end.Seq > v.End.Seq {
			return v.Verified, &BadError{File: last, Reason: fmt.Sprintf("%s missing at the end: the log went on to record %d", missing(v.End.Seq+1, end.Seq), end.Seq)}
		}
	}
	return v.Verified, nil
}

func missing(from, to uint64) string {
	if from == to {
		return fmt.Sprintf("record %d is", from)
	}
	return fmt.Sprintf("records %d to %d are", from, to)
}

// numbered is a file and the number of its first record; 0 where that can't be read, as in a file
// that is empty: it then comes first, and is told of first.
type numbered struct {
	name string
	seq  uint64
}

func order(files []string) ([]numbered, error) {
	var all []numbered
	for _, name := range files {
		n := numbered{name: name}
		err := lines(name, func(_ int, text []byte, _ bool) error {
			head, _, err := parse(nil, text)
			if err == nil {
				n.seq = head.Seq
			}
			return io.EOF
		})
		if err != nil && !errors.Is(err, io.EOF) {
			return nil, err
		}
		all = append(all, n)
	}
	slices.SortStableFunc(all, func(a, b numbered) int { return cmp.Compare(a.seq, b.seq) })
	return all, nil
}

// lines calls do for each line of a file, with its number from 1 and whether it has its end.
func lines(name string, do func(n int, text []byte, whole bool) error) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	in := io.Reader(f)
	if strings.HasSuffix(name, ".gz") {
		if in, err = gzip.NewReader(f); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	r := bufio.NewReaderSize(in, largestLine)
	for n := 1; ; n++ {
		text, err := r.ReadSlice('\n')
		switch {
		case errors.Is(err, io.EOF) && len(text) == 0:
			return nil
		case err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, bufio.ErrBufferFull):
			return fmt.Errorf("%s: %w", name, err)
		}
		whole := err == nil
		if err := do(n, bytes.TrimSuffix(text, []byte("\n")), whole); err != nil {
			return err
		}
		if !whole {
			return nil
		}
	}
}

type verifier struct {
	Check
	Verified
}

func (v *verifier) file(name string) error {
	return lines(name, func(n int, text []byte, whole bool) error {
		bad := func(reason string) error { return &BadError{File: name, Line: n, Reason: reason} }
		if !whole {
			return bad("it is no whole line: it is being written, or was cut")
		}
		if v.First == 0 {
			next, prev, err := parse(v.Key, text)
			switch {
			case err != nil:
				return bad(err.Error())
			case next.Seq > 1 && !v.Partial:
				return bad(fmt.Sprintf("%s missing before it: name the files with them, too, or allow that they are kept elsewhere (--partial)", missing(1, next.Seq-1)))
			}
			v.First, v.End = next.Seq, Head{Seq: next.Seq - 1, Hash: prev}
			if next.Seq == 1 {
				v.End = start()
			}
		}
		next, err := follows(v.End, v.Key, text)
		if err != nil {
			return bad(err.Error())
		}
		for _, end := range v.Ends {
			if end.Seq == next.Seq && end.Hash != next.Hash {
				return bad(fmt.Sprintf("record %d is another one than was noted when it was written", next.Seq))
			}
		}
		v.End = next
		return nil
	})
}
