// Package openstack tests the script of this folder.
package openstack

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gophercloud/gophercloud/v2"

	"github.com/jibe-vnfm/jibe/test/kit"
	"github.com/jibe-vnfm/jibe/test/osenv"
)

// startWait bounds one start: machines that run tests are busy.
const startWait = 15 * time.Minute

// script runs the script and returns what it prints on its standard output.
func script(t *testing.T, args ...string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), startWait)
	defer cancel()
	cmd := exec.CommandContext(ctx, "./openstack", args...)
	var out, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &said
	// The services that it starts hold no pipe of ours; if they did, they would hold this up.
	cmd.WaitDelay = 10 * time.Second
	err := cmd.Run()
	if err != nil {
		err = fmt.Errorf("openstack %s: %w\n%s", strings.Join(args, " "), err, said.String())
	}
	return strings.TrimSpace(out.String()), err
}

func must(t *testing.T, args ...string) string {
	t.Helper()
	out, err := script(t, args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// processes are those that belong to the OpenStack in a folder, by the mark that it gives
// them.
func processes(t *testing.T, dir string) (all []int) {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // it has ended
		}
		for variable := range bytes.SplitSeq(text, []byte{0}) {
			if string(variable) == "JIBE_OPENSTACK="+dir {
				pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
				if err != nil {
					t.Fatal(err)
				}
				all = append(all, pid)
			}
		}
	}
	return all
}

// prepared skips the test where no OpenStack is tested with: the first one to start on a
// machine installs packages.
func prepared(t *testing.T) {
	t.Helper()
	osenv.OpenStack(t)
	if _, err := script(t, "cached"); err != nil {
		t.Skip("another cloud is tested with, and nothing is prepared here to start one's own")
	}
}

func TestStartStopAndWipeLeaveNothingBehind(t *testing.T) {
	prepared(t)
	dir := filepath.Join(t.TempDir(), "os")
	t.Cleanup(func() { _, _ = script(t, "wipe", "--dir", dir) })

	clouds := must(t, "start", "--dir", dir, "--only", "keystone")
	if want := filepath.Join(dir, "clouds.yaml"); clouds != want {
		t.Errorf("start prints %q, want %q", clouds, want)
	}
	for _, name := range []string{"jibe", "jibe-application", "admin"} {
		if _, _, err := (osenv.Cloud{File: clouds, Name: name}).Connect(t.Context()); err != nil {
			t.Errorf("after start: %v", err)
		}
	}
	status := must(t, "status", "--dir", dir)
	for _, want := range []string{"keystone           runs", "mariadbd           runs", "heat-engine        stopped", "OS_CLIENT_CONFIG_FILE=" + clouds} {
		if !strings.Contains(status, want) {
			t.Errorf("status has no %q:\n%s", want, status)
		}
	}
	if got := must(t, "env", "--dir", dir); got != clouds {
		t.Errorf("env prints %q, want %q", got, clouds)
	}
	before := processes(t, dir)
	if len(before) < 2 {
		t.Fatalf("processes with the mark of %s: %v, want the database and Keystone", dir, before)
	}
	if got := must(t, "start", "--dir", dir, "--only", "keystone"); got != clouds {
		t.Errorf("a second start prints %q, want %q", got, clouds)
	}
	if after := processes(t, dir); fmt.Sprint(after) != fmt.Sprint(before) {
		t.Errorf("a second start made of the processes %v %v", before, after)
	}

	must(t, "stop", "--dir", dir)
	if left := processes(t, dir); len(left) > 0 {
		t.Errorf("processes after stop: %v", left)
	}
	if _, err := script(t, "status", "--dir", dir); err == nil {
		t.Error("status succeeds after stop")
	}
	if _, err := script(t, "env", "--dir", dir); err == nil {
		t.Error("env succeeds after stop")
	}
	must(t, "stop", "--dir", dir)

	must(t, "wipe", "--dir", dir)
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("after wipe: %s: %v", dir, err)
	}
}

func TestStartRepairsWhatDiedAndStandsBesideAnother(t *testing.T) {
	prepared(t)
	root := t.TempDir()
	dir, beside := filepath.Join(root, "a"), filepath.Join(root, "b")
	t.Cleanup(func() {
		for _, d := range []string{dir, beside} {
			_, _ = script(t, "wipe", "--dir", d)
		}
	})
	first := must(t, "start", "--dir", dir, "--only", "keystone")
	second := must(t, "start", "--dir", beside, "--only", "keystone")
	if a, b := port(t, dir), port(t, beside); a == b {
		t.Fatalf("both listen from port %d on", a)
	} else if max(a, b) >= 32768 {
		t.Errorf("ports from %d and %d: the system gives those from 32768 to others", a, b)
	}

	text, err := os.ReadFile(filepath.Join(dir, "run", "keystone.pid"))
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	kit.Eventually(t, func() error { // its end takes a moment
		status, err := script(t, "status", "--dir", dir)
		if err == nil || !strings.Contains(status, "keystone           died") {
			return fmt.Errorf("status after Keystone was killed: %w\n%s", err, status)
		}
		return nil
	})
	must(t, "start", "--dir", dir, "--only", "keystone")
	for _, file := range []string{first, second} {
		if _, _, err := (osenv.Cloud{File: file, Name: "jibe"}).Connect(t.Context()); err != nil {
			t.Errorf("%s: %v", file, err)
		}
	}
	must(t, "wipe", "--dir", beside)
	if len(processes(t, dir)) == 0 {
		t.Error("the wipe of one ended the other")
	}
}

func TestAFolderOfSomethingElseIsLeftAlone(t *testing.T) {
	prepared(t)
	dir := t.TempDir()
	file := filepath.Join(dir, "precious")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := script(t, "start", "--dir", dir); err == nil || !strings.Contains(err.Error(), "holds something else") {
		t.Errorf("start in a folder with files: %v", err)
	}
	must(t, "wipe", "--dir", dir)
	if _, err := os.Stat(file); err != nil {
		t.Errorf("after wipe: %v", err)
	}
}

func TestTheCloudHasWhatTestsUse(t *testing.T) {
	c := osenv.OpenStack(t)
	p, where, err := c.Connect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range []struct {
		service, path string
		names         []string
	}{
		{"compute", "flavors", []string{"m1.tiny", "m1.small"}},
		{"network", "v2.0/networks", []string{"net0", "ext0"}},
		{"network", "v2.0/subnets", []string{"subnet0", "extsubnet0"}},
		{"image", "v2/images", []string{"img1", "img2"}},
		{"orchestration", "stacks", nil},
		{"volumev3", "volumes", nil},
	} {
		where := where
		where.ApplyDefaults(x.service)
		endpoint, err := p.EndpointLocator(where)
		if err != nil {
			t.Errorf("%s: %v", x.service, err)
			continue
		}
		var body json.RawMessage
		response, err := p.Request(t.Context(), http.MethodGet, endpoint+x.path, &gophercloud.RequestOpts{JSONResponse: &body, OkCodes: []int{http.StatusOK}})
		if err != nil {
			t.Errorf("%s: %v", x.service, err)
			continue
		}
		response.Body.Close()
		for _, name := range x.names {
			if !bytes.Contains(body, []byte(strconv.Quote(name))) {
				t.Errorf("%s: %s has no %s: %s", x.service, x.path, name, body)
			}
		}
	}
}

// port is the first port of the OpenStack in a folder, which listens.
func port(t *testing.T, dir string) int {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, "port"))
	if err != nil {
		t.Fatal(err)
	}
	first, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	c, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", fmt.Sprintf("127.0.0.1:%d", first))
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	return first
}
