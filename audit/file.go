package audit

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Options say where records are kept. Head, Key and Log are required, and one of Path and Out.
type Options struct {
	// Path is the file. Who renames it gets the records from then on in a new one, which goes on
	// with the chain; nobody has to be told.
	Path string
	// Out takes the lines in place of a file; how durable they are is its reader's business.
	Out io.Writer
	// Head is the file that notes how far the chain goes, so that a log without its end shows.
	Head string
	// Key makes the digests of lines. Who doesn't have it can't alter or add one unseen.
	Key []byte
	// Patience is how long to wait for a file that another process holds, which may just be
	// ending.
	Patience time.Duration
	Log      *slog.Logger
}

// File is the [Log] in a file. Records that come at the same time are made durable together.
type File struct {
	o     Options
	calls chan *call
	done  chan struct{}
	once  sync.Once

	mu     sync.Mutex
	broken error // why records can't be kept; nil while they can
	end    Head  // as far as it is durable

	// The rest is the writer's.
	f        *os.File
	size     int64 // of what is whole; what a failed write left behind it is cut off
	reserved int64 // as far as the file system keeps room
	head     *os.File
	pending  []Record // to be written first: what the log must say of itself
	since    time.Time
	half     bool // whether a write that failed may have left something behind
	torn     bool // whether Out may have got half a line
}

// call is a record that waits.
type call struct {
	r    Record
	done chan error
}

const (
	mostAtOnce = 512
	// reserve is the room in the file system that is taken ahead, bytes: a change is let in only
	// while its record has room, however full the disk is when it is written.
	reserve  = 1 << 20
	tryAgain = time.Second
)

// Open finds the end of the chain and goes on there. A last line that a crash left half written is
// removed, and the log says so, as it does of missing lines.
func Open(o Options) (*File, error) {
	l := &File{o: o, calls: make(chan *call, mostAtOnce), done: make(chan struct{}), end: start()}
	if err := l.open(); err != nil {
		_ = l.closeFiles() // the reason is in err
		return nil, fmt.Errorf("audit log: %w", err)
	}
	l.note(nil)
	go l.run()
	return l, nil
}

func (l *File) open() error {
	noted, err := ReadHead(l.o.Head, l.o.Key)
	known := err == nil
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		l.tell(Failed, err.Error())
	}
	if known {
		l.end = noted
	}
	if l.head, err = os.OpenFile(l.o.Head, os.O_RDWR|os.O_CREATE, 0o600); err != nil {
		return err
	}
	if l.o.Out != nil {
		return l.begin()
	}
	if err := l.openFile(); err != nil {
		return err
	}
	last, cut, err := l.lastLine()
	if err != nil {
		return err
	}
	if cut > 0 {
		l.tell(Done, fmt.Sprintf("removed %d bytes of a record that was written only in part, and so never confirmed", cut))
	}
	if last == nil {
		return l.begin()
	}
	at, _, err := parse(l.o.Key, last)
	switch {
	case err != nil:
		l.tell(Failed, "the last line of the file is none of this log's: "+err.Error())
	case at.Seq < noted.Seq:
		l.tell(Failed, fmt.Sprintf("records %d to %d are missing at the end of the file", at.Seq+1, noted.Seq))
	case at.Seq == noted.Seq && at.Hash != noted.Hash:
		l.tell(Failed, fmt.Sprintf("record %d is another one than was written", at.Seq))
	default:
		if !known {
			l.tell(Failed, fmt.Sprintf("%s is missing, so that it isn't known whether records are missing after %d", l.o.Head, at.Seq))
		}
		l.end = at
	}
	return l.begin()
}

// tell has the log say something of itself, and the process's log, too.
func (l *File) tell(outcome Outcome, reason string) {
	l.o.Log.Warn("audit log", "reason", reason)
	l.pending = append(l.pending, Record{Action: "audit", Object: l.o.Path, Issuer: "host", Outcome: outcome, Reason: reason})
}

// begin writes what the log must say of itself before anything else.
func (l *File) begin() error { return l.write(nil) }

