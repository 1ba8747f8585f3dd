package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/test/process"
)

const (
	leastWrites  = 500 // commits a second
	wantedWrites = 1000
	writeLimit   = 60 * time.Millisecond
)

// durable measures PATCH requests of many clients, each on an instance of its own:
// one commit and one operation a request, both synced before the answer.
func (b *bench) durable(ctx context.Context) error {
	j, err := b.startWithMany(ctx, "writes")
	if err != nil {
		return err
	}
	defer j.Kill()
	peers := filepath.Join(b.tmp, "peers.git") // as it stands before the writes
	if _, err := process.Git(ctx, b.tmp, "clone", "--quiet", "--bare", j.Desired(), peers); err != nil {
		return err
	}
	before, err := cpuTime(j.Pid())
	if err != nil {
		return err
	}
	took, operations, wall, err := b.patches(ctx, j)
	if err != nil {
		return err
	}
	answered := time.Now()
	rate := float64(len(took)) / wall.Seconds()
	b.value(fmt.Sprintf("%d clients on %d instances: durable writes", b.clients, b.instances), fmt.Sprintf("%.0f commits/s", rate),
		rate >= leastWrites, fmt.Sprintf(">= %d/s, aim %d/s", leastWrites, wantedWrites), fmt.Sprintf("n=%d in %s", len(took), short(wall)))
	b.latency("request to 202, of all clients", took, writeLimit, "")
	time.Sleep(200 * time.Millisecond) // the last operations' ends belong to the writes
	after, err := cpuTime(j.Pid())
	if err != nil {
		return err
	}
	var last time.Time
	for _, o := range operations {
		at, err := j.ended(ctx, o)
		if err != nil {
			return err
		}
		if at.After(last) {
			last = at
		}
	}
	b.value("last answer -> all operations COMPLETED", short(max(0, last.Sub(answered))), true, "", "")
	b.value("CPU time of the server, for each write and its operation", short((after-before)/time.Duration(len(took))), true, "",
		fmt.Sprintf("of %d CPUs, which the clients and git share", runtime.NumCPU()))
	one, err := b.alone(ctx, j)
	if err != nil {
		return err
	}
	b.latency("request to 202, one client alone", one, 0, "")
	if err := j.Stop(); err != nil {
		return err
	}
	return b.gitPeers(ctx, j, peers, rate)
}

// startWithMany starts a server that knows as many instances as are written to, none of
// which runs, and says what durable means here.
func (b *bench) startWithMany(ctx context.Context, name string) (*jibe, error) {
	j, err := b.start(ctx, name, map[string]string{"sim": simVIM})
	if err != nil {
		return nil, err
	}
	if err = j.fill(ctx, 0, b.instances, "notInstantiated"); err == nil {
		err = j.known(ctx, b.instances, 5*time.Minute)
	}
	if err == nil {
		err = b.fsync(ctx, j)
	}
	if err != nil {
		j.Kill()
		return nil, err
	}
	return j, nil
}

// fsync says what durable means here.
func (b *bench) fsync(ctx context.Context, j *jibe) error {
	setting, err := process.Git(ctx, j.Desired(), "config", "core.fsync")
	if err != nil {
		return err
	}
	took, err := syncs(b.tmp)
	if err != nil {
		return err
	}
	b.latency("fsync is on (core.fsync="+setting+"); 4 KiB and fsync here", took, 0, "")
	return nil
}

// syncs is what it takes here to write 4 KiB and have them on the disk.
func syncs(dir string) (took times, err error) {
	f, err := os.Create(filepath.Join(dir, "fsync"))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	for range 100 {
		start := time.Now()
		if _, err := f.Write(make([]byte, 4096)); err != nil {
			return nil, err
		}
		if err := f.Sync(); err != nil {
			return nil, err
		}
		took = append(took, time.Since(start))
	}
	return took, nil
}

// cpuTime is what a process has used so far.
func cpuTime(pid int) (time.Duration, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	// The name, in brackets, may hold anything: proc(5).
	_, rest, _ := strings.Cut(string(text[bytes.LastIndexByte(text, ')'):]), " ")
	var ticks time.Duration
	for _, f := range strings.Fields(rest)[11:13] { // utime, stime
		n, err := strconv.Atoi(f)
		if err != nil {
			return 0, fmt.Errorf("CPU time of process %d: %w", pid, err)
		}
		ticks += time.Duration(n)
	}
	return ticks * time.Second / 100, nil // USER_HZ is 100 wherever Go runs on Linux
}

