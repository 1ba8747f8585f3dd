package reconciler_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/drivers"
	"github.com/jibe-vnfm/jibe/drivers/openstack"
	"github.com/jibe-vnfm/jibe/drivers/openstack/openstacktest"
	"github.com/jibe-vnfm/jibe/drivers/sim"
	"github.com/jibe-vnfm/jibe/internal/egress"
	"github.com/jibe-vnfm/jibe/lcm"
	"github.com/jibe-vnfm/jibe/reconciler"
)

// mortal is a driver of which is known when it ended.
type mortal struct {
	drivers.Driver
	vim               drivers.VIM
	watching, retired atomic.Bool
}

func (m *mortal) Watch(ctx context.Context, changed func(string)) error {
	m.watching.Store(true)
	defer m.watching.Store(false)
	return m.Driver.(drivers.Watcher).Watch(ctx, changed)
}

func (m *mortal) Close() error {
	m.retired.Store(true)
	if c, ok := m.Driver.(interface{ Close() error }); ok {
		return c.Close()
	}
	return nil
}

// ended says whether the driver does nothing any more.
func (m *mortal) ended() bool { return m.retired.Load() && !m.watching.Load() }

// vault knows the token of every VIM, which may be replaced.
type vault struct{ token atomic.Value }

func (v *vault) VIM(f *desired.VIM) (drivers.VIM, error) {
	return drivers.VIM{Name: f.Name, Type: f.Type, Endpoint: f.Endpoint, Token: v.token.Load().(string)}, nil
}

func (v *vault) Connection(name string, c desired.VIMConnection) (drivers.VIM, error) {
	return drivers.VIM{Name: name, Type: c.VimType, Endpoint: c.InterfaceInfo["endpoint"], Token: c.AccessInfo["username"]}, nil
}

// lives is a world in which drivers are known by their VIM and token.
type lives struct {
	*world
	vault vault
	later atomic.Int64 // by how much the clock is ahead

	mu   sync.Mutex
	born []*mortal
}

func newLives(t *testing.T, driver func(drivers.VIM) drivers.Driver) *lives {
	t.Helper()
	l := &lives{}
	l.vault.token.Store("first")
	l.world = newWorld(t, func(c *reconciler.Config) {
		c.Secrets = &l.vault
		c.Now = func() time.Time { return time.Now().Add(time.Duration(l.later.Load())) }
		c.Driver = func(v drivers.VIM) (drivers.Driver, error) {
			m := &mortal{vim: v}
			if driver != nil {
				m.Driver = driver(v)
			}
			if m.Driver == nil {
				m.Driver = sim.New(l.cloud, v)
			}
			l.mu.Lock()
			defer l.mu.Unlock()
			l.born = append(l.born, m)
			return m, nil
		}
	})
	return l
}

// of is the driver that was made for the VIM with the token; renderers, which are
// connected to none, don't count.
func (l *lives) of(vim, token, endpoint string) *mortal {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, m := range l.born {
		if m.vim.Name == vim && m.vim.Token == token && m.vim.Endpoint == endpoint {
			return m
		}
	}
	return nil
}

// settles looks at everything, as is done when the settings have changed.
func (l *lives) settles() {
	l.t.Helper()
	l.recon.EnqueueAll()
}

// push replaces files of the desired repository, as a person does; "" removes one.
func (l *lives) push(files map[string]string) {
	l.t.Helper()
	clone := filepath.Join(l.t.TempDir(), "clone")
	git := func(args ...string) {
		l.t.Helper()
		cmd := exec.CommandContext(l.t.Context(), "git", append([]string{"-c", "user.name=Ann", "-c", "user.email=ann@example.com"}, args...)...)
		if out, err := cmd.CombinedOutput(); err != nil {
			l.t.Fatalf("git %v: %v\n%s", args, err, out)
		}
	}
	git("clone", "--quiet", "file://"+filepath.Join(l.data, "desired.git"), clone)
	for name, text := range files {
		path := filepath.Join(clone, name)
		if text == "" {
			if err := os.Remove(path); err != nil {
				l.t.Fatal(err)
			}
			continue
		}
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			l.t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			l.t.Fatal(err)
		}
	}
	git("-C", clone, "add", "--all")
	git("-C", clone, "commit", "--quiet", "-m", "Change the VIMs")
	git("-C", clone, "push", "--quiet", "origin", "HEAD:main")
	if err := l.repo.Refresh(l.t.Context()); err != nil {
		l.t.Fatal(err)
	}
	l.settles()
}

// edgeFile is a VIM beside the default one.
const edgeFile = "vims/edge.yaml"

func TestTheDriverOfAVIMWhoseFileIsGoneEnds(t *testing.T) {
	t.Parallel()

	l := newLives(t, nil)
	l.push(map[string]string{edgeFile: "type: sim\n"})
	l.commit(file("instantiated", "vim: edge\n"))
	l.last(lcm.Instantiate, lcm.Completed)
	edge := l.of("edge", "first", "")
	l.commit(file("notInstantiated", "vim: edge\n"))
	l.last(lcm.Terminate, lcm.Completed)
	if l.settles(); edge.retired.Load() {
		t.Fatal("the driver of a VIM that git names has ended")
	}
	l.push(map[string]string{edgeFile: ""})
	l.until("its driver has ended", edge.ended)
}

func TestADriverEndsWhenTheCredentialsOfItsVIMAreReplaced(t *testing.T) {
	t.Parallel()

	l := newLives(t, nil)
	l.commit(file("instantiated", ""))
	l.last(lcm.Instantiate, lcm.Completed)
	old := l.of("lab", "first", "")
	l.vault.token.Store("second")
	l.later.Store(int64(2 * time.Minute))
	l.settles()
	l.until("the driver with the old credentials has ended", old.ended)
	l.until("one with the new ones watches", func() bool { m := l.of("lab", "second", ""); return m != nil && m.watching.Load() })
	l.cloud.Drift(web)
	l.last(lcm.Heal, lcm.Completed)
}

