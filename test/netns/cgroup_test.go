package netns

import (
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jibe-vnfm/jibe/test/kit"
)

func TestAHostThatRunsContainersHasItsOwnCgroupsAndKernelSettings(t *testing.T) {
	l := Start(t, "10.205.21.0/24")
	if err := ContainersAble(); err != nil {
		t.Skip(err)
	}
	const setting = "/proc/sys/kernel/panic"
	before, err := os.ReadFile(setting)
	if err != nil {
		t.Fatal(err)
	}
	h := add(t, l, Spec{Name: "node", Addrs: addrs("10.205.21.2"), NoWeb: true, Containers: true, Boot: "touch /run/booted"})
	if _, err := h.ReadFile("/run/booted"); err != nil {
		t.Errorf("it didn't boot: %v", err)
	}
	// All that runs there sees the host's own cgroup as the root, and can have more below it.
	out, err := h.Run(t.Context(), nil, "bash", "-ec", `
		grep -v ':/$' /proc/self/cgroup && exit 1
		mkdir /sys/fs/cgroup/memory/pods
		sleep 1000 & echo $! >/sys/fs/cgroup/memory/pods/cgroup.procs
		echo 4321 >`+setting+`
		stat -f -c %T /var/lib/containerd`)
	if err != nil || out != "tmpfs\n" {
		t.Errorf("on the host: %q, %v", out, err)
	}
	if now, err := os.ReadFile(setting); err != nil || string(now) != string(before) {
		t.Errorf("this machine's %s is %q now, %v", setting, now, err)
	}
	mine := filepath.Join(cgroupRoot, "memory", h.cgroup, "pods")
	if _, err := os.Stat(mine); err != nil {
		t.Errorf("the host's cgroup isn't below its own here: %v", err)
	}
	h.Remove()
	if _, err := os.Stat(filepath.Dir(mine)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a host that is gone has its cgroup yet: %v", err)
	}
	// What a killed process has left goes with the next lab.
	left := filepath.Join(cgroupRoot, "pids", cgroupPrefix+l.link, "7", "pods")
	if err := os.MkdirAll(left, 0o755); err != nil {
		t.Fatal(err)
	}
	l.Close()
	again, err := Open(t.Context(), l.Subnet)
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	if _, err := os.Stat(left); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the cgroup of a lab that was killed is there: %v", err)
	}
}

func TestAConnectionFromAHostReachesItsLoopback(t *testing.T) {
	l := Start(t, "10.205.22.0/24")
	h := add(t, l, Spec{Name: "inside", Addrs: addrs("10.205.22.2"), NoWeb: true})
	if err := h.Serve("python3", "-c", "import http.server as s; s.HTTPServer(('127.0.0.1', 8099), s.SimpleHTTPRequestHandler).serve_forever()"); err != nil {
		t.Fatal(err)
	}
	if _, err := net.Dial("tcp", "127.0.0.1:8099"); err == nil {
		t.Fatal("this machine has something at that port: the test proves nothing")
	}
	kit.Eventually(t, func() error {
		conn, err := h.Dial(t.Context(), "tcp", "127.0.0.1:8099")
		if err != nil {
			return err
		}
		defer conn.Close()
		if _, err := io.WriteString(conn, "GET / HTTP/1.0\r\n\r\n"); err != nil {
			return err
		}
		text, err := io.ReadAll(conn)
		if err == nil && !strings.HasPrefix(string(text), "HTTP/1.0 200") {
			t.Fatalf("it answers %q", text)
		}
		return err
	})
}
