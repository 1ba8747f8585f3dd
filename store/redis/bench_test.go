package redis_test

import (
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/jibe-vnfm/jibe/store"
	"github.com/jibe-vnfm/jibe/store/redis"
	"github.com/jibe-vnfm/jibe/test/redisserver"
)

// valueSize is about that of an operation's record, bytes.
const valueSize = 2000

// sets is how many SETs of such a value a second Redis's own program makes.
func sets(b *testing.B, r *redisserver.Server, clients, pipelined int) float64 {
	b.Helper()
	program, err := exec.LookPath("redis-benchmark")
	if err != nil {
		b.Skip("redis-benchmark is missing: install Debian's redis-tools")
	}
	host, port, _ := strings.Cut(r.Address, ":")
	out, err := exec.CommandContext(b.Context(), program, "-h", host, "-p", port, "-t", "set", "-d", strconv.Itoa(valueSize), "-r", "100000",
		"-c", strconv.Itoa(clients), "-P", strconv.Itoa(pipelined), "-n", strconv.Itoa(3000*clients*pipelined), "--csv").Output()
	if err != nil {
		b.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	n, err := strconv.ParseFloat(strings.Trim(strings.Split(lines[len(lines)-1], ",")[1], `"`), 64)
	if err != nil {
		b.Fatalf("%v in %s", err, out)
	}
	return n
}

// BenchmarkPut writes a record and an entry of a log, as an operation's step does, one after another
// and 64 at once. Beside it stands how many plain SETs Redis makes meanwhile, at the same durability.
func BenchmarkPut(b *testing.B) {
	for _, fsync := range []string{"always", "everysec"} {
		for _, writers := range []int{1, 64} {
			b.Run(fmt.Sprintf("fsync=%s/writers=%d", fsync, writers), func(b *testing.B) {
				r := redisserver.Start(b, "--appendfsync", fsync)
				s := open(b, redis.Options{URL: r.URL()})
				plain := sets(b, r, writers, 1)
				value := make([]byte, valueSize)
				work := make(chan int)
				var g sync.WaitGroup
				for range writers {
					g.Go(func() {
						for i := range work {
							if _, err := s.Put(b.Context(), store.Record{Key: fmt.Sprint("operation/", i), Value: value}, store.Record{Key: "outbox/", Value: []byte("{}")}); err != nil {
								b.Error(err)
								return
							}
						}
					})
				}
				n := 0
				for b.Loop() {
					work <- n
					n++
				}
				close(work)
				g.Wait()
				rate := float64(n) / b.Elapsed().Seconds()
				b.ReportMetric(rate, "puts/s")
				b.ReportMetric(plain, "redis-SETs/s")
				b.ReportMetric(plain/rate, "SETs/put")
			})
		}
	}
}

// BenchmarkList reads a page of 100 of 50,000 records.
func BenchmarkList(b *testing.B) {
	r := redisserver.Start(b, "--appendfsync", "no")
	s := open(b, redis.Options{URL: r.URL()})
	var recs []store.Record
	for i := range 50_000 {
		recs = append(recs, store.Record{Key: fmt.Sprintf("operation/%05d.", i), Value: make([]byte, 200)})
		if len(recs) == 500 {
			put(b, s, recs...)
			recs = nil
		}
	}
	n := 0
	for b.Loop() {
		page, err := s.List(b.Context(), "operation/", fmt.Sprintf("operation/%05d.", n*7919%49_000), 100)
		if err != nil || len(page) != 100 {
			b.Fatalf("%d records, %v", len(page), err)
		}
		n++
	}
}
