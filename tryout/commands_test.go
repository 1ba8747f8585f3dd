package tryout_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/jibe-vnfm/jibe/test/kit"
)

// jibe runs a command as the hints of `jibe try` have it.
func (x *trial) jibe(t *testing.T, args ...string) (out, errs string, code int) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), x.binary, args...)
	cmd.Env = x.env
	var stdout, stderr strings.Builder
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil && cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return stdout.String(), stderr.String(), cmd.ProcessState.ExitCode()
}

// commands are those that a person tries with a fleet that stands still.
func (x *trial) commands(t *testing.T) {
	t.Helper()
	t.Run("lists keep what their flags say", x.lists)
	t.Run("an instance has many names", x.names)
	t.Run("an operation is followed to its end", x.follows)
	t.Run("a watch is a line a change", x.watches)
	t.Run("a terminal gets what fits it", x.terminal)
}

func (x *trial) lists(t *testing.T) {
	for line, want := range map[string]struct {
		lines int
		has   string
	}{
		"get instances -o name":                                           {30, "turin/upf-2\n"},
		"get instances --folder berlin -o name":                           {6, "berlin/amf-1\n"},
		"get instances --folder instances/berlin/upf-1 -o name":           {1, "berlin/upf-1\n"},
		"get instances --folder ber -o name":                              {0, ""},
		"get instances --package upf:1.0 -o name":                         {10, "oslo/upf-1\n"},
		"get instances --package firewall --folder oslo -o name":          {2, "oslo/firewall-2\n"},
		"get instances --package upf:9 -o name":                           {0, ""},
		"get instances --state instantiated --limit 7 -o name":            {7, ""},
		"get instances --state suspended,failing -o name":                 {0, ""},
		"get instances --state not-instantiated":                          {2, "no instances"},
		"get operations --folder oslo -o name":                            {6, ""},
		"get operations --instance oslo/dns-1 --type instantiate -o name": {1, ""},
		"get operations --since 2020-01-01 -o name":                       {30, ""},
		"get operations --since 2d --state failed_temp":                   {2, "no operations"},
		"get operations --limit 0":                                        {31, "  turin/upf-2  "},
		"get packages --package upf -o name":                              {2, ""},
		"get packages --state problem":                                    {2, "no packages"},
		"get drift --folder oslo":                                         {1, "nothing has drifted"},
		"get problems --since 1h":                                         {1, "every file is obeyed"},
		"get projects -o name":                                            {1, "default"},
	} {
		out, errs, code := x.jibe(t, strings.Fields(line)...)
		if code != 0 || strings.Count(out, "\n") != want.lines || !strings.Contains(out, want.has) {
			t.Errorf("jibe %s: %d %s, want %d lines with %q:\n%s", line, code, errs, want.lines, want.has, out)
		}
	}
	if out, errs, _ := x.jibe(t, "get", "instances", "--limit", "4"); strings.Count(out, "\n") != 5 || !strings.Contains(errs, "26 more instances") {
		t.Errorf("four of thirty: %s%s", out, errs)
	}
	for _, line := range []string{"get instances --state odd", "get operations --type odd", "get operations --since soon", "get instances --package :1", "get drift --state odd"} {
		if out, errs, code := x.jibe(t, strings.Fields(line)...); code != 1 || out != "" || !strings.Contains(errs, "want") && !strings.Contains(errs, "no duration") {
			t.Errorf("jibe %s: %d %s%s", line, code, out, errs)
		}
	}
	out, _, _ := x.jibe(t, "get", "instances")
	if whole := regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-`); whole.MatchString(out) {
		t.Errorf("a table has ids:\n%s", out)
	}
	var now struct {
		Instances map[string]int
		Queue     *int
	}
	out, errs, _ := x.jibe(t, "top", "-o", "json")
	if err := json.Unmarshal([]byte(out), &now); err != nil || now.Instances["all"] != 30 || now.Instances["instantiated"] != 30 || now.Queue == nil {
		t.Errorf("jibe top: %v %s%s", err, out, errs)
	}
}

func (x *trial) names(t *testing.T) {
	var shown struct{ ID string }
	out, errs, _ := x.jibe(t, "get", "instance", "berlin/upf-1", "-o", "json")
	if err := json.Unmarshal([]byte(out), &shown); err != nil {
		t.Fatal(err, errs)
	}
	for _, name := range []string{"berlin/upf-1", "instances/berlin/upf-1", "instances/berlin/upf-1/", shown.ID, shown.ID[:13]} {
		if out, errs, code := x.jibe(t, "get", "instance", name); code != 0 || !strings.Contains(out, shown.ID) || !strings.Contains(out, "berlin") {
			t.Errorf("%s: %d %s%s", name, code, out, errs)
		}
	}
	_, errs, code := x.jibe(t, "get", "instance", "upf-1")
	if code != 1 || !strings.Contains(errs, "5 VNF instances have the name") || !strings.Contains(errs, "lisbon/upf-1") {
		t.Errorf("a name that five have: %d %s", code, errs)
	}
	if _, errs, code := x.jibe(t, "heal", "berlin/upf-9"); code != 1 || !strings.Contains(errs, "no VNF instance") {
		t.Errorf("one that isn't there: %d %s", code, errs)
	}
}

func (x *trial) follows(t *testing.T) {
	out, errs, code := x.jibe(t, "heal", "berlin/amf-1", "--cause", "a test")
	op := regexp.MustCompile(`operation ([0-9a-f-]{36});`).FindStringSubmatch(out)
	if code != 0 || op == nil {
		t.Fatal(code, out, errs)
	}
	out, errs, code = x.jibe(t, "get", "operation", op[1][:13], "--watch")
	lines := strings.Split(strings.TrimSpace(out), "\n")
	if code != 0 || lines[0] != op[1]+" HEAL of berlin/amf-1" || len(lines) < 3 || !strings.Contains(lines[len(lines)-1], "COMPLETED") {
		t.Errorf("%d %s%s", code, out, errs)
	}
	seen := map[string]bool{}
	for _, line := range lines[1:] {
		if seen[line] || !regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ  \S`).MatchString(line) {
			t.Errorf("told twice, or not when: %q in\n%s", line, out)
		}
		seen[line] = true
	}
}

