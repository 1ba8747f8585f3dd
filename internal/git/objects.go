package git

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"sync"

	"github.com/jibe-vnfm/jibe/internal/lru"
)

// The kinds of git objects.
const (
	KindBlob   = "blob"
	KindTree   = "tree"
	KindCommit = "commit"
	KindTag    = "tag" // an annotated one
)

// ErrMissing is returned when the object database doesn't hold an object.
var ErrMissing = errors.New("object missing")

// ErrTooLarge is wrapped by every [*SizeError].
var ErrTooLarge = errors.New("object too large")

// ErrClosed is returned after Close.
var ErrClosed = errors.New("the object database is closed")

// SizeError is returned for an object above the limit of its kind. It was not read.
type SizeError struct {
	Name        string
	Size, Limit int64 // bytes
}

func (e *SizeError) Error() string {
	return fmt.Sprintf("%v: %s has %d bytes, the limit is %d", ErrTooLarge, e.Name, e.Size, e.Limit)
}

func (e *SizeError) Unwrap() error { return ErrTooLarge }

// KindError is returned for an object of another kind than the one that was asked for.
type KindError struct{ Name, Kind, Want string }

func (e *KindError) Error() string {
	return fmt.Sprintf("object %s is a %s where a %s was expected", e.Name, e.Kind, e.Want)
}

// Limits are the sizes in bytes above which objects are never read: whoever pushes
// decides how large they are.
type Limits struct{ Blob, Tree, Commit int64 }

func (l Limits) of(kind string) int64 {
	switch kind {
	case KindTree:
		return l.Tree
	case KindBlob:
		return l.Blob
	}
	return l.Commit // and tags
}

// Object is the content of an object. It is immutable.
type Object struct {
	Kind string
	Data []byte
}

// Objects reads git objects through a few long-lived "git cat-file --batch"
// children, which see new packs and survive repacks as git itself does. It keeps
// what was read last in memory. It is safe for concurrent use.
type Objects struct {
	git    Runner
	limits Limits
	cache  *lru.Cache[Object]

	slots chan struct{} // bounds the children
	mu    sync.Mutex
	idle  []*catFile
	done  bool
}

// NewObjects reads the objects of a repository, and keeps up to cacheBytes of them.
// A child is started only when there is something to read. [Objects.Close] ends them.
func NewObjects(runner Runner, limits Limits, cacheBytes int) *Objects {
	return &Objects{
		git:    runner,
		limits: limits,
		// A larger object would push everything else out.
		cache: lru.New[Object](cacheBytes, cacheBytes/4),
		slots: make(chan struct{}, max(2, runtime.GOMAXPROCS(0))),
	}
}

// Get returns one object. Its kind must be want.
func (s *Objects) Get(ctx context.Context, want, hash string) ([]byte, error) {
	if o, ok := s.cache.Get(hash); ok && o.Kind == want {
		return o.Data, nil
	}
	objs, err := s.GetMany(ctx, want, []string{hash})
	if err != nil {
		return nil, err
	}
	return objs[0], nil
}

// Peek is Get for an object that isn't asked for again: it isn't kept.
func (s *Objects) Peek(ctx context.Context, want, hash string) ([]byte, error) {
	return s.PeekUpTo(ctx, want, hash, s.limits.of(want))
}

// PeekUpTo is Peek with a limit in bytes of its own, for an object that only Jibe writes.
func (s *Objects) PeekUpTo(ctx context.Context, want, hash string, limit int64) ([]byte, error) {
	if o, ok := s.cache.Get(hash); ok && o.Kind == want {
		return o.Data, nil
	}
	got, err := s.fetch(ctx, want, []string{hash}, Limits{Blob: limit, Tree: limit, Commit: limit})
	if err == nil {
		err = got[0].err
	}
	if err != nil {
		return nil, err
	}
	return got[0].Data, nil
}

// GetMany returns the objects in the order of hashes, all of kind want.
func (s *Objects) GetMany(ctx context.Context, want string, hashes []string) ([][]byte, error) {
	out := make([][]byte, len(hashes))
	err := s.Each(ctx, want, hashes, func(i int, data []byte, err error) error {
		out[i] = data
		return err
	})
	return out, err
}

