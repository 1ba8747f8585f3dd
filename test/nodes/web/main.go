// Command web is what test images run: an HTTP server that tells where and as what it
// runs, and that takes leave of its clients before it ends.
//
//	GET /            its pod, image and version, as JSON ([Answer])
//	GET /env         its environment
//	GET /file?name=  a file that it sees, "404" where there is none
//	PUT /file?name=  writes the file, which must be durable before it answers
//	GET /slow        as /, after "seconds"
//	GET /ready       200, and 503 once it is draining
//	POST /drain      from now on it isn't ready
//	POST /exit       it ends with the exit code "code", as a fault would
//
// It listens at port PORT, or else at 80 and 8080: it plays images that listen at either.
//
// Called as "web drain", as a preStop hook does, it asks the server to drain, and waits DRAIN_SECONDS
// (default 3), in which those who route to it learn of it. On SIGTERM it answers what it
// has begun with, and ends.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"
)

// Answer is what it tells of itself.
type Answer struct {
	Pod      string `json:"pod"`
	Image    string `json:"image"`
	Version  string `json:"version"`
	Started  string `json:"started"`
	Draining bool   `json:"draining"`
}

// say writes a line to the container's log.
func say(format string, args ...any) {
	fmt.Fprintf(os.Stderr, time.Now().UTC().Format("15:04:05.000000 ")+format+"\n", args...)
}

// ports are where it listens.
func ports() []string {
	if p := os.Getenv("PORT"); p != "" {
		return []string{p}
	}
	return []string{"8080", "80"}
}

func main() {
	do := serve
	if len(os.Args) > 1 && os.Args[1] == "drain" {
		do = drain
	}
	if err := do(); err != nil {
		say("%v", err)
		os.Exit(1)
	}
}

func drain() error {
	resp, err := http.Post("http://127.0.0.1:"+ports()[0]+"/drain", "", nil)
	if err != nil {
		return err
	}
	resp.Body.Close()
	seconds, err := strconv.Atoi(os.Getenv("DRAIN_SECONDS"))
	if err != nil {
		seconds = 3
	}
	// In many parts, so that a machine that stood still for a while, and they with it, doesn't count as time in
	// which they could learn of it.
	for range 10 * seconds {
		time.Sleep(time.Second / 10)
	}
	return nil
}

func serve() error {
	var draining atomic.Bool
	host, err := os.Hostname()
	if err != nil {
		return err
	}
	self := Answer{Pod: host, Image: os.Getenv("IMAGE"), Version: os.Getenv("VERSION"), Started: time.Now().UTC().Format(time.RFC3339Nano)}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		a := self
		a.Draining = draining.Load()
		answer(w, a)
	})
	mux.HandleFunc("GET /env", func(w http.ResponseWriter, _ *http.Request) { answer(w, os.Environ()) })
	mux.HandleFunc("GET /file", func(w http.ResponseWriter, r *http.Request) {
		data, err := os.ReadFile(r.URL.Query().Get("name"))
		if err != nil {
			http.Error(w, err.Error(), http.StatusNotFound)
			return
		}
		_, _ = w.Write(data)
	})
	mux.HandleFunc("PUT /file", func(w http.ResponseWriter, r *http.Request) {
		if err := write(r.URL.Query().Get("name"), r.Body); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
		}
	})
	mux.HandleFunc("GET /slow", func(w http.ResponseWriter, r *http.Request) {
		seconds, _ := strconv.Atoi(r.URL.Query().Get("seconds"))
		time.Sleep(time.Duration(seconds) * time.Second)
		answer(w, self)
	})
	mux.HandleFunc("GET /ready", func(w http.ResponseWriter, _ *http.Request) {
		if draining.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})
	mux.HandleFunc("POST /drain", func(http.ResponseWriter, *http.Request) {
		say("draining")
		draining.Store(true)
	})
	mux.HandleFunc("POST /exit", func(_ http.ResponseWriter, r *http.Request) {
		code, _ := strconv.Atoi(r.URL.Query().Get("code"))
		say("ends with %d, as it was asked to", code)
		os.Exit(code)
	})
	server := &http.Server{Handler: mux}
	ctx, cancel := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer cancel()
	ended := make(chan error, 1)
	go func() {
		<-ctx.Done()
		say("ends")
		ended <- server.Shutdown(context.Background())
	}()
	for _, p := range ports() {
		l, err := net.Listen("tcp", ":"+p)
		if err != nil {
			return err
		}
		say("%s %s serves at %s", self.Image, self.Version, l.Addr())
		go func() {
			if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
				say("%v", err)
				os.Exit(1)
			}
		}()
	}
	return <-ended
}

func write(name string, content io.Reader) error {
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	defer f.Close()
	if _, err := io.Copy(f, content); err != nil {
		return err
	}
	return f.Sync()
}

func answer(w http.ResponseWriter, what any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(what)
}
