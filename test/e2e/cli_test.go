package e2e

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/jibe-vnfm/jibe/test/kit"
	"github.com/jibe-vnfm/jibe/test/process"
	"github.com/jibe-vnfm/jibe/test/testenv"
)

// stable replaces what differs from run to run.
func stable(text string) string {
	for _, r := range []struct{ pattern, by string }{
		{`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`, "ID"}, {`\b[0-9a-f]{40}\b`, "HASH"},
		{`\d{4}-\d\d-\d\dT[0-9:.]+Z`, "TIME"}, {`\b(\d+m)?\d+(\.\d+)?m?s\b|\b\d+m\b`, "TOOK"}, {`http://127.0.0.1:\d+`, "URL"}, {` +`, " "}, {` \n`, "\n"},
	} {
		text = regexp.MustCompile(r.pattern).ReplaceAllString(text, r.by)
	}
	return strings.TrimSpace(text)
}

func TestGetShowsWhatIsGoingOn(t *testing.T) {
	testenv.Chaos(t, "a control plane")
	t.Parallel()
	s := serve(t, filepath.Join(t.TempDir(), "data"))
	if err := s.equip(t.TempDir()); err != nil {
		t.Fatal(err)
	}
	d := s.clone(t, "desired.git")
	d.Write("vims/cloud.yaml", "type: sim\n")
	d.Write("instances/a/vnf.yaml", "name: web-a\nvnfdId: "+webapp+"\nflavour: simple\nvim: cloud\nlevels: {vdu1_aspect: 1}\n")
	d.Push("Run")
	var id string
	kit.Eventually(t, func() error {
		out, errs, code := s.cli(t, "get", "instances", "-o", "wide")
		if code != 0 || !strings.Contains(out, " INSTANTIATED") {
			return fmt.Errorf("%d: %s%s", code, out, errs)
		}
		id = strings.Fields(strings.Split(out, "\n")[1])[0]
		return nil
	})
	for args, want := range map[string]string{
		"get instances":         "FOLDER NAME STATE PRODUCT VERSION LEVELS VNFCS NOTE\n- web-a INSTANTIATED webapp 1.0 both=0,vdu1_aspect=1,vdu2_aspect=0 3",
		"get instances -o wide": "ID FOLDER NAME STATE PRODUCT VERSION VNFD LEVELS VNFCS NOTE\nID - web-a INSTANTIATED webapp 1.0 ID both=0,vdu1_aspect=1,vdu2_aspect=0 3",
		"get instances -o name": "web-a",
		"get instance " + id: `ID ID
NAME web-a
STATE INSTANTIATED
PRODUCT webapp
VERSION 1.0
VNFD ID
LEVELS both=0,vdu1_aspect=1,vdu2_aspect=0
VNFCS 3

VNFCS
 VDU1 *
 VDU1 *
 VDU2 *`,
		"get operations":           "ID OPERATION STATE INSTANCE STARTED TOOK AUTO NOTE\n* INSTANTIATE COMPLETED web-a TOOK TOOK false",
		"get operations -o wide":   "ID OPERATION STATE INSTANCE INSTANCE ID STARTED TOOK AUTO BY NOTE\nID INSTANTIATE COMPLETED web-a ID TOOK TOOK false*",
		"get subscriptions":        "ID CALLBACK VERBOSITY WAITING LAG DELIVERED DROPPED FAILED WHY\nno subscriptions",
		"get operations -o json":   `*"operation": "INSTANTIATE"*`,
		"get instances -o yaml":    `*vnfInstanceName: web-a*`,
		"get packages":             "VNFD VERSION REPOSITORY REF PATH STATE PROBLEM*ID 1.0 packages main webapp ENABLED IN_USE",
		"get instances -o nothing": "",
	} {
		out, errs, code := s.cli(t, strings.Fields(args)...)
		if want == "" {
			if code != 1 || !strings.Contains(errs, "table, json or yaml") {
				t.Errorf("jibe %s: %d: %s", args, code, errs)
			}
			continue
		}
		pattern := "^(?s)" + strings.ReplaceAll(regexp.QuoteMeta(want), `\*`, `.*`) + "$"
		if code != 0 || !regexp.MustCompile(pattern).MatchString(stable(out)) {
			t.Errorf("jibe %s: %d %s\n%s\nwant\n%s", args, code, errs, stable(out), want)
		}
	}
	out, errs, code := s.cli(t, "get", "operation", "none")
	if code != 1 || !strings.Contains(errs, "404") || !strings.Contains(errs, "none does not exist") {
		t.Errorf("an operation that isn't there: %d: %s%s", code, out, errs)
	}
	cmd := exec.CommandContext(t.Context(), program(t), "get", "instances", "--server", s.url)
	cmd.Env = process.Environment()
	if text, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(text), "--token-file") {
		t.Errorf("without a token: %v: %s", err, text)
	}
	cmd = exec.CommandContext(t.Context(), program(t), "get", "instances", "--server", "http://127.0.0.1:1")
	if text, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(text), "is `jibe serve` running?") {
		t.Errorf("without a server: %v: %s", err, text)
	}
}

func TestTheCLIControlsOperations(t *testing.T) {
	b := newBench(t, usual)
	id := b.create(byHand)
	path := b.begin(t, id, "instantiate", b.request())
	b.waiting()
	op := strings.TrimPrefix(path, operations+"/")
	do := func(want int, says string, args ...string) {
		t.Helper()
		if out, errs, code := b.cli(t, args...); code != want || !strings.Contains(out+errs, says) {
			t.Errorf("jibe %s: %d: %s%s", strings.Join(args, " "), code, out, errs)
		}
	}
	do(1, "409", "retry", op)
	do(0, "cancel asked for", "cancel", op, "--mode", "FORCEFUL")
	b.await(t, path, "FAILED_TEMP")
	do(0, "retry asked for", "retry", op)
	b.await(t, path, "PROCESSING")
	do(0, "cancel asked for", "cancel", op, "--mode", "FORCEFUL")
	b.await(t, path, "FAILED_TEMP")
	do(0, "cancelled on request", "get", "operation", op)
	do(0, "fail asked for", "fail", op)
	b.await(t, path, "FAILED")
	do(1, "404", "fail", "nothing")
}
