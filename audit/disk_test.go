package audit_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/jibe-vnfm/jibe/audit"
	"github.com/jibe-vnfm/jibe/test/kit"
)

func TestAFullDiskMakesTheLogUnreadyWhileThereIsStillRoomForWhatIsUnderWay(t *testing.T) {
	dir := t.TempDir()
	if os.Getuid() != 0 {
		t.Skip("a small file system can only be mounted by root")
	}
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=4m"); err != nil {
		t.Skipf("a small file system can't be mounted: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	l := open(t, options(dir))
	record(t, l, "/first")
	fill := filepath.Join(dir, "full")
	if err := os.WriteFile(fill, make([]byte, 8<<20), 0o600); !errors.Is(err, syscall.ENOSPC) {
		t.Fatal(err)
	}
	kept := 0
	for long := strings.Repeat("x", 1000); l.Ready() == nil; kept++ {
		record(t, l, long)
	}
	if err := l.Ready(); !errors.Is(err, audit.ErrUnavailable) || !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("%v", err)
	}
	for range 100 { // what was let in before is recorded all the same
		record(t, l, "/under/way")
	}
	// Even where nothing can be written any more, nothing half is left behind.
	for long := strings.Repeat("x", 1000); ; kept++ {
		if err := l.Record(t.Context(), audit.Record{Action: "POST", Object: long}); errors.Is(err, audit.ErrUnavailable) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
	if _, err := verify(t, dir); err != nil {
		t.Error(err)
	}
	if err := os.Remove(fill); err != nil {
		t.Fatal(err)
	}
	kit.Until(t, "there is room again", func() bool { return l.Ready() == nil })
	record(t, l, "/last")
	l.Close()
	if got, err := verify(t, dir); err != nil || int(got.End.Seq) < kept+102 {
		t.Errorf("%+v, %v after %d records", got, err, kept)
	}
}

// BenchmarkRecord is how long a record takes that nobody else writes beside, and how long each of
// many takes.
func BenchmarkRecord(b *testing.B) {
	for name, at := range map[string]int{"alone": 1, "together": 64} {
		b.Run(name, func(b *testing.B) {
			l, err := audit.Open(options(b.TempDir()))
			if err != nil {
				b.Fatal(err)
			}
			defer l.Close()
			b.SetParallelism(at)
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					if err := l.Record(b.Context(), audit.Record{Identity: "anna", Action: "POST", Object: "/vnflcm/v2/vnf_instances", Outcome: audit.Done}); err != nil {
						b.Error(err)
					}
				}
			})
		})
	}
}
