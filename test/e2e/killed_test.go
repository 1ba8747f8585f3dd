package e2e

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/jibe-vnfm/jibe/test/kit"
	"github.com/jibe-vnfm/jibe/test/process"
	"github.com/jibe-vnfm/jibe/test/testenv"
)

func TestAServerThatIsKilledAtWorkStartsAgainAtOnce(t *testing.T) {
	testenv.Chaos(t, "a control plane")
	t.Parallel()
	data := filepath.Join(process.ShortTempDir(t), "data")
	address := kit.Free(t) // one and the same each time, as an installation's is
	s := serve(t, data, "--listen", address)
	if err := s.equip(t.TempDir()); err != nil {
		t.Fatal(err)
	}
	made := 0
	for range 20 {
		made += s.burdened(t, 5)
		// Nobody waits for its end: the next one is started while it dies.
		if err := syscall.Kill(s.process.Pid(), syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		s = serve(t, data, "--listen", address)
	}
	if n := len(decodeList(t, s.must(t, 200, "GET", instances, nil).Body)); n < made {
		t.Errorf("%d instances, though %d requests were answered", n, made)
	}
	// What was answered is on record, in a chain that no kill broke.
	if out, errs, code := s.process.CLI(t, "audit", "verify", "--data", data); code != 0 || !strings.HasPrefix(out, "records 1 to ") {
		t.Errorf("%s%s", out, errs)
	}
	text, err := os.ReadFile(filepath.Join(data, "audit.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(text), `"action":"POST","object":"/vnflcm/v2/vnf_instances","outcome":"done","status":201,`); n < made {
		t.Errorf("%d creations are on record, though %d were answered", n, made)
	}
}

// burdened has clients create instances, each of which starts git processes, and returns
// how many were answered as soon as that is n; the clients go on until the server is gone.
func (s *server) burdened(t *testing.T, n int) int {
	t.Helper()
	answered := make(chan struct{})
	var clients sync.WaitGroup
	t.Cleanup(clients.Wait)
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	for range 8 {
		clients.Go(func() {
			for {
				a, err := s.process.Do(ctx, "POST", instances, object{"vnfdId": plain})
				if err != nil {
					return // it was killed
				}
				if a.Status != 201 {
					continue
				}
				select {
				case answered <- struct{}{}:
				case <-ctx.Done():
					return
				}
			}
		})
	}
	for range n {
		<-answered
	}
	go func() {
		for {
			select {
			case <-answered:
			case <-ctx.Done():
				return
			}
		}
	}()
	return n
}
