package packages

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jibe-vnfm/jibe/hooks"
	"github.com/jibe-vnfm/jibe/hooks/confine"
	"github.com/jibe-vnfm/jibe/test/kit"
	"github.com/jibe-vnfm/jibe/test/netns"
	"github.com/jibe-vnfm/jibe/vnfd"
)

// site is a load balancer and VNFCs in namespaces, and the runner of hooks.
type site struct {
	*testing.T
	lab      *netns.Lab
	balancer *netns.Host
	runner   *hooks.Runner
	vnfcs    map[string]*netns.Host // by name
}

func newSite(t *testing.T, subnet string, vnfcs ...string) *site {
	t.Helper()
	s := &site{T: t, lab: netns.Start(t, subnet), vnfcs: map[string]*netns.Host{}}
	netns.NeedParamiko(t)
	// Not below the test's own directory, which nobody else may pass through.
	dir, err := os.MkdirTemp("", "hooks-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	s.runner = &hooks.Runner{Dir: filepath.Join(dir, "runs"), Confinement: hooks.Confinement{Launcher: []string{os.Args[0], confine.Command}}, Log: func(_ hooks.Input, program, line string) { t.Log(program, line) }}
	if err := os.Chmod(dir, 0o711); err != nil {
		t.Fatal(err)
	}
	addr := s.lab.Gateway
	next := func() netip.Addr { addr = addr.Next(); return addr }
	if s.balancer, err = s.lab.AddBalancer(t.Context(), next(), netns.Spec{Name: "lb"}); err != nil {
		t.Fatal(err)
	}
	for _, name := range vnfcs {
		s.vnfcs[name], err = s.lab.Add(t.Context(), netns.Spec{Name: name, Addrs: []netip.Addr{next()}, Labels: map[string]string{"server": name}})
		if err != nil {
			t.Fatal(err)
		}
	}
	return s
}

func (s *site) targets(names ...string) []hooks.Target {
	var all []hooks.Target
	for _, name := range names {
		all = append(all, hooks.Target{
			VduID: "VDU1", Unit: hooks.Unit{ID: name + "@1", Name: name, Ready: true}, CpName: "CP1",
			Address: s.vnfcs[name].Addr().String(), Username: "ubuntu", Password: "ubuntu",
		})
	}
	return all
}

// run runs a script of the package as Jibe does.
func (s *site) run(script string, change func(*hooks.Input)) (string, error) {
	s.Helper()
	in := hooks.Input{
		Hook:     strings.TrimSuffix(script, ".py"),
		Instance: hooks.Instance{ID: "9c5f0b1a-4c1d-5c55-8f0f-6f2a9e1b0143"},
		Before:   &hooks.Package{VnfdID: "a", SoftwareVersion: "1.0", Tree: "1"},
		After:    &hooks.Package{VnfdID: "b", SoftwareVersion: "1.1", Tree: "2"},
		CoordinationParams: map[string]any{"external_lb_param": map[string]any{
			"ip_address": s.balancer.Addr().String(), "username": "ubuntu", "password": "ubuntu",
		}},
	}
	change(&in)
	out, err := s.runner.Run(s.Context(), hooks.Call{
		Package: &vnfd.Package{Tree: "2", Files: os.DirFS("vm-blue-green-1.1")}, Path: "Scripts/" + script, Input: in, Timeout: 2 * time.Minute,
	})
	return out.Message, err
}

func (s *site) mustRun(script string, change func(*hooks.Input)) string {
	s.Helper()
	said, err := s.run(script, change)
	if err != nil {
		s.Fatal(err)
	}
	return said
}

// front is where the VNF's clients ask.
func (s *site) front() string { return "http://" + s.balancer.At(netns.BalancerPort) }

// sendsTo fails unless the balancer sends traffic to these VNFCs, to each, and to no other.
func (s *site) sendsTo(names ...string) {
	s.Helper()
	seen := map[string]bool{}
	// Again, as the balancer leaves out for a while what was slow to answer its checks.
	kit.Eventually(s, func() error {
		for range 3 * len(names) {
			a, err := netns.AskOnce(s.Context(), s.front()+"/")
			if err != nil {
				return kit.Final(err)
			}
			seen[a.Host] = true
		}
		err := fmt.Errorf("the balancer sends traffic to %v, want %v", slices.Sorted(maps.Keys(seen)), names)
		switch got := slices.Sorted(maps.Keys(seen)); {
		case slices.Equal(got, names):
			return nil
		case slices.ContainsFunc(got, func(name string) bool { return !slices.Contains(names, name) }):
			return kit.Final(err)
		}
		return err
	})
}

// configured fails unless the application of the VNFC has the configuration.
func (s *site) configured(name, role, version string) {
	s.Helper()
	a, err := netns.AskOnce(s.Context(), s.vnfcs[name].URL())
	if err != nil {
		s.Fatal(err)
	}
	if a.Config["role"] != role || a.Config["version"] != version || a.Config["vdu"] != "VDU1" {
		s.Errorf("%s is configured as %v, want %s, version %s", name, a.Config, role, version)
	}
}

// clients ask without a pause, with new connections and with kept ones, quickly and for
// answers that take a second, until stopped; each failure is the test's.
func (s *site) clients() (answers func() int, stop func()) {
	ctx, cancel := context.WithCancel(s.Context())
	var all sync.WaitGroup
	var mu sync.Mutex
	n := 0
	for i, path := range []string{"/", "/", "/slow", "/slow"} {
		client := &http.Client{Transport: &http.Transport{DisableKeepAlives: i%2 == 0}}
		all.Go(func() {
			for ctx.Err() == nil {
				// A request that was begun is ended, so that no error is the test's own doing.
				resp, err := client.Get(s.front() + path)
				if err != nil {
					s.Errorf("GET %s: %v", path, err)
					continue
				}
				var a netns.Answer
				err = json.NewDecoder(resp.Body).Decode(&a)
				resp.Body.Close()
				if err != nil || resp.StatusCode != http.StatusOK {
					s.Errorf("GET %s: %s, %v", path, resp.Status, err)
				}
				mu.Lock()
				n++
				mu.Unlock()
				kit.Pause(s.Context(), 10*time.Millisecond)
			}
		})
	}
	answers = func() int {
		mu.Lock()
		defer mu.Unlock()
		return n
	}
	return answers, func() { cancel(); all.Wait() }
}

func TestTheBalancerIsMovedToTheNewVNFAndBackAndNoRequestFails(t *testing.T) {
	s := newSite(t, "10.202.1.0/24", "old-a", "old-b", "new-a", "new-b")
	// The old version came here as the new one of an earlier change.
	s.mustRun("coordinate_new_vnf.py", func(in *hooks.Input) {
		in.After = in.Before
		in.Targets = &hooks.Targets{Old: []hooks.Target{}, New: s.targets("old-a", "old-b")}
	})
	s.sendsTo("old-a", "old-b")
	s.configured("old-b", "active", "1.0")
	answers, stop := s.clients()

	both := &hooks.Targets{Old: s.targets("old-a", "old-b"), New: s.targets("new-a", "new-b")}
	said := s.mustRun("coordinate_new_vnf.py", func(in *hooks.Input) { in.Targets = both })
	if want := fmt.Sprintf("%s sends traffic to %s, %s", s.balancer.Addr(), s.vnfcs["new-a"].Addr(), s.vnfcs["new-b"].Addr()); !strings.HasSuffix(said, want) {
		t.Errorf("the script said %q, want … %q", said, want)
	}
	s.sendsTo("new-a", "new-b")
	s.configured("new-a", "active", "1.1")
	said = s.mustRun("coordinate_old_vnf.py", func(in *hooks.Input) { in.Targets = both })
	if strings.Contains(said, "cut") {
		t.Errorf("connections were left: %s", said)
	}
	s.configured("old-a", "standby", "1.0")

	// A rollback, twice, as one that was cut short is run again.
	for range 2 {
		s.mustRun("coordinate_old_vnf.py", func(in *hooks.Input) {
			in.Hook, in.Rollback, in.Targets = "coordinate_rollback", true, both
		})
	}
	s.sendsTo("old-a", "old-b")
	s.configured("old-a", "active", "1.0")
	s.configured("old-b", "active", "1.0")

	// Forward again, and now the old machines go, as Jibe has them go.
	s.mustRun("coordinate_new_vnf.py", func(in *hooks.Input) { in.Targets = both })
	s.mustRun("coordinate_old_vnf.py", func(in *hooks.Input) { in.Targets = both })
	s.vnfcs["old-a"].Remove()
	s.vnfcs["old-b"].Remove()
	without := answers()
	kit.Until(t, "answers without the old machines", func() bool { return t.Failed() || answers() >= without+20 })
	s.sendsTo("new-a", "new-b")
	stop()
}

func TestARollingChangeConfiguresTheOneVNFCAndLeavesTheBalancer(t *testing.T) {
	s := newSite(t, "10.202.2.0/24", "vm-a", "vm-b")
	before, err := s.balancer.ReadFile("/etc/haproxy/haproxy.cfg")
	if err != nil {
		t.Fatal(err)
	}
	target := s.targets("vm-a")[0]
	s.mustRun("coordinate_new_vnf.py", func(in *hooks.Input) { in.Target = &target })
	s.configured("vm-a", "active", "1.1")
	if _, err := s.vnfcs["vm-b"].ReadFile("/etc/vnf.json"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the other VNFC was configured too: %v", err)
	}
	s.mustRun("coordinate_old_vnf.py", func(in *hooks.Input) {
		in.Hook, in.Rollback, in.Target = "coordinate_rollback", true, &target
	})
	s.configured("vm-a", "active", "1.0")
	if after, err := s.balancer.ReadFile("/etc/haproxy/haproxy.cfg"); err != nil || string(after) != string(before) {
		t.Errorf("the balancer's configuration is another: %s, %v", after, err)
	}
}

func TestTheScriptsSayWhatIsWrongAndLeaveABalancerThatWorks(t *testing.T) {
	s := newSite(t, "10.202.3.0/24", "old-a", "new-a")
	both := &hooks.Targets{Old: s.targets("old-a"), New: s.targets("new-a")}
	s.mustRun("coordinate_old_vnf.py", func(in *hooks.Input) {
		in.Hook, in.Rollback, in.Targets = "coordinate_rollback", true, both
	})
	for name, test := range map[string]struct {
		change func(*hooks.Input, map[string]any)
		want   string
	}{
		"a wrong password":     {func(in *hooks.Input, lb map[string]any) { lb["password"] = "guessed" }, "the password isn't accepted"},
		"no such section":      {func(in *hooks.Input, lb map[string]any) { lb["backend"] = "other" }, `has no section "backend other"`},
		"what haproxy refuses": {func(in *hooks.Input, lb map[string]any) { lb["port"] = "70000" }, "exit status"},
		"no username":          {func(in *hooks.Input, lb map[string]any) { delete(lb, "username") }, "external_lb_param is incomplete"},
		"nowhere to send to": {func(in *hooks.Input, lb map[string]any) {
			in.Targets = &hooks.Targets{Old: in.Targets.Old, New: []hooks.Target{}}
		}, "would send traffic nowhere"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := s.run("coordinate_new_vnf.py", func(in *hooks.Input) {
				in.Targets = both
				test.change(in, in.CoordinationParams["external_lb_param"].(map[string]any))
			})
			var failed *hooks.FailedError
			if !errors.As(err, &failed) || !strings.Contains(failed.Stderr, test.want) {
				t.Errorf("it failed with %v, want … %s", err, test.want)
			}
		})
	}
	s.sendsTo("old-a")
	config, err := s.balancer.ReadFile("/etc/haproxy/haproxy.cfg")
	if err != nil || !strings.Contains(string(config), "default-server check inter 500ms\n    server old-a ") {
		t.Errorf("the operator's part of the section is gone: %s, %v", config, err)
	}
}
