//go:build linux

package hooks_test

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/jibe-vnfm/jibe/hooks"
)

func TestWhatAHookWantsToBeKeptIsRead(t *testing.T) {
	t.Parallel()
	got, err := newRunner(t).Run(t.Context(), shell(`echo '{"metadata": {"nodes": 3, "old": null}, "extensions": {"a": {"b": [1]}}, "handOver": {"token": "t0ken"}}'`))
	if err != nil {
		t.Fatal(err)
	}
	want := hooks.Output{
		Metadata: map[string]any{"nodes": 3.0, "old": nil}, Extensions: map[string]any{"a": map[string]any{"b": []any{1.0}}},
		HandOver: json.RawMessage(`{"token": "t0ken"}`),
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestOfAHookThatFailsTheHandOverAloneIsKept(t *testing.T) {
	t.Parallel()
	out, err := newRunner(t).Run(t.Context(), shell(`echo '{"message": "m", "metadata": {"nodes": 3}, "handOver": [1]}'; exit 3`))
	var failed *hooks.FailedError
	if !errors.As(err, &failed) || failed.Reason != "exit status 3" {
		t.Fatal(err)
	}
	if diff := cmp.Diff(hooks.Output{HandOver: json.RawMessage(`[1]`)}, out); diff != "" {
		t.Error(diff)
	}
}

func TestOfAHookThatFailsNoMoreIsKeptThanOfAnother(t *testing.T) {
	t.Parallel()
	out, err := newRunner(t).Run(t.Context(), shell(`echo '{"handOver": "'$(printf %070000d 0)'"}'; exit 3`))
	if err == nil || len(out.HandOver) > 0 {
		t.Errorf("%d bytes of hand-over are kept (%v)", len(out.HandOver), err)
	}
}

func TestWhatMustNotStandInGitIsRefused(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("0", 70_000)
	for name, x := range map[string]struct{ output, says string }{
		"a secret that it was given":    {`{"metadata": {"note": "it is hunter2-secret"}}`, "metadata with a secret"},
		"a credential by its name":      {`{"extensions": {"node": {"password": "anything"}}}`, "extensions with a secret"},
		"more than 64 KiB of metadata":  {`{"metadata": {"note": "` + long + `"}}`, "at most 65536 are kept"},
		"more than 64 KiB of hand-over": {`{"handOver": "` + long + `"}`, "at most 65536 are kept"},
		"a VIM without TLS":             {`{"vims": {"edge": {"endpoint": "http://h:6443", "token": "hunter2"}}}`, "must be https://"},
		"a VIM without credentials":     {`{"vims": {"edge": {"endpoint": "https://h:6443"}}}`, "needs a token"},
		"a VIM with half of them":       {`{"vims": {"edge": {"endpoint": "https://h:6443", "clientCert": "hunter2"}}}`, "belong together"},
		"a VIM whose key is none":       {`{"vims": {"edge": {"endpoint": "https://h:6443", "clientCert": "hunter2", "clientKey": "hunter2"}}}`, "aren't a certificate and its key"},
		"a VIM whose CA is a file":      {`{"vims": {"edge": {"endpoint": "https://h:6443", "caCert": "file:/etc/hunter2", "token": "t"}}}`, "caCert must be a certificate in PEM"},
		"metadata that is no object":    {`{"metadata": ["a"]}`, "isn't one JSON object of the contract"},
	} {
		if _, reason := hooks.OutputOf(hooks.Call{Secrets: []string{"hunter2-secret"}}, []byte(x.output)); !strings.Contains(reason, x.says) || strings.Contains(reason, "hunter2") {
			t.Errorf("%s: %s", name, reason)
		}
	}

	r := newRunner(t)
	c := shell(`echo '{"metadata": {"note": "it is hunter2-secret"}}'`)
	c.Secrets = []string{"hunter2-secret"}
	if got := fails(t, r, c); !strings.Contains(got.Reason, "metadata with a secret") || strings.Contains(got.Reason, "hunter2") {
		t.Errorf("of a program: %s", got.Reason)
	}
	c = shell(`echo '{"handOver": {"password": "hunter2-secret"}, "metadata": {"password": "age:abc"}}'`)
	c.Secrets = []string{"hunter2-secret"}
	run(t, r, c)
}

func TestCredentialsThatWereHandedOverAreKeptFromLogsToo(t *testing.T) {
	t.Parallel()
	c := shell(`echo "the token is t0ken-of-before" >&2; exit 1`)
	c.Input.HandOver = json.RawMessage(`{"join": {"token": "t0ken-of-before"}}`)
	if got := fails(t, newRunner(t), c); got.Stderr != "the token is ***" {
		t.Errorf("the error says %q", got.Stderr)
	}
}

func TestHooksFindJibesToolInTheirPathAndNobodyMayChangeIt(t *testing.T) {
	t.Parallel()
	r := newRunner(t)
	tool := filepath.Join(t.TempDir(), "jibe")
	if err := os.WriteFile(tool, []byte("#!/bin/sh\necho \"{\\\"message\\\": \\\"$1\\\"}\"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	r.Tool = tool
	for range 2 {
		if got := run(t, r, shell(`jibe ssh`)); got != "ssh" {
			t.Errorf("it says %q", got)
		}
	}
	if os.Geteuid() == 0 {
		fails(t, r, shell(`echo changed > "$(command -v jibe)"`))
	}
	if err := os.RemoveAll(filepath.Join(r.Dir, "bin")); err != nil {
		t.Error(err)
	}
}
