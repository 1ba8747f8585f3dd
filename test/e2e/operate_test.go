package e2e

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/jibe-vnfm/jibe/test/kit"
	"github.com/jibe-vnfm/jibe/test/process"
)

// fails starts `jibe serve` where it has to end by itself and returns what it says.
func fails(t *testing.T, data string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), program(t), append([]string{"serve", "--data", data, "--listen", "127.0.0.1:0", "--egress-allow", "127.0.0.0/8,::1"}, args...)...)
	cmd.Env = process.Environment()
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 1 {
		t.Fatalf("jibe serve ended with %v:\n%s", err, out)
	}
	return string(out)
}

func TestASecondProcessExitsNamingTheFirst(t *testing.T) {
	t.Parallel()
	s := serve(t, filepath.Join(t.TempDir(), "data"))
	out := fails(t, s.data)
	if want := fmt.Sprintf("in use by process %d", s.process.Pid()); !strings.Contains(out, want) {
		t.Errorf("no %q in %q", want, out)
	}
	if n := strings.Count(strings.TrimSpace(out), "\n"); n != 0 {
		t.Errorf("it says more than the one line that matters:\n%s", out)
	}
}

func TestAStoppedProcessEndsInOrderAndTheNextGoesOn(t *testing.T) {
	b := newBench(t, usual) // for the namespace; the server is one of this test
	data := filepath.Join(t.TempDir(), "data")
	first := serve(t, data)
	if err := first.equip(t.TempDir()); err != nil {
		t.Fatal(err)
	}
	b.server = first
	id := b.create(byHand)
	path := b.begin(t, id, "instantiate", b.request())
	pod := b.waiting()
	if err := first.process.Stop(); err != nil {
		t.Fatal(err)
	}
	b.server = serve(t, data)
	b.await(t, path, "PROCESSING")
	b.bind(pod)
	b.await(t, path, "COMPLETED")
	if n := len(b.history(t, id)); n != 1 {
		t.Errorf("%d operations, want the one", n)
	}
}

// writable waits until the server says so of its disk: by /readyz and by its metric.
func (s *server) writable(t *testing.T, status int, says, metric string) {
	t.Helper()
	kit.Eventually(t, func() error {
		if a := s.rest(t, "GET", "/readyz", nil); a.Status != status || !strings.Contains(string(a.Body), says) {
			return fmt.Errorf("/readyz is %d: %s", a.Status, a.Body)
		}
		return nil
	})
	if a := s.must(t, http.StatusOK, "GET", "/metrics", nil); !strings.Contains(string(a.Body), "\n"+metric+"\n") {
		t.Errorf("the metrics don't hold %s", metric)
	}
}

func TestAFullDiskIsSaidToBeAndPasses(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		t.Skip("a small file system can only be mounted by root")
	}
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=16m"); err != nil {
		t.Skipf("a small file system can't be mounted: %v", err)
	}
	s := serve(t, filepath.Join(dir, "data"))
	t.Cleanup(func() {
		s.process.KillGroup()
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil { // its git processes end in a moment
			t.Error(err)
		}
	})
	if err := s.equip(t.TempDir()); err != nil {
		t.Fatal(err)
	}
	full := filepath.Join(dir, "full")
	f, err := os.Create(full)
	if err != nil {
		t.Fatal(err)
	}
	for chunk := make([]byte, 64<<10); err == nil; {
		_, err = f.Write(chunk)
	}
	for b := []byte{0}; ; {
		if _, err := f.Write(b); err != nil {
			break
		}
	}
	if err := f.Close(); err != nil && !errors.Is(err, syscall.ENOSPC) {
		t.Fatal(err)
	}
	a := s.rest(t, "POST", instances, object{"vnfdId": plain})
	t.Logf("%d %s", a.Status, a.Body)
	if a.Status != http.StatusServiceUnavailable && a.Status != http.StatusInsufficientStorage || !strings.Contains(string(a.Body), "no space left") {
		t.Errorf("a request on a full disk: %d: %s", a.Status, a.Body)
	}
	d := s.clone(t, "desired.git")
	d.Write("instances/x/vnf.yaml", "vnfdId: "+plain+"\nstate: notInstantiated\n")
	d.Commit("Onto a full disk")
	out, pushErr := d.TryPush()
	if pushErr == nil {
		t.Errorf("a push onto a full disk is accepted:\n%s", out)
	}
	s.must(t, 200, "GET", instances, nil)
	s.writable(t, http.StatusServiceUnavailable, "no space left", "jibe_data_writable 0")
	if err := os.Remove(full); err != nil {
		t.Fatal(err)
	}
	s.writable(t, http.StatusOK, "ok", "jibe_data_writable 1")
	kit.Eventually(t, func() error {
		if a := s.rest(t, "POST", instances, object{"vnfdId": plain}); a.Status != http.StatusCreated {
			return fmt.Errorf("a request when there is room again: %d: %s", a.Status, a.Body)
		}
		return nil
	})
	if out, err := d.TryPush(); err != nil {
		t.Errorf("a push when there is room again: %v\n%s", err, out)
	}
	kit.Eventually(t, func() error {
		if n := len(decodeList(t, s.must(t, 200, "GET", instances, nil).Body)); n != 2 {
			return fmt.Errorf("%d instances, want 2", n)
		}
		return nil
	})
}

func TestProbesNeedNoTokenAndMetricsDo(t *testing.T) {
	b := newBench(t, usual)
	for path, want := range map[string]string{"/healthz": "ok", "/readyz": "ok"} {
		if a := b.must(t, 200, "GET", path, nil, "Authorization", "none"); !strings.Contains(string(a.Body), want) {
			t.Errorf("%s: %s", path, a.Body)
		}
	}
	for _, path := range []string{process.Instances, "/jibe/v1/packages", "/metrics"} {
		b.must(t, 401, "GET", path, nil, "Authorization", "none")
	}
}