// Each calls fn for every hash, in order, with the object's content or with the
// error that it alone met: [ErrMissing], a [*SizeError] or a [*KindError]. An error
// from fn ends the walk.
func (s *Objects) Each(ctx context.Context, want string, hashes []string, fn func(i int, data []byte, err error) error) error {
	return s.each(ctx, want, hashes, true, fn)
}

// Scan is Each for objects that are so many that nobody should keep them: they would take the
// place of all that is read again and again.
func (s *Objects) Scan(ctx context.Context, want string, hashes []string, fn func(i int, data []byte, err error) error) error {
	return s.each(ctx, want, hashes, false, fn)
}

func (s *Objects) each(ctx context.Context, want string, hashes []string, keep bool, fn func(i int, data []byte, err error) error) error {
	found := make([]Object, len(hashes))
	var ask []string
	var at []int
	for i, h := range hashes {
		if o, ok := s.cache.Get(h); ok {
			found[i] = o
			continue
		}
		ask, at = append(ask, h), append(at, i)
	}
	errs := make(map[int]error)
	if len(ask) > 0 {
		got, err := s.fetch(ctx, want, ask, s.limits)
		if err != nil {
			return err
		}
		for j, r := range got {
			if r.err != nil {
				errs[at[j]] = r.err
				continue
			}
			found[at[j]] = r.Object
			if keep {
				s.Keep(ask[j], r.Object)
			}
		}
	}
	for i, h := range hashes {
		err := errs[i]
		if err == nil && found[i].Kind != want {
			err = &KindError{Name: h, Kind: found[i].Kind, Want: want}
		}
		if err := fn(i, found[i].Data, err); err != nil {
			return err
		}
	}
	return nil
}

// Lookup returns the object that a name as git writes them ("<commit>:<path>") stands
// for, and its hash. Its kind must be want.
func (s *Objects) Lookup(ctx context.Context, want, name string) (hash string, data []byte, err error) {
	if strings.ContainsAny(name, "\n\x00") {
		return "", nil, fmt.Errorf("%w: %q", ErrMissing, name)
	}
	got, err := s.fetch(ctx, want, []string{name}, s.limits)
	if err == nil {
		err = got[0].err
	}
	if err != nil {
		return "", nil, err
	}
	s.Keep(got[0].hash, got[0].Object)
	return got[0].hash, got[0].Data, nil
}

// Keep remembers an object that was just made: what was written is read next.
func (s *Objects) Keep(hash string, o Object) { s.cache.Add(hash, o, len(o.Data)) }

type catResult struct {
	hash string
	Object
	err error
}

