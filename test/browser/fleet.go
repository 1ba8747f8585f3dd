package browser

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
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
	"github.com/jibe-vnfm/jibe/test/kit"
	"github.com/jibe-vnfm/jibe/test/process"
)

// Serve starts "jibe serve" with a simulated VIM, the small package and these files. It skips the test as [New] does.
func Serve(t testing.TB, files map[string]string, args ...string) *process.Server {
	t.Helper()
	need(t)

	s := process.Start(t, filepath.Join(t.TempDir(), "d"), args...)
	prepare(t, s, files)

	return s
}

func prepare(t testing.TB, s *process.Server, files map[string]string) {
	t.Helper()
	s.PushPackages(t, []string{process.SmallVnfd}, process.SmallPackage())
	all := map[string]string{"vims/sim.yaml": "type: sim\ndefault: true\n"}
	instances := 0
	for name, text := range files {
		all[name] = text
		if strings.HasSuffix(name, "/vnf.yaml") {
			instances++
		}
	}
	s.PushFiles(t, all)
	kit.Eventually(t, func() error { // the server learns of a push a moment after git has taken it
		var known []struct{ Dir string }
		if err := s.Get(t.Context(), "/jibe/v1/instances", &known); err != nil || len(known) < instances {
			return fmt.Errorf("the server knows %d instances of %d (%w)", len(known), instances, err)
		}
		return nil
	})
}

// InProcess runs the whole of Jibe in the test's process, so that the test has the simulated
// cloud in its hand: what it fails and changes there, pages show. It skips the test as [New] does.
func InProcess(t testing.TB, cloud *sim.Cloud) *process.Server {
	t.Helper()
	need(t)

	s, stop, err := run(filepath.Join(t.TempDir(), "d"), cloud)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := stop(); err != nil {
			t.Error(err)
		}
	})

	return s
}

// run is the whole of Jibe in this process until stop is called.
func run(data string, cloud *sim.Cloud) (_ *process.Server, stop func() error, err error) {
	ctx, cancel := context.WithCancel(context.Background())
	ready, done := make(chan string, 1), make(chan error, 1)
	go func() {
		done <- app.Run(ctx, app.Options{Data: data, Listen: "127.0.0.1:0", Egress: egress.Options{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}},
			Branch: "main", Cloud: cloud, Version: "test", Log: slog.New(slog.DiscardHandler), Timeout: time.Hour, StartTimeout: time.Hour, // a machine that stalls fails nothing
			Ready: func(s *app.Server) { ready <- s.Address() }})
	}()
	stop = func() error {
		cancel()
		if err := <-done; err != nil {
			return fmt.Errorf("the end of the server: %w", err)
		}
		return nil
	}

	select {
	case err := <-done:
		cancel()
		return nil, nil, fmt.Errorf("the server ended: %w", err)
	case address := <-ready:
		token, err := auth.LocalToken(datadir.TokensFile(data))
		if err != nil {
			return nil, nil, errors.Join(err, stop())
		}
		return &process.Server{URL: "http://" + address, Data: data, Token: token}, stop, nil
	}
}

// Empty is the whole of Jibe in the test's process ([InProcess]) with nothing in git.
func Empty(t testing.TB) (*process.Server, *sim.Cloud) {
	t.Helper()
	cloud := sim.NewCloud()
	return InProcess(t, cloud), cloud
}

// Small is [Empty] with the small package, a simulated VIM and these files.
func Small(t testing.TB, files map[string]string) (*process.Server, *sim.Cloud) {
	t.Helper()
	s, cloud := Empty(t)
	prepare(t, s, files)
	return s, cloud
}

// ID is the id of the n-th instance of a test.
func ID(n int) string { return fmt.Sprintf("3a5c1f0e-0000-4000-8000-%012x", n) }

// VNF is the text of a vnf.yaml of the small package, in a namespace of its own; more are lines
// that follow.
func VNF(n int, name, more string) string {
	return fmt.Sprintf("id: %s\nname: %s\nvnfdId: %s\nflavour: simple\nparams: {namespace: n%d}\n%s", ID(n), name, process.SmallVnfd, n, more)
}

// Object is the key of the object that the units of the n-th instance belong to.
func Object(n int) string { return fmt.Sprintf("Workload/n%d/vdu1", n) }

// sample is the fleet of [Sample], nil until a test has asked for it.
var sample struct {
	mu     sync.Mutex
	server *process.Server
}