// patches is the load: the clients share the instances out among themselves.
func (b *bench) patches(ctx context.Context, j *jibe) (took times, operations []string, wall time.Duration, err error) {
	var mu sync.Mutex
	var wg sync.WaitGroup
	var next atomic.Int64
	start := time.Now()
	for range b.clients {
		wg.Go(func() {
			var own times
			var begun []string
			var failed error
			for i := int(next.Add(1)) - 1; i < b.writes && failed == nil; i = int(next.Add(1)) - 1 {
				begin := time.Now()
				var operation string
				operation, failed = j.patch(ctx, instanceID("fill", i), "load")
				own, begun = append(own, time.Since(begin)), append(begun, operation)
			}
			mu.Lock()
			defer mu.Unlock()
			took, operations, err = append(took, own...), append(operations, begun...), errors.Join(err, failed)
		})
	}
	wg.Wait()
	return took, operations, time.Since(start), err
}

// alone is what a client sees that has the server for itself.
func (b *bench) alone(ctx context.Context, j *jibe) (took times, err error) {
	for i := range 3 * b.samples {
		begin := time.Now()
		if _, err := j.patch(ctx, instanceID("fill", i), "alone"); err != nil {
			return nil, err
		}
		took = append(took, time.Since(begin))
		time.Sleep(5 * time.Millisecond) // the operation's end belongs to no request
	}
	return took, nil
}

// patch returns the operation that it began.
func (j *jibe) patch(ctx context.Context, id, name string) (operation string, err error) {
	a, err := j.Do(ctx, http.MethodPatch, process.Instances+"/"+id, map[string]any{
		"vnfInstanceName": name, "metadata": map[string]any{"by": name}})
	if err != nil {
		return "", err
	}
	if a.Status != http.StatusAccepted {
		return "", fmt.Errorf("PATCH %s: %d: %s", id, a.Status, a.Body)
	}
	return a.Header.Get("Location"), nil
}

// gitPeers measures what git itself takes for such commits.
func (b *bench) gitPeers(ctx context.Context, j *jibe, peers string, rate float64) error {
	if _, err := process.Git(ctx, peers, "config", "core.fsync", "all"); err != nil {
		return err
	}
	var in bytes.Buffer
	for i := range b.writes {
		id := instanceID("fill", i)
		text := strings.Replace(j.vnf(id, "notInstantiated", "vim: sim\n"), "name: bench", "name: load", 1)
		in.WriteString("commit refs/heads/main\ncommitter A Person <person@example.org> 1767323046 +0000\ndata 11\nMODIFY_INFO\n")
		if i == 0 {
			in.WriteString("from refs/heads/main^0\n")
		}
		fmt.Fprintf(&in, "M 100644 inline %s/%s\ndata %d\n%s\n", desired.APIDir(id), desired.InstanceFile, len(text), text)
	}
	start := time.Now()
	if err := fastImport(ctx, peers, &in); err != nil {
		return err
	}
	fast := float64(b.writes) / time.Since(start).Seconds()
	b.value("git fast-import of such commits (one fsync at its end)", fmt.Sprintf("%.0f commits/s", fast), true, "", "Jibe: "+ratio(rate, fast))
	b.headline(headline{"durable writes", fmt.Sprintf("%d clients, a commit and an operation each, synced before the answer", b.clients), fmt.Sprintf("%.0f/s", rate),
		fmt.Sprintf("git fast-import of such commits, with one sync at its end: %.0f/s", fast), ratio(rate, fast)})

	work := filepath.Join(b.tmp, "peers")
	if _, err := process.Git(ctx, b.tmp, "clone", "--quiet", "--shared", peers, work); err != nil {
		return err
	}
	n := min(b.writes, 5*b.samples)
	start = time.Now()
	for i := range n {
		id := instanceID("fill", i)
		name := desired.APIDir(id) + "/" + desired.InstanceFile
		if err := os.WriteFile(filepath.Join(work, name), []byte(j.vnf(id, "notInstantiated", "vim: sim\ndescription: again\n")), 0o644); err != nil {
			return err
		}
		if err := commit(ctx, work, "MODIFY_INFO", name); err != nil {
			return err
		}
	}
	slow := float64(n) / time.Since(start).Seconds()
	b.value("git add && git commit, one after the other", fmt.Sprintf("%.0f commits/s", slow), true, "", fmt.Sprintf("Jibe: %s  n=%d", ratio(rate, slow), n))
	return nil
}
