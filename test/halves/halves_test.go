// Package halves tests the script of this folder.
package halves

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/jibe-vnfm/jibe/test/kit"
)

// meet is a command that says its name and ends when both are under way: where one ran after the
// other, the first would wait without end.
const meet = `echo NAME; touch NAME; until [ -e first ] && [ -e second ]; do sleep 0.05; done; echo NAME ends`

func met(name string) string { return strings.ReplaceAll(meet, "NAME", name) }

func TestBothHalvesRunAtOnceAndBothResultsAreShown(t *testing.T) {
	said := "first\nfirst ends\nsecond\nsecond ends\nmake test-all: on Kubernetes: "
	for _, test := range []struct {
		name, first, second string
		said                string
		good                bool
	}{
		{name: "both pass", first: met("first"), second: met("second"), said: said + "passed; on OpenStack: passed\n", good: true},
		{name: "the first fails", first: met("first") + "; exit 3", second: met("second"), said: said + "FAILED; on OpenStack: passed\n"},
		{name: "the second fails", first: met("first"), second: met("second") + "; exit 1", said: said + "passed; on OpenStack: FAILED\n"},
		{name: "both fail", first: met("first") + "; false", second: met("second") + "; false", said: said + "FAILED; on OpenStack: FAILED\n"},
	} {
		t.Run(test.name, func(t *testing.T) {
			cmd := halves(t, test.first, test.second)
			cmd.Stderr = os.Stderr
			out, err := cmd.Output()
			if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
				t.Fatal(err)
			}
			if good := err == nil; good != test.good {
				t.Errorf("it ends with %v, want success: %v", err, test.good)
			}
			if diff := cmp.Diff(test.said, string(out)); diff != "" {
				t.Errorf("it says something else (-want +got):\n%s", diff)
			}
		})
	}
}

// Without the right to make a control group and with few processors, the second half waits for the first.
func TestTheHalvesTakeTurnsWhereOneWouldStarveTheOther(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("root may make control groups")
	}
	cmd := halves(t, "echo first; touch first; exit 1", "[ -e first ] && echo second")
	cmd.Env = append(cmd.Env, "PATH="+processors(t, 2)+":"+os.Getenv("PATH"))
	out, err := cmd.Output()
	if exit := (*exec.ExitError)(nil); !errors.As(err, &exit) {
		t.Fatal(err)
	}
	if diff := cmp.Diff("first\nsecond\nmake test-all: on Kubernetes: FAILED; on OpenStack: passed\n", string(out)); diff != "" {
		t.Errorf("it says something else (-want +got):\n%s", diff)
	}
}

func TestTheFirstHalfHasALesserShareOfTheProcessors(t *testing.T) {
	shares, err := os.OpenFile("/sys/fs/cgroup/cpu/cpu.shares", os.O_WRONLY, 0)
	if err != nil {
		t.Skip("this process may not make control groups: ", err)
	}
	_ = shares.Close()
	before := groups(t) // these tests may run in one themselves, and one that was killed leaves its own
	out, err := halves(t, "cat /proc/self/cgroup", "echo second; cat /proc/self/cgroup").Output()
	if err != nil {
		t.Fatal(err)
	}
	first, second, _ := strings.Cut(string(out), "second")
	own, err := os.ReadFile("/proc/self/cgroup") // these tests may be in the first half themselves
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(first, ":/halves-") || first == string(own) || !strings.Contains(second, string(own)) {
		t.Errorf("the first half is in\n%s\nand the second in\n%s", first, second)
	}
	if diff := cmp.Diff(before, groups(t)); diff != "" {
		t.Errorf("groups are left, or others gone (-before +after):\n%s", diff)
	}
}

// groups are the control groups of halves that there are.
func groups(t *testing.T) []string {
	t.Helper()
	all, err := filepath.Glob("/sys/fs/cgroup/cpu/halves-*")
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestASignalEndsBothHalvesAndAllThatTheyRun(t *testing.T) {
	// Each half runs another program, and clears away what it has at its end.
	const work = `trap 'touch NAME.cleared; exit 1' TERM; sleep 1000 & echo $! >NAME.pid.tmp; mv NAME.pid.tmp NAME.pid; wait`
	cmd := halves(t, strings.ReplaceAll(work, "NAME", "first"), strings.ReplaceAll(work, "NAME", "second"))
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var pids []int
	for _, name := range []string{"first", "second"} {
		kit.Eventually(t, func() error {
			text, err := os.ReadFile(filepath.Join(cmd.Dir, name+".pid"))
			if err != nil {
				return err
			}
			pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
			pids = append(pids, pid)
			return err
		})
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	var exit *exec.ExitError
	if err := cmd.Wait(); !errors.As(err, &exit) || exit.ExitCode() != 143 {
		t.Errorf("it ends with %v, want the status 143", err)
	}
	for _, name := range []string{"first", "second"} {
		if _, err := os.Stat(filepath.Join(cmd.Dir, name+".cleared")); err != nil {
			t.Errorf("the %s half didn't clear away: %v", name, err)
		}
	}
	for _, pid := range pids {
		kit.Until(t, "the end of what a half ran", func() bool {
			stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
			return err != nil || strings.Contains(string(stat), ") Z ") // whose parent hasn't looked yet
		})
	}
}

// halves is the script with two commands, in a folder of their own.
func halves(t *testing.T, first, second string) *exec.Cmd {
	t.Helper()
	script, err := filepath.Abs("halves")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), script, first, second)
	cmd.Dir = t.TempDir()
	cmd.Env = append(os.Environ(), "PATH="+processors(t, 4)+":"+os.Getenv("PATH"))
	return cmd
}

// processors is a folder with a program nproc that says there are so many.
func processors(t *testing.T, n int) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "nproc"), fmt.Appendf(nil, "#!/bin/sh\necho %d\n", n), 0o700); err != nil {
		t.Fatal(err)
	}
	return dir
}
