package process_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/test/kit"
	"github.com/jibe-vnfm/jibe/test/process"
)

// The plain values that must be nowhere. The private key is known by a line of it.
const (
	keyLine = "MIIEvQIBADANBgkqhkiGleaks1"
	cert    = "-----BEGIN CERTIFICATE-----\nMIIBszCCAVmgAwIBAgIU\n-----END CERTIFICATE-----\n-----BEGIN PRIVATE KEY-----\n" + keyLine + "\n-----END PRIVATE KEY-----\n"
	jwt     = "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJzdWIiOiJsZWFrcyJ9.dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk"
)

// secrets are parameters with the values, each with a mark of its own, and the marks.
func secrets(mark string) (params map[string]any, plain []string) {
	word := func(s string) string {
		plain = append(plain, s+"-"+mark)
		return s + "-" + mark
	}
	plain = append(plain, keyLine, jwt, "8391046725")
	return map[string]any{
		"passphrase": word("leaked-phrase"), "api_key": word("leaked-apikey"), "sshKey": word("leaked-sshkey"), "pin": 8391046725,
		"nested": map[string]any{"auth": word("leaked-auth"), "mode": "fast"}, "cert": cert, "note": "use " + jwt + " for it",
		"logins":         []any{map[string]any{"name": "DB_PASSWORD", "value": word("leaked-value")}},
		"credentials":    map[string]any{"who": word("leaked-below")},
		"sipMagic":       word("leaked-declared"),
		"configFileName": "shown-" + mark,
	}, plain
}

// everywhere is a server whose VNFD declares a name, with a subscriber, and what all that
// may show a secret has shown.
type everywhere struct {
	*process.Server
	testing.TB
	mu    sync.Mutex
	shown map[string][]byte
}

func newEverywhere(t *testing.T, data string) *everywhere {
	e := &everywhere{Server: process.Start(t, data, "--log-level", "debug"), TB: t, shown: map[string][]byte{}}
	e.PushPackages(t, []string{process.SmallVnfd}, process.NextVersion(t, process.SmallPackage(), "small",
		"    VNF:\n      type: examples.small.VNF\n", "    VNF:\n      type: examples.small.VNF\n      metadata: {secret_params: 'sip_magic, other'}\n"))
	e.PushFiles(t, map[string]string{"vims/sim.yaml": "type: sim\ndefault: true\n"})
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		e.show("notifications", body)
		w.WriteHeader(http.StatusNoContent)
	}))
	t.Cleanup(receiver.Close)
	e.Want(t, http.StatusCreated, http.MethodPost, "/vnflcm/v2/subscriptions", map[string]string{"callbackUri": receiver.URL, "verbosity": "FULL"}, nil)
	return e
}

func (e *everywhere) show(where string, what []byte) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.shown[where] = append(append(e.shown[where], what...), '\n')
}

// notified waits until the subscriber was notified that the operation is COMPLETED.
func (e *everywhere) notified(operation string) {
	e.Helper()
	kit.Eventually(e.TB, func() error {
		e.mu.Lock()
		defer e.mu.Unlock()
		for line := range bytes.Lines(e.shown["notifications"]) {
			var n struct{ VnfLcmOpOccID, OperationState string }
			if json.Unmarshal(line, &n) == nil && n.VnfLcmOpOccID == operation && n.OperationState == "COMPLETED" {
				return nil
			}
		}
		return fmt.Errorf("nobody was notified of operation %s: %s", operation, e.shown["notifications"])
	})
}

// jibe runs a command of the binary and keeps what it prints.
func (e *everywhere) jibe(where string, args ...string) string {
	e.Helper()
	out, errs, _ := e.CLI(e.TB, args...) // how it ends is the business of who reads it
	e.show(where, []byte(out+errs))
	return out + errs
}

// answers reads what the API shows of everything.
func (e *everywhere) answers(instance string) {
	e.Helper()
	for _, path := range []string{process.Instances, process.Instances + "/" + instance, process.Operations, "/vnflcm/v2/subscriptions",
		"/jibe/v1/instances", "/jibe/v1/drift", "/jibe/v1/packages", "/metrics"} {
		e.show("API answers", e.Want(e.TB, http.StatusOK, http.MethodGet, path, nil, nil).Body)
	}
	var ops []process.Operation
	if err := e.Get(e.Context(), process.Operations, &ops); err != nil {
		e.Fatal(err)
	}
	for _, op := range ops {
		e.show("API answers", e.Want(e.TB, http.StatusOK, http.MethodGet, process.Operations+"/"+op.ID, nil, nil).Body)
		e.jibe("story", "story", op.ID)
	}
	e.jibe("get", "get", "instances")
	e.jibe("get", "get", "operations")
}

// objects is every object of the desired repository, pushed ones that were refused
// included.
func (e *everywhere) objects() {
	e.Helper()
	cmd := exec.CommandContext(e.Context(), "git", "-C", e.Desired(), "cat-file", "--batch-all-objects", "--batch")
	out, err := cmd.Output()
	if err != nil {
		e.Fatal(err)
	}
	e.show("git", out)
}

