package gitrepo

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
)

// The kinds of git objects.
const (
	kindBlob   = "blob"
	kindTree   = "tree"
	kindCommit = "commit"
)

// defaultMaxObject is the size in bytes above which an object is never read: a
// desired repository holds text that people write.
const defaultMaxObject = 16 << 20

// errMissing is returned when the object database doesn't hold an object.
var errMissing = errors.New("object missing")

// errTooLarge is returned for an object above the limit; it was not read.
var errTooLarge = errors.New("object too large")

type object struct {
	kind string
	data []byte
}

// objectStore reads git objects through a few long-lived "git cat-file --batch"
// children, which see new packs and survive repacks as git itself does. It is
// safe for concurrent use.
type objectStore struct {
	git       gitCLI
	maxObject int64
	cache     *lru[object]

	slots chan struct{} // bounds the children
	mu    sync.Mutex
	idle  []*catFile
	done  bool
}

func newObjectStore(git gitCLI, cacheBytes int) *objectStore {
	return &objectStore{
		git:       git,
		maxObject: defaultMaxObject,
		cache:     newLRU[object](cacheBytes),
		slots:     make(chan struct{}, max(2, runtime.GOMAXPROCS(0))),
	}
}

// get returns one object. Its kind must be want.
func (s *objectStore) get(ctx context.Context, want, hash string) ([]byte, error) {
	if o, ok := s.cache.get(hash); ok && o.kind == want {
		return o.data, nil
	}
	objs, err := s.getMany(ctx, want, []string{hash})
	if err != nil {
		return nil, err
	}
	return objs[0], nil
}

// getMany returns the objects in the order of hashes, all of kind want.
func (s *objectStore) getMany(ctx context.Context, want string, hashes []string) ([][]byte, error) {
	out := make([][]byte, len(hashes))
	err := s.each(ctx, want, hashes, func(i int, data []byte, err error) error {
		out[i] = data
		return err
	})
	return out, err
}

// each calls fn for every hash, in order, with the object's content or with the
// error that it alone met (errMissing, errTooLarge, a wrong kind). An error from
// fn ends the walk.
func (s *objectStore) each(ctx context.Context, want string, hashes []string, fn func(i int, data []byte, err error) error) error {
	found := make([]object, len(hashes))
	var ask []string
	var at []int
	for i, h := range hashes {
		if o, ok := s.cache.get(h); ok {
			found[i] = o
			continue
		}
		ask, at = append(ask, h), append(at, i)
	}
	errs := make(map[int]error)
	if len(ask) > 0 {
		got, err := s.fetch(ctx, ask)
		if err != nil {
			return err
		}
		for j, r := range got {
			if r.err != nil {
				errs[at[j]] = r.err
				continue
			}
			found[at[j]] = r.object
			s.cache.add(ask[j], r.object, len(r.data))
		}
	}
	for i, h := range hashes {
		err := errs[i]
		if err == nil && found[i].kind != want {
			err = fmt.Errorf("object %s is a %s where a %s was expected", h, found[i].kind, want)
		}
		if err := fn(i, found[i].data, err); err != nil {
			return err
		}
	}
	return nil
}

type catResult struct {
	object
	err error
}

// fetch asks git. A child that dies, or that misses an object (a repack moved it
// to a pack that this child hasn't opened), is replaced once.
func (s *objectStore) fetch(ctx context.Context, hashes []string) ([]catResult, error) {
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
		got, err := child.ask(hashes, s.maxObject)
		if !stop() && err != nil {
			child.close()
			return nil, fmt.Errorf("read objects of %s: %w", s.git.dir, ctx.Err())
		}
		again := attempt == 0
		if err != nil {
			child.close()
			if again {
				continue
			}
			return nil, fmt.Errorf("read objects of %s: %w", s.git.dir, err)
		}
		missing := false
		for _, r := range got {
			missing = missing || errors.Is(r.err, errMissing)
		}
		if missing && again {
			child.close()
			continue
		}
		s.give(child)
		return got, nil
	}
}

