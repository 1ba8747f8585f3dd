package ssh

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"errors"
	"net"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"

	"github.com/jibe-vnfm/jibe/test/kit"
	"github.com/jibe-vnfm/jibe/test/netns"
)

var subnets atomic.Int32

// site is machines with real SSH servers.
type site struct {
	*testing.T
	lab  *netns.Lab
	next netip.Addr
}

func newSite(t *testing.T) *site {
	t.Helper()
	n := byte(subnets.Add(1))
	lab := netns.Start(t, netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 207, n, 0}), 24).String())
	return &site{T: t, lab: lab, next: lab.Gateway}
}

// add makes a machine whose user ubuntu has the password "very secret". change may
// change what it is.
func (s *site) add(change func(*netns.Spec)) *netns.Host {
	s.Helper()
	s.next = s.next.Next()
	spec := netns.Spec{
		Name: "vm", Addrs: []netip.Addr{s.next}, NoWeb: true,
		Users: []netns.User{{Name: "ubuntu", Password: "very secret"}, {Name: "root", Password: "toor"}},
	}
	if change != nil {
		change(&spec)
	}
	h, err := s.lab.Add(s.Context(), spec)
	if err != nil {
		s.Fatal(err)
	}
	return h
}

// restart stops the machine's SSH server, adds lines to its configuration, and starts it
// again, with its log in the host's.
func restart(t *testing.T, h *netns.Host, lines string) {
	t.Helper()
	stop(t, h)
	on(t, h, "sh", "-c", "printf '%s\n' \"$1\" >>/etc/ssh/sshd_config", "sh", lines)
	if err := h.Serve("/usr/sbin/sshd", "-D", "-e"); err != nil {
		t.Fatal(err)
	}
	kit.Until(t, "the server's start", func() bool { return listens(h, 22) })
}

func stop(t *testing.T, h *netns.Host) {
	t.Helper()
	// It listens a moment before it writes its number down.
	kit.Until(t, "the server's number", func() bool { text, err := h.ReadFile("/run/sshd.pid"); return err == nil && len(text) > 0 })
	on(t, h, "sh", "-c", "kill $(cat /run/sshd.pid)")
	kit.Until(t, "the server's end", func() bool { return !listens(h, 22) })
}

func listens(h *netns.Host, port int) bool {
	c, err := net.Dial("tcp", h.At(port))
	if err == nil {
		c.Close()
	}
	return err == nil
}

// knownTo is the machine, to be logged in to as ubuntu, whose key is known.
func knownTo(t *testing.T, h *netns.Host) Host {
	t.Helper()
	return Host{Address: h.Addr().String(), User: "ubuntu", Password: "very secret", KnownHosts: knownHosts(t, h)}
}

func hostKey(t *testing.T, h *netns.Host) ssh.PublicKey {
	t.Helper()
	text, err := h.ReadFile("/etc/ssh/ssh_host_ed25519_key.pub")
	if err != nil {
		t.Fatal(err)
	}
	key, _, _, _, err := ssh.ParseAuthorizedKey(text)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func knownHosts(t *testing.T, h *netns.Host) string {
	t.Helper()
	return knownhosts.Line([]string{h.Addr().String()}, hostKey(t, h)) + "\n"
}

// one makes a machine and logs in.
func one(t *testing.T, o Options) (*netns.Host, *Conn) {
	t.Helper()
	h := newSite(t).add(nil)
	return h, dial(t, knownTo(t, h), o)
}

func dial(t *testing.T, h Host, o Options) *Conn {
	t.Helper()
	c, err := Dial(t.Context(), h, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// refused is the error of a Dial that must not succeed.
func refused(t *testing.T, h Host, o Options) error {
	t.Helper()
	c, err := Dial(t.Context(), h, o)
	if err == nil {
		c.Close()
		t.Fatal("it was let in")
	}
	return err
}

func output(t *testing.T, c *Conn, cmd string) string {
	t.Helper()
	out, err := c.Output(t.Context(), Command{Cmd: cmd}, 1<<20)
	if err != nil {
		t.Fatalf("%s: %v", cmd, err)
	}
	return string(out)
}

// on runs a command on a machine as root, beside SSH.
func on(t *testing.T, h *netns.Host, argv ...string) string {
	t.Helper()
	out, err := h.Run(t.Context(), nil, argv...)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(out)
}

// newKey is a private key, encrypted where there is a passphrase, and its line for
// authorized_keys.
func newKey(t *testing.T, passphrase string) (private []byte, public string) {
	t.Helper()
	pub, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	block, err := ssh.MarshalPrivateKey(key, "")
	if passphrase != "" {
		block, err = ssh.MarshalPrivateKeyWithPassphrase(key, "", []byte(passphrase))
	}
	if err != nil {
		t.Fatal(err)
	}
	p, err := ssh.NewPublicKey(pub)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(block), string(ssh.MarshalAuthorizedKey(p))
}

// authorize lets ubuntu in with a key.
func authorize(t *testing.T, h *netns.Host, line string) {
	t.Helper()
	if err := h.WriteFile("/home/ubuntu/.ssh/authorized_keys", []byte(line), 0o644); err != nil {
		t.Fatal(err)
	}
}

// running counts the processes of the machine whose command line has the text.
func running(t *testing.T, h *netns.Host, text string) int {
	t.Helper()
	return strings.Count(on(t, h, "sh", "-c", "cat /proc/[0-9]*/cmdline | tr '\\0' ' '; true"), text)
}

func mustBe(t *testing.T, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Fatalf("the error is %v, want one of %v", err, want)
	}
}

func says(t *testing.T, err error, all ...string) {
	t.Helper()
	for _, text := range all {
		if err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("the error doesn't say %q: %v", text, err)
		}
	}
}

// soon bounds what must end by itself, so that a failing test ends too.
func soon(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), kit.Patience)
	t.Cleanup(cancel)
	return ctx
}
