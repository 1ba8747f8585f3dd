package gitrepo

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/textproto"
	"os"
	"os/exec"
	"strconv"
	"strings"

	"github.com/jibe-vnfm/jibe/internal/git"
)

// maxBackendHeader bounds what git http-backend says before its answer, in bytes.
const maxBackendHeader = 64 << 10

// run has git http-backend answer a request, by CGI (RFC 3875). Nothing of git outlives it: a client that leaves, or that reads
// nothing until its connection is ended, takes the processes of its fetch along. A push goes on without its client, as it
// may have moved a ref already, and a git that is killed leaves locks.
func (s Served) run(w http.ResponseWriter, req *http.Request, command []string, body *os.File, push bool) error {
	cmd := exec.Command(command[0], command[1:]...)
	git.InGroup(cmd)
	cmd.Dir = s.Dir
	cmd.Env = append(append(git.Runner{Dir: s.Dir}.Environ(), s.environ()...), backendRequest(req)...)
	if body != nil {
		cmd.Stdin = body
	}
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		http.Error(w, "git http-backend can't be started on the server", http.StatusInternalServerError)
		return err
	}
	left := func() {}
	if !push {
		left = killWithClient(req.Context(), cmd)
	}

	err = relay(w, out)
	left()
	if err != nil && push {
		_, _ = io.Copy(io.Discard, out)
	} else if err != nil {
		_ = git.KillGroup(cmd) // before it is waited for: its number can't be another's yet
	}
	if werr := cmd.Wait(); err == nil {
		err = werr
	}
	if req.Context().Err() != nil {
		return nil // the client has left
	}
	return err
}

// killWithClient ends a command and what it has started when ctx does. The command must be waited for after the returned function
// was called: a number that it has no longer could be another's.
func killWithClient(ctx context.Context, cmd *exec.Cmd) (stop func()) {
	killed := make(chan struct{})
	cancel := context.AfterFunc(ctx, func() {
		defer close(killed)
		_ = git.KillGroup(cmd)
	})
	return func() {
		if !cancel() {
			<-killed
		}
	}
}

// relay passes an answer of git http-backend on.
func relay(w http.ResponseWriter, out io.Reader) error {
	head := &io.LimitedReader{R: out, N: maxBackendHeader}
	r := bufio.NewReader(head)
	header, err := textproto.NewReader(r).ReadMIMEHeader()
	if err != nil {
		http.Error(w, "git http-backend gave no answer", http.StatusInternalServerError)
		return fmt.Errorf("git http-backend gave no answer: %w", err)
	}
	head.N = 1<<63 - 1

	status := http.StatusOK
	if said := header.Get("Status"); said != "" {
		code, _, _ := strings.Cut(said, " ")
		if status, err = strconv.Atoi(code); err != nil || status < 200 || status > 599 {
			http.Error(w, "git http-backend gave no answer", http.StatusInternalServerError)
			return fmt.Errorf("git http-backend answers %q", said)
		}
		header.Del("Status")
	}
	for key, values := range header {
		w.Header()[key] = values
	}
	w.WriteHeader(status)
	_, err = io.Copy(w, r)
	return err
}

// backendRequest is the request as CGI has it, as far as git http-backend asks.
func backendRequest(req *http.Request) []string {
	from, _, err := net.SplitHostPort(req.RemoteAddr)
	if err != nil {
		from = req.RemoteAddr
	}
	env := []string{
		"GATEWAY_INTERFACE=CGI/1.1", "SERVER_PROTOCOL=HTTP/1.1", "REQUEST_METHOD=" + req.Method, "PATH_INFO=" + req.URL.Path, "QUERY_STRING=" + req.URL.RawQuery,
		"CONTENT_TYPE=" + req.Header.Get("Content-Type"), "REMOTE_ADDR=" + from,
	}
	if req.ContentLength > 0 {
		env = append(env, "CONTENT_LENGTH="+strconv.FormatInt(req.ContentLength, 10))
	}
	if protocol := req.Header.Get("Git-Protocol"); protocol != "" {
		env = append(env, "HTTP_GIT_PROTOCOL="+protocol)
	}
	return env
}
