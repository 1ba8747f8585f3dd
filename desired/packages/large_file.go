package packages

import (
	"fmt"
	"io"
	"io/fs"

	"github.com/jibe-vnfm/jibe/internal/git"
)

// openBlob is an open file that git holds: no more of it than a buffer is in memory. It
// implements [io.Seeker], at the price of what stands before the new place being read again.
type openBlob struct {
	file  *file
	git   git.Runner
	watch *watch
	want  int64 // where the next read begins
	at    int64 // where the stream is
	in    io.ReadCloser
}

func (o *openBlob) Stat() (fs.FileInfo, error) { return o.file, nil }

// Read implements [io.Reader].
func (o *openBlob) Read(p []byte) (int, error) {
	if err := o.watch.open("read", o.file.name); err != nil {
		return 0, err
	}
	n, err := o.read(p)
	return n, o.watch.note(err)
}

func (o *openBlob) read(p []byte) (int, error) {
	if o.want >= o.file.size {
		return 0, io.EOF
	}
	if o.in != nil && o.at > o.want {
		_ = o.Close() // the beginning is asked for again
	}
	if o.in == nil {
		in, err := o.git.Blob(o.file.hash)
		if err != nil {
			return 0, &fs.PathError{Op: "read", Path: o.file.name, Err: err}
		}
		o.in, o.at = in, 0
	}
	if o.at < o.want {
		n, err := io.CopyN(io.Discard, o.in, o.want-o.at)
		o.at += n
		if err != nil {
			return 0, &fs.PathError{Op: "read", Path: o.file.name, Err: err}
		}
	}
	n, err := o.in.Read(p)
	o.at += int64(n)
	o.want = o.at
	switch {
	case err == io.EOF && o.at < o.file.size:
		err = io.ErrUnexpectedEOF
	case err != nil && err != io.EOF:
		err = &fs.PathError{Op: "read", Path: o.file.name, Err: err}
	}
	return n, err
}

// Seek implements [io.Seeker].
func (o *openBlob) Seek(offset int64, whence int) (int64, error) {
	switch whence {
	case io.SeekCurrent:
		offset += o.want
	case io.SeekEnd:
		offset += o.file.size
	}
	if offset < 0 {
		return 0, &fs.PathError{Op: "seek", Path: o.file.name, Err: fmt.Errorf("%w: before the beginning", fs.ErrInvalid)}
	}
	o.want = offset
	return offset, nil
}

// Close implements [io.Closer].
func (o *openBlob) Close() error {
	if o.in == nil {
		return nil
	}
	err := o.in.Close()
	o.in = nil
	return err
}
