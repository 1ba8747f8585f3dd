package kubeenv

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/jibe-vnfm/jibe/test/testenv"
)

// ServerPID is the file next to the folder of a [Plane] in which a test may keep the process id of a server of its
// own. That server then ends with the control plane.
const ServerPID = "jibe.pid"

// Plane is a control plane of one test alone, whose servers it may break.
type Plane struct {
	// Dir has its data, certificates, logs and process ids.
	Dir string

	script string
}

// StartPlane starts a control plane in a folder, with arguments of "controlplane start". It is gone when the test has
// ended, however that did: cleanups do not run in a test that is killed, but the standard input of its child ends.
func StartPlane(t testing.TB, dir string, args ...string) *Plane {
	t.Helper()
	p := &Plane{Dir: dir, script: filepath.Join(testenv.Root(), "test", "controlplane", "controlplane")}

	warden := exec.Command("bash", "-c", `cat >/dev/null
		pid=$(cat "$2" 2>/dev/null) && grep -q -- "${2%/*}" "/proc/$pid/cmdline" 2>/dev/null && kill -9 "$pid"
		exec "$0" wipe --dir "$1"`, p.script, dir, filepath.Join(filepath.Dir(dir), ServerPID))
	warden.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	alive, err := warden.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := warden.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(alive.Close(), warden.Wait()); err != nil {
			t.Errorf("stop the control plane in %s: %v", dir, err)
		}
	})

	if err := p.run(t.Context(), "start", args...); err != nil {
		t.Fatal(err)
	}
	return p
}

// run calls the script. What that prints goes to a file, as the servers would hold a pipe open.
func (p *Plane) run(ctx context.Context, verb string, args ...string) error {
	log, err := os.CreateTemp("", "jibe-controlplane-")
	if err != nil {
		return err
	}
	defer os.Remove(log.Name())
	defer log.Close()

	cmd := exec.CommandContext(ctx, p.script, append([]string{verb, "--dir", p.Dir}, args...)...)
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Run(); err != nil {
		text, _ := os.ReadFile(log.Name()) // what is missing of it is missing in the error
		return fmt.Errorf("controlplane %s: %w: %s", verb, err, text)
	}
	return nil
}

// Restart kills servers, if they run, and starts them again in this order.
func (p *Plane) Restart(ctx context.Context, servers ...string) error {
	return p.run(ctx, "restart", servers...)
}

// Signal sends a signal to one of the servers.
func (p *Plane) Signal(server string, s syscall.Signal) error {
	text, err := os.ReadFile(filepath.Join(p.Dir, "run", server+".pid"))
	if err != nil {
		return err
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		return err
	}
	if err := syscall.Kill(pid, s); err != nil {
		return fmt.Errorf("signal %v to %s: %w", s, server, err)
	}
	return nil
}

// Kubeconfig is the path of an administrator's.
func (p *Plane) Kubeconfig() string { return filepath.Join(p.Dir, "kubeconfig") }

// RestConfig is a configuration of clients, without a limit of requests.
func (p *Plane) RestConfig(t testing.TB) *rest.Config {
	t.Helper()
	return restConfig(t, p.Kubeconfig())
}
