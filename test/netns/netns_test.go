package netns

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jibe-vnfm/jibe/test/kit"
)

func add(t *testing.T, l *Lab, spec Spec) *Host {
	t.Helper()
	h, err := l.Add(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func addrs(texts ...string) []netip.Addr {
	var all []netip.Addr
	for _, text := range texts {
		all = append(all, netip.MustParseAddr(text))
	}
	return all
}

// login runs a command over SSH as hooks of packages do: with paramiko, as nobody, with
// nothing of this process's environment.
func login(t *testing.T, addr, user, password, command string) (string, error) {
	t.Helper()
	const program = `
import sys, paramiko
c = paramiko.SSHClient()
c.set_missing_host_key_policy(paramiko.AutoAddPolicy())
c.connect(sys.argv[1], username=sys.argv[2], password=sys.argv[3], allow_agent=False, look_for_keys=False, timeout=20)
_, out, err = c.exec_command(sys.argv[4])
sys.stdout.write(out.read().decode())
sys.stderr.write(err.read().decode())
sys.exit(out.channel.recv_exit_status())`
	cmd := exec.CommandContext(t.Context(), "/usr/bin/python3", "-c", program, addr, user, password, command)
	cmd.Env = []string{"PATH=" + searchPath}
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	out, err := cmd.Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return string(out), errors.New(string(exit.Stderr))
	}
	return string(out), err
}

func TestAProgramOfNobodysLogsInWithAPasswordAndBecomesRoot(t *testing.T) {
	l := Start(t, "10.201.1.0/24")
	NeedParamiko(t)
	h := add(t, l, Spec{
		Name: "vm1", Addrs: addrs("10.201.1.10"), Users: []User{{"operator7", "very secret"}, {"root", "toor"}},
	})
	out, err := login(t, "10.201.1.10", "operator7", "very secret", "whoami; hostname; pwd; echo kept | sudo -n tee /etc/note")
	if want := "operator7\nvm1\n/home/operator7\nkept\n"; err != nil || out != want {
		t.Errorf("it said %q, %v; want %q", out, err, want)
	}
	if note, err := h.ReadFile("/etc/note"); err != nil || string(note) != "kept\n" {
		t.Errorf("the file is %q, %v", note, err)
	}
	if out, err := login(t, "10.201.1.10", "root", "toor", "whoami"); err != nil || out != "root\n" {
		t.Errorf("root is %q, %v", out, err)
	}
	if _, err := login(t, "10.201.1.10", "operator7", "guessed", "true"); err == nil || !strings.Contains(err.Error(), "Authentication failed") {
		t.Errorf("a wrong password: %v", err)
	}
}

func TestHostsShareNothingButTheNetwork(t *testing.T) {
	l := Start(t, "10.201.2.0/24")
	one := add(t, l, Spec{Name: "one", Addrs: addrs("10.201.2.10", "10.201.2.11"), Labels: map[string]string{"server": "s-1"},
		Files: map[string]File{"/etc/vnf.json": {Data: []byte(`{"role": "active"}`)}}})
	two := add(t, l, Spec{Name: "two", Addrs: addrs("10.201.2.12")})
	if _, err := two.ReadFile("/etc/vnf.json"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the other host has the file too: %v", err)
	}
	if _, err := os.Stat("/etc/vnf.json"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("this machine has the file too: %v", err)
	}
	out, err := two.Run(t.Context(), nil, "python3", "-c", `
import json, urllib.request
answer = json.load(urllib.request.urlopen("http://10.201.2.11:8080/"))
print(answer["host"], answer["labels"]["server"], answer["config"]["role"])`)
	if err != nil || out != "one s-1 active\n" {
		t.Errorf("the application said %q, %v", out, err)
	}
	if err := one.SetLabels(map[string]string{"server": "s-2"}); err != nil {
		t.Fatal(err)
	}
	if a, err := Ask(t.Context(), one.URL()); err != nil || a.Labels["server"] != "s-2" || a.Config["role"] != "active" || a.Host != "one" {
		t.Errorf("from this machine it said %+v, %v", a, err)
	}
	ps, err := two.Run(t.Context(), nil, "sh", "-c", "ls -d /proc/[0-9]* | wc -l")
	if err != nil || len(strings.TrimSpace(ps)) > 1 {
		t.Errorf("a host sees %s processes, %v", strings.TrimSpace(ps), err)
	}
	if _, err := two.Run(t.Context(), nil, "sh", "-c", "echo not so >&2; exit 3"); err == nil || !strings.Contains(err.Error(), "not so") {
		t.Errorf("a command that fails: %v", err)
	}
}

func TestAHostHasWhatIsMountedAndCannotChangeIt(t *testing.T) {
	l := Start(t, "10.201.9.0/24")
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "tool"), []byte("#!/bin/sh\necho done by $0\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	h := add(t, l, Spec{Name: "vm", Addrs: addrs("10.201.9.10"), NoWeb: true, Mounts: map[string]string{
		"/opt/tools": dir, "/usr/local/bin/tool": filepath.Join(dir, "tool"),
	}})
	out, err := h.Run(t.Context(), nil, "sh", "-c", "/opt/tools/tool; /usr/local/bin/tool; touch /opt/tools/new || echo no")
	if want := "done by /opt/tools/tool\ndone by /usr/local/bin/tool\nno\n"; err != nil || out != want {
		t.Errorf("it said %q, %v; want %q", out, err, want)
	}
	if _, err := l.Add(t.Context(), Spec{Name: "lost", Addrs: addrs("10.201.9.11"), Mounts: map[string]string{
		"/opt/tools": filepath.Join(dir, "missing"),
	}}); err == nil || !strings.Contains(err.Error(), "missing") {
		t.Errorf("a source that isn't there: %v", err)
	}
}

