package check

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
)

// ErrNoPush is returned for a body that git's receive-pack wouldn't understand.
var ErrNoPush = errors.New("the request is no push as git sends it")

// ReadPacket reads one pkt-line.
func ReadPacket(r *bufio.Reader) (line string, flush bool, err error) {
	var size [4]byte
	if _, err := io.ReadFull(r, size[:]); err != nil {
		return "", false, ErrNoPush
	}
	n, err := strconv.ParseUint(string(size[:]), 16, 16)
	switch {
	case err != nil:
		return "", false, ErrNoPush
	case n == 0:
		return "", true, nil
	case n < 4:
		return "", false, ErrNoPush
	}
	data := make([]byte, n-4)
	if _, err := io.ReadFull(r, data); err != nil {
		return "", false, ErrNoPush
	}
	return string(data), false, nil
}

// Packet writes a line as git frames it (pkt-line, gitprotocol-common).
func Packet(b *bytes.Buffer, line string) { fmt.Fprintf(b, "%04x%s", len(line)+4, line) }
