package app_test

import (
	"context"
	"log/slog"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/jibe-vnfm/jibe/app"
	"github.com/jibe-vnfm/jibe/drivers/sim"
	"github.com/jibe-vnfm/jibe/internal/egress"
	"github.com/jibe-vnfm/jibe/test/process"
)

// start runs the whole of Jibe in this process, on a data directory and a simulated cloud;
// remote is what its desired repository is a mirror of, "" where it is the only one. stop
// ends it in order.
func start(t testing.TB, data string, cloud *sim.Cloud, remote string) (s *process.Server, stop func()) {
	t.Helper()
	return startWith(t, app.Options{Data: data, Remote: remote, Cloud: cloud, Poll: 50 * time.Millisecond})
}

// startWith is start with more options.
func startWith(t testing.TB, o app.Options) (s *process.Server, stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ready, done := make(chan string, 1), make(chan error, 1)
	o.Listen, o.Branch, o.Egress = "127.0.0.1:0", "main", egress.Options{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	o.Ready = func(s *app.Server) { ready <- s.Address() }
	go func() { done <- app.Run(ctx, o) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("the end of the server: %v", err)
		}
	})
	select {
	case err := <-done:
		cancel()
		t.Fatal(err)
	case address := <-ready:
		token, err := app.LocalToken(o.Data)
		if err != nil {
			t.Fatal(err)
		}
		return &process.Server{URL: "http://" + address, Data: o.Data, Token: token}, stop
	}
	return nil, nil
}

// change commits files and pushes them.
func change(t *testing.T, c *process.Clone, files map[string]string) {
	t.Helper()
	if err := c.Reset(t.Context()); err != nil {
		t.Fatal(err)
	}
	for name, text := range files {
		if err := c.Write(name, text); err != nil {
			t.Fatal(err)
		}
	}
	push(t, c)
}

func push(t *testing.T, c *process.Clone) {
	t.Helper()
	if _, err := c.Commit(t.Context(), "Change what the test needs"); err != nil {
		t.Fatal(err)
	}
	lands(t, c)
}

// lands pushes what the clone has committed, on top of what Jibe commits meanwhile.
func lands(t *testing.T, c *process.Clone) {
	t.Helper()
	for {
		err := c.Push(t.Context())
		if err == nil {
			return
		}
		if !process.Overtaken(err) {
			t.Fatal(err)
		}
		if err := c.Rebase(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}
