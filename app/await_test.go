package app_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/jibe-vnfm/jibe/app"
	"github.com/jibe-vnfm/jibe/test/kit"
)

func TestAStartWaitsForARedisThatIsAwayAndSaysSo(t *testing.T) {
	t.Parallel()

	r, s := newReplicas(t, 1)
	r.create(s[0], 1)
	r.end()
	r.redis.Kill()
	o := r.options()
	o.Data, o.Listen = s[0].Data, kit.Free(t)
	answers := func(path string, status int, words string) {
		t.Helper()
		kit.Eventually(t, func() error {
			resp, err := http.Get("http://" + o.Listen + path)
			if err != nil {
				return err
			}
			defer resp.Body.Close()
			body, err := io.ReadAll(resp.Body)
			if err == nil && (resp.StatusCode != status || !strings.Contains(string(body), words)) {
				err = fmt.Errorf("%s: %d %s, want %d %s", path, resp.StatusCode, body, status, words)
			}
			return err
		})
	}
	run := func() (end context.CancelFunc, done chan error) {
		ctx, cancel := context.WithCancel(t.Context())
		done = make(chan error, 1)
		go func() { done <- app.Run(ctx, o) }()
		return cancel, done
	}
	waits := func() {
		t.Helper()
		answers("/healthz", http.StatusOK, "ok")
		answers("/readyz", http.StatusServiceUnavailable, "the store isn't reached")
		answers("/vnflcm/v2/vnf_instances", http.StatusServiceUnavailable, "starting")
	}
	end, done := run()
	waits()
	end()
	if err := <-done; err != nil {
		t.Errorf("told to end while it waits, it ends with %v", err)
	}
	end, done = run()
	defer end()
	waits()
	r.redis.Start(t)
	answers("/readyz", http.StatusOK, "")
	end()
	if err := <-done; err != nil {
		t.Error(err)
	}

	// What Redis refuses isn't waited for.
	if err := r.redis.Client(t).ConfigSet(t.Context(), "requirepass", "other").Err(); err != nil {
		t.Fatal(err)
	}
	if err := app.Run(t.Context(), o); err == nil || !strings.Contains(err.Error(), "NOAUTH") {
		t.Errorf("without the password the start ends with %v", err)
	}
}
