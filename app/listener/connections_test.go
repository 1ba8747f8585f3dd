package listener

import (
	"bufio"
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/jibe-vnfm/jibe/test/kit"
)

func TestConnectionsHaveABoundInAllAndForEachAddress(t *testing.T) {
	t.Parallel()

	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	bound := Connections{All: 3, Each: 2}.bound(l, func(a netip.Addr) bool { return a.String() == "192.0.2.3" }, slog.New(slog.DiscardHandler)).(*boundListener)
	for _, c := range []struct {
		from string
		want bool
	}{{"192.0.2.1", true}, {"192.0.2.1", true}, {"192.0.2.1", false}, {"192.0.2.2", true}, {"127.0.0.1", true}, {"127.0.0.1", true}, {"127.0.0.1", true},
		{"192.0.2.3", true}, {"192.0.2.3", true}, {"192.0.2.3", true}} {
		if got := bound.take(netip.MustParseAddr(c.from)); got != c.want {
			t.Errorf("%s: %v", c.from, got)
		}
	}
	bound = Connections{All: 3}.bound(l, func(netip.Addr) bool { return false }, slog.New(slog.DiscardHandler)).(*boundListener)
	server := defaultLimits().server(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}), slog.New(slog.DiscardHandler))
	done := make(chan error, 1)
	go func() { done <- server.Serve(bound) }()
	var open []net.Conn
	answered := func(c net.Conn, within time.Duration) error {
		// Before the deadline, which a busy machine may pass at once: the request is to be there when its turn comes.
		if _, err := io.WriteString(c, "GET / HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
			return err
		}
		if err := c.SetDeadline(time.Now().Add(within)); err != nil {
			t.Fatal(err)
		}
		res, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err == nil {
			res.Body.Close()
		}
		return err
	}
	for i := range 4 {
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		open = append(open, c)
		if i < 3 {
			if err := answered(c, time.Minute); err != nil {
				t.Errorf("connection %d: %v", i, err)
			}
		}
	}
	if err := answered(open[3], 200*time.Millisecond); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("a connection too many: %v", err)
	}
	open[0].Close() // another one's end is its beginning
	if err := open[3].SetDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	if _, err := http.ReadResponse(bufio.NewReader(open[3]), nil); err != nil {
		t.Error(err)
	}
	server.Close()
	if err := <-done; !errors.Is(err, http.ErrServerClosed) {
		t.Error(err)
	}
	kit.Until(t, "nothing is kept of connections that ended", func() bool {
		bound.mu.Lock()
		defer bound.mu.Unlock()
		return len(bound.by) == 0
	})
}

func TestAConnectionOfHTTP2HasFewRequestsUnderWayAtOnce(t *testing.T) {
	t.Parallel()

	dir := t.TempDir()
	certFile, keyFile := filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key")
	kit.Issue(t, certFile, keyFile, 1)
	c, err := newCertificate(certFile, keyFile, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	address := serveTLS(t, c, func(http.ResponseWriter, *http.Request) {})
	conn, err := tls.Dial("tcp", address, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if got := conn.ConnectionState().NegotiatedProtocol; got != "h2" {
		t.Fatalf("speaks %q", got)
	}
	if err := conn.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(conn, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00"); err != nil {
		t.Fatal(err)
	}
	// The first frame is SETTINGS (RFC 9113 clause 3.4): pairs of 2 and 4 bytes.
	head := make([]byte, 9)
	if _, err := io.ReadFull(conn, head); err != nil || head[3] != 4 {
		t.Fatalf("% x, %v", head, err)
	}
	settings := make([]byte, int(head[0])<<16|int(head[1])<<8|int(head[2]))
	if _, err := io.ReadFull(conn, settings); err != nil {
		t.Fatal(err)
	}
	streams := 0
	for ; len(settings) >= 6; settings = settings[6:] {
		if settings[1] == 3 { // MAX_CONCURRENT_STREAMS
			streams = int(settings[2])<<24 | int(settings[3])<<16 | int(settings[4])<<8 | int(settings[5])
		}
	}
	if streams != 100 {
		t.Errorf("%d requests may be under way", streams)
	}
}
