// Package netns gives tests machines: hosts in namespaces of their own (network, mounts,
// processes, name), each with its own address, file system, accounts and a real OpenSSH
// server, so that what hooks of packages do over SSH really happens somewhere.
//
// A [Lab] is one subnet. Its hosts reach each other, and this machine reaches them and is
// reached by them at [Lab.Gateway], as an operator's network would have it. Hosts start
// with what is installed on this machine, and what they change stays theirs.
// [Lab.Follow] makes one for every server of a cloud, at the address that the cloud
// reports.
//
// It needs Linux, root, and commands of Debian that it installs where they are missing. It
// knows nothing of Jibe. Nothing of a lab outlives the process that made it, however that
// ends: namespaces go with their last process, and hosts end when their standard input does.
package netns

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jibe-vnfm/jibe/test/testenv"
)

// startWait bounds how long a lab waits for another one on its subnet to end, and a host
// for its services.
const startWait = 3 * time.Minute

// runDir is where labs have their locks, and hosts the places that they start from.
const runDir = "/run"

// Lab is hosts on one subnet. Its methods may be called from any goroutine.
type Lab struct {
	// Subnet holds the addresses of all hosts.
	Subnet netip.Prefix
	// Gateway is this machine's address in it, the first one, which no host may have.
	Gateway netip.Addr

	dir    string
	lock   *os.File
	link   string   // this machine's end of the wire
	bridge *process // holds the namespace in which the wires of all hosts meet

	mu     sync.Mutex
	hosts  map[netip.Addr]*Host // by each address, from when it is being made; nil once closed
	number int
}

// Start opens a lab for the time of a test. It skips the test as [testenv.Real] does.
func Start(t testing.TB, subnet string) *Lab {
	t.Helper()
	testenv.Real(t, "hosts in network namespaces, which take root")
	if err := able(); err != nil {
		t.Fatalf("no hosts to test with: %v", err)
	}
	l, err := Open(t.Context(), netip.MustParsePrefix(subnet))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.Close)
	return l
}

func able() error {
	if runtime.GOOS != "linux" || os.Geteuid() != 0 {
		return errors.New("hosts in network namespaces need root on Linux")
	}
	return nil
}

// Open makes a lab without hosts. Only one lab on this machine can have a subnet (or
// one of the same first address): Open waits some minutes for the other to be closed.
func Open(ctx context.Context, subnet netip.Prefix) (_ *Lab, err error) {
	if err := able(); err != nil {
		return nil, err
	}
	if err := install(ctx); err != nil {
		return nil, err
	}
	subnet = subnet.Masked()
	if !subnet.Addr().Is4() || subnet.Bits() > 29 {
		return nil, fmt.Errorf("subnet %s: an IPv4 subnet with room for hosts is needed, at most /29", subnet)
	}
	l := &Lab{Subnet: subnet, Gateway: subnet.Addr().Next(), hosts: map[netip.Addr]*Host{}}
	l.link = linkName(subnet.Addr())
	defer func() {
		if err != nil {
			l.Close()
		}
	}()
	if err := l.reserve(ctx); err != nil {
		return nil, fmt.Errorf("subnet %s: %w", subnet, err)
	}
	l.dir = filepath.Join(runDir, l.link)
	// One that was killed left its empty directories.
	if err := errors.Join(os.RemoveAll(l.dir), os.Mkdir(l.dir, 0o700)); err != nil {
		return nil, err
	}
	removeCgroups(cgroupPrefix + l.link)
	if err := l.wire(ctx); err != nil {
		return nil, fmt.Errorf("subnet %s: %w", subnet, err)
	}
	return l, nil
}

// linkName is the name of a subnet's wire, short enough for the kernel.
func linkName(subnet netip.Addr) string { return fmt.Sprintf("lab%x", subnet.As4()) }

// reserve takes the lock of the subnet, which goes with this process.
func (l *Lab) reserve(ctx context.Context) error {
	name := filepath.Join(runDir, l.link+".lock")
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	l.lock = f
	for until := time.Now().Add(startWait); ; {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) || time.Now().After(until) {
			return fmt.Errorf("another lab has it (%s): %w", name, err)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// wire makes the bridge, in a namespace of its own where no packet filter of this machine
// looks at what passes, and lays a wire from it to this machine.
func (l *Lab) wire(ctx context.Context) error {
	var err error
	// The remains of a lab that was killed are on their way out, as the kernel clears namespaces
	// away in its own time.
	_ = exec.CommandContext(ctx, "ip", "link", "delete", l.link).Run()
	if l.bridge, err = startProcess(syscall.CLONE_NEWNET, "cat"); err != nil {
		return err
	}
	if err := ip(ctx, nil, fmt.Sprintf("link add %s type veth peer name wire netns %d", l.link, l.bridge.pid())); err != nil {
		return err
	}
	err = ip(ctx, l.bridge,
		"link add bridge type bridge stp_state 0 forward_delay 0",
		"link set bridge up",
		"link set wire master bridge up")
	if err != nil {
		return err
	}
	return ip(ctx, nil,
		fmt.Sprintf("address add %s/%d dev %s", l.Gateway, l.Subnet.Bits(), l.link),
		fmt.Sprintf("link set %s up", l.link))
}

// Hosts are those that run, in the order of their first addresses.
func (l *Lab) Hosts() []*Host {
	l.mu.Lock()
	defer l.mu.Unlock()
	var all []*Host
	for addr, h := range l.hosts {
		if h.up && addr == h.Addr() {
			all = append(all, h)
		}
	}
	slices.SortFunc(all, func(a, b *Host) int { return a.Addr().Compare(b.Addr()) })
	return all
}

// Host is the one that has the address, nil where none does.
func (l *Lab) Host(addr netip.Addr) *Host {
	l.mu.Lock()
	defer l.mu.Unlock()
	if h := l.hosts[addr]; h != nil && h.up {
		return h
	}
	return nil
}

// Close takes all hosts away, and the subnet. It may be called again.
func (l *Lab) Close() {
	l.mu.Lock()
	for _, h := range l.hosts {
		if h.up { // else who makes it ends it
			h.end()
		}
	}
	l.hosts = nil
	l.mu.Unlock()
	if l.bridge != nil {
		l.bridge.kill()
	}
	if l.dir != "" {
		// The wire would go by itself, but not at once.
		_ = exec.Command("ip", "link", "delete", l.link).Run()
		_ = os.RemoveAll(l.dir)
		removeCgroups(cgroupPrefix + l.link)
	}
	if l.lock != nil {
		_ = l.lock.Close()
	}
}