func TestADriverThatNoInstanceUsesEndsWhenTheCredentialsOfItsVIMAreReplaced(t *testing.T) {
	t.Parallel()

	l := newLives(t, nil)
	l.commit(file("instantiated", ""))
	l.last(lcm.Instantiate, lcm.Completed)
	l.commit("")
	l.until("it is gone", func() bool { return len(l.cloud.Instances()) == 0 })
	old := l.of("lab", "first", "")
	l.vault.token.Store("second")
	l.later.Store(int64(2 * time.Minute))
	l.settles()
	l.until("the driver with the old credentials has ended", old.ended)
	if m := l.of("lab", "second", ""); m != nil {
		t.Error("the VIM is connected to although nobody needs it")
	}
}

func TestAnInstancesOwnConnectionEndsWithTheInstance(t *testing.T) {
	t.Parallel()

	own := func(user string) string {
		return "vimConnectionInfo: {mine: {vimType: sim, interfaceInfo: {endpoint: \"https://a\"}, accessInfo: {username: " + user + "}}}\n"
	}
	l := newLives(t, nil)
	l.commit(file("instantiated", own("first")))
	l.last(lcm.Instantiate, lcm.Completed)
	a := l.of("mine", "first", "https://a")
	l.commit(file("instantiated", own("second")))
	l.until("the connection that was replaced has ended", a.ended)
	b := l.of("mine", "second", "https://a")
	l.cloud.Drift(web)
	l.last(lcm.Heal, lcm.Completed)
	if b.retired.Load() {
		t.Error("the connection that is in use has ended")
	}
	l.commit("")
	l.until("its connection has ended", b.ended)
	if n := l.cloud.Instances(); len(n) > 0 {
		t.Errorf("left at the VIM: %v", n)
	}
}

func TestAllDriversEndWithTheProcess(t *testing.T) {
	t.Parallel()

	l := newLives(t, nil)
	l.commit(file("instantiated", ""))
	l.last(lcm.Instantiate, lcm.Completed)
	l.stop()
	if !l.of("lab", "first", "").ended() {
		t.Error("a driver outlives the process's work")
	}
}

// polled is a simulated VIM that is watched as an OpenStack is.
type polled struct {
	*sim.Driver
	cloud *openstack.Driver
}

func (p polled) Watch(ctx context.Context, changed func(string)) error {
	var g errgroup.Group
	g.Go(func() error { return p.Driver.Watch(ctx, changed) })
	g.Go(func() error { return p.cloud.Watch(ctx, changed) })
	return g.Wait()
}

func (p polled) Close() error { return p.cloud.Close() }

// arrived counts the requests that reached the cloud, once those that were on their way
// when its driver ended have.
func arrived(l *lives, c *openstacktest.Cloud) (n int) {
	l.t.Helper()
	n = -1
	quiet := 0 // looks, and no time: what is on its way gets on between them, however slow the machine
	l.until("no request is on its way", func() bool {
		if now := c.Requests(""); now != n {
			n, quiet = now, 0
		}
		quiet++
		return quiet > 8
	})
	return n
}

func TestAnOpenStackThatWasReplacedOrRemovedIsAskedNothingMore(t *testing.T) {
	t.Parallel()

	clouds := map[string]*openstacktest.Cloud{}
	first, second := openstacktest.New(t, openstacktest.Options{}), openstacktest.New(t, openstacktest.Options{})
	for _, c := range []*openstacktest.Cloud{first, second} {
		clouds[c.VIM().Endpoint] = c
	}
	var l *lives
	l = newLives(t, func(v drivers.VIM) drivers.Driver {
		c := clouds[v.Endpoint]
		if c == nil {
			return nil
		}
		d, err := openstack.New(c.VIM(), openstack.Options{Egress: egress.Anywhere(), Busy: time.Millisecond, Rest: time.Millisecond})
		if err != nil {
			t.Error(err)
			return nil
		}
		return polled{sim.New(l.cloud, v), d}
	})
	edge := func(c *openstacktest.Cloud) string {
		return "type: openstack\nendpoint: " + c.VIM().Endpoint + "\nproject: p\ncredentials: {username: env:U, password: env:P}\n"
	}
	l.push(map[string]string{edgeFile: edge(first)})
	l.commit(file("instantiated", "vim: edge\n"))
	l.last(lcm.Instantiate, lcm.Completed)
	l.until("the VIM is asked", func() bool { return first.Requests("") > 0 })
	used := l.of("edge", "first", first.VIM().Endpoint)

	l.push(map[string]string{edgeFile: edge(second)})
	l.until("the driver of the former endpoint has ended", used.ended)
	asked := arrived(l, first)
	l.until("the new one is asked again and again", func() bool { return second.Requests("") > 100 })
	if n := first.Requests("") - asked; n > 0 {
		t.Errorf("%d requests reached the endpoint that was replaced", n)
	}

	l.commit(file("notInstantiated", "vim: edge\n"))
	l.last(lcm.Terminate, lcm.Completed)
	used = l.of("edge", "first", second.VIM().Endpoint)
	l.push(map[string]string{edgeFile: ""})
	l.until("the driver of the VIM that was removed has ended", used.ended)
	asked = arrived(l, second)
	l.commit(file("instantiated", ""))
	l.last(lcm.Instantiate, lcm.Completed)
	if n := second.Requests("") - asked; n > 0 {
		t.Errorf("%d requests reached the VIM that was removed", n)
	}
}
