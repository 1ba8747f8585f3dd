//go:build linux

package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jibe-vnfm/jibe/test/kit"
)

// tryHook runs the script as a hook of an example package.
func tryHook(t *testing.T, script string, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(filepath.Join("..", "..", "examples", "packages", "vm-indexed-1.0"))); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "Scripts", "hook.sh"), []byte("#!/bin/sh\n"+script), 0o755); err != nil {
		t.Fatal(err)
	}
	var out, errs bytes.Buffer
	cmd := newPackage()
	cmd.SetOut(&out)
	cmd.SetErr(&errs)
	cmd.SetIn(strings.NewReader(`{"handOver": {"step": 2}, "operation": {"id": "op", "type": "SCALE", "attempt": 7}}`))
	cmd.SilenceUsage, cmd.SilenceErrors = true, true
	cmd.SetArgs(append([]string{"test-hook", dir}, args...))
	err = cmd.ExecuteContext(t.Context())
	return out.String(), errs.String(), err
}

func TestAHookIsRunHereWithTheInputThatTheVNFDImplies(t *testing.T) {
	out, said, err := tryHook(t, `echo "I am $JIBE_HOOK" >&2; printf '{"handOver": '; cat; echo '}'`, "scale_start", "--program", "Scripts/hook.sh")
	if err != nil {
		t.Fatal(err)
	}
	var got struct {
		HandOver struct {
			Hook    string
			Removed []struct{ VduID string }
			Added   []any
			After   struct{ Dir string }
		}
	}
	if err := json.Unmarshal([]byte(out), &got); err != nil {
		t.Fatal(err)
	}
	if x := got.HandOver; x.Hook != "scale_start" || len(x.Removed) == 0 || x.Removed[0].VduID != "VDU1" || x.Added == nil || x.After.Dir == "" {
		t.Errorf("its input is %+v", x)
	}
	if said != "Scripts/hook.sh: I am scale_start\n" {
		t.Errorf("standard error has %q", said)
	}
}

func TestAttributesOfAHooksInputAreTakenFromAFile(t *testing.T) {
	const program = `input=$(cat); case "$input" in *'"attempt":7'*'"handOver":{"step":2}'*) ;; *) exit 1;; esac`
	if _, _, err := tryHook(t, program, "scale_end", "--program", "Scripts/hook.sh", "--input", "-"); err != nil {
		t.Error(err)
	}
	bad := filepath.Join(t.TempDir(), "bad.json")
	if err := os.WriteFile(bad, []byte(`{"handover": 1, "tries": 2}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := tryHook(t, program, "scale_end", "--program", "Scripts/hook.sh", "--input", bad); err == nil || !strings.Contains(err.Error(), `"tries"`) {
		t.Errorf("an attribute that there isn't: %v", err)
	}
}

func TestAHookThatFailsHereSaysWhatItWouldDoToTheOperation(t *testing.T) {
	kit.Long(t)
	for name, x := range map[string]struct {
		script string
		args   []string
		says   string
	}{
		"exit code":           {"exit 3", []string{"scale_end", "--program", "Scripts/hook.sh"}, "Scripts/hook.sh failed: exit status 3; the operation would be FAILED_TEMP"},
		"a stray print":       {"echo hello", []string{"scale_end", "--program", "Scripts/hook.sh"}, "isn't one JSON object"},
		"a hang":              {"sleep 100", []string{"scale_end", "--program", "Scripts/hook.sh", "--timeout", "100ms"}, "not done within 100ms"},
		"no such program":     {"", []string{"scale_end", "--program", "Scripts/other.sh"}, "it isn't in the package"},
		"not named":           {"", []string{"scale_end"}, "has no hook scale_end"},
		"no such flavour":     {"", []string{"scale_end", "--flavour", "nope"}, "name one of the VNFD's flavours"},
		"what can't be kept":  {`echo '{"metadata": {"password": "x1y2z3"}}'`, []string{"scale_end", "--program", "Scripts/hook.sh"}, "a secret in clear"},
		"no package":          {"", []string{"scale_end", "--input", "/nonexistent.json", "--program", "Scripts/hook.sh"}, "/nonexistent.json"},
		"a terminal for what": {"stty >/dev/null", []string{"scale_end", "--program", "Scripts/hook.sh"}, "exit status 1"},
	} {
		if _, _, err := tryHook(t, x.script, x.args...); err == nil || !strings.Contains(err.Error(), x.says) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
