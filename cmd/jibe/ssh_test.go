package main

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/pem"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	xssh "golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"

	"github.com/jibe-vnfm/jibe/hooks/ssh"
	"github.com/jibe-vnfm/jibe/test/kit"
	"github.com/jibe-vnfm/jibe/test/netns"
)

// envCommand makes this test's binary the command itself, in a process of its own.
const envCommand = "JIBE_TEST_COMMAND"

func TestMain(m *testing.M) {
	if exit, is := launcher(os.Args[1:]); is {
		os.Exit(exit)
	}
	if os.Getenv(envCommand) == "1" {
		os.Exit(run(os.Args[1:]))
	}
	os.Exit(m.Run())
}

var sshSubnets atomic.Int32

// sshSite is machines, and `jibe ssh` with what it needs to log in to them.
type sshSite struct {
	*testing.T
	dir  string
	lab  *netns.Lab
	next netip.Addr
}

func newSSHSite(t *testing.T) *sshSite {
	t.Helper()
	subnet := netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 208, byte(sshSubnets.Add(1)), 0}), 24)
	s := &sshSite{T: t, dir: t.TempDir(), lab: netns.Start(t, subnet.String())}
	s.next = s.lab.Gateway
	s.write("password", "very secret\n")
	return s
}

func (s *sshSite) write(name, text string) string {
	s.Helper()
	file := filepath.Join(s.dir, name)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		s.Fatal(err)
	}
	return file
}

// add makes a machine, whose key is known.
func (s *sshSite) add(addr netip.Addr, user, password string) *netns.Host {
	s.Helper()
	vm, err := s.lab.Add(s.Context(), netns.Spec{Name: "vm", Addrs: []netip.Addr{addr}, NoWeb: true, Users: []netns.User{{Name: user, Password: password}}})
	if err != nil {
		s.Fatal(err)
	}
	return vm
}

// vm is a machine that ubuntu logs in to.
func (s *sshSite) vm() *netns.Host {
	s.next = s.next.Next()
	vm := s.add(s.next, "ubuntu", "very secret")
	s.know(vm)
	return vm
}

func (s *sshSite) know(vm *netns.Host) {
	s.Helper()
	f, err := os.OpenFile(s.knownHosts(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		s.Fatal(err)
	}
	defer f.Close()
	if _, err := io.WriteString(f, knownhosts.Line([]string{vm.Addr().String()}, s.key(vm))+"\n"); err != nil {
		s.Fatal(err)
	}
}

func (s *sshSite) knownHosts() string { return filepath.Join(s.dir, "known_hosts") }

func (s *sshSite) key(vm *netns.Host) xssh.PublicKey {
	s.Helper()
	text, err := vm.ReadFile("/etc/ssh/ssh_host_ed25519_key.pub")
	if err != nil {
		s.Fatal(err)
	}
	key, _, _, _, err := xssh.ParseAuthorizedKey(text)
	if err != nil {
		s.Fatal(err)
	}
	return key
}

// result is what a process of `jibe ssh` came to.
type result struct {
	status         int
	stdout, stderr string
}

func (s *sshSite) command(args ...string) *exec.Cmd {
	// What hangs fails its test.
	ctx, cancel := context.WithTimeout(s.Context(), 2*time.Minute)
	s.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, os.Args[0], append([]string{"ssh"}, args...)...)
	cmd.Env = append(os.Environ(), envCommand+"=1", "PW=very secret")
	cmd.Dir = s.dir
	return cmd
}

func (s *sshSite) result(cmd *exec.Cmd) result {
	s.Helper()
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		s.Fatal(err)
	}
	if strings.Contains(stderr.String(), "secret") {
		s.Errorf("it tells a password: %s", stderr.String())
	}
	return result{cmd.ProcessState.ExitCode(), stdout.String(), stderr.String()}
}

// ssh runs `jibe ssh` as ubuntu.
func (s *sshSite) ssh(vm *netns.Host, args ...string) result {
	s.Helper()
	return s.result(s.command(s.args(vm, args...)...))
}

// args are those that log in with the password; what follows "--" is the command.
func (s *sshSite) args(vm *netns.Host, args ...string) []string {
	all := []string{"--known-hosts", s.knownHosts(), "--password-env", "PW"}
	for i, a := range args {
		if a == "--" {
			return append(append(append(all, args[:i]...), "ubuntu@"+vm.Addr().String()), args[i:]...)
		}
	}
	return append(append(all, args...), "ubuntu@"+vm.Addr().String())
}

