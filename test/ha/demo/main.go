// Command demo shows an installation of three replicas, with Redis, its sentinels and a git
// server, while people work with it and parts of it break: a replica is killed, one is stopped
// for longer than its session lasts, Redis fails over, and all replicas are restarted. Then it
// proves that nothing was lost, and ends with 0 only if that holds.
//
// It needs a cluster (KUBECONFIG), haproxy and redis-server; make demo-ha has all of it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/jibe-vnfm/jibe/test/ha"
	"github.com/jibe-vnfm/jibe/test/kit"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx)
	stop()
	if err != nil {
		fmt.Fprintf(os.Stderr, "\ndemo: %v\n", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) (err error) {
	binary := flag.String("jibe", "bin/jibe", "the binary that is shown")
	seed := flag.Uint64("seed", uint64(time.Now().UnixNano()&0x7fffffff), "repeats the choices of a run")
	flag.Parse()
	kubeconfig := os.Getenv("KUBECONFIG")
	if kubeconfig == "" {
		return errors.New("KUBECONFIG isn't set: make demo-ha starts a cluster")
	}
	if err := ha.Missing(); err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "jibe-demo-")
	if err != nil {
		return err
	}
	out := newScreen(os.Stdout)
	defer func() {
		out.set("")
		if err != nil {
			err = fmt.Errorf("%w\nlogs and data stay in %s; -seed %d repeats the choices", err, dir, *seed)
			return
		}
		err = os.RemoveAll(dir)
	}()
	title(out, "Starting three replicas, Redis with two replicas and three sentinels, a git server and haproxy")
	r, err := ha.Start(ctx, ha.Options{Dir: dir, Binary: *binary, Replicas: 3, Redis: 3, Kubeconfig: kubeconfig, Out: out})
	if err != nil {
		return err
	}
	defer r.Close()
	people, err := r.Invite(ctx, *seed)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, people.Close(ctx)) }()
	w := people.World

	watched, unwatch := context.WithCancel(ctx)
	var watching sync.WaitGroup
	watching.Go(func() { follow(watched, out, r, w.Summary) })
	defer func() { unwatch(); watching.Wait() }()

	title(out, "People work with seven VNFs, through ETSI's API and by git push")
	end := people.Begin(ctx)
	kit.Pause(ctx, 10*time.Second)
	what := r.Break(ctx, people, func(s string) { title(out, s) })
	worked := end()
	if err := errors.Join(what, worked); err != nil {
		return err
	}
	title(out, "The proof: requests, git, the cluster and the subscribers' events are held against each other")
	if err := w.Prove(ctx); err != nil {
		return err
	}
	out.set("")
	fmt.Fprintf(out, "   %s\n", w.Summary())
	for _, line := range []string{
		"each acknowledged request has one operation and one commit, each accepted push is operated on",
		"the cluster runs what git says, and only pods that a commit condemns were made anew, each once",
		"each subscriber was told of each event, all in the same order",
	} {
		fmt.Fprintf(out, "   proven: %s\n", line)
	}
	return nil
}

func title(out io.Writer, text string) { fmt.Fprintf(out, "\n== %s\n", text) }

// How often the state is shown: in a terminal at its end, elsewhere as a line of its own.
const (
	lookEvery = 500 * time.Millisecond
	sayEvery  = 10 * time.Second
)

// follow shows the state until ctx ends.
func follow(ctx context.Context, out *screen, r *ha.Rig, summary func() string) {
	said := time.Now()
	for ctx.Err() == nil {
		var states []string
		for _, x := range r.Replicas {
			states = append(states, x.Name+" "+x.State())
		}
		now := strings.Join(states, ", ") + "; " + summary()
		out.set(now)
		if !out.terminal && time.Since(said) > sayEvery {
			r.Tell("%s", now)
			said = time.Now()
		}
		kit.Pause(ctx, lookEvery)
	}
	out.set("")
}

// screen writes lines, and where it is a terminal a last one that changes.
type screen struct {
	terminal bool
	mu       sync.Mutex
	w        io.Writer
	last     string
}

func newScreen(f *os.File) *screen {
	info, err := f.Stat()
	return &screen{w: f, terminal: err == nil && info.Mode()&os.ModeCharDevice != 0}
}

// Write writes whole lines above the last one.
func (s *screen) Write(text []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.terminal {
		fmt.Fprintf(s.w, "\r\x1b[K%s%s", text, s.last)
		return len(text), nil
	}
	return s.w.Write(text)
}

// set changes the last line.
func (s *screen) set(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.terminal && text != s.last {
		s.last = text
		fmt.Fprintf(s.w, "\r\x1b[K\x1b[2m%s\x1b[0m", text)
	}
}
