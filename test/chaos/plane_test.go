package chaos_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jibe-vnfm/jibe/test/kit"
	"github.com/jibe-vnfm/jibe/test/process"
)

const apiServer = "kube-apiserver"

// clients are the servers that work for the API server. They leave one that was away
// alone for up to minutes, so that they are started again with it. kwok goes on: another
// one would have to wait until the leases of its nodes end.
func clients() []string { return []string{"kube-controller-manager", "kube-scheduler"} }

// plane is the control plane of this test alone, as its API server dies now and then.
type plane struct {
	script, dir string
}

// startPlane starts a control plane in a folder. It is gone when the test has ended, however it did, and
// so is the last Jibe.
func startPlane(t *testing.T, dir string) *plane {
	t.Helper()
	p := &plane{script: filepath.Join(process.Root(), "test", "controlplane", "controlplane"), dir: dir}
	// Cleanups don't run in a test that is killed or runs out of time. This process sees
	// its standard input end whatever happens; it ends Jibe and the control plane then.
	warden := exec.Command("bash", "-c", `cat >/dev/null
		pid=$(cat "$2" 2>/dev/null) && grep -q -- "${2%/*}" "/proc/$pid/cmdline" 2>/dev/null && kill -9 "$pid"
		exec "$0" wipe --dir "$1"`, p.script, p.dir, filepath.Join(filepath.Dir(dir), "jibe.pid"))
	warden.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	alive, err := warden.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := warden.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			if err := os.CopyFS(filepath.Join(filepath.Dir(dir), "controlplane-log"), os.DirFS(filepath.Join(dir, "log"))); err != nil {
				t.Log(err)
			}
		}
		if err := errors.Join(alive.Close(), warden.Wait()); err != nil {
			t.Errorf("stop the control plane in %s: %v", dir, err)
		}
	})
	if _, err := p.run(t.Context(), "start", "--audit", "--dir", dir); err != nil {
		t.Fatal(err)
	}
	return p
}

func (p *plane) run(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, p.script, args...)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		err = fmt.Errorf("controlplane %s: %w: %s", strings.Join(args, " "), err, stderr.String())
	}
	return string(out), err
}

// restart kills servers and starts them again.
func (p *plane) restart(ctx context.Context, servers ...string) error {
	_, err := p.run(ctx, append([]string{"restart", "--dir", p.dir}, servers...)...)
	return err
}

func (p *plane) kubeconfig() string { return filepath.Join(p.dir, "kubeconfig") }

// signal sends a signal to one of the servers.
func (p *plane) signal(server string, s syscall.Signal) error {
	text, err := os.ReadFile(filepath.Join(p.dir, "run", server+".pid"))
	if err != nil {
		return err
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		return err
	}
	return syscall.Kill(pid, s)
}

// The API server is away for up to apiAway and its start, or hangs for up to apiHangs.
const (
	apiAway  = 5 * time.Second
	apiHangs = 4 * time.Second
	apiEvery = 15 * time.Second
)

// breakAPIServer kills or freezes the API server now and then until stop is closed. It
// always leaves one that works.
func (w *world) breakAPIServer(ctx context.Context, rng *rand.Rand, stop <-chan struct{}) error {
	for kit.Rest(ctx, stop, time.Duration(rng.Int64N(int64(2*apiEvery)))) {
		var err error
		if rng.IntN(2) == 0 {
			away := time.Duration(rng.Int64N(int64(apiAway)))
			w.log.note("chaos", "", "kill the API server, start it after %s", away.Round(time.Millisecond))
			w.log.count("API server killed")
			err = w.plane.signal(apiServer, syscall.SIGKILL)
			kit.Rest(ctx, stop, away)
			if started := w.plane.restart(ctx, append([]string{apiServer}, clients()...)...); started != nil {
				err = errors.Join(err, started)
			}
			w.log.note("chaos", "", "the API server is back")
		} else {
			hangs := time.Duration(rng.Int64N(int64(apiHangs)))
			w.log.note("chaos", "", "freeze the API server for %s", hangs.Round(time.Millisecond))
			w.log.count("API server frozen")
			err = w.plane.signal(apiServer, syscall.SIGSTOP)
			kit.Rest(ctx, stop, hangs)
			err = errors.Join(err, w.plane.signal(apiServer, syscall.SIGCONT))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// audit calls what with each line of the API server's audit log: who wrote what.
func (p *plane) audit(each func(line []byte) error) error {
	return eachLine(filepath.Join(p.dir, "log", "audit.log"), each)
}

// eachLine calls each with every line of a file.
func eachLine(file string, each func(line []byte) error) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(text)) {
		if err := each([]byte(line)); err != nil {
			return err
		}
	}
	return nil
}
