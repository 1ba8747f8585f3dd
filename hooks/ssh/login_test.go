package ssh

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"

	"github.com/jibe-vnfm/jibe/test/kit"
	"github.com/jibe-vnfm/jibe/test/netns"
)

func TestOneLogsInWithAPasswordAKeyOrAnEncryptedKey(t *testing.T) {
	s := newSite(t)
	vm := s.add(nil)
	plain, plainLine := newKey(t, "")
	locked, lockedLine := newKey(t, "open sesame")
	authorize(t, vm, plainLine+lockedLine)
	for name, change := range map[string]func(*Host){
		"password":                func(*Host) {},
		"key":                     func(h *Host) { h.Key, h.Password = plain, "" },
		"key with a passphrase":   func(h *Host) { h.Key, h.Password, h.Passphrase = locked, "", "open sesame" },
		"passphrase for no need":  func(h *Host) { h.Key, h.Password, h.Passphrase = plain, "", "open sesame" },
		"another key, a password": func(h *Host) { h.Key, _ = newKey(t, "") },
	} {
		t.Run(name, func(t *testing.T) {
			h := knownTo(t, vm)
			change(&h)
			c, err := Dial(t.Context(), h, Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			if got := output(t, c, "whoami"); got != "ubuntu\n" {
				t.Errorf("it is %q", got)
			}
		})
	}
	for name, test := range map[string]struct {
		change func(*Host)
		want   string
	}{
		"no passphrase":    {func(h *Host) { h.Key, h.Password = locked, "" }, "give its passphrase"},
		"wrong passphrase": {func(h *Host) { h.Key, h.Password, h.Passphrase = locked, "", "guessed" }, "passphrase is wrong"},
		"no key":           {func(h *Host) { h.Key = []byte("very secret") }, "can't be read"},
		"nothing":          {func(h *Host) { h.Password = "" }, "neither a key nor a password"},
		"no user":          {func(h *Host) { h.User = "" }, "name the user"},
	} {
		t.Run(name, func(t *testing.T) {
			h := knownTo(t, vm)
			test.change(&h)
			err := refused(t, h, Options{Wait: time.Hour})
			says(t, err, test.want)
			for _, secret := range []string{"very secret", "guessed"} {
				if strings.Contains(err.Error(), secret) {
					t.Errorf("it tells a secret: %v", err)
				}
			}
		})
	}
}

func TestAWrongPasswordIsToldOnceAndIsInNoError(t *testing.T) {
	s := newSite(t)
	vm := s.add(nil)
	// The log is what tells of every try.
	restart(t, vm, "")
	h := knownTo(t, vm)
	h.Password = "guessed wrongly"
	err := refused(t, h, Options{Wait: time.Hour})
	var login *LoginError
	if !errors.As(err, &login) {
		t.Errorf("no LoginError: %v", err)
	}
	says(t, err, "ubuntu@"+vm.At(22), "the password")
	for _, shown := range []string{err.Error(), fmt.Sprintf("%v %+v %#v %s", h, h, h, login.Host)} {
		if strings.Contains(shown, "guessed") {
			t.Errorf("the password is shown: %s", shown)
		}
	}
	kit.Until(t, "the server's note of the try", func() bool { return strings.Contains(vm.Log(), "Failed password") })
	if n := strings.Count(vm.Log(), "Failed password"); n != 1 {
		t.Errorf("the password was told %d times: %s", n, vm.Log())
	}
}

func TestAServerThatAsksAQuestionIsToldThePassword(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	key, _ := newKey(t, "")
	signer, err := ssh.ParsePrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	at := listener.Addr().(*net.TCPAddr)
	h := Host{Address: "127.0.0.1", Port: at.Port, User: "ubuntu", Password: "very secret", KnownHosts: knownhosts.Line([]string{at.String()}, signer.PublicKey())}
	// serve takes one client.
	serve := func(password func(ssh.ConnMetadata, []byte) (*ssh.Permissions, error)) {
		config := &ssh.ServerConfig{
			PasswordCallback: password,
			KeyboardInteractiveCallback: func(_ ssh.ConnMetadata, ask ssh.KeyboardInteractiveChallenge) (*ssh.Permissions, error) {
				answers, err := ask("", "", []string{"Password: "}, []bool{false})
				if err != nil || len(answers) != 1 || answers[0] != "very secret" {
					return nil, errors.New("no")
				}
				return nil, nil
			},
		}
		config.AddHostKey(signer)
		raw, err := listener.Accept()
		if err != nil {
			return
		}
		if conn, _, _, err := ssh.NewServerConn(raw, config); err == nil {
			_ = conn.Wait()
		}
	}
	go serve(nil)
	dial(t, h, Options{})
	// Where "password" was refused, the same isn't told once more.
	go serve(func(ssh.ConnMetadata, []byte) (*ssh.Permissions, error) { return nil, errors.New("no") })
	says(t, refused(t, h, Options{}), "refuses the login")
}

func TestAHostWhoseKeyIsNotKnownIsRefused(t *testing.T) {
	vm := newSite(t).add(nil)
	h := knownTo(t, vm)
	h.KnownHosts = "# nobody yet\n"
	err := refused(t, h, Options{Wait: time.Hour})
	var problem *HostKeyError
	if !errors.As(err, &problem) || problem.Problem != KeyUnknown {
		t.Fatalf("the error is %v", err)
	}
	// What it says to add is what lets it in.
	_, line, _ := strings.Cut(err.Error(), "known_hosts: ")
	says(t, err, ssh.FingerprintSHA256(hostKey(t, vm)))
	h.KnownHosts = line
	dial(t, h, Options{})
}

func TestAHostWithAnotherKeyIsRefusedAlwaysWithBothFingerprints(t *testing.T) {
	s := newSite(t)
	vm, other := s.add(nil), s.add(nil)
	h := knownTo(t, vm)
	h.KnownHosts = "\n" + knownhosts.Line([]string{h.Address}, hostKey(t, other))
	for name, o := range map[string]Options{
		"plain": {Wait: time.Hour},
		"accepting": {Wait: time.Hour, Accept: func(string, ssh.PublicKey) error {
			t.Error("it was asked whether to accept a key that differs")
			return nil
		}},
	} {
		t.Run(name, func(t *testing.T) {
			err := refused(t, h, o)
			var problem *HostKeyError
			if !errors.As(err, &problem) || problem.Problem != KeyChanged {
				t.Fatalf("the error is %v", err)
			}
			says(t, err, "has changed", ssh.FingerprintSHA256(hostKey(t, vm)), ssh.FingerprintSHA256(hostKey(t, other))+" (line 2", "compare")
		})
	}
}

func TestKnownHostsAreReadAsOpenSSHWritesThem(t *testing.T) {
	s := newSite(t)
	vm := s.add(nil)
	on(t, vm, "sh", "-c", `ssh-keygen -q -t ecdsa -N '' -f /etc/ssh/ssh_host_ecdsa_key
		`)
	restart(t, vm, "Port 22\nPort 2222\nHostKey /etc/ssh/ssh_host_ecdsa_key")
	kit.Until(t, "the other port", func() bool { return listens(vm, 2222) })
	key := hostKey(t, vm)
	addr := vm.Addr().String()
	_, stranger := newKey(t, "")
	for name, test := range map[string]struct {
		port int
		text string
		want KeyProblem
	}{
		// The server prefers its other key, of which nothing is known.
		"plain":                    {22, knownhosts.Line([]string{addr}, key), ""},
		"hashed":                   {22, knownhosts.HashHostname(addr) + strings.TrimPrefix(knownhosts.Line([]string{addr}, key), addr), ""},
		"port":                     {2222, knownhosts.Line([]string{addr + ":2222"}, key), ""},
		"another port":             {2222, knownhosts.Line([]string{addr}, key), KeyUnknown},
		"pattern":                  {22, "10.207.*" + strings.TrimPrefix(knownhosts.Line([]string{addr}, key), addr), ""},
		"revoked":                  {22, knownhosts.Line([]string{addr}, key) + "\n@revoked * " + string(ssh.MarshalAuthorizedKey(key)), KeyRevoked},
		"one of two":               {22, addr + " " + stranger + knownhosts.Line([]string{addr}, key), ""},
		"authority of another one": {22, "@cert-authority *.example.com " + stranger + knownhosts.Line([]string{addr}, key), ""},
	} {
		t.Run(name, func(t *testing.T) {
			h := knownTo(t, vm)
			h.Port, h.KnownHosts = test.port, test.text
			c, err := Dial(t.Context(), h, Options{})
			if err == nil {
				c.Close()
			}
			var problem *HostKeyError
			switch {
			case test.want == "" && err != nil:
				t.Error(err)
			case test.want != "" && (!errors.As(err, &problem) || problem.Problem != test.want):
				t.Errorf("the error is %v, want that it is %s", err, test.want)
			}
		})
	}
	h := knownTo(t, vm)
	h.KnownHosts += "nonsense\n"
	says(t, refused(t, h, Options{}), "known_hosts: line 2")
}

func TestAHostIsKnownByWhoSignedItsKey(t *testing.T) {
	s := newSite(t)
	vm, other := s.add(nil), s.add(nil)
	on(t, vm, "sh", "-c", `cd /root && ssh-keygen -q -t ed25519 -N '' -f ca
		ssh-keygen -q -s ca -I vm -h -n `+vm.Addr().String()+` /etc/ssh/ssh_host_ed25519_key.pub
		`)
	restart(t, vm, "HostCertificate /etc/ssh/ssh_host_ed25519_key-cert.pub")
	authority, err := vm.ReadFile("/root/ca.pub")
	if err != nil {
		t.Fatal(err)
	}
	h := knownTo(t, vm)
	h.KnownHosts = "@cert-authority 10.207.* " + string(authority)
	dial(t, h, Options{})
	stranger := knownTo(t, other)
	stranger.KnownHosts = h.KnownHosts
	err = refused(t, stranger, Options{Accept: func(string, ssh.PublicKey) error { t.Error("it was asked"); return nil }})
	says(t, err, "host key of "+other.At(22), "no certificate")
	// Its certificate doesn't hide a key that is known by itself.
	dial(t, knownTo(t, vm), Options{})
}

func TestANewKeyIsStoredAndHoldsFromThenOn(t *testing.T) {
	s := newSite(t)
	vm := s.add(nil)
	file := filepath.Join(t.TempDir(), "known_hosts")
	if err := os.WriteFile(file, []byte("# mine, without an end"), 0o600); err != nil {
		t.Fatal(err)
	}
	h := knownTo(t, vm)
	login := func() error {
		t.Helper()
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		h.KnownHosts = string(text)
		c, err := Dial(t.Context(), h, Options{Wait: time.Minute, Accept: AcceptInto(file)})
		if err == nil {
			c.Close()
		}
		return err
	}
	for range 2 {
		if err := login(); err != nil {
			t.Fatal(err)
		}
	}
	want := "# mine, without an end\n" + knownHosts(t, vm)
	if text, err := os.ReadFile(file); err != nil || string(text) != want {
		t.Errorf("the file holds %q, %v; want %q", text, err, want)
	}
	// Another process may have stored it since ours read the file.
	accept := AcceptInto(file)
	if err := accept(vm.At(22), hostKey(t, vm)); err != nil {
		t.Error(err)
	}
	addr := vm.Addr()
	old := hostKey(t, vm)
	vm.Remove()
	again, err := s.lab.Add(t.Context(), netns.Spec{Name: "vm", Addrs: vm.Spec.Addrs, NoWeb: true, Users: vm.Spec.Users})
	if err != nil {
		t.Fatal(err)
	}
	for _, err := range []error{login(), accept(again.At(22), hostKey(t, again))} {
		says(t, err, addr.String(), "has changed", ssh.FingerprintSHA256(old), ssh.FingerprintSHA256(hostKey(t, again)))
	}
}

func TestAKeyThatItsCallerDoesNotAcceptIsRefused(t *testing.T) {
	vm := newSite(t).add(nil)
	h := knownTo(t, vm)
	h.KnownHosts = ""
	asked := 0
	err := refused(t, h, Options{Wait: time.Hour, Accept: func(hostport string, key ssh.PublicKey) error {
		asked++
		if hostport != vm.At(22) || ssh.FingerprintSHA256(key) != ssh.FingerprintSHA256(hostKey(t, vm)) {
			t.Errorf("asked about %s of %s", ssh.FingerprintSHA256(key), hostport)
		}
		return errors.New("the disk is full")
	}})
	says(t, err, "the disk is full", "isn't accepted")
	if asked != 1 {
		t.Errorf("asked %d times", asked)
	}
}
