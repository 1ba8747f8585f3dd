package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/jibe-vnfm/jibe/lcm"
)

// terminal is one of the system's, of that size: what is written to it, and what somebody sees who looks at it.
func terminal(t *testing.T, width, height uint16) (to *os.File, seen func() string) {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("this machine gives no terminal: %v", err)
	}
	number, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	if to, err = os.OpenFile(fmt.Sprint("/dev/pts/", number), os.O_RDWR|unix.O_NOCTTY, 0); err != nil {
		t.Fatal(err)
	}
	if err := unix.IoctlSetWinsize(int(to.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: height, Col: width}); err != nil {
		t.Fatal(err)
	}
	all := make(chan string, 1)
	go func() {
		text, _ := io.ReadAll(master) // ends with an error when nobody has the other end any more
		all <- string(text)
	}()
	return to, func() string {
		_ = to.Close()
		text := <-all
		_ = master.Close()
		return text
	}
}

// scaled is a server at which an operation goes on at each look, and ends at the third.
func scaled() http.Handler {
	var looks atomic.Int64
	steps := []string{"PROCESSING", "apply Deployment/demo/web " + strings.Repeat("x", 100), "COMPLETED"}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var answer any = []any{}
		switch {
		case strings.HasSuffix(r.URL.Path, "/story"):
			story := []lcm.StoryLine{}
			for i := range min(looks.Load(), int64(len(steps))) {
				story = append(story, lcm.StoryLine{At: moment.Add(time.Duration(i) * time.Second), Text: steps[i]})
			}
			answer = story
		case strings.HasSuffix(r.URL.Path, "/vnf_lcm_op_occs/o1"):
			state := "PROCESSING"
			if looks.Add(1) >= int64(len(steps)) {
				state = "COMPLETED"
			}
			answer = object{"id": "o1", "operation": "SCALE", "operationState": state, "vnfInstanceId": "i1", "startTime": moment.Format(time.RFC3339)}
		}
		_ = json.NewEncoder(w).Encode(answer)
	})
}

func TestColoursAndWhatIsDrawnAnewAreForATerminalAlone(t *testing.T) {
	watch := func(out *os.File) {
		t.Helper()
		s := httptest.NewServer(scaled())
		defer s.Close()
		root := newRoot()
		root.SetOut(out)
		root.SetArgs([]string{"get", "operation", "o1", "--watch", "--server", s.URL})
		if err := root.ExecuteContext(t.Context()); err != nil {
			t.Error(err)
		}
	}
	t.Setenv("TERM", "xterm")
	t.Setenv("NO_COLOR", "")
	out, seen := terminal(t, 60, 20)
	watch(out)
	drawn := seen()
	if n := strings.Count(drawn, "\x1b[H"); n < 3 || strings.Count(drawn, "\x1b[2J") != 1 {
		t.Errorf("it was drawn %d times, want each of three states, and the screen cleared once: %q", n, drawn)
	}
	if !strings.Contains(drawn, "\x1b[33mPROCESSING\x1b[0m") || !strings.Contains(drawn, "\x1b[32mCOMPLETED\x1b[0m") {
		t.Errorf("the states have no colours: %q", drawn)
	}
	if strings.Contains(drawn, strings.Repeat("x", 60)) {
		t.Errorf("a line is longer than the terminal is wide: %q", drawn)
	}

	t.Setenv("NO_COLOR", "1")
	out, seen = terminal(t, 60, 20)
	watch(out)
	if drawn := seen(); strings.Contains(drawn, "\x1b[3") || !strings.Contains(drawn, "\x1b[H") {
		t.Errorf("with NO_COLOR: %q", drawn)
	}

	t.Setenv("NO_COLOR", "")
	file, err := os.Create(filepath.Join(t.TempDir(), "out"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	watch(file)
	text, err := os.ReadFile(file.Name())
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(text), "\x1b") || strings.Count(string(text), "COMPLETED") != 1 || !strings.Contains(string(text), strings.Repeat("x", 100)) {
		t.Errorf("a file gets %q, want each step once, whole and plain", text)
	}
}