func TestAHostThatIsRemovedNoLongerAnswersAndItsAddressIsFree(t *testing.T) {
	l := Start(t, "10.201.3.0/24")
	h := add(t, l, Spec{Name: "old", Addrs: addrs("10.201.3.10")})
	if _, err := l.Add(t.Context(), Spec{Name: "too", Addrs: addrs("10.201.3.10")}); err == nil || !strings.Contains(err.Error(), "host old") {
		t.Errorf("two hosts with one address: %v", err)
	}
	h.Remove()
	// The lab's subnet still leads to the bridge, where nobody takes the packet.
	if c, err := net.DialTimeout("tcp", h.At(22), 300*time.Millisecond); err == nil {
		_ = c.Close()
		t.Error("it still answers")
	}
	anew := add(t, l, Spec{Name: "new", Addrs: addrs("10.201.3.10"), Labels: map[string]string{"server": "new"}})
	h.Remove() // is gone already, and not who has the address now
	if a, err := Ask(t.Context(), anew.URL()); err != nil || a.Host != "new" {
		t.Errorf("the new host said %+v, %v", a, err)
	}
	if all := l.Hosts(); len(all) != 1 || all[0] != anew || l.Host(anew.Addr()) != anew {
		t.Errorf("the hosts are %v", all)
	}
	l.Close()
	if _, err := l.Add(t.Context(), Spec{Name: "late", Addrs: addrs("10.201.3.11")}); err == nil {
		t.Error("a closed lab takes hosts")
	}
}

func TestLabsOnOneSubnetFollowEachOtherAndLeaveNothing(t *testing.T) {
	for range 2 {
		l := Start(t, "10.201.4.0/24")
		add(t, l, Spec{Name: "vm", Addrs: addrs("10.201.4.10")})
		link, dir := l.link, l.dir
		l.Close()
		if _, err := net.InterfaceByName(link); err == nil {
			t.Errorf("the wire %s is still there", link)
		}
		if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s is still there: %v", dir, err)
		}
	}
}

// The test kills a process of its own that has a lab.
func TestNothingOfALabOutlivesAProcessThatIsKilled(t *testing.T) {
	const subnet = "10.201.5.0/24"
	if os.Getenv("NETNS_TEST_VICTIM") == "1" {
		l := Start(t, subnet)
		add(t, l, Spec{Name: "victim", Addrs: addrs("10.201.5.10")})
		// The process that is killed here has had no chance to clear up.
		if err := syscall.Kill(os.Getpid(), syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		select {}
	}
	if err := able(); err != nil {
		Start(t, subnet) // skips
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$")
	cmd.Env = append(os.Environ(), "NETNS_TEST_VICTIM=1")
	if err := cmd.Run(); err == nil || cmd.ProcessState.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		t.Fatal("it wasn't killed:", err)
	}
	kit.Eventually(t, func() error {
		// The wire goes when the last process of the namespaces has.
		_, err := net.InterfaceByName(linkName(netip.MustParseAddr("10.201.5.0")))
		left, _ := exec.Command("pgrep", "-f", "machine.sh /run/lab.* victim").Output()
		if err == nil {
			return errors.New("its wire is still there")
		}
		if len(left) > 0 {
			return fmt.Errorf("its host is still there: %s", left)
		}
		return nil
	})
}
