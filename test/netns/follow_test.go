package netns

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jibe-vnfm/jibe/test/kit"
)

// cloud is one in memory.
type cloud struct {
	mu      sync.Mutex
	servers []Server
	err     error
	asked   int
}

func (c *cloud) Servers(context.Context) ([]Server, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked++
	return slices.Clone(c.servers), c.err
}

// lookedAt waits until a whole look was taken at what the cloud is now: until the one after
// it has begun.
func (c *cloud) lookedAt(t *testing.T) {
	t.Helper()
	asked := func() int {
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.asked
	}
	since := asked()
	kit.Until(t, "two looks at the cloud", func() bool { return asked() >= since+2 })
}

func (c *cloud) change(servers []Server, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.servers, c.err = servers, err
}

// server waits until the application at the address tells that it is that server's.
func server(t *testing.T, l *Lab, addr, id string) Answer {
	t.Helper()
	var a Answer
	kit.Until(t, "the application of server "+id+" at "+addr, func() bool {
		h := l.Host(addrs(addr)[0])
		if h == nil {
			return false
		}
		var err error
		a, err = Ask(t.Context(), h.URL())
		return err == nil && a.Labels["server"] == id
	})
	return a
}

func follow(t *testing.T, l *Lab, c Cloud, how Followed) {
	t.Helper()
	how.Every = 20 * time.Millisecond
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); l.Follow(ctx, c, how) }()
	t.Cleanup(func() { cancel(); <-done })
}

func TestHostsFollowTheServersOfACloud(t *testing.T) {
	l := Start(t, "10.201.6.0/24")
	own := add(t, l, Spec{Name: "lb", Addrs: addrs("10.201.6.2"), NoWeb: true})
	one := Server{ID: "s-1", LaunchedAt: "1", Name: "web", Up: true, Addrs: addrs("192.0.2.7", "10.201.6.10"), Image: "img1", Metadata: map[string]string{"role": "a"}}
	elsewhere := Server{ID: "s-9", Name: "far", Up: true, Addrs: addrs("192.0.2.8")}
	down := Server{ID: "s-8", Name: "down", Addrs: addrs("10.201.6.18")}
	c := &cloud{servers: []Server{one, elsewhere, down}}
	follow(t, l, c, Followed{Only: func(s Server) bool { return s.Name != "not ours" }})
	if a := server(t, l, "10.201.6.10", "s-1"); a.Host != "web" || a.Labels["image"] != "img1" || a.Labels["role"] != "a" {
		t.Errorf("it said %+v", a)
	}

	// A cloud that can't be asked has not lost its servers.
	c.change(nil, errors.New("503"))
	c.lookedAt(t)
	first := l.Host(addrs("10.201.6.10")[0])
	if len(l.Hosts()) != 2 || first == nil {
		t.Fatalf("the hosts are %v", l.Hosts())
	}

	// The host of a server shows what is new of it.
	if err := first.WriteFile("/etc/vnf.json", []byte(`{"kept": true}`), 0); err != nil {
		t.Fatal(err)
	}
	one.Metadata = map[string]string{"role": "b"}
	c.change([]Server{one, {ID: "s-7", Name: "not ours", Up: true, Addrs: addrs("10.201.6.17")}}, nil)
	kit.Until(t, "the host to know the new metadata", func() bool {
		a, err := Ask(t.Context(), first.URL())
		return err == nil && a.Labels["role"] == "b" && a.Config["kept"] == true
	})

	// A rebuilt server is another machine at the address, and so is a successor.
	one.LaunchedAt, one.Image = "2", "img2"
	c.change([]Server{one}, nil)
	kit.Until(t, "another host at the address of the rebuilt server", func() bool { h := l.Host(first.Addr()); return h != nil && h != first })
	if a := server(t, l, "10.201.6.10", "s-1"); a.Labels["image"] != "img2" || len(a.Config) != 0 {
		t.Errorf("after a rebuild it said %+v", a)
	}
	c.change([]Server{{ID: "s-2", Name: "next", Up: true, Addrs: addrs("10.201.6.10")}}, nil)
	server(t, l, "10.201.6.10", "s-2")

	c.change(nil, nil)
	kit.Until(t, "the hosts of all servers to go", func() bool { return len(l.Hosts()) == 1 })
	if all := l.Hosts(); all[0] != own {
		t.Errorf("a host that isn't a server's is gone; there is %v", all[0].Spec.Name)
	}
}

func TestAServerWhoseAddressIsTakenGetsItsHostOnceThatIsFree(t *testing.T) {
	l := Start(t, "10.201.7.0/24")
	squatter := add(t, l, Spec{Name: "squatter", Addrs: addrs("10.201.7.10"), NoWeb: true})
	c := &cloud{servers: []Server{{ID: "s-1", Name: "vm", Up: true, Addrs: addrs("10.201.7.10")}}}
	follow(t, l, c, Followed{})
	c.lookedAt(t)
	if l.Host(squatter.Addr()) != squatter {
		t.Error("it was taken away")
	}
	squatter.Remove()
	server(t, l, "10.201.7.10", "s-1")
}

func TestAnyNameOfAServerMakesAHostName(t *testing.T) {
	for server, want := range map[string]string{
		"sample_server": "sample-server", "VDU1-0": "VDU1-0", "_": "server", "": "server", "vm.example.org/ü": "vm-example-org",
		strings.Repeat("a", 62) + "_b": strings.Repeat("a", 62),
	} {
		if got := hostName(server); got != want {
			t.Errorf("%q becomes %q, want %q", server, got, want)
		}
	}
}