func (x *trial) watches(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	cmd := exec.CommandContext(ctx, x.binary, "get", "operations", "--watch", "--folder", "turin")
	cmd.Env = x.env
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGINT) }
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	told := make(chan string, 1)
	go func() {
		for lines := bufio.NewScanner(out); lines.Scan(); {
			if strings.HasSuffix(lines.Text(), "HEAL  turin/dns-1  COMPLETED") {
				told <- lines.Text()
				break
			}
		}
		_, _ = io.Copy(io.Discard, out)
	}()
	kit.Eventually(t, func() error { // what was over when it began is none of its lines
		if _, errs, code := x.jibe(t, "heal", "turin/dns-1", "--wait"); code != 0 {
			return errors.New(errs)
		}
		select {
		case <-told:
			return nil
		default:
			return errors.New("nothing was told of it")
		}
	})
	stop()
	if err := cmd.Wait(); err != nil && cmd.ProcessState.ExitCode() != 0 {
		t.Errorf("ctrl-C: %v", err)
	}
}

// terminal opens a terminal of this size and returns both of its ends.
func terminal(t *testing.T, columns, rows uint16) (near, far *os.File) {
	t.Helper()
	near, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = near.Close() })
	fd := int(near.Fd())
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err := errors.Join(err, unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0)); err != nil {
		t.Fatal(err)
	}
	if err := unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: rows, Col: columns}); err != nil {
		t.Fatal(err)
	}
	if far, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|syscall.O_NOCTTY, 0); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = far.Close() })
	return near, far
}

func (x *trial) terminal(t *testing.T) {
	for _, c := range []struct {
		env    string
		colour bool
	}{{"NO_COLOR=", true}, {"NO_COLOR=1", false}, {"TERM=dumb", false}} {
		near, far := terminal(t, 60, 20)
		cmd := exec.CommandContext(t.Context(), x.binary, "get", "operations")
		cmd.Env = append(append(x.env, "NO_COLOR=", "TERM=xterm"), c.env)
		cmd.Stdout, cmd.Stderr = far, far
		if err := cmd.Run(); err != nil {
			t.Fatal(err)
		}
		if err := far.Close(); err != nil {
			t.Fatal(err)
		}
		shown, _ := io.ReadAll(near) // the other end is closed, which is an error of its own
		if len(shown) == 0 {
			t.Fatal("nothing was shown")
		}
		codes := regexp.MustCompile("\x1b\\[[0-9;]*[a-zA-Z]")
		if got := codes.Match(shown); got != c.colour {
			t.Errorf("%s: colours: %v, want %v:\n%q", c.env, got, c.colour, shown)
		}
		for line := range strings.SplitSeq(codes.ReplaceAllString(string(shown), ""), "\n") {
			if n := len([]rune(strings.TrimRight(line, "\r"))); n > 60 {
				t.Errorf("%d characters in a line of 60: %q", n, line)
			}
		}
	}
}
