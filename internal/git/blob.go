package git

import (
	"fmt"
	"io"
	"os/exec"
)

// Blob begins to read the content of a blob that is too large to be held: no more of it than a
// pipe has is in memory. The caller closes it. It outlives the request that opens it.
func (r Runner) Blob(hash string) (io.ReadCloser, error) {
	if !IsHash(hash) {
		return nil, fmt.Errorf("%w: %q isn't a hash", ErrMissing, hash)
	}
	cmd := r.child("cat-file", KindBlob, hash)
	said := &tailBuffer{}
	cmd.Stderr = said
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("git cat-file: %w", err)
	}
	return &blob{out: out, cmd: cmd, said: said}, nil
}

type blob struct {
	out   io.ReadCloser
	cmd   *exec.Cmd
	said  *tailBuffer
	ended error // what reads answer after the end
}

// Read implements [io.Reader]. The end of the blob is io.EOF only where git has ended well.
func (b *blob) Read(p []byte) (int, error) {
	if b.ended != nil {
		return 0, b.ended
	}
	n, err := b.out.Read(p)
	if err != nil {
		b.ended = io.EOF
		if werr := b.cmd.Wait(); werr != nil || err != io.EOF {
			b.ended = fmt.Errorf("git cat-file: %w%s", err, b.said.note())
			if werr != nil {
				b.ended = fmt.Errorf("git cat-file: %w%s", werr, b.said.note())
			}
		}
		if n > 0 {
			return n, nil
		}
		return 0, b.ended
	}
	return n, nil
}

// Close ends git, whether all was read or not.
func (b *blob) Close() error {
	if b.ended == nil {
		_ = b.cmd.Process.Kill() // it may have ended
		_ = b.cmd.Wait()         // it was killed
		b.ended = io.ErrClosedPipe
	}
	return nil
}