// fetch asks git. A child that dies, or that misses an object (a repack moved it
// to a pack that this child hasn't opened), is replaced once.
func (s *Objects) fetch(ctx context.Context, want string, names []string, limits Limits) ([]catResult, error) {
	select {
	case s.slots <- struct{}{}:
		defer func() { <-s.slots }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	for attempt := 0; ; attempt++ {
		child, err := s.take(attempt > 0)
		if err != nil {
			return nil, err
		}
		stop := context.AfterFunc(ctx, child.kill)
		got, err := child.ask(want, names, limits)
		if !stop() && err != nil {
			child.close()
			return nil, fmt.Errorf("read objects of %s: %w", s.git.Dir, ctx.Err())
		}
		again := attempt == 0
		if err != nil {
			child.close()
			if again {
				continue
			}
			return nil, fmt.Errorf("read objects of %s: %w", s.git.Dir, err)
		}
		missing := false
		for i, r := range got {
			// A name that leads nowhere is no object that was moved.
			missing = missing || errors.Is(r.err, ErrMissing) && IsHash(names[i])
		}
		if missing && again {
			child.close()
			continue
		}
		s.give(child)
		return got, nil
	}
}

func (s *Objects) take(fresh bool) (*catFile, error) {
	s.mu.Lock()
	if s.done {
		s.mu.Unlock()
		return nil, ErrClosed
	}
	if n := len(s.idle); n > 0 && !fresh {
		c := s.idle[n-1]
		s.idle = s.idle[:n-1]
		s.mu.Unlock()
		return c, nil
	}
	s.mu.Unlock()
	return startCatFile(s.git)
}

func (s *Objects) give(c *catFile) {
	s.mu.Lock()
	if s.done || len(s.idle) >= cap(s.slots) {
		s.mu.Unlock()
		c.close()
		return
	}
	s.idle = append(s.idle, c)
	s.mu.Unlock()
}

// Refresh replaces the idle children, so that packs that a repack removed are let go.
func (s *Objects) Refresh() {
	s.mu.Lock()
	idle := s.idle
	s.idle = nil
	s.mu.Unlock()
	for _, c := range idle {
		c.close()
	}
}

// Close ends the children. What is asked for later is [ErrClosed].
func (s *Objects) Close() {
	s.mu.Lock()
	s.done = true
	s.mu.Unlock()
	s.Refresh()
}

// catFile is one "git cat-file --batch" child, used by one goroutine at a time.
type catFile struct {
	cmd    *exec.Cmd
	in     io.WriteCloser
	out    *bufio.Reader
	stderr *tailBuffer
}

func startCatFile(runner Runner) (*catFile, error) {
	cmd := runner.child("cat-file", "--batch")
	c := &catFile{cmd: cmd, stderr: &tailBuffer{}}
	cmd.Stderr = c.stderr
	var err error
	if c.in, err = cmd.StdinPipe(); err != nil {
		return nil, fmt.Errorf("start git cat-file: %w", err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("start git cat-file: %w", err)
	}
	c.out = bufio.NewReaderSize(out, 64<<10)
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start git cat-file: %w", err)
	}
	return c, nil
}

func (c *catFile) kill() { _ = c.cmd.Process.Kill() }

func (c *catFile) close() {
	_ = c.in.Close()
	c.kill()
	_ = c.cmd.Wait()
}

// ask writes all requests while it reads the answers. After an error the child
// must be closed.
func (c *catFile) ask(want string, names []string, limits Limits) ([]catResult, error) {
	wrote := make(chan error, 1)
	if len(names) == 1 {
		_, err := io.WriteString(c.in, names[0]+"\n")
		wrote <- err
	} else {
		go func() {
			var b bytes.Buffer
			for _, n := range names {
				b.WriteString(n)
				b.WriteByte('\n')
			}
			_, err := c.in.Write(b.Bytes())
			wrote <- err
		}()
	}
	got := make([]catResult, len(names))
	for i, n := range names {
		r, err := c.answer(want, n, limits)
		if err != nil {
			c.kill() // so that the writer ends too
			<-wrote  //nolint:errcheck // it failed because this side did
			return nil, fmt.Errorf("git cat-file: %w%s", err, c.stderr.note())
		}
		got[i] = r
	}
	return got, <-wrote
}

// answer reads what git says of one name: "<hash> <kind> <size>", the content and a line
// end, or "<name> missing".
func (c *catFile) answer(want, name string, limits Limits) (catResult, error) {
	line, err := c.out.ReadString('\n')
	if err != nil {
		return catResult{}, err
	}
	line = strings.TrimSuffix(line, "\n")
	if strings.HasSuffix(line, " missing") {
		return catResult{err: fmt.Errorf("%w: %s", ErrMissing, name)}, nil
	}
	hash, rest, _ := strings.Cut(line, " ")
	kind, digits, ok := strings.Cut(rest, " ")
	if !ok || !IsHash(hash) || IsHash(name) && hash != name {
		return catResult{}, fmt.Errorf("unexpected answer %q to %s", line, name)
	}
	size, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || size < 0 {
		return catResult{}, fmt.Errorf("unexpected size in %q", line)
	}
	var refused error
	switch limit := limits.of(kind); {
	case kind != want:
		// The kind is a part of the line, which mustn't be kept for it.
		refused = &KindError{Name: name, Kind: strings.Clone(kind), Want: want}
	case size > limit:
		refused = &SizeError{Name: name, Size: size, Limit: limit}
	}
	if refused != nil {
		if _, err := io.CopyN(io.Discard, c.out, size+1); err != nil {
			return catResult{}, err
		}
		return catResult{err: refused}, nil
	}
	data := make([]byte, size+1)
	if _, err := io.ReadFull(c.out, data); err != nil {
		return catResult{}, err
	}
	return catResult{hash: hash, Object: Object{Kind: want, Data: data[:size:size]}}, nil
}
