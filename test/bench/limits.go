package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os/exec"
	"time"

	"github.com/jibe-vnfm/jibe/test/process"
)

// encoded is how many entries of a list a second are made JSON of, and nothing else: n instances at a server.
func encoded(n int, url string) (float64, error) {
	type entry struct {
		ID       string                       `json:"id"`
		Name     string                       `json:"vnfInstanceName"`
		VnfdID   string                       `json:"vnfdId"`
		Provider string                       `json:"vnfProvider"`
		Product  string                       `json:"vnfProductName"`
		Version  string                       `json:"vnfSoftwareVersion"`
		State    string                       `json:"instantiationState"`
		Links    map[string]map[string]string `json:"_links"`
	}
	begin := time.Now()
	for i := range n {
		id := instanceID("fill", i)
		links := map[string]map[string]string{}
		for _, name := range []string{"self", "terminate", "scale", "heal", "changeExtConn", "changeCurrentVnfPkg"} {
			links[name] = map[string]string{"href": url + process.Instances + "/" + id + "/" + name}
		}
		if _, err := json.Marshal(entry{id, nameOf(i), vnfdID, "Jibe Benchmarks", "tiny", "1.0", "INSTANTIATED", links}); err != nil {
			return 0, err
		}
	}
	return float64(n) / time.Since(begin).Seconds(), nil
}

// bareLoop is a server in this process that takes every request and does nothing.
func bareLoop() (j *jibe, stop func(), err error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, nil, err
	}
	empty := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet {
			w.WriteHeader(http.StatusAccepted)
			return
		}
		_, _ = io.WriteString(w, "[{}]") // the client says where it fails
	})}
	go func() { _ = empty.Serve(listener) }() // it ends with Close
	return &jibe{Server: &process.Server{URL: "http://" + listener.Addr().String()}}, func() { _ = empty.Close() }, nil
}

// gitReads is how long git takes to read all files of a branch.
func gitReads(ctx context.Context, dir, branch string) (time.Duration, error) {
	begin := time.Now()
	list := exec.CommandContext(ctx, "git", "--git-dir="+dir, "ls-tree", "-r", "--format=%(objectname)", branch)
	list.Env = process.Environment()
	names, err := list.StdoutPipe()
	if err != nil {
		return 0, err
	}
	var problems bytes.Buffer
	read := exec.CommandContext(ctx, "git", "--git-dir="+dir, "cat-file", "--batch", "--buffer")
	read.Env, read.Stdin, read.Stdout = process.Environment(), names, io.Discard
	list.Stderr, read.Stderr = &problems, &problems
	if err := list.Start(); err != nil {
		return 0, err
	}
	err = read.Run()
	if waited := list.Wait(); err == nil {
		err = waited
	}
	if err != nil {
		return 0, fmt.Errorf("git reads all files of %s: %w: %s", branch, err, &problems)
	}
	return time.Since(begin), nil
}

// limits takes what nothing that does the same can be faster than here.
func (s *size) limits(ctx context.Context) error {
	rate, err := encoded(s.n, s.server.URL)
	if err != nil {
		return err
	}
	s.set(s.column, figure{name: "limit: encoding of such entries alone", unit: perSecond}, rate)
	took, err := syncs(s.tmp)
	if err != nil {
		return err
	}
	s.took(fixed("limit: 4 KiB and fsync, p50"), took.median())
	bare, stop, err := bareLoop()
	if err != nil {
		return err
	}
	defer stop()
	all := make(times, writersMake)
	err = bare.clients(ctx, writers, len(all), func(w *wire, i int) error {
		begin := time.Now()
		_, err := modifying().send(w, i)
		all[i] = time.Since(begin)
		return err
	})
	s.took(fixed(fmt.Sprintf("limit: the same requests of %d clients, answered by a bare loop, p50", writers)), all.median())
	return err
}
