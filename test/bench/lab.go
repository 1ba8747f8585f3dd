package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/pprof"
	"strconv"
	"time"

	"github.com/jibe-vnfm/jibe/app"
	"github.com/jibe-vnfm/jibe/drivers/sim"
	"github.com/jibe-vnfm/jibe/internal/egress"
	"github.com/jibe-vnfm/jibe/test/process"
)

// The laboratory is this program run as the server, with what the binary doesn't have: it
// profiles itself, may measure nothing, and lets others see and change what its simulator does.
// Its settings are those of cmd/jibe.
const (
	// labVerb makes this program the server; it is the one of jibe too, as whoever starts
	// a server knows no other.
	labVerb = "serve"
	// labBinary names the environment variable with the path of the jibe that the
	// repository's push hook runs, labProfile that with the path and the beginning of the
	// names of the profiles, "" for none.
	labBinary  = "JIBE_BENCH_BINARY"
	labProfile = "JIBE_BENCH_PROFILE"

	labWorkers = 64
)

// labSocket is where the laboratory lets others at its simulator.
func labSocket(data string) string { return data + "-lab.sock" }

// serveLab runs the server until ctx ends.
func serveLab(ctx context.Context, args []string) (err error) {
	o := app.Options{Branch: "main", Log: slog.New(slog.NewTextHandler(os.Stderr, nil)), Cloud: sim.NewCloud(), Binary: os.Getenv(labBinary)}
	f := flag.NewFlagSet(labVerb, flag.ContinueOnError)
	f.StringVar(&o.Data, "data", "", "data directory")
	f.StringVar(&o.Listen, "listen", "127.0.0.1:0", "address of the API")
	f.Func("egress-allow", "networks that may be called", func(text string) (err error) {
		o.Egress.Allow, err = egress.ParseNetworks(text)
		return err
	})
	f.IntVar(&o.Workers, "workers", labWorkers, "how many instances are worked on at once")
	f.DurationVar(&o.Poll, "poll", 30*time.Second, "how often remote repositories are fetched")
	f.Var(&o.KeepOperations, "keep-operations", "how long an ended operation is kept, and how many of each instance however old; or all")
	f.DurationVar(&o.Timeout, "timeout", 500*time.Second, "how long one attempt of an operation may take")
	f.StringVar(&o.Trace.Endpoint, "otlp-endpoint", "", "URL of a collector of traces")
	f.Float64Var(&o.Trace.Ratio, "trace-ratio", 1, "share of the operations that are traced")
	f.BoolVar(&o.Unmeasured, "unmeasured", false, "measure nothing")
	f.DurationVar(&o.StartTimeout, "start-timeout", time.Minute, "how long an operation may stay in STARTING")
	if err := f.Parse(args); err != nil {
		return err
	}
	app.BoundMemory(ctx, o.Log)
	stop, err := profileLab(os.Getenv(labProfile))
	if err != nil {
		return err
	}
	control, err := net.Listen("unix", labSocket(o.Data))
	if err != nil {
		return err
	}
	server := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			fmt.Fprint(w, o.Cloud.Calls().Observes)
			return
		}
		n, err := strconv.Atoi(r.FormValue("units"))
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		o.Cloud.Resize(r.FormValue("object"), n)
	})}
	go func() { _ = server.Serve(control) }() // it ends with Close
	o.Ready = func(s *app.Server) { s.Welcome(os.Stdout) }
	working, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	profiled := make(chan error, 1)
	go func() {
		<-ctx.Done()
		profiled <- stop() // while all is still there
		end()
	}()
	err = app.Run(working, o)
	if ctx.Err() == nil { // it ended by itself
		return errors.Join(err, server.Close())
	}
	return errors.Join(err, <-profiled, server.Close())
}

