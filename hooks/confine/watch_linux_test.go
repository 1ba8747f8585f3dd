package confine

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestARunThatCanNotBeWatchedIsEnded(t *testing.T) {
	t.Parallel()
	const env = "JIBE_TEST_BLIND_WATCH"
	if os.Getenv(env) != "" { // a launcher without a file to read by
		r := &run{spec: &Spec{Limits: Limits{Memory: 1 << 30, Scratch: 1 << 30, Processes: 512, Files: 1024, Entries: 1000}, Write: []string{"/proc/self/fd"}}}
		before, _ := r.look()
		if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{}); err != nil {
			t.Fatal(err)
		}
		processes, _ := r.look()
		if before != "" || !strings.HasPrefix(processes, "it can't be watched") {
			t.Errorf("its processes: %q, before %q", processes, before)
		}
		if files := r.lookAtFiles(0); !strings.HasPrefix(files, "it can't be watched") {
			t.Errorf("its files: %q", files)
		}

		return
	}

	cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$")
	cmd.Env = append(os.Environ(), env+"=1")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}
