package egress

import (
	"errors"
	"fmt"
	"io"
	"net/http"
)

// ErrTooLong is returned for an answer of which no more is read.
var ErrTooLong = errors.New("the answer is too long")

// AnswerBound is how much of an answer is read.
type AnswerBound struct {
	// Most is how many bytes a body may have.
	Most int64
	// IsStream reports whether what answers the request is a stream of JSON values, which may go on
	// for ever; nil is none. Value is how many bytes each value may have.
	IsStream func(*http.Request) bool
	Value    int64
}

// Bound returns the transport with the bound. A caller who names an address, as in an instance's own
// connection to a VIM, may have a server of theirs answer without end.
func (b AnswerBound) Bound(next http.RoundTripper) http.RoundTripper { return &boundTransport{next, b} }

type boundTransport struct {
	next  http.RoundTripper
	bound AnswerBound
}

// RoundTrip implements [http.RoundTripper].
func (t *boundTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := t.next.RoundTrip(r)
	if err != nil || resp.Body == nil || resp.StatusCode == http.StatusSwitchingProtocols {
		return resp, err
	}
	if t.bound.IsStream != nil && t.bound.IsStream(r) && resp.StatusCode == http.StatusOK {
		resp.Body = &boundStream{ReadCloser: resp.Body, most: t.bound.Value}
	} else {
		resp.Body = &boundBody{ReadCloser: resp.Body, most: t.bound.Most}
	}
	return resp, nil
}

// WrappedRoundTripper lets the connections below be closed.
func (t *boundTransport) WrappedRoundTripper() http.RoundTripper { return t.next }

// CloseIdleConnections closes those of the transport below.
func (t *boundTransport) CloseIdleConnections() {
	if next, ok := t.next.(interface{ CloseIdleConnections() }); ok {
		next.CloseIdleConnections()
	}
}

// boundBody is a body of which no more than most bytes are read.
type boundBody struct {
	io.ReadCloser
	most, read int64
}

// Read implements [io.Reader].
func (b *boundBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if b.read += int64(n); b.read > b.most {
		return 0, fmt.Errorf("%w: more than %d bytes", ErrTooLong, b.most)
	}
	return n, err
}

// boundStream is a stream of JSON values, of each of which no more than most bytes are read. A
// decoder keeps all of a value until its end has come.
type boundStream struct {
	io.ReadCloser
	most, read       int64 // read are the bytes since the end of the last value
	depth            int
	inText, escaping bool
}

// Read implements [io.Reader].
func (b *boundStream) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	for _, c := range p[:n] {
		if b.read++; b.read > b.most {
			return 0, fmt.Errorf("%w: more than %d bytes in one event", ErrTooLong, b.most)
		}
		switch {
		case b.escaping:
			b.escaping = false
		case b.inText:
			b.escaping, b.inText = c == '\\', c != '"'
		case c == '"':
			b.inText = true
		case c == '{', c == '[':
			b.depth++
		case c == '}', c == ']':
			if b.depth--; b.depth <= 0 {
				b.depth, b.read = 0, 0
			}
		}
	}
	return n, err
}
