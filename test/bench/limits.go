package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os/exec"
	"time"

	"github.com/jibe-vnfm/jibe/test/process"
)

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