// nowhere looks for the values in what was shown, in the store and in the log.
func (e *everywhere) nowhere(plain []string, except ...string) {
	e.Helper()
	e.Kill()
	store, err := os.ReadFile(filepath.Join(e.Data, "store.db"))
	if err != nil {
		e.Fatal(err)
	}
	e.show("store", store)
	e.show("log", []byte(e.Server.Log()))
	e.mu.Lock()
	defer e.mu.Unlock()
	for where, what := range e.shown {
		if len(bytes.TrimSpace(what)) == 0 {
			e.Errorf("%s showed nothing at all: nothing is proven of it", where)
		}
		for _, v := range plain {
			if at := bytes.Index(what, []byte(v)); at >= 0 && !slices.Contains(except, where) {
				e.Errorf("%s shows %q: …%s…", where, v, what[max(0, at-200):min(len(what), at+100)])
			}
		}
	}
}

func TestNoSecretThatComesByTheAPIIsShownAnywhere(t *testing.T) {
	kit.Long(t)
	t.Parallel()
	e := newEverywhere(t, t.TempDir())
	params, plain := secrets("api")
	metadata, more := secrets("meta")
	made := e.Want(t, http.StatusCreated, http.MethodPost, process.Instances, map[string]any{"vnfdId": process.SmallVnfd, "metadata": metadata}, nil)
	e.show("API answers", made.Body)
	id := made.ID()
	params["lcm-kubernetes-def-files"] = process.SmallManifests()
	started := e.Want(t, http.StatusAccepted, http.MethodPost, process.Instances+"/"+id+"/instantiate", map[string]any{
		"flavourId": "simple", "additionalParams": params, "extensions": map[string]any{"other": "leaked-extension"}}, nil)
	op := e.Await(t, started.ID(), "COMPLETED")
	e.notified(op.ID)
	changed := e.Want(t, http.StatusAccepted, http.MethodPatch, process.Instances+"/"+id, map[string]any{
		"vnfConfigurableProperties": map[string]any{"adminPassword": "leaked-property", "seen": "shown-property"}}, nil)
	e.Await(t, changed.ID(), "COMPLETED")
	e.notified(changed.ID())

	var shown struct {
		OperationParams struct{ AdditionalParams map[string]any }
	}
	e.Want(t, http.StatusOK, http.MethodGet, process.Operations+"/"+op.ID, nil, &shown)
	for name := range shown.OperationParams.AdditionalParams {
		if !slices.Contains([]string{"lcm-kubernetes-def-files", "configFileName", "nested", "logins"}, name) {
			t.Errorf("operationParams show %s", name)
		}
	}
	if shown.OperationParams.AdditionalParams["configFileName"] != "shown-api" {
		t.Errorf("operationParams don't show what is no secret: %v", shown.OperationParams.AdditionalParams)
	}
	d := process.NewWorkTree(t, e.DesiredURL())
	file := desired.APIDir(id) + "/vnf.yaml"
	text := d.Read(file)
	if n := strings.Count(text, "age:"); n < 2*10 {
		t.Errorf("only %d values are encrypted:\n%s", n, text)
	}
	d.Write(file, strings.Replace(text, "shown-api", "shown-next", 1))
	if out := e.jibe("plan", "plan", d.Dir()); !strings.Contains(out, "CHANGE_VNFPKG") {
		t.Errorf("the plan of a changed parameter: %s", out)
	}
	e.jibe("plan", "plan", d.Dir(), "-o", "json")
	e.answers(id)
	e.objects()
	e.nowhere(slices.Concat(plain, more, []string{"leaked-extension", "leaked-property"}))
}

// inYAML is vnf.yaml with the values, which JSON spells: that is YAML, too.
func inYAML(t *testing.T, params map[string]any) string {
	t.Helper()
	var b strings.Builder
	fmt.Fprintf(&b, "vnfdId: %s\nflavour: simple\nparams:\n", process.SmallVnfd)
	for _, name := range slices.Sorted(maps.Keys(params)) {
		v, err := json.Marshal(params[name])
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&b, "  %s: %s\n", name, v)
	}
	return b.String()
}