func TestSSHEndsAsItsCommandDoes(t *testing.T) {
	s := newSSHSite(t)
	vm := s.vm()
	for _, test := range []struct {
		args   []string
		status int
		stdout string
		stderr string
	}{
		{[]string{"--", "echo out; echo err >&2"}, 0, "out\n", "err\n"},
		{[]string{"--", "exit 3"}, 3, "", ""},
		{[]string{"--", "exit 255"}, 255, "", ""},
		{[]string{"--", "kill -KILL $$"}, 137, "", "jibe ssh: the command was ended by signal KILL\n"},
		{[]string{"--", "echo $USER | tr u U"}, 0, "UbUntU\n", ""},
		{[]string{"--", "printf", "%s|", "$USER", "two words", "it's", ""}, 0, "$USER|two words|it's||", ""},
		{[]string{"--", "cat"}, 0, "", ""},
		{[]string{"--timeout", "1m", "--", "true"}, 0, "", ""},
	} {
		if got := s.ssh(vm, test.args...); got != (result{test.status, test.stdout, test.stderr}) {
			t.Errorf("%q: %+v", test.args, got)
		}
	}
	// The command's own flags needn't be kept apart.
	if got := s.result(s.command(append(s.args(vm), "head", "-c", "1", "/etc/hostname")...)); got != (result{0, "v", ""}) {
		t.Errorf("without --: %+v", got)
	}
}

func TestSSHEndsWith255WhereItCanNotDoIt(t *testing.T) {
	s := newSSHSite(t)
	vm := s.vm()
	at := vm.Addr().String()
	wrong := s.write("wrong", "another secret")
	empty := s.write("empty", "\n")
	known := []string{"--known-hosts", s.knownHosts()}
	with := func(args ...string) []string { return append(known[:2:2], args...) }
	for name, test := range map[string]struct {
		args []string
		want string
	}{
		"wrong password":      {with("--password-file", wrong, "ubuntu@"+at, "true"), "refuses the login with the password"},
		"nobody there":        {with("--password-env", "PW", "ubuntu@"+at+":2222", "true"), "connection refused"},
		"no such option":      {[]string{"--password", "very", "ubuntu@" + at, "true"}, "unknown flag"},
		"no host":             {nil, "name the host"},
		"no user":             {with("--password-env", "PW", at, "true"), "name the user"},
		"no known hosts":      {[]string{"--password-env", "PW", "ubuntu@" + at, "true"}, "--known-hosts FILE is needed"},
		"missing known hosts": {[]string{"--known-hosts", "missing", "--password-env", "PW", "ubuntu@" + at, "true"}, "missing: no such file"},
		"unknown host":        {[]string{"--known-hosts", "/dev/null", "--password-env", "PW", "ubuntu@" + at, "true"}, "isn't known"},
		"no credentials":      {with("ubuntu@"+at, "true"), "neither a key nor a password"},
		"empty password":      {with("--password-file", empty, "ubuntu@"+at, "true"), "holds nothing"},
		"unset variable":      {with("--password-env", "NOT_SET", "ubuntu@"+at, "true"), "NOT_SET holds nothing"},
		"two passwords":       {with("--password-env", "PW", "--password-file", wrong, "ubuntu@"+at, "true"), "can't be given both"},
		"no identity":         {with("--identity", "missing", "ubuntu@"+at, "true"), "--identity"},
		"nothing to do":       {with("--password-env", "PW", "ubuntu@"+at), "nothing to do"},
		"upload refused":      {with("--password-env", "PW", "--upload", wrong+":/etc/file", "ubuntu@"+at, "touch /tmp/run"), "Permission denied"},
		"nothing to upload":   {with("--password-env", "PW", "--upload", "missing:/tmp/file", "ubuntu@"+at, "touch /tmp/run"), "missing: no such file"},
		"jump alone":          {with("--password-env", "PW", "--jump-password-env", "PW", "ubuntu@"+at, "true"), "no --jump"},
		"jump host refuses":   {with("--password-env", "PW", "--jump", "ubuntu@"+at, "--jump-password-file", wrong, "ubuntu@10.0.0.1", "true"), "jump host: ubuntu@" + at},
	} {
		got := s.result(s.command(test.args...))
		if got.status != 255 || !strings.Contains(got.stderr, test.want) || !strings.HasPrefix(got.stderr, "jibe ssh: ") || got.stdout != "" {
			t.Errorf("%s: %+v; want %q", name, got, test.want)
		}
	}
	if _, err := vm.ReadFile("/tmp/run"); err == nil {
		t.Error("the command ran although its file wasn't there")
	}
}