// openFile opens the file at the path, for this process alone.
func (l *File) openFile() error {
	f, err := os.OpenFile(l.o.Path, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	for until := time.Now().Add(l.o.Patience); ; time.Sleep(10 * time.Millisecond) {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			break
		} else if time.Now().After(until) {
			return errors.Join(fmt.Errorf("%s is in use by another process; give this one another --audit", l.o.Path), f.Close())
		}
	}
	st, err := f.Stat()
	if err == nil && !st.Mode().IsRegular() {
		err = fmt.Errorf("%s is no regular file", l.o.Path)
	}
	if err == nil && st.Mode().Perm()&0o022 != 0 {
		err = fmt.Errorf("%s can be written by others (mode %04o): chmod 600 it", l.o.Path, st.Mode().Perm())
	}
	if err == nil {
		err = syncDir(filepath.Dir(l.o.Path))
	}
	if err != nil {
		return errors.Join(err, f.Close())
	}
	l.f, l.size, l.reserved = f, st.Size(), 0
	return nil
}

// lastLine returns the last line that is whole, nil where there is none, and removes what stands
// behind it.
func (l *File) lastLine() (text []byte, cut int64, err error) {
	from := max(0, l.size-2*largestLine)
	tail := make([]byte, l.size-from)
	if _, err := l.f.ReadAt(tail, from); err != nil && !errors.Is(err, io.EOF) {
		return nil, 0, err
	}
	end := bytes.LastIndexByte(tail, '\n')
	if end < 0 && from > 0 {
		return nil, 0, fmt.Errorf("%s ends with a line of more than %d bytes, and is no audit log, therefore", l.o.Path, largestLine)
	}
	whole := from + int64(end) + 1
	if cut = l.size - whole; cut > 0 {
		if err := l.f.Truncate(whole); err != nil {
			return nil, 0, err
		}
		l.size = whole
	}
	if end < 0 {
		return nil, cut, nil
	}
	return tail[bytes.LastIndexByte(tail[:end], '\n')+1 : end], cut, nil
}

// Record implements [Log]. The end of ctx doesn't keep a record out of the log.
func (l *File) Record(_ context.Context, r Record) error {
	c := &call{r: r, done: make(chan error, 1)}
	select {
	case l.calls <- c:
	case <-l.done:
		return fmt.Errorf("%w: it is closed", ErrUnavailable)
	}
	select {
	case err := <-c.done:
		return err
	case <-l.done:
		select {
		case err := <-c.done:
			return err
		default:
			return fmt.Errorf("%w: it is closed", ErrUnavailable)
		}
	}
}

// Ready implements [Log].
func (l *File) Ready() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.broken
}

// End returns how far the chain goes.
func (l *File) End() Head {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.end
}

// Close writes what waits and ends the log.
func (l *File) Close() error {
	l.once.Do(func() { l.calls <- nil })
	<-l.done
	return l.closeFiles()
}

func (l *File) closeFiles() error {
	var err error
	for _, f := range []*os.File{l.f, l.head} {
		if f != nil {
			if cerr := f.Close(); !errors.Is(cerr, os.ErrClosed) {
				err = errors.Join(err, cerr)
			}
		}
	}
	return err
}

// run writes until the log is closed.
func (l *File) run() {
	defer close(l.done)
	again := time.NewTicker(tryAgain)
	defer again.Stop()
	for {
		var batch []*call
		select {
		case c := <-l.calls:
			if c == nil {
				return
			}
			batch = append(batch, c)
		case <-again.C:
			if l.Ready() == nil {
				continue
			}
		}
		batch, last := l.gather(batch)
		err := l.write(batch)
		l.note(err)
		for _, c := range batch {
			if err != nil {
				c.done <- fmt.Errorf("%w: %w", ErrUnavailable, err)
			} else {
				c.done <- nil
			}
		}
		if last {
			return
		}
	}
}

// gather takes what waits already.
func (l *File) gather(batch []*call) (all []*call, last bool) {
	for len(batch) < mostAtOnce {
		select {
		case c := <-l.calls:
			if c == nil {
				return batch, true
			}
			batch = append(batch, c)
		default:
			return batch, false
		}
	}
	return batch, false
}

