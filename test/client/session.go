// Package client drives Jibe with OpenStack's own command-line client, Debian's, as a person
// does who follows the guide: the guide's commands are what is typed, and what it shows is
// what must come back.
package client

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/jibe-vnfm/jibe/test/kit"
	"github.com/jibe-vnfm/jibe/test/process"
)

// program is Debian's client: another of that name may stand before it in the search path.
const program = "/usr/bin/openstack"

// install installs Debian's packages of the client where they are missing.
func install(t testing.TB) {
	t.Helper()
	if exec.CommandContext(t.Context(), "/usr/bin/python3", "-c", "import tackerclient, openstackclient").Run() == nil {
		return
	}
	for _, debian := range []string{"python3-openstackclient", "python3-tackerclient"} {
		// None has a command of this name, so that it is installed.
		cmd := exec.CommandContext(t.Context(), filepath.Join(process.Root(), "test", "need"), debian+" (Debian's package)", debian)
		cmd.Env = append(process.Environment(), "PATH=/usr/sbin:/usr/bin:/sbin:/bin")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
}

// session is one run of the client, to which commands are typed one by one: most of the time
// that the client takes is its start.
type session struct {
	cmd   *exec.Cmd
	stdin io.WriteCloser
	lines chan string
	once  sync.Once
}

// open starts the client in a folder, with the variables that say where to go and as whom.
// It ends with the test.
func open(t testing.TB, dir string, env []string) *session {
	t.Helper()
	install(t)
	s := &session{cmd: exec.Command(program), lines: make(chan string, 1<<16)}
	s.cmd.Dir = dir
	s.cmd.Env = append([]string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "HOME=" + dir, "LANG=C.UTF-8", "PYTHONUNBUFFERED=1", "COLUMNS=400", "no_proxy=*"}, env...)
	out, in := io.Pipe()
	s.cmd.Stdout, s.cmd.Stderr = in, in
	var err error
	if s.stdin, err = s.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		for text := bufio.NewReader(out); ; {
			line, err := text.ReadString('\n')
			if line != "" {
				s.lines <- strings.TrimRight(line, "\n")
			}
			if err != nil {
				close(s.lines)
				return
			}
		}
	}()
	ended := make(chan struct{})
	go func() {
		_ = s.cmd.Wait() // how it ended shows in what it printed
		_ = in.Close()
		close(ended)
	}()
	t.Cleanup(func() {
		s.close()
		<-ended
	})
	return s
}

// close has the client end.
func (s *session) close() {
	s.once.Do(func() {
		_ = s.stdin.Close()
		_ = s.cmd.Process.Kill()
	})
}

// patience bounds one command, the first of which includes the client's start.
const patience = kit.Patience

// quoted are the arguments of a shell's command: the client splits at blanks twice.
var quoted = regexp.MustCompile(`"[^"]*"|'[^']*'`)

// run types a command as for a shell, and returns what the client prints, on either channel.
func (s *session) run(command string) (string, error) {
	command = quoted.ReplaceAllStringFunc(command, func(arg string) string {
		return `"'` + arg[1:len(arg)-1] + `'"`
	})
	mark := "done-" + uuid.NewString()
	if _, err := fmt.Fprintf(s.stdin, "%s\n!echo %s\n", command, mark); err != nil {
		return "", fmt.Errorf("type %q: %w", command, err)
	}
	var said []string
	late := time.After(patience)
	for {
		select {
		case line, ok := <-s.lines:
			switch {
			case !ok:
				return strings.Join(said, "\n"), errors.New("the client has ended")
			case strings.HasSuffix(line, mark):
				if rest := strings.TrimSuffix(line, mark); rest != "" {
					said = append(said, rest) // what was printed without an end of the line
				}
				return strings.Join(said, "\n"), nil
			}
			said = append(said, line)
		case <-late:
			return strings.Join(said, "\n"), fmt.Errorf("no end after %s", patience)
		}
	}
}