func TestSSHEndsWith124WhenItsTimeIsOver(t *testing.T) {
	s := newSSHSite(t)
	vm := s.vm()
	var got result
	for _, timeout := range []string{"2s", "20s", "1m"} { // on a busy machine, a login may take as long as the shorter ones
		if got = s.ssh(vm, "--timeout", timeout, "--", "echo begun; sleep 1000"); got.stdout != "" {
			break
		}
	}
	if got.status != 124 || got.stdout != "begun\n" || !strings.Contains(got.stderr, "--timeout") {
		t.Errorf("while the command runs: %+v", got)
	}
	s.ended(vm)
	if _, err := vm.Run(t.Context(), nil, "ip", "link", "set", "eth0", "down"); err != nil {
		t.Fatal(err)
	}
	if got := s.ssh(vm, "--timeout", "1s", "--wait", "1h", "--", "true"); got.status != 124 {
		t.Errorf("while nobody answers: %+v", got)
	}
}

func TestSSHPassesItsInputOnUnlessThatIsATerminal(t *testing.T) {
	s := newSSHSite(t)
	vm := s.vm()
	cmd := s.command(s.args(vm, "--", "wc -c")...)
	cmd.Stdin = strings.NewReader(strings.Repeat("x", 1<<20))
	if got := s.result(cmd); got != (result{0, "1048576\n", ""}) {
		t.Errorf("a pipe: %+v", got)
	}
	line := ssh.Quote(append([]string{os.Args[0], "ssh"}, s.args(vm, "--", "cat; echo ended")...)...)
	cmd = s.command()
	cmd.Path, cmd.Args = "/usr/bin/script", []string{"script", "-qec", line, "/dev/null"}
	r, w := io.Pipe() // somebody sits there, and types nothing
	defer w.Close()
	cmd.Stdin = r
	var stdout bytes.Buffer
	cmd.Stdout = &stdout
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	state, err := cmd.Process.Wait()
	w.Close()
	_ = cmd.Wait()
	if err != nil || !state.Success() || stdout.String() != "ended\r\n" {
		t.Errorf("a terminal: %v, %v, %q", state, err, stdout.String())
	}
}

func TestSSHEndsItsCommandWhenItIsEnded(t *testing.T) {
	s := newSSHSite(t)
	vm := s.vm()
	cmd := s.command(s.args(vm, "--", "echo begun; sleep 1000")...)
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(stdout, make([]byte, 6)); err != nil {
		t.Error(err)
	}
	_ = cmd.Process.Signal(syscall.SIGTERM)
	_ = cmd.Wait()
	if got := cmd.ProcessState.ExitCode(); got != 255 {
		t.Errorf("it ended with %d", got)
	}
	s.ended(vm)
}

// ended waits until the machine has ended the command, which it may do a moment after the connection.
func (s *sshSite) ended(vm *netns.Host) {
	s.Helper()
	kit.Until(s, "the command has ended", func() bool {
		_, err := vm.Run(s.Context(), nil, "sh", "-c", "! pgrep -x sleep")
		return err == nil
	})
}

func TestSSHStoresNewKeysAndRefusesOthersFromThenOn(t *testing.T) {
	s := newSSHSite(t)
	addr := s.lab.Gateway.Next()
	vm := s.add(addr, "ubuntu", "very secret")
	for range 2 {
		if got := s.ssh(vm, "--accept-new", "--", "echo in"); got != (result{0, "in\n", ""}) {
			t.Errorf("%+v", got)
		}
	}
	if got := s.ssh(vm, "--", "echo in"); got != (result{0, "in\n", ""}) {
		t.Errorf("without --accept-new: %+v", got)
	}
	stored, err := os.ReadFile(s.knownHosts())
	if err != nil || strings.Count(string(stored), "\n") != 1 {
		t.Errorf("stored is %q, %v", stored, err)
	}
	old := s.key(vm)
	vm.Remove()
	vm = s.add(addr, "ubuntu", "very secret")
	got := s.ssh(vm, "--accept-new", "--", "echo in")
	if got.status != 255 || !strings.Contains(got.stderr, xssh.FingerprintSHA256(old)) || !strings.Contains(got.stderr, xssh.FingerprintSHA256(s.key(vm))) {
		t.Errorf("another key: %+v", got)
	}
	if after, err := os.ReadFile(s.knownHosts()); err != nil || !bytes.Equal(after, stored) {
		t.Errorf("stored is %q now, %v", after, err)
	}
}

func TestSSHWritesFilesBeforeTheCommandRuns(t *testing.T) {
	s := newSSHSite(t)
	vm := s.vm()
	file := s.write("a file", "content")
	if err := os.Chmod(file, 0o640); err != nil {
		t.Fatal(err)
	}
	got := s.ssh(vm, "--upload", "a file:/tmp/it's", "--upload", file+":relative:0755", "--", `stat -c "%n %a" "/tmp/it's" ~/relative; cat relative`)
	if want := (result{0, "/tmp/it's 640\n/home/ubuntu/relative 755\ncontent", ""}); got != want {
		t.Errorf("%+v", got)
	}
	if got := s.ssh(vm, "--upload", file+":/tmp/alone"); got != (result{}) {
		t.Errorf("without a command: %+v", got)
	}
	if data, err := vm.ReadFile("/tmp/alone"); err != nil || string(data) != "content" {
		t.Errorf("without a command: %q, %v", data, err)
	}
}

