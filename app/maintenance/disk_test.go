package maintenance

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"
)

// pretender is a store and a repository whose disk fails where the test says so.
type pretender struct {
	full   error
	last   time.Time
	failed error // the last write of the store
	// stored and committed are the sizes of what was written to try the two.
	stored, committed []int
}

func (p *pretender) LastWrite() (time.Time, error) { return p.last, p.failed }

// repository is the other side of the pretender.
type repository struct{ *pretender }

func (r repository) Probe(size int) error {
	r.committed = append(r.committed, size)
	return r.full
}

func (p *pretender) Probe(_ context.Context, size int) error {
	p.stored = append(p.stored, size)
	p.last, p.failed = time.Now(), p.full
	return p.full
}

func newPretender(t *testing.T) (*pretender, *Disk) {
	p := &pretender{}
	return p, &Disk{repo: repository{p}, store: p, dirs: []string{t.TempDir()}, log: slog.New(slog.DiscardHandler)}
}

func TestABusyStoreIsNotTriedBeside(t *testing.T) {
	t.Parallel()

	p, d := newPretender(t)
	p.last = time.Now().Add(time.Hour)
	if d.try(t.Context()); len(p.stored) > 0 || len(p.committed) != 1 || p.committed[0] != smallProbe {
		t.Errorf("tried were %v in the store and %v in the repository", p.stored, p.committed)
	}
	p.last = time.Now().Add(-time.Hour)
	if d.try(t.Context()); len(p.stored) != 1 || p.stored[0] != 0 {
		t.Errorf("an idle store was tried by %v bytes, want the least that a write takes", p.stored)
	}
}

func TestAWriteThatFailedCountsAtOnceUntilMuchCanBeWritten(t *testing.T) {
	t.Parallel()

	p, d := newPretender(t)
	p.last, p.failed, p.full = time.Now(), errors.New("no space left on device"), errors.New("no space left on device")
	if err := d.Health(); err == nil || !strings.Contains(err.Error(), "store: no space left") {
		t.Errorf("health = %v before anything was tried", err)
	}
	if d.try(t.Context()); p.stored[0] != littleRoom || p.committed[0] != littleRoom {
		t.Errorf("tried with %v and %v bytes, want much: a few bytes find a place on a full disk, too", p.stored, p.committed)
	}
	if d.Health() == nil {
		t.Error("a disk on which nothing could be written is well")
	}
	p.full = nil
	if d.try(t.Context()); d.Health() != nil {
		t.Errorf("health = %v when there is room again", d.Health())
	}
}

func TestARepositoryThatCanNotBeWrittenIsNotReadyThoughTheStoreIs(t *testing.T) {
	t.Parallel()

	p, d := newPretender(t)
	p.last, p.full = time.Now().Add(time.Hour), errors.New("read-only file system")
	if d.try(t.Context()); d.Health() == nil || p.failed != nil {
		t.Errorf("health = %v", d.Health())
	}
}