// Sample is a small fleet in which each state of health occurs. Tests share it, so they only look at it: they may
// propose branches, and commit nothing to the one that runs. It skips the test as [New] does.
func Sample(t testing.TB) *process.Server {
	t.Helper()
	need(t)
	sample.mu.Lock()
	defer sample.mu.Unlock()

	if sample.server == nil {
		dir, err := os.MkdirTemp("", "jibe-browser-test-")
		if err != nil {
			t.Fatal(err)
		}
		atEnd(func() error { return os.RemoveAll(dir) })

		cloud := sim.NewCloud()
		s, stop, err := run(filepath.Join(dir, "d"), cloud)
		if err != nil {
			t.Fatal(err)
		}
		atEnd(stop)

		populate(t, s, cloud)
		sample.server = s
	}

	return sample.server
}

// populate returns when each state of health occurs.
func populate(t testing.TB, s *process.Server, cloud *sim.Cloud) {
	t.Helper()
	cloud.Fail(Object(1), "the image small:1 isn't there")
	files := map[string]string{
		"instances/berlin/core/amf-1/vnf.yaml":                      VNF(1, "amf-1", "description: control plane, west\n"),
		"instances/berlin/core/smf-1/vnf.yaml":                      VNF(2, "smf-1", ""),
		"instances/berlin/core/smf-2/vnf.yaml":                      VNF(3, "smf-2", "drift: report\n"),
		"instances/berlin/core/nrf/vnf.yaml":                        VNF(4, "nrf", "suspend: true\n"),
		"instances/hamburg/edge-1/upf-1/vnf.yaml":                   VNF(5, "upf-1", ""),
		"instances/hamburg/edge-1/upf-2/vnf.yaml":                   VNF(6, "upf-2", "state: notInstantiated\n"),
		"instances/hamburg/edge-2/upf-3/vnf.yaml":                   VNF(7, "upf-3", "state: notInstantiated\nheld: 0c6b1a52-5f0e-4d53-9d8a-3c1f5a0e7b11\n"),
		"instances/paris/lab/ausf/vnf.yaml":                         VNF(8, "ausf", "levels: {front: 99}\n"),
		"instances/paris/lab/udm-with-a-name-that-is-long/vnf.yaml": VNF(9, "udm-with-a-name-that-is-long", ""),
		"instances/paris/lab/pcf/vnf.yaml":                          VNF(10, "pcf", ""),
	}
	for n := 11; n <= 30; n++ {
		files[fmt.Sprintf("instances/hamburg/edge-3/upf-%d/vnf.yaml", n)] = VNF(n, fmt.Sprintf("upf-%d", n), "")
	}
	prepare(t, s, files)
	Await(t, s, 2, "INSTANTIATED")
	Await(t, s, 3, "INSTANTIATED")
	Await(t, s, 5, "INSTANTIATED")
	Await(t, s, 9, "INSTANTIATED")
	Await(t, s, 10, "INSTANTIATED")
	for n := 11; n <= 30; n++ {
		Await(t, s, n, "INSTANTIATED")
	}
	cloud.Drift(Object(3))
	cloud.Hold(Object(5), true)
	s.PushFiles(t, map[string]string{
		"instances/hamburg/edge-1/upf-1/vnf.yaml": VNF(5, "upf-1", "state: notInstantiated\n"),
		"instances/paris/lab/pcf/vnf.yaml":        VNF(10, "pcf", "state: stopped\n"),
	})
	Pinned(t, s, "instances/berlin/core/amf-1/vnf.yaml")
	Pinned(t, s, "instances/paris/lab/pcf/vnf.yaml")
}

// Pinned waits until Jibe has filled in what the VNF of a file at head runs as, and where: after that it makes no
// commit of its own any more, which a test could take for another one.
func Pinned(t testing.TB, s *process.Server, file string) {
	t.Helper()
	kit.Eventually(t, func() error {
		text, err := process.Git(t.Context(), s.Desired(), "show", "main:"+file)
		if err == nil && (!strings.Contains(text, "\npackage: ") || !strings.Contains(text, "\nvim: ")) {
			err = fmt.Errorf("%s isn't pinned: %s", file, text)
		}
		return err
	})
}

// Await waits until the API says that an instance is in a state.
func Await(t testing.TB, s *process.Server, n int, state string) {
	t.Helper()
	kit.Eventually(t, func() error {
		var in struct{ InstantiationState string }
		if err := s.Get(t.Context(), process.Instances+"/"+ID(n), &in); err != nil {
			return err
		}
		if in.InstantiationState != state {
			return fmt.Errorf("instance %d is %s, want %s", n, in.InstantiationState, state)
		}
		return nil
	})
}
