package gitrepo

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/desired/gitrepo/objects"
	"github.com/jibe-vnfm/jibe/desired/gitrepo/read"
	"github.com/jibe-vnfm/jibe/internal/git"
)

// fastImport fills a repository with n instances by git fast-import.
func fastImport(tb testing.TB, dir string, n int, where func(string) string) {
	tb.Helper()
	var in bytes.Buffer
	in.WriteString("commit refs/heads/main\ncommitter A Person <person@example.com> 1767323046 +0000\ndata 4\nmany\n")
	for i := range n {
		id := testID(i)
		data := vnfFile(id, 1)
		fmt.Fprintf(&in, "M 100644 inline %s/vnf.yaml\ndata %d\n%s\n", where(id), len(data), data)
	}
	cmd := exec.Command("git", "--git-dir="+dir, "fast-import", "--quiet")
	cmd.Stdin = &in
	if out, err := cmd.CombinedOutput(); err != nil {
		tb.Fatalf("git fast-import: %v\n%s", err, out)
	}
}

// manyInstances makes a repository of n instances, closed.
func manyInstances(tb testing.TB, n int, where func(string) string) string {
	tb.Helper()
	dir := filepath.Join(tb.TempDir(), "desired.git")
	r, err := Open(context.Background(), Options{Dir: dir})
	if err != nil {
		tb.Fatal(err)
	}
	_ = r.Close()
	fastImport(tb, dir, n, where)
	return dir
}

const benchInstances = 10_000

func layouts() map[string]func(string) string {
	return map[string]func(string) string{"sharded": shardDir, "flat": flatDir}
}

// BenchmarkWrite64 is 64 clients that write at once, fsync on.
func BenchmarkWrite64(b *testing.B) {
	for name, where := range layouts() {
		b.Run(name, func(b *testing.B) { benchWrite(b, where, 64) })
	}
}

// BenchmarkWriteOne is one client, fsync on.
func BenchmarkWriteOne(b *testing.B) {
	for name, where := range layouts() {
		b.Run(name, func(b *testing.B) { benchWrite(b, where, 1) })
	}
}

func benchWrite(b *testing.B, where func(string) string, clients int) {
	r := openRepo(b, Options{Dir: manyInstances(b, benchInstances, where)})
	var mu sync.Mutex
	var took []time.Duration
	var n atomic.Int64
	var wg sync.WaitGroup
	turns := make(chan struct{})
	for range clients {
		wg.Go(func() {
			for range turns {
				i := int(n.Add(1))
				id := testID(i * 7919 % benchInstances)
				start := time.Now()
				mustWrite(b, r, id, "", i+2)
				d := time.Since(start)
				mu.Lock()
				took = append(took, d)
				mu.Unlock()
			}
		})
	}
	for b.Loop() {
		turns <- struct{}{}
	}
	close(turns)
	wg.Wait()
	slices.Sort(took)
	b.ReportMetric(float64(len(took))/b.Elapsed().Seconds(), "commits/s")
	b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "p50-ms")
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds())/1000, "p99-ms")
}

// BenchmarkOpen opens repositories of two sizes, as the API lays them out: what differs from
// one to the other should be the size alone.
func BenchmarkOpen(b *testing.B) {
	for _, n := range []int{benchInstances, 5 * benchInstances} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			dir := packInstances(b, n, func(i int) string { return desired.APIDir(testID(i)) })
			b.ReportAllocs()
			for b.Loop() {
				r, err := Open(context.Background(), Options{Dir: dir})
				if err != nil {
					b.Fatal(err)
				}
				if got := len(r.List()); got != n {
					b.Fatalf("%d instances", got)
				}
				_ = r.Close()
			}
		})
	}
}

// BenchmarkHeadMove is what a pushed change of one instance costs among 10,000.
func BenchmarkHeadMove(b *testing.B) {
	for name, where := range layouts() {
		b.Run(name, func(b *testing.B) {
			dir := manyInstances(b, benchInstances, where)
			r := openRepo(b, Options{Dir: dir})
			writer := openRepo(b, Options{Dir: dir})
			level := 1
			for b.Loop() {
				b.StopTimer()
				level++
				r.move.Lock() // so that the file system's event waits for what is measured
				mustWrite(b, writer, testID(level%benchInstances), "", level)
				b.StartTimer()
				if err := r.refreshLocked(context.Background()); err != nil {
					b.Fatal(err)
				}
				r.move.Unlock()
			}
		})
	}
}

// BenchmarkDurable compares one synced pack with loose objects synced side by
// side, for the objects of 1 and of 64 writes.
func BenchmarkDurable(b *testing.B) {
	for _, writes := range []int{1, 64} {
		objs := make([][]byte, 6*writes)
		for i := range objs {
			objs[i] = fmt.Appendf(nil, "object %d %s", i, bytes.Repeat([]byte("x"), 300))
		}
		b.Run(fmt.Sprintf("pack/%d", writes), func(b *testing.B) {
			dir := b.TempDir()
			if err := clearLeftovers(dir); err != nil {
				b.Fatal(err)
			}
			for i := 0; b.Loop(); i++ {
				p := git.NewPack()
				for _, o := range objs {
					p.Add(git.KindBlob, fmt.Append(o, i))
				}
				if err := p.Write(dir, objects.OwnDir(dir)); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(fmt.Sprintf("loose/%d", writes), func(b *testing.B) {
			dir := b.TempDir()
			for i := 0; b.Loop(); i++ {
				var wg sync.WaitGroup
				slots := make(chan struct{}, 16)
				for j, o := range objs {
					slots <- struct{}{}
					wg.Go(func() {
						defer func() { <-slots }()
						if err := git.WriteSynced(filepath.Join(dir, fmt.Sprint(i, "-", j)), o); err != nil {
							b.Error(err)
						}
					})
				}
				wg.Wait()
			}
		})
	}
}

// BenchmarkPushing is what writing down a pusher adds to a push.
func BenchmarkPushing(b *testing.B) {
	r := openRepo(b, Options{Key: []byte("key")})
	for i := 0; b.Loop(); i++ {
		if err := r.Pushing(read.Push{Pusher: "ann", From: "192.0.2.7", New: fmt.Sprintf("%040x", i)}); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkTouched is what finding the paths of a push adds to it, among 10,000 instances.
func BenchmarkTouched(b *testing.B) {
	r := openRepo(b, Options{Dir: manyInstances(b, benchInstances, shardDir)})
	old := r.Head()
	now := mustWrite(b, r, testID(1), "", 7).Commit
	for b.Loop() {
		if _, err := r.read.Touched(context.Background(), old, now); err != nil {
			b.Fatal(err)
		}
	}
}
