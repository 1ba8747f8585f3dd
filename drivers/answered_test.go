package drivers_test

import (
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/jibe-vnfm/jibe/drivers"
)

// quietServer serves nothing, by these settings of TLS, or in clear.
func quietServer(t *testing.T, settings *tls.Config) *httptest.Server {
	t.Helper()
	s := httptest.NewUnstartedServer(http.NotFoundHandler())
	s.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	if s.TLS = settings; settings == nil {
		s.Start()
	} else {
		s.StartTLS()
	}
	t.Cleanup(s.Close)
	return s
}

// endOf has a connection of TLS end by what the server does with it.
func endOf(t *testing.T, serve func(net.Conn)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			serve(c)
		}
	}()
	return l.Addr().String()
}

func TestAVIMThatAnswersIsNotGone(t *testing.T) {
	t.Parallel()

	closed := quietServer(t, nil)
	closed.Close()
	for name, c := range map[string]struct {
		address  string
		answered bool
	}{
		"a server that demands a client certificate": {quietServer(t, &tls.Config{ClientAuth: tls.RequireAnyClientCert}).Listener.Addr().String(), true},
		"one of other versions of TLS":               {quietServer(t, &tls.Config{MaxVersion: tls.VersionTLS12}).Listener.Addr().String(), true},
		"one that doesn't speak TLS":                 {quietServer(t, nil).Listener.Addr().String(), true},
		"one whose first record is none":             {endOf(t, func(c net.Conn) { _, _ = c.Write([]byte("SSH-2.0-OpenSSH_9.2\r\n")); _, _ = io.Copy(io.Discard, c) }), true},
		"a closed port":                              {closed.Listener.Addr().String(), false},
		"a load balancer with nothing behind it":     {endOf(t, func(c net.Conn) { _ = c.Close() }), false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS13}}} //nolint:gosec // what the server shows doesn't matter here
			defer client.CloseIdleConnections()
			resp, err := client.Get("https://" + c.address)
			if err == nil {
				_ = resp.Body.Close()
				t.Fatal("it answered the request")
			}
			if got := drivers.Answered(errors.Join(drivers.ErrUnavailable, err)); got != c.answered {
				t.Errorf("answered = %v for %v", got, err)
			}
		})
	}
}
