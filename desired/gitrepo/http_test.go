package gitrepo

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/jibe-vnfm/jibe/test/kit"
)

// http-backend waits in a busy loop for the rest of what it is sent.
func TestAPushThatBreaksOffHalfWayLeavesNothingRunning(t *testing.T) {
	t.Parallel()

	r := withHook(t)
	ended := make(chan struct{}, 1)
	handler := r.HTTPHandler()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		handler.ServeHTTP(w, req)
		ended <- struct{}{}
	}))
	t.Cleanup(srv.CloseClientConnections)
	conn, err := net.Dial("tcp", srv.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	_, err = fmt.Fprintf(conn, "POST /git-receive-pack HTTP/1.1\r\nHost: jibe\r\nContent-Type: application/x-git-receive-pack-request\r\nContent-Length: 731\r\n\r\n00a1")
	if err != nil {
		t.Fatal(err)
	}
	if err := conn.Close(); err != nil {
		t.Fatal(err)
	}
	select {
	case <-ended:
	case <-time.After(kit.Patience):
		t.Fatal("the request is still served")
	}
}
