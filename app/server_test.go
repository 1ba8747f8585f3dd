package app_test

import (
	"context"
	"io/fs"
	"log/slog"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jibe-vnfm/jibe/app"
	"github.com/jibe-vnfm/jibe/auth"
	"github.com/jibe-vnfm/jibe/drivers/sim"
	"github.com/jibe-vnfm/jibe/internal/datadir"
	"github.com/jibe-vnfm/jibe/internal/egress"
	"github.com/jibe-vnfm/jibe/test/process"
)

// start runs the whole of Jibe in this process, on a data directory and a simulated cloud;
// remote is what its desired repository is a mirror of, "" where it is the only one. stop
// ends it in order. It polls nothing: of what comes to a remote it is told by [poke].
func start(t testing.TB, data string, cloud *sim.Cloud, remote string) (s *process.Server, stop func()) {
	t.Helper()
	return startWith(t, app.Options{Data: data, Remote: remote, Cloud: cloud, Poll: time.Hour})
}

// laidAt is where [laid] is, "" for nowhere.
var laidAt string

// laid is a data directory on which a server has run once.
var laid = sync.OnceValues(func() (data string, err error) {
	data, err = os.MkdirTemp("", "jibe-app-") // which TestMain removes
	if err != nil {
		return "", err
	}
	laidAt = data
	ctx, end := context.WithCancel(context.Background())
	defer end()
	o := app.Options{Data: data, Listen: "127.0.0.1:0", Branch: "main", Log: slog.New(slog.DiscardHandler), Ready: func(*app.Server) { end() }}
	return data, app.Run(ctx, o)
})

// lay makes a data directory, or a part of it, what the first start would make of it, by copying: that runs no git.
// A directory in which there is something stays as it is.
func lay(t testing.TB, data string, part ...string) {
	t.Helper()
	if there, err := os.ReadDir(data); err == nil && len(there) > 0 {
		return
	}
	from, err := laid()
	if err != nil {
		t.Fatal(err)
	}
	if err := filepath.WalkDir(filepath.Join(append([]string{from}, part...)...), func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		to := filepath.Join(data, strings.TrimPrefix(name, from))
		info, err := d.Info()
		switch {
		case err != nil:
			return err
		case d.IsDir():
			return os.MkdirAll(to, info.Mode().Perm())
		case !d.Type().IsRegular():
			return nil
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		return os.WriteFile(to, text, info.Mode().Perm())
	}); err != nil {
		t.Fatal(err)
	}
}

// poke tells a server that something was pushed to its remote, as a forge's webhook does.
func poke(t testing.TB, s *process.Server) {
	t.Helper()
	s.Want(t, http.StatusAccepted, http.MethodPost, "/webhook", nil, nil)
}

// desiredOf and packagesOf are the repositories of a server that a test writes past the hooks, of which such a server
// has none.
func desiredOf(t testing.TB, s *process.Server) *process.Bare { return process.BareAt(t, s.Desired()) }

func packagesOf(t testing.TB, s *process.Server) *process.Bare {
	return process.BareAt(t, filepath.Join(s.Data, "packages", "packages.git"))
}

// addSmall adds the small package to a package repository.
func addSmall(packages *process.Bare) {
	packages.CopyTree("Add the package", "small", process.SmallPackage(), nil)
}

// startWith is start with more options.
func startWith(t testing.TB, o app.Options) (s *process.Server, stop func()) {
	t.Helper()
	switch {
	case o.Store.URL != "":
	case o.Remote == "":
		lay(t, o.Data)
	default: // of which the start makes a mirror
		lay(t, o.Data, "packages")
	}
	ctx, cancel := context.WithCancel(t.Context())
	ready, done := make(chan string, 1), make(chan error, 1)
	o.OpenWebhook = o.WebhookSecret == "" // tests call it as a forge would
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
		token, err := auth.LocalToken(datadir.TokensFile(o.Data))
		if err != nil {
			t.Fatal(err)
		}
		return &process.Server{URL: "http://" + address, Data: o.Data, Token: token}, stop
	}
	return nil, nil
}

// change commits files on top of what is in a repository.
func change(b *process.Bare, files map[string]string) { b.Change("Change what the test needs", files) }