func TestSSHWaitsForAMachineThatStarts(t *testing.T) {
	s := newSSHSite(t)
	vm := s.vm()
	if _, err := vm.Run(t.Context(), nil, "sh", "-c", "kill $(cat /run/sshd.pid)"); err != nil {
		t.Fatal(err)
	}
	kit.Until(t, "the machine answers no more", func() bool {
		c, err := net.Dial("tcp", vm.At(22))
		if err == nil {
			c.Close()
		}
		return err != nil
	})
	timer := time.AfterFunc(time.Second, func() { _ = vm.Serve("/usr/sbin/sshd", "-D") })
	defer timer.Stop()
	if got := s.ssh(vm, "--wait", "1m", "--", "echo in"); got != (result{0, "in\n", ""}) {
		t.Errorf("%+v", got)
	}
}

func TestSSHGoesThroughAJumpHostWithKeys(t *testing.T) {
	s := newSSHSite(t)
	jump := s.vm()
	s.next = s.next.Next()
	vm := s.add(s.next, "inner", "another secret")
	s.know(vm)
	_, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	block, err := xssh.MarshalPrivateKeyWithPassphrase(key, "", []byte("very secret"))
	if err != nil {
		t.Fatal(err)
	}
	s.write("key", string(pem.EncodeToMemory(block)))
	signer, err := xssh.NewSignerFromKey(key)
	if err != nil {
		t.Fatal(err)
	}
	line := xssh.MarshalAuthorizedKey(signer.PublicKey())
	for user, host := range map[string]*netns.Host{"ubuntu": jump, "inner": vm} {
		if err := host.WriteFile("/home/"+user+"/.ssh/authorized_keys", line, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	s.write("inner", "another secret")
	common := []string{"--known-hosts", "known_hosts", "--jump", "ubuntu@" + jump.At(22)}
	tail := []string{"inner@" + vm.Addr().String(), "echo $USER $SSH_CLIENT"}
	for name, flags := range map[string][]string{
		"the same key for both":        {"--identity", "key", "--passphrase-file", "password"},
		"a password for each":          {"--password-file", "inner", "--jump-password-env", "PW"},
		"a password here, a key there": {"--password-file", "inner", "--jump-identity", "key", "--jump-passphrase-env", "PW"},
	} {
		got := s.result(s.command(append(append(common[:len(common):len(common)], flags...), tail...)...))
		if want := "inner " + jump.Addr().String() + " "; got.status != 0 || !strings.HasPrefix(got.stdout, want) || got.stderr != "" {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

func TestHostsAreReadWithUserAndPort(t *testing.T) {
	for text, want := range map[string]ssh.Host{
		"host":                  {Address: "host"},
		"u@host":                {User: "u", Address: "host"},
		"u@host:2222":           {User: "u", Address: "host", Port: 2222},
		"u@corp@host":           {User: "u@corp", Address: "host"},
		"u@::1":                 {User: "u", Address: "::1"},
		"u@[::1]":               {User: "u", Address: "::1"},
		"u@[fe80::1%eth0]:2222": {User: "u", Address: "fe80::1%eth0", Port: 2222},
	} {
		got, err := parseHost(text)
		if err != nil || got.User != want.User || got.Address != want.Address || got.Port != want.Port {
			t.Errorf("%s: %v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "u@", "u@host:", "u@host:x", "u@host:0", "u@host:65536", "u@[::1", "u@[::1]:", "u@:22", "-oProxyCommand=x", "--accept-new", "u@-x", "-u@host"} {
		if got, err := parseHost(text); err == nil {
			t.Errorf("%q was taken for %v", text, got)
		}
	}
}

func TestUploadsAreReadWithTheirModes(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := errors.Join(os.WriteFile(file, nil, 0o600), os.Chmod(file, 0o751)); err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]upload{
		file + ":/to":      {to: "/to", mode: 0o751},
		file + ":/to:0600": {to: "/to", mode: 0o600},
		file + ":to:7":     {to: "to", mode: 0o007},
	} {
		got, err := parseUpload(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		got.file.Close()
		if got.to != want.to || got.mode != want.mode {
			t.Errorf("%s: %+v", text, got)
		}
	}
	for _, text := range []string{"", file, file + ":", ":/to", file + ":/to:", file + ":/to:rw", file + ":/to:1777", file + ":/to:0600:x", filepath.Dir(file) + ":/to", file + "x:/to"} {
		if u, err := parseUpload(text); err == nil {
			u.file.Close()
			t.Errorf("%q was taken", text)
		}
	}
}
