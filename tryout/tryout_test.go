package tryout_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/jibe-vnfm/jibe/test/kit"
	"github.com/jibe-vnfm/jibe/test/process"
	"github.com/jibe-vnfm/jibe/tryout"
)

// trial is a running `jibe try`.
type trial struct {
	binary, tmp string
	env         []string
	cmd         *exec.Cmd
}

// try starts `jibe try` and returns when it has said what to do.
func try(t *testing.T, args ...string) *trial {
	t.Helper()
	x := &trial{binary: process.Binary(t), tmp: t.TempDir()}
	x.cmd = exec.CommandContext(t.Context(), x.binary, append([]string{"try", "--listen", "127.0.0.1:0"}, args...)...)
	x.cmd.Env = append(process.Environment(), "TMPDIR="+x.tmp)
	x.cmd.Stderr = os.Stderr
	out, err := x.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := x.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = x.cmd.Process.Kill() })
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if set, ok := strings.CutPrefix(strings.TrimSpace(lines.Text()), "export "); ok {
			x.env = append(process.Environment(), strings.Fields(set)...)
		}
		if strings.HasPrefix(lines.Text(), "ctrl-C") || strings.Contains(lines.Text(), "--quiet") {
			break
		}
	}
	if x.env == nil {
		t.Fatal("it never said what to do")
	}
	go func() {
		for lines.Scan() { // what it says at its end
			continue
		}
	}()
	return x
}

// get runs `jibe get` with -o json as the hints of `jibe try` have it.
func (x *trial) get(ctx context.Context, into any, args ...string) error {
	cmd := exec.CommandContext(ctx, x.binary, append(append([]string{"get"}, args...), "-o", "json")...)
	cmd.Env = x.env
	out, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("jibe get %v: %w", args, err)
	}
	return json.Unmarshal(out, into)
}

// end ends it as ctrl-C does, and holds that nothing is left.
func (x *trial) end(t *testing.T) {
	t.Helper()
	if err := x.cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	if err := x.cmd.Wait(); err != nil {
		t.Errorf("ctrl-C: %v", err)
	}
	left, err := os.ReadDir(x.tmp)
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func TestTheFleetOfATryoutRunsLivesAndLeavesNothing(t *testing.T) {
	t.Parallel()
	x := try(t, "--pace", "100ms")
	var instances []struct {
		InstantiationState string
		Jibe               struct{ Directory string }
	}
	if err := x.get(t.Context(), &instances, "instances"); err != nil {
		t.Fatal(err)
	}
	sites := map[string]int{}
	for _, i := range instances {
		if i.InstantiationState != "INSTANTIATED" {
			t.Errorf("%s is %s", i.Jibe.Directory, i.InstantiationState)
		}
		sites[strings.Split(i.Jibe.Directory, "/")[1]]++
	}
	if len(instances) != 30 || len(sites) != 5 {
		t.Errorf("%d instances at %v", len(instances), sites)
	}
	// Each kind of event leaves its operation: a request, a commit, a repair, and one that fails.
	seen := map[string]bool{}
	kit.Eventually(t, func() error {
		var ops []struct {
			Operation, OperationState string
			IsAutomaticInvocation     bool
			Error                     struct{ Detail string }
		}
		if err := x.get(t.Context(), &ops, "operations"); err != nil {
			return err
		}
		for _, op := range ops {
			seen[op.Operation] = seen[op.Operation] || op.OperationState == "COMPLETED"
			seen["repair"] = seen["repair"] || op.IsAutomaticInvocation && op.OperationState == "COMPLETED"
			seen["failure"] = seen["failure"] || strings.Contains(op.Error.Detail, "can't be pulled")
		}
		for _, want := range []string{"SCALE", "HEAL", "CHANGE_VNFPKG", "repair", "failure"} {
			if !seen[want] {
				return fmt.Errorf("no %s in %d operations", want, len(ops))
			}
		}
		return nil
	})
	x.end(t)
}

func TestAQuietTryoutStandsStillAndComesBackWithItsData(t *testing.T) {
	kit.Long(t)
	t.Parallel()
	data := filepath.Join(t.TempDir(), "fleet")

	x := try(t, "--quiet", "--data", data)
	if n := len(x.asked(t)); n != 30 {
		t.Errorf("%d operations were asked for, want the 30 instantiations", n)
	}
	x.commands(t)
	before := x.asked(t)
	x.end(t)

	x = try(t, "--quiet", "--data", data)
	if after := x.asked(t); !maps.Equal(before, after) { // the simulator forgets; what it lost is repaired
		t.Errorf("%d operations were asked for, and %d are there after the next start", len(before), len(after))
	}
	x.end(t)
}

// asked are the operations that people have asked for, by their ids.
func (x *trial) asked(t *testing.T) map[string]string {
	t.Helper()
	var ops []struct {
		ID, Operation         string
		IsAutomaticInvocation bool
	}
	if err := x.get(t.Context(), &ops, "operations"); err != nil {
		t.Fatal(err)
	}

	asked := map[string]string{}
	for _, op := range ops {
		if !op.IsAutomaticInvocation {
			asked[op.ID] = op.Operation
		}
	}

	return asked
}

func TestATryoutTouchesNoDataDirectoryOfOthers(t *testing.T) {
	data := t.TempDir()
	if err := os.WriteFile(filepath.Join(data, "store.db"), []byte("real"), 0o600); err != nil {
		t.Fatal(err)
	}
	err := tryout.Run(t.Context(), tryout.Options{Data: data, Listen: "127.0.0.1:0", Log: slog.New(slog.DiscardHandler)})
	if !errors.Is(err, tryout.ErrOthers) {
		t.Errorf("got %v", err)
	}
	left, err := os.ReadDir(data)
	if err != nil || len(left) != 1 {
		t.Errorf("it left %v, %v", left, err)
	}
}

// BenchmarkTryout measures how long it takes until the fleet runs.
func BenchmarkTryout(b *testing.B) {
	for b.Loop() {
		ctx, cancel := context.WithCancel(b.Context())
		if err := tryout.Run(ctx, tryout.Options{Listen: "127.0.0.1:0", Quiet: true, Log: slog.New(slog.DiscardHandler),
			Ready: func(tryout.At) { cancel() }}); err != nil {
			b.Fatal(err)
		}
		cancel()
	}
}
