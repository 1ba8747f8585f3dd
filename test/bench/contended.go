package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/test/ha"
	"github.com/jibe-vnfm/jibe/test/process"
)

const (
	// contendedClients write, with a pause behind each answer: what is asked for is how long one
	// write takes, and not how many there may be.
	contendedClients = 4
	contendedPause   = 500 * time.Millisecond
	// contendedEach is how many instances a client writes to, in turn, so that none has an operation
	// under way.
	contendedEach = 64
	// contendedAll has two more, which are the person's and the script's.
	contendedAll = contendedClients*contendedEach + 2
	// contendedFor is how long each is measured.
	contendedFor = 30 * time.Second
	// contendedMost bounds the writes, but for one in a hundred, and contendedWorst all of them, while
	// somebody else pushes once a second.
	contendedMost  = 3 * time.Second
	contendedWorst = 8 * time.Second
)

// contended measures writes at three replicas while a person pushes to the same branch of the git
// server: each push of the person makes one that is under way fail, of Jibe's as of anybody's. A
// script of plain git that does nothing but fetch and push, as often as it takes, is the peer.
func (b *bench) contended(ctx context.Context) error {
	if err := ha.Missing(); err != nil {
		b.note("left out: %s", err)
		return nil
	}
	dir := filepath.Join(b.tmp, "contended")
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	r, err := ha.Start(ctx, ha.Options{Dir: dir, Binary: b.binary, Replicas: 3, Redis: 1, RedisArgs: []string{"--appendfsync", "everysec"}})
	if err != nil {
		return err
	}
	defer r.Close()
	server := r.Servers.Present()
	server.Data = r.Forge.Dir // where the repository of instances is
	j := &jibe{Server: server}
	file := func(_ int, id string) string { return planned(id, "bench") }
	if err := j.addUnseen(ctx, "fill", 0, contendedAll, file); err != nil {
		return err
	}
	if err := knownByAll(ctx, r, contendedAll); err != nil {
		return err
	}
	for _, every := range []time.Duration{0, 2 * time.Second, time.Second} {
		pushed, end := b.pushing(ctx, r, every)
		jibes, err := whileContended(func() (times, error) { return patching(ctx, j) }, end)
		if err != nil {
			return err
		}
		others := "nobody else pushes"
		if every > 0 {
			others = fmt.Sprintf("a person pushes every %s", every)
		}
		b.latency(others+": request to 202 at three replicas", jibes, 0, fmt.Sprintf("%d clients; the person's pushes: %d", contendedClients, pushed.n()))
		if every > 0 {
			b.value("  99 of 100 of them", short(jibes.at(0.99)), jibes.at(0.99) <= contendedMost, "<= "+short(contendedMost), "")
			b.value("  the slowest", short(jibes.at(1)), jibes.at(1) <= contendedWorst, "<= "+short(contendedWorst), "")
		}
		_, end = b.pushing(ctx, r, every)
		bare, err := whileContended(func() (times, error) { return b.script(ctx, r) }, end)
		if err != nil {
			return err
		}
		b.latency("  plain git: fetch, commit and push, until it is taken", bare, 0,
			fmt.Sprintf("Jibe's p50 is %s of it, its p99 %s", ratio(float64(jibes.median()), float64(bare.median())), ratio(float64(jibes.at(0.99)), float64(bare.at(0.99)))))
	}
	return nil
}

// planned is the file of an instance that isn't to run.
func planned(id, name string) string {
	return fmt.Sprintf("id: %s\nname: %s\nvnfdId: %s\nstate: notInstantiated\n", id, name, process.SmallVnfd)
}

// whileContended measures, and then ends who pushes.
func whileContended(measure func() (times, error), end func() error) (times, error) {
	took, err := measure()
	if ended := end(); err == nil {
		err = ended
	}
	return took, err
}

// patching is the clients' work.
func patching(ctx context.Context, j *jibe) (took times, err error) {
	var mu sync.Mutex
	var all sync.WaitGroup
	until := time.Now().Add(contendedFor)
	for c := range contendedClients {
		all.Go(func() {
			for n := 0; time.Now().Before(until); n++ {
				began := time.Now()
				_, failed := j.patch(ctx, instanceID("fill", c*contendedEach+n%contendedEach), fmt.Sprint("name-", began.UnixNano()))
				mu.Lock()
				if took = append(took, time.Since(began)); failed != nil {
					err = failed
				}
				mu.Unlock()
				if failed != nil {
					return
				}
				time.Sleep(contendedPause)
			}
		})
	}
	all.Wait()
	return took, err
}

// pushes counts.
type pushes struct {
	mu sync.Mutex
	of int
}

func (p *pushes) n() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.of
}

// pushing has a person push every so often, until end is called; 0 is never.
func (b *bench) pushing(ctx context.Context, r *ha.Rig, every time.Duration) (done *pushes, end func() error) {
	done = &pushes{}
	if every == 0 {
		return done, func() error { return nil }
	}
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- b.personPushes(ctx, r, every, done) }()
	return done, func() error {
		cancel()
		return <-ended
	}
}

func (b *bench) personPushes(ctx context.Context, r *ha.Rig, every time.Duration, done *pushes) error {
	w, err := b.forgeClone(ctx, r)
	if err != nil {
		return err
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	id := instanceID("fill", contendedAll-1)
	for n := 0; ; n++ {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		if err := w.pushUntilTaken(context.WithoutCancel(ctx), desired.APIDir(id)+"/"+desired.InstanceFile, planned(id, fmt.Sprintf("person-%d-%d", time.Now().UnixNano(), n))); err != nil {
			return err
		}
		done.mu.Lock()
		done.of++
		done.mu.Unlock()
	}
}

// script is what plain git takes for one commit after the other.
func (b *bench) script(ctx context.Context, r *ha.Rig) (took times, err error) {
	w, err := b.forgeClone(ctx, r)
	if err != nil {
		return nil, err
	}
	id := instanceID("fill", contendedAll-2)
	for until := time.Now().Add(contendedFor); time.Now().Before(until); time.Sleep(contendedPause) {
		began := time.Now()
		if err := w.Rebase(ctx); err != nil {
			return nil, err
		}
		if err := w.pushUntilTaken(ctx, desired.APIDir(id)+"/"+desired.InstanceFile, planned(id, fmt.Sprint("script-", time.Now().UnixNano()))); err != nil {
			return nil, err
		}
		took = append(took, time.Since(began))
	}
	return took, nil
}

// worktree is a clone whose pushes go the way that Jibe's go.
type worktree struct{ *process.Clone }

func (b *bench) forgeClone(ctx context.Context, r *ha.Rig) (worktree, error) {
	dir, err := os.MkdirTemp(b.tmp, "contended-clone-")
	if err != nil {
		return worktree{}, err
	}
	w := worktree{&process.Clone{Dir: dir}}
	_, err = process.Git(ctx, b.tmp, "-c", "http.sslCAInfo="+r.Forge.CA, "clone", "--quiet", "-c", "http.sslCAInfo="+r.Forge.CA, r.Forge.URL("desired.git"), dir)
	return w, err
}

// pushUntilTaken commits a file and pushes it as often as others are faster.
func (w worktree) pushUntilTaken(ctx context.Context, file, text string) error {
	if err := w.Write(file, text); err != nil {
		return err
	}
	if _, err := w.Commit(ctx, "Change "+file); err != nil {
		return err
	}
	for w.Push(ctx) != nil {
		if err := w.Rebase(ctx); err != nil {
			return err
		}
	}
	return nil
}
