package rest

import (
	"net/http"
	"strings"
	"sync"

	"github.com/klauspost/compress/gzip"
)

// zipFrom is how long, in bytes, what is written first must be for an answer to be compressed:
// less than a packet gains nothing.
const zipFrom = 1400

// recorder remembers the status of the answer, and compresses the JSON in it for a client
// that takes that. The header is sent with the first part of the body, or at the end.
type recorder struct {
	http.ResponseWriter
	status int
	wrote  bool // WriteHeader or Write was called
	sent   bool
	zip    bool // the client takes gzip
	zips   *sync.Pool
	zipped *gzip.Writer // nil where the body goes out as it is
}

func (r *recorder) WriteHeader(status int) {
	if status < http.StatusOK {
		r.ResponseWriter.WriteHeader(status)
		return
	}
	if !r.wrote {
		r.status, r.wrote = status, true
	}
}

// send sends the header; first is how many bytes of body follow at once.
func (r *recorder) send(first int) {
	if r.sent {
		return
	}
	r.sent, r.wrote = true, true
	h := r.Header()
	if isJSON(h.Get("Content-Type")) {
		h.Add("Vary", "Accept-Encoding")
		if r.zip && first >= zipFrom && h.Get("Content-Encoding") == "" {
			h.Set("Content-Encoding", "gzip")
			h.Del("Content-Length")
			r.zipped = r.zips.Get().(*gzip.Writer)
			r.zipped.Reset(r.ResponseWriter)
		}
	}
	r.ResponseWriter.WriteHeader(r.status)
}

func (r *recorder) Write(b []byte) (int, error) {
	r.send(len(b))
	if r.zipped != nil {
		return r.zipped.Write(b)
	}
	return r.ResponseWriter.Write(b)
}

// FlushError sends what was written so far.
func (r *recorder) FlushError() error {
	r.send(0)
	if r.zipped != nil {
		if err := r.zipped.Flush(); err != nil {
			return err
		}
	}
	return http.NewResponseController(r.ResponseWriter).Flush()
}

// end completes the answer, unless it is broken.
func (r *recorder) end(broken bool) {
	if !broken {
		r.send(0)
	}
	if r.zipped == nil {
		return
	}
	if !broken {
		_ = r.zipped.Close() // a client that has gone needs no answer
	}
	r.zips.Put(r.zipped)
	r.zipped = nil
}

// Unwrap lets http.ResponseController reach the writer below.
func (r *recorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }

// takesGzip says whether the client accepts gzip (RFC 9110 clause 12.5.3).
func takesGzip(r *http.Request) bool {
	if r.Method == http.MethodHead {
		return false
	}
	for part := range strings.SplitSeq(strings.Join(r.Header.Values("Accept-Encoding"), ","), ",") {
		coding, params, _ := strings.Cut(part, ";")
		if strings.EqualFold(strings.TrimSpace(coding), "gzip") {
			q, weighed := strings.CutPrefix(strings.ReplaceAll(params, " ", ""), "q=")
			return !weighed || strings.Trim(q, "0.") != ""
		}
	}
	return false
}