func (s *objectStore) take(fresh bool) (*catFile, error) {
	s.mu.Lock()
	if s.done {
		s.mu.Unlock()
		return nil, errClosed
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

func (s *objectStore) give(c *catFile) {
	s.mu.Lock()
	if s.done || len(s.idle) >= cap(s.slots) {
		s.mu.Unlock()
		c.close()
		return
	}
	s.idle = append(s.idle, c)
	s.mu.Unlock()
}

// refresh replaces the idle children, so that packs that a repack removed are let go.
func (s *objectStore) refresh() {
	s.mu.Lock()
	idle := s.idle
	s.idle = nil
	s.mu.Unlock()
	for _, c := range idle {
		c.close()
	}
}

func (s *objectStore) close() {
	s.mu.Lock()
	s.done = true
	s.mu.Unlock()
	s.refresh()
}

// catFile is one "git cat-file --batch" child, used by one goroutine at a time.
type catFile struct {
	cmd    *exec.Cmd
	in     io.WriteCloser
	out    *bufio.Reader
	stderr *tailBuffer
}

func startCatFile(git gitCLI) (*catFile, error) {
	// The child outlives the request that starts it, so it has no context; close ends it.
	//nolint:contextcheck
	cmd := exec.Command("git", "cat-file", "--batch")
	if !git.inherit {
		cmd.Args = []string{"git", "--git-dir=" + git.dir, "cat-file", "--batch"}
		cmd.Dir = git.dir
	}
	cmd.Env = git.environ()
	cmd.SysProcAttr = ownGroup()
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
func (c *catFile) ask(hashes []string, maxObject int64) ([]catResult, error) {
	wrote := make(chan error, 1)
	if len(hashes) == 1 {
		_, err := io.WriteString(c.in, hashes[0]+"\n")
		wrote <- err
	} else {
		go func() {
			var b bytes.Buffer
			for _, h := range hashes {
				b.WriteString(h)
				b.WriteByte('\n')
			}
			_, err := c.in.Write(b.Bytes())
			wrote <- err
		}()
	}
	got := make([]catResult, len(hashes))
	for i, h := range hashes {
		r, err := c.answer(h, maxObject)
		if err != nil {
			c.kill() // so that the writer ends too
			<-wrote  //nolint:errcheck // it failed because this side did
			return nil, fmt.Errorf("git cat-file: %w%s", err, c.stderr.note())
		}
		got[i] = r
	}
	return got, <-wrote
}

func (c *catFile) answer(hash string, maxObject int64) (catResult, error) {
	line, err := c.out.ReadString('\n')
	if err != nil {
		return catResult{}, err
	}
	f := strings.Fields(line)
	if len(f) == 2 && f[1] == "missing" {
		return catResult{err: fmt.Errorf("%w: %s", errMissing, hash)}, nil
	}
	if len(f) != 3 || f[0] != hash {
		return catResult{}, fmt.Errorf("unexpected answer %q to %s", strings.TrimSpace(line), hash)
	}
	size, err := strconv.ParseInt(f[2], 10, 64)
	if err != nil || size < 0 {
		return catResult{}, fmt.Errorf("unexpected size in %q", strings.TrimSpace(line))
	}
	if size > maxObject {
		if _, err := io.CopyN(io.Discard, c.out, size+1); err != nil {
			return catResult{}, err
		}
		return catResult{err: fmt.Errorf("%w: %s has %d bytes, the limit is %d", errTooLarge, hash, size, maxObject)}, nil
	}
	data := make([]byte, size+1)
	if _, err := io.ReadFull(c.out, data); err != nil {
		return catResult{}, err
	}
	return catResult{object: object{kind: f[1], data: data[:size:size]}}, nil
}

// tailBuffer keeps the last of what a child says on stderr.
type tailBuffer struct {
	mu sync.Mutex
	b  []byte
}

func (t *tailBuffer) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.b = append(t.b, p...)
	if over := len(t.b) - 2048; over > 0 {
		t.b = t.b[over:]
	}
	return len(p), nil
}

func (t *tailBuffer) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return redactURLs(strings.TrimSpace(string(t.b)))
}

func (t *tailBuffer) note() string {
	if s := t.String(); s != "" {
		return ": " + s
	}
	return ""
}
