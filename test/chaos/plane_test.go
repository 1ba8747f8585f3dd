package chaos_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jibe-vnfm/jibe/test/kit"
	"github.com/jibe-vnfm/jibe/test/kubeenv"
)

const apiServer = "kube-apiserver"

// clients are the servers that work for the API server. They leave one that was away
// alone for up to minutes, so that they are started again with it. kwok goes on: another
// one would have to wait until the leases of its nodes end.
func clients() []string { return []string{"kube-controller-manager", "kube-scheduler"} }

// startPlane starts the control plane of this test alone, as its API server dies now and then.
func startPlane(t *testing.T, dir string) *kubeenv.Plane {
	t.Helper()
	p := kubeenv.StartPlane(t, dir, "--audit")
	t.Cleanup(func() {
		if t.Failed() {
			if err := os.CopyFS(filepath.Join(filepath.Dir(dir), "controlplane-log"), os.DirFS(filepath.Join(dir, "log"))); err != nil {
				t.Log(err)
			}
		}
	})
	return p
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
			err = w.plane.Signal(apiServer, syscall.SIGKILL)
			kit.Rest(ctx, stop, away)
			if started := w.plane.Restart(ctx, append([]string{apiServer}, clients()...)...); started != nil {
				err = errors.Join(err, started)
			}
			w.log.note("chaos", "", "the API server is back")
		} else {
			hangs := time.Duration(rng.Int64N(int64(apiHangs)))
			w.log.note("chaos", "", "freeze the API server for %s", hangs.Round(time.Millisecond))
			w.log.count("API server frozen")
			err = w.plane.Signal(apiServer, syscall.SIGSTOP)
			kit.Rest(ctx, stop, hangs)
			err = errors.Join(err, w.plane.Signal(apiServer, syscall.SIGCONT))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// audit calls what with each line of the API server's audit log: who wrote what.
func (w *world) audit(each func(line []byte) error) error {
	return eachLine(filepath.Join(w.plane.Dir, "log", "audit.log"), each)
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