// profileLab begins a profile of the CPU; stop ends it and writes one of the heap.
func profileLab(name string) (stop func() error, err error) {
	if name == "" {
		return func() error { return nil }, nil
	}
	cpu, err := os.Create(name + ".cpu")
	if err != nil {
		return nil, err
	}
	if err := pprof.StartCPUProfile(cpu); err != nil {
		return nil, errors.Join(err, cpu.Close())
	}
	return func() error {
		pprof.StopCPUProfile()
		heap, err := os.Create(name + ".heap")
		if err != nil {
			return errors.Join(err, cpu.Close())
		}
		runtime.GC()
		return errors.Join(pprof.WriteHeapProfile(heap), heap.Close(), cpu.Close())
	}, nil
}

// spawn starts the server that is measured: the binary, or the laboratory where profiles
// are wanted.
func (b *bench) spawn(data string, args ...string) (*process.Server, error) {
	if b.profiles == "" {
		return process.StartBinary(b.binary, data, args...)
	}
	return b.spawnLab(data, args...)
}

func (b *bench) spawnLab(data string, args ...string) (*process.Server, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	name := ""
	if b.profiles != "" {
		name = filepath.Join(b.profiles, fmt.Sprintf("%s-%02d", b.part, len(b.profiled)+1))
		b.profiled = append(b.profiled, name)
	}
	// Whoever starts a server hands its own environment on.
	if err := errors.Join(os.Setenv(labBinary, b.binary), os.Setenv(labProfile, name), ignoreMissing(os.Remove(labSocket(data)))); err != nil {
		return nil, err
	}
	return process.StartBinary(self, data, args...)
}

// labClient calls a laboratory at its simulator.
func labClient(data string) *http.Client {
	return &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", labSocket(data))
	}}}
}

// askLab makes one call and returns what it is answered with.
func askLab(ctx context.Context, client *http.Client, method, query string) (string, error) {
	req, err := http.NewRequestWithContext(ctx, method, "http://lab/?"+query, http.NoBody)
	if err != nil {
		return "", err
	}
	a, err := client.Do(req)
	if err != nil {
		return "", err
	}
	defer a.Body.Close()
	text, err := io.ReadAll(a.Body)
	if err == nil && a.StatusCode != http.StatusOK {
		err = fmt.Errorf("laboratory: %s: %s", a.Status, text)
	}
	return string(text), err
}

// meddler changes what runs in the simulator of a laboratory.
func meddler(data string) func(ctx context.Context, object string, units int) error {
	client := labClient(data)
	return func(ctx context.Context, object string, units int) error {
		_, err := askLab(ctx, client, http.MethodPost, fmt.Sprintf("object=%s&units=%d", object, units))
		return err
	}
}

// looker says how often the simulator of a laboratory was looked at.
func looker(data string) func(ctx context.Context) (int, error) {
	client := labClient(data)
	return func(ctx context.Context) (int, error) {
		text, err := askLab(ctx, client, http.MethodGet, "")
		if err != nil {
			return 0, err
		}
		return strconv.Atoi(text)
	}
}

// tops prints which functions the servers of this part spent most in: CPU time, and memory
// in use at their end.
func (b *bench) tops(ctx context.Context) {
	if b.profiles == "" {
		return
	}
	for _, kind := range []struct{ ending, title, sample string }{
		{"cpu", "CPU time", "cpu"},
		{"heap", "memory in use at the end", "inuse_space"},
		{"heap", "memory allocated", "alloc_space"},
	} {
		var files []string
		for _, name := range b.profiled {
			if _, err := os.Stat(name + ".heap"); err == nil { // one that was killed wrote none
				files = append(files, name+"."+kind.ending)
			}
		}
		if len(files) == 0 {
			return
		}
		args := append([]string{"tool", "pprof", "-top", "-nodecount=10", "-sample_index=" + kind.sample}, files...)
		out, err := exec.CommandContext(ctx, "go", args...).Output()
		if err != nil {
			b.note("profiles: %s", err)
			return
		}
		b.note("profile of %d servers: %s", len(files), kind.title)
		b.line(string(out))
	}
}