// note remembers whether records can be kept, and has the log say for how long they couldn't.
func (l *File) note(err error) {
	if err == nil && l.o.Out == nil {
		err = l.takeRoom()
	}
	was := l.Ready()
	switch {
	case err != nil && was == nil:
		l.since = time.Now()
		l.o.Log.Error("audit log can't be written; changes are refused until it can", "error", err)
	case err == nil && was != nil:
		at := len(l.pending)
		l.pending = append(l.pending, Record{Action: "audit", Object: l.o.Path, Issuer: "host", Outcome: Done,
			Reason: "records couldn't be written from " + l.since.UTC().Format(time.RFC3339) + " on, and can be again"})
		if err = l.write(nil); err == nil {
			l.o.Log.Info("audit log can be written again")
		} else {
			l.pending = slices.Delete(l.pending, at, at+1)
		}
	}
	if err != nil {
		err = fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	l.mu.Lock()
	l.broken = err
	l.mu.Unlock()
}

// write makes the records of the batch durable, after those that are pending; all of them or none.
func (l *File) write(batch []*call) error {
	now := time.Now()
	head, told := l.End(), len(l.pending)
	var text, one []byte
	for _, r := range l.pending {
		one, head = head.next(l.o.Key, r, now)
		text = append(text, one...)
	}
	for _, c := range batch {
		one, head = head.next(l.o.Key, c.r, now)
		text = append(text, one...)
	}
	if err := l.append(text); err != nil {
		return err
	}
	l.pending = l.pending[told:]
	l.mu.Lock()
	l.end = head
	l.mu.Unlock()
	if _, err := l.head.WriteAt(head.file(l.o.Key), 0); err != nil {
		// The records are kept. A head that is older than they are only makes it harder to see
		// that they were removed.
		l.o.Log.Warn("end of the audit log can't be noted", "error", err)
	}
	return nil
}

// append adds text to the file, or to what takes its place.
func (l *File) append(text []byte) error {
	if l.o.Out != nil && len(text) == 0 {
		return nil
	} else if l.o.Out != nil {
		if l.torn {
			text = append([]byte("\n"), text...)
		}
		n, err := l.o.Out.Write(text)
		if err != nil && n > 0 {
			l.torn = true
		} else if err == nil {
			l.torn = false
		}
		return err
	}
	if err := l.followRename(); err != nil {
		return err
	}
	st, err := l.f.Stat()
	if err != nil {
		return err
	}
	switch {
	case st.Size() > l.size && l.half:
		if err := l.f.Truncate(l.size); err != nil {
			return err
		}
	case st.Size() != l.size: // what somebody else did to the file stays, to be seen
		l.tell(Failed, fmt.Sprintf("the file has %d bytes, and this log wrote %d: somebody else wrote to it or cut it", st.Size(), l.size))
		l.size = st.Size()
	}
	if len(text) == 0 {
		return nil
	}
	l.half = true
	_, err = l.f.Write(text)
	if err == nil {
		err = l.f.Sync()
	}
	if err != nil {
		if terr := l.f.Truncate(l.size); terr == nil { // where it can't be now, it is before the next record
			l.half = false
		}
		return err
	}
	l.half = false
	l.size += int64(len(text))
	return nil
}

// followRename opens a new file where the former one was renamed or removed.
func (l *File) followRename() error {
	here, err := os.Stat(l.o.Path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	mine, merr := l.f.Stat()
	if merr != nil {
		return merr
	}
	if err == nil && os.SameFile(here, mine) {
		return nil
	}
	former := l.f
	if err := l.openFile(); err != nil {
		return err
	}
	if l.size > 0 {
		l.o.Log.Warn("audit log goes on in a file that holds something already", "path", l.o.Path)
	}
	return former.Close()
}

// takeRoom has the file system keep room for records to come. One that can't is asked for none.
func (l *File) takeRoom() error {
	if l.reserved-l.size > reserve/2 {
		return nil
	}
	err := unix.Fallocate(int(l.f.Fd()), unix.FALLOC_FL_KEEP_SIZE, l.size, reserve)
	switch {
	case err == nil, errors.Is(err, syscall.EOPNOTSUPP), errors.Is(err, syscall.ENOSYS):
		l.reserved = l.size + reserve
		return nil
	}
	return fmt.Errorf("take room in %s ahead: %w", l.o.Path, err)
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
