// Package lab is the server run by a test or measuring program itself, with what the binary doesn't have:
// it may profile itself or measure nothing, and it lets others see and change what its
// simulator does. It owns nothing but the switches; the server is that of package app.
//
// A program that is to be one calls [Serve] where its first argument is [Verb], and is started as the
// binary is (process.StartBinary with the path of the program).
package lab

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"runtime"
	"runtime/pprof"
	"strconv"
	"strings"
	"time"

	"github.com/jibe-vnfm/jibe/app"
	"github.com/jibe-vnfm/jibe/app/maintenance"
	"github.com/jibe-vnfm/jibe/drivers/sim"
	"github.com/jibe-vnfm/jibe/internal/egress"
)

// Verb is the first argument of a program that is to be the server; it is the one of jibe too, as whoever
// starts a server knows no other.
const Verb = "serve"

// EnvBinary names the environment variable with the path of the jibe that the repository's push
// hook runs, EnvProfile that with the path and the beginning of the names of the profiles, "" for none.
const (
	EnvBinary  = "JIBE_LAB_BINARY"
	EnvProfile = "JIBE_LAB_PROFILE"
)

const workers = 64

// The ways of a VIM to be away.
const (
	Refused = "refused" // its calls fail at once
	Hanging = "hanging" // its calls take long, and fail
	Back    = ""        // it isn't
)

// socket is where the laboratory lets others at its simulator.
func socket(data string) string { return data + "-lab.sock" }

// Serve runs the server until ctx ends. Its settings are those of cmd/jibe, and how the simulator is at
// the start, which is lost with the process: what runs there is, too.
func Serve(ctx context.Context, args []string) (err error) {
	o := app.Options{Branch: "main", Log: slog.New(slog.NewTextHandler(os.Stderr, nil)), Cloud: sim.NewCloud(), Binary: os.Getenv(EnvBinary)}
	f := flag.NewFlagSet(Verb, flag.ContinueOnError)
	f.StringVar(&o.Data, "data", "", "data directory")
	f.StringVar(&o.Listen, "listen", "127.0.0.1:0", "address of the API")
	f.Func("egress-allow", "networks that may be called", func(text string) (err error) {
		o.Egress.Allow, err = egress.ParseNetworks(text)
		return err
	})
	f.IntVar(&o.Workers, "workers", workers, "how many instances are worked on at once")
	f.DurationVar(&o.Poll, "poll", 30*time.Second, "how often remote repositories are fetched")
	f.Var(&o.KeepOperations, "keep-operations", "how long an ended operation is kept, and how many of each instance however old; or all")
	f.DurationVar(&o.Timeout, "timeout", 500*time.Second, "how long one attempt of an operation may take")
	f.StringVar(&o.Trace.Endpoint, "otlp-endpoint", "", "URL of a collector of traces")
	f.Float64Var(&o.Trace.Ratio, "trace-ratio", 1, "share of the operations that are traced")
	f.BoolVar(&o.Unmeasured, "unmeasured", false, "measure nothing")
	f.DurationVar(&o.StartTimeout, "start-timeout", time.Minute, "how long an operation may stay in STARTING")
	f.Func("latency", "how long what runs in the simulator takes to become ready and to go", func(text string) error {
		d, err := time.ParseDuration(text)
		o.Cloud.SetLatency(d)
		return err
	})
	f.Func("away", "a VIM of the simulator that is away, and how: NAME="+Refused+" or NAME="+Hanging, func(text string) error {
		vim, how, _ := strings.Cut(text, "=")
		return setAway(o.Cloud, vim, how)
	})
	if err := f.Parse(args); err != nil {
		return err
	}
	maintenance.BoundMemory(ctx, o.Log)
	stop, err := profile(os.Getenv(EnvProfile))
	if err != nil {
		return err
	}
	if err := os.Remove(socket(o.Data)); err != nil && !errors.Is(err, fs.ErrNotExist) { // of one that was killed
		return err
	}
	control, err := net.Listen("unix", socket(o.Data))
	if err != nil {
		return err
	}
	server := &http.Server{ReadHeaderTimeout: time.Minute, Handler: switches(o.Cloud)}
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

// switches are the requests that a [Client] makes.
func switches(cloud *sim.Cloud) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /observes", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, cloud.Calls().Observes) })
	set := func(pattern string, do func(r *http.Request) error) {
		mux.HandleFunc("POST "+pattern, func(w http.ResponseWriter, r *http.Request) {
			if err := do(r); err != nil {
				http.Error(w, err.Error(), http.StatusBadRequest)
			}
		})
	}
	set("/units", func(r *http.Request) error {
		n, err := strconv.Atoi(r.FormValue("units"))
		if err == nil {
			cloud.Resize(r.FormValue("object"), n)
		}
		return err
	})
	for path, do := range map[string]func(object, reason string){
		"/drift": func(object, _ string) { cloud.Drift(object) },
		"/lose":  func(object, _ string) { cloud.Lose(object) },
		"/fail":  cloud.Fail,
	} {
		set(path, func(r *http.Request) error {
			do(r.FormValue("object"), r.FormValue("reason"))
			return nil
		})
	}
	set("/away", func(r *http.Request) error { return setAway(cloud, r.FormValue("vim"), r.FormValue("how")) })
	set("/latency", func(r *http.Request) error {
		d, err := time.ParseDuration(r.FormValue("latency"))
		if err == nil {
			cloud.SetLatency(d)
		}
		return err
	})
	return mux
}

func setAway(cloud *sim.Cloud, vim, how string) error {
	switch how {
	case Back:
		cloud.SetVIMAway(vim, nil, false)
	case Refused:
		cloud.SetVIMAway(vim, errors.New("connection refused"), false)
	case Hanging:
		cloud.SetVIMAway(vim, errors.New("no answer"), true)
	default:
		return fmt.Errorf("VIM %q can't be away as %q: want %q, %q or nothing", vim, how, Refused, Hanging)
	}
	return nil
}

// profile begins a profile of the CPU; stop ends it and writes one of the heap.
func profile(name string) (stop func() error, err error) {
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