func TestAPushWithASecretInClearIsRefusedWithoutShowingIt(t *testing.T) {
	kit.Long(t)
	t.Parallel()
	e := newEverywhere(t, t.TempDir())
	params, plain := secrets("push")
	params["lcm-kubernetes-def-files"] = process.SmallManifests()
	d := process.NewWorkTree(t, e.DesiredURL())
	const file = "instances/a/vnf.yaml"
	text := inYAML(t, params)
	push := func() (string, error) {
		d.Commit("Add what the test needs")
		out, err := d.TryPush()
		e.show("push", []byte(out))
		return out, err
	}
	lineOf := func(name string) int { return 1 + strings.Count(text[:strings.Index(text, "  "+name+":")], "\n") }
	d.Write(file, text)
	said, err := push()
	if err == nil {
		t.Fatal("the push was accepted")
	}
	for name, where := range map[string]string{"passphrase": "", "api_key": "", "sshKey": "", "pin": "", "nested": ".auth", "cert": "", "note": "", "logins": "[0].value", "credentials": ".who"} {
		if want := fmt.Sprintf("%s:%d: %q is a secret", file, lineOf(name), "params."+name+where); !strings.Contains(said, want) {
			t.Errorf("the refusal doesn't say %s:\n%s", want, said)
		}
	}
	if !strings.Contains(said, "jibe secret encrypt") {
		t.Errorf("the refusal says no way out: %s", said)
	}
	for _, args := range [][]string{{"validate", d.Dir()}, {"validate", "--offline", d.Dir()}, {"plan", d.Dir()}} {
		if out := e.jibe("validate", args...); !strings.Contains(out, `"params.passphrase" is a secret`) {
			t.Errorf("jibe %s: %s", strings.Join(args, " "), out)
		}
	}

	// The name that the VNFD declares is known to the server alone.
	declared := map[string]any{"sipMagic": params["sipMagic"], "configFileName": "shown", "lcm-kubernetes-def-files": process.SmallManifests()}
	d.Reset()
	d.Write(file, inYAML(t, declared))
	if said, err = push(); err == nil || !strings.Contains(said, `"params.sipMagic" is a secret`) {
		t.Errorf("a push with a name that the VNFD declares: %v", err)
	}

	// Encrypted, it all passes and comes to run.
	sealed := e.Encrypt(t, fmt.Sprint(params["passphrase"]), "--project", "default")
	for name := range params {
		if name != "lcm-kubernetes-def-files" && name != "configFileName" {
			params[name] = sealed
		}
	}
	d.Reset()
	d.Write(file, inYAML(t, params))
	if said, err = push(); err != nil {
		t.Fatalf("a push with everything encrypted: %s", said)
	}
	op := e.instantiated()
	e.notified(op.ID)
	e.answers(op.Instance)
	e.objects()
	e.nowhere(plain)
}

// instantiated waits for the INSTANTIATE of the only instance there is.
func (e *everywhere) instantiated() (op process.Operation) {
	e.Helper()
	kit.Eventually(e.TB, func() error {
		ops, err := process.All[process.Operation](e.Context(), e.Server, process.Operations)
		if err != nil {
			return err
		}
		for _, op = range ops {
			if op.Type == "INSTANTIATE" && op.State == "COMPLETED" {
				return nil
			}
		}
		return fmt.Errorf("nothing is instantiated: %+v", ops)
	})
	return op
}

func TestASecretThatStandsInGitAlreadyIsAProblemAndShownNowhereElse(t *testing.T) {
	kit.Long(t)
	t.Parallel()
	e := newEverywhere(t, t.TempDir())
	params, plain := secrets("old")
	params["lcm-kubernetes-def-files"] = process.SmallManifests()
	d := process.NewWorkTree(t, e.DesiredURL())
	d.Write("instances/a/vnf.yaml", inYAML(t, params))
	d.Commit("Add what the test needs")
	// As it comes from a forge, and as it stood there before Jibe refused it: past the hook.
	if _, err := process.Git(t.Context(), e.Desired(), "fetch", "--quiet", d.Dir(), "+HEAD:refs/heads/main"); err != nil {
		t.Fatal(err)
	}
	op := e.instantiated()
	e.notified(op.ID)
	e.answers(op.Instance)
	if metrics := string(e.shown["API answers"]); !strings.Contains(metrics, "\njibe_desired_problems 9\n") {
		t.Error("the metrics don't count the secrets that stand in git in clear")
	}

	// Secrets that were there may stay; none may be added.
	push := func(old, fresh string) (string, error) {
		d.Reset()
		text := d.Read("instances/a/vnf.yaml")
		d.Write("instances/a/vnf.yaml", strings.Replace(text, old, fresh, 1))
		e.jibe("plan", "plan", d.Dir())
		d.Commit("Change what the test needs")
		out, err := d.TryPush()
		e.show("push", []byte(out))
		return out, err
	}
	if out, err := push("leaked-phrase-old", "leaked-phrase-other"); err == nil || !strings.Contains(out, `"params.passphrase" is a secret and must not stand`) {
		t.Errorf("another secret in clear: %v: %s", err, out)
	}
	if out, err := push("shown-old", "shown-new"); err != nil || !strings.Contains(out, `jibe warns: instances/a/vnf.yaml:`) || !strings.Contains(out, `"params.sipMagic" is a secret that stands here in clear`) {
		t.Errorf("a change that leaves the secrets as they were: %v: %s", err, out)
	}
	if out := e.jibe("validate", "validate", d.Dir()); !strings.Contains(out, `warning: instances/a/vnf.yaml:`) || !strings.Contains(out, "no problems") {
		t.Errorf("validate of secrets that stand there already: %s", out)
	}
	e.answers(op.Instance)
	e.nowhere(append(plain, "leaked-phrase-other"))
}
