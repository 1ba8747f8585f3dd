//go:build linux

package hooks_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/jibe-vnfm/jibe/hooks"
	"github.com/jibe-vnfm/jibe/test/kit"
	"github.com/jibe-vnfm/jibe/test/testenv"
	"github.com/jibe-vnfm/jibe/vnfd"
)

// newRunner has a directory that any user can reach, and sees that nothing is left in it.
func newRunner(t *testing.T) *hooks.Runner {
	t.Helper()

	r := newUnasked(t, confined(t))
	other, err := ability()
	if err != nil {
		t.Fatal(err)
	}
	hooks.AbleAs(r, other)

	return r
}

// newUnasked has not yet asked what this machine can do.
func newUnasked(t *testing.T, c hooks.Confinement) *hooks.Runner {
	t.Helper()
	dir, err := os.MkdirTemp("", "jibe-management-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	r := &hooks.Runner{Dir: filepath.Join(dir, "hooks"), Confinement: c}
	t.Cleanup(func() {
		if left, err := os.ReadDir(r.Dir); err != nil && !errors.Is(err, fs.ErrNotExist) || len(left) > 0 {
			t.Errorf("left behind: %v %v", left, err)
		}
	})
	return r
}

func pack(files map[string]string) *vnfd.Package {
	m := fstest.MapFS{}
	for name, content := range files {
		m[name] = &fstest.MapFile{Data: []byte(content), Mode: 0o444}
	}
	return &vnfd.Package{Tree: "tree", Files: m}
}

// shell is a call of a shell script.
func shell(script string) hooks.Call {
	return hooks.Call{
		Package: pack(map[string]string{"Scripts/run": "#!/bin/sh\n" + script}), Path: "Scripts/run",
		Input: hooks.Input{Hook: "coordinate_new"}, Timeout: kit.Patience,
	}
}

// run is the message of a hook that succeeds.
func run(t *testing.T, r *hooks.Runner, c hooks.Call) string {
	t.Helper()
	out, err := r.Run(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	return out.Message
}

// fails is why a hook failed.
func fails(t *testing.T, r *hooks.Runner, c hooks.Call) *hooks.FailedError {
	t.Helper()
	out, err := r.Run(t.Context(), c)
	var failed *hooks.FailedError
	if !errors.As(err, &failed) {
		t.Fatalf("%v, %v: not a failure of the hook", out, err)
	}
	return failed
}

func TestAHookReadsItsInputAndSaysWhatIsLogged(t *testing.T) {
	t.Parallel()
	c := shell(`m=$(sed 's/.*"operation":{"id":"\([^"]*\)".*/\1/'); echo "{\"message\": \"for $m\", \"later\": {\"attribute\": 1}}"`)
	c.Input.Operation.ID = "op-1"
	if got := run(t, newRunner(t), c); got != "for op-1" {
		t.Errorf("message %q", got)
	}
}

func TestInputHasNoNullWhereAListIsAndTellsTheWorkingCopies(t *testing.T) {
	t.Parallel()
	c := shell(`cat > "$TMPDIR/in"; cat "$(sed 's/.*"before":{[^}]*"dir":"\([^"]*\)".*/\1/' "$TMPDIR/in")/version" >&2; echo >&2
cat "$(sed 's/.*"after":{[^}]*"dir":"\([^"]*\)".*/\1/' "$TMPDIR/in")/version" >&2; echo >&2; cat "$TMPDIR/in" >&2; exit 1`)
	c.Package.Files.(fstest.MapFS)["version"] = &fstest.MapFile{Data: []byte("1")}
	c.Other = &vnfd.Package{Tree: "other", Files: fstest.MapFS{"version": {Data: []byte("2")}}}
	c.Input.Before = &hooks.Package{Tree: "tree", VnfdID: "a"}
	c.Input.After = &hooks.Package{Tree: "other", VnfdID: "b"}
	c.Input.VDUs = []hooks.VDU{{ID: "vdu1"}}
	failed := fails(t, newRunner(t), c)
	before, rest, _ := strings.Cut(failed.Stderr, "\n")
	after, text, _ := strings.Cut(rest, "\n")
	if before != "1" || after != "2" {
		t.Errorf("the working copies are %q and %q", before, after)
	}
	var in hooks.Input
	if err := json.Unmarshal([]byte(text), &in); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(text, "null") || in.Version != hooks.Version || in.Before.Dir == in.After.Dir {
		t.Errorf("input %s", text)
	}
	if c.Input.Before.Dir != "" || c.Input.VDUs[0].Old != nil {
		t.Error("the caller's input was changed")
	}
}

func TestAHookNeedNotReadItsInput(t *testing.T) {
	t.Parallel()
	c := shell(`exec <&-; echo '{"message": "done"}'`)
	c.Input.Params = map[string]any{"long": strings.Repeat("x", 1<<20)}
	if got := run(t, newRunner(t), c); got != "done" {
		t.Errorf("message %q", got)
	}
}

func TestTheEnvironmentHoldsNothingOfJibe(t *testing.T) {
	t.Setenv("JIBE_DATA", "/secret/place")
	c := shell(`env | sort >&2; cat "$KUBECONFIG" >&2; ls -ld "$HOME" "$TMPDIR" >/dev/null || exit 2; echo x > "$HOME/f" && echo x > "$TMPDIR/f" || exit 3; exit 1`)
	c.Files = map[string][]byte{"KUBECONFIG": []byte(`{"kind":"Config"}`)}
	lines := strings.Split(fails(t, newRunner(t), c).Stderr, "\n")
	var names []string
	for _, line := range lines[:len(lines)-1] {
		name, value, _ := strings.Cut(line, "=")
		if names = append(names, name); strings.Contains(value, "secret") || name == "JIBE_HOOK" && value != "coordinate_new" {
			t.Error(line)
		}
	}
	if diff := cmp.Diff([]string{"HOME", "JIBE_HOOK", "KUBECONFIG", "LANG", "PATH", "PWD", "TMPDIR"}, names); diff != "" {
		t.Error(diff)
	}
	if got := lines[len(lines)-1]; got != `{"kind":"Config"}` {
		t.Errorf("the file holds %q", got)
	}
}

func TestTheWorkingCopyIsReadOnlyAndExecutablesInItCanBeRun(t *testing.T) {
	t.Parallel()
	c := shell(`cd "$(dirname "$0")/.." || exit 2
[ "$PWD" = "$(pwd -P)" ] && [ -x Scripts/helper ] && [ -x bin/tool ] && [ ! -x data.txt ] || { ls -lR >&2; exit 3; }
Scripts/helper || exit 4
stat -c %a . Scripts data.txt Scripts/helper "$KUBECONFIG" >&2; exit 1`)
	m := c.Package.Files.(fstest.MapFS)
	m["Scripts/helper"] = &fstest.MapFile{Data: []byte("#!/bin/sh\nexit 0\n"), Mode: 0o444}
	m["bin/tool"] = &fstest.MapFile{Data: []byte("anything"), Mode: 0o755}
	m["data.txt"] = &fstest.MapFile{Data: []byte("x"), Mode: 0o644}
	c.Files = map[string][]byte{"KUBECONFIG": []byte("x")}
	if got := fails(t, newRunner(t), c); got.Stderr != "555\n555\n444\n555\n400" {
		t.Errorf("modes: %v", got)
	}
}

func TestPythonIsRunWithoutBeingTold(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("python3"); err != nil && !testenv.Required() {
		t.Skip("there is no python3")
	}
	c := hooks.Call{Package: pack(map[string]string{"c.py": "import json, sys\nprint(json.dumps({'message': json.load(sys.stdin)['hook']}))\n"}), Path: "./c.py",
		Input: hooks.Input{Hook: "scale_start"}}
	if got := run(t, newRunner(t), c); got != "scale_start" {
		t.Errorf("message %q", got)
	}
}

func TestAnExitCodeIsAFailureWithTheEndOfStandardError(t *testing.T) {
	t.Parallel()
	r := newRunner(t)
	got := fails(t, r, shell(`echo no route to the balancer >&2; exit 3`))
	if got.Error() != "hook Scripts/run failed: exit status 3: no route to the balancer" {
		t.Error(got)
	}
	got = fails(t, r, shell(`i=0; while [ $i -lt 3000 ]; do echo "line $i" >&2; i=$((i+1)); done; printf 'the \033[31mend\000' >&2; kill -9 $$`))
	if !strings.HasPrefix(got.Stderr, "…") || !strings.HasSuffix(got.Stderr, "line 2999\nthe [31mend") || len(got.Stderr) > 8<<10+8 || got.Reason != "signal: killed" {
		t.Errorf("%s: %d bytes: %q", got.Reason, len(got.Stderr), got.Stderr[len(got.Stderr)-30:])
	}
}

func TestGarbageOnStandardOutputIsAFailureThatQuotesIt(t *testing.T) {
	t.Parallel()
	for stdout, want := range map[string]string{
		"Hello there\n":              `"Hello there"`,
		`["a"]`:                      `a`,
		"null\n":                     `"null"`,
		`{"message": 1}`:             `\"message\": 1`,
		"{}\n{\"message\": \"b\"}\n": `after top-level value`,
		`{"message": "cut`:           `cut`,
	} {
		if _, reason := hooks.OutputOf(hooks.Call{}, []byte(stdout)); !strings.Contains(reason, want) || !strings.Contains(reason, "JSON") {
			t.Errorf("%s: %s", stdout, reason)
		}
	}
	for _, stdout := range []string{"", "\n", "{}\n"} {
		if got, reason := hooks.OutputOf(hooks.Call{}, []byte(stdout)); got.Message != "" || reason != "" {
			t.Errorf("%q: %q, %s", stdout, got.Message, reason)
		}
	}

	r := newRunner(t)
	if got := fails(t, r, shell(`echo 'Hello there'`)); !strings.Contains(got.Reason, `"Hello there"`) || !strings.Contains(got.Reason, "JSON") {
		t.Errorf("of a program: %v", got)
	}
	if got := run(t, r, shell(``)); got != "" {
		t.Errorf("of a program that says nothing: %q", got)
	}
}

func TestAGigabyteNeitherFillsMemoryNorBlocks(t *testing.T) {
	r := newRunner(t)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	defer func() {
		if runtime.ReadMemStats(&after); after.TotalAlloc-before.TotalAlloc > 64<<20 {
			t.Errorf("%d bytes were allocated", after.TotalAlloc-before.TotalAlloc)
		}
	}()
	size := 1_000_000_000
	if kit.Quick(t) {
		size /= 10 // more than may be allocated all the same
	}

	var lines int
	r.Log = func(hooks.Input, string, string) { lines++ }
	if got := fails(t, r, shell(fmt.Sprintf(`head -c %d /dev/zero`, size))); !strings.HasPrefix(got.Reason, "wrote more than 1048576 bytes to standard output") {
		t.Error(got)
	}
	if got := fails(t, r, shell(fmt.Sprintf(`yes "a line" | head -c %[1]d >&2; head -c %[1]d /dev/zero >&2; exit 1`, size))); got.Reason != "exit status 1" || len(got.Stderr) > 8<<10+8 {
		t.Errorf("%s: %d bytes", got.Reason, len(got.Stderr))
	}
	if lines < 100 || lines > 1001 {
		t.Errorf("%d lines were logged", lines)
	}
}

func TestLinesOfStandardErrorAreLoggedAsTheyCome(t *testing.T) {
	t.Parallel()
	r := newRunner(t)
	var lines []string
	r.Log = func(in hooks.Input, path, line string) { lines = append(lines, in.Hook+" "+path+" "+line) }
	run(t, r, shell(`printf 'one\ntw' >&2; printf 'o\n\nthree' >&2`))
	if diff := cmp.Diff([]string{"coordinate_new Scripts/run one", "coordinate_new Scripts/run two", "coordinate_new Scripts/run three"}, lines); diff != "" {
		t.Error(diff)
	}
}

func TestSecretsAreInNoErrorNoLogAndNoMessage(t *testing.T) {
	t.Parallel()
	r := newRunner(t)
	var logged strings.Builder
	r.Log = func(_ hooks.Input, _, line string) { logged.WriteString(line + "\n") }
	key := "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkq\nhkiG9w0BAQEFAASC\n-----END PRIVATE KEY-----\n"
	c := shell(`cat >&2; cat "$KUBECONFIG" >&2; echo >&2; printf '%s\n' "hidden-community" >&2; printf 'hkiG9w0BAQEFAASC\n' >&2
echo '{"message": "logged in with hunter2"}'; [ "$JIBE_HOOK" = coordinate_new ] && exit 1; [ "$JIBE_HOOK" = garbage ] && echo hunter2; exit 0`)
	c.Input.CoordinationParams = map[string]any{
		"vdu_params":        []any{map[string]any{"vdu_id": "vdu1", "new_vnfc_param": map[string]any{"cp_name": "cp1", "username": "admin", "password": "hunter2"}}},
		"external_lb_param": map[string]string{"ip_address": "10.0.0.1", "password": "lb-pass"},
	}
	c.Input.Params = map[string]any{"odd_password": "xzy\"zyx<\\>é", "pin_token": 271828, "other_token": 3.5, "private_key": key, "community": "hidden-community"}
	c.Input.Operation.Params = json.RawMessage(`{"additionalParams": {"api_token": "from-the-request"}}`)
	c.Files = map[string][]byte{"KUBECONFIG": []byte(`{"users":[{"user":{"token":"kube-token","client-key-data":"a2V5"}}]}`)}
	c.Secrets = hooks.Revealed(map[string]any{"community": "age:xyz", "ns": "a"}, map[string]any{"community": "hidden-community", "ns": "a"})
	failed := fails(t, r, c)
	c.Input.Hook = "garbage"
	garbage := fails(t, r, c)
	c.Input.Hook = "fine"
	message := run(t, r, c)
	if message != "logged in with ***" {
		t.Errorf("message %q", message)
	}
	for _, text := range []string{failed.Error(), garbage.Error(), logged.String()} {
		for _, secret := range []string{"hunter2", "lb-pass", "271828", "3.5", "hidden-community", "from-the-request", "kube-token", "a2V5", "zyx", "MIIEvQ", "hkiG9w"} {
			if strings.Contains(text, secret) {
				t.Errorf("%s is shown: %s", secret, text)
			}
		}
		if !strings.Contains(text, "***") {
			t.Errorf("nothing was shown: %s", text)
		}
	}
	for _, plain := range []string{"vdu1", "cp1", "admin", "10.0.0.1"} {
		if !strings.Contains(failed.Error(), plain) {
			t.Errorf("%s is no secret: %v", plain, failed)
		}
	}
}

func TestASecretThatIsCutInTwoIsNotShown(t *testing.T) {
	t.Parallel()
	secret := strings.Repeat("s3cret", 20)
	for shift := range 30 {
		dots := 8<<10 - 60 + shift
		c := shell(fmt.Sprintf(`printf '%s' >&2; head -c %d /dev/zero | tr '\0' . >&2; exit 1`, secret, dots))
		c.Input.CoordinationParams = map[string]any{"password": secret}
		if got := hooks.StderrOf(c, secret, strings.Repeat(".", dots)); strings.Contains(got, "ret") || !strings.Contains(got, "...") {
			t.Fatalf("shown: %q", got[:80])
		}

		if shift > 0 {
			continue
		}
		if got := fails(t, newRunner(t), c); strings.Contains(got.Stderr, "ret") || !strings.Contains(got.Stderr, "...") {
			t.Fatalf("shown of a program: %q", got.Stderr[:80])
		}
	}
}

func TestWhatCantBeRunSaysWhatToDo(t *testing.T) {
	t.Parallel()
	r := newRunner(t)
	p := pack(map[string]string{
		"Scripts/run": "#!/bin/sh\n", "data": "just text", "empty": "", "none": "#!/opt/none/perl -w\n", "windows": "#!/bin/sh\r\nexit 0\r\n",
		"elf": "\x7fELF but not really",
	})
	p.Files.(fstest.MapFS)["fifo"] = &fstest.MapFile{Mode: fs.ModeNamedPipe | 0o555}
	for path, want := range map[string]string{
		"Scripts/gone": "isn't in the package: add it",
		"Scripts":      "is a directory: name the program in it",
		"data":         "#!/bin/sh",
		"empty":        "is empty",
		"none":         "/opt/none/perl isn't there: install it",
		"windows":      "CR LF",
		"elf":          "isn't a program for this machine",
		"fifo":         "isn't a regular file",
		"../secret":    "isn't a path inside the package",
		"/etc/passwd":  "isn't a path inside the package",
		"":             "is a directory",
	} {
		c := hooks.Call{Package: p, Path: path}
		if path != "fifo" {
			c.Package = &vnfd.Package{Files: without(p.Files.(fstest.MapFS), "fifo")}
		}
		if got := fails(t, r, c); !strings.Contains(got.Reason, want) {
			t.Errorf("%s: %v", path, got)
		}
	}
}

func without(m fstest.MapFS, name string) fstest.MapFS {
	out := fstest.MapFS{}
	for k, v := range m {
		if k != name {
			out[k] = v
		}
	}
	return out
}

func TestAHostilePackageIsNotWrittenOut(t *testing.T) {
	t.Parallel()
	r := newRunner(t)
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "run"), []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/etc", filepath.Join(dir, "out")); err != nil {
		t.Fatal(err)
	}
	many := fstest.MapFS{"run": {Data: []byte("#!/bin/sh\n")}}
	for i := range 10_001 {
		many[fmt.Sprintf("f%d", i)] = &fstest.MapFile{}
	}
	big := fstest.MapFS{"run": {Data: []byte("#!/bin/sh\n")}, "a": {Data: make([]byte, 70<<20)}, "b": {Data: make([]byte, 70<<20)}}
	for want, files := range map[string]fs.FS{
		`"out" is neither a file nor a directory`: os.DirFS(dir),
		"more than 10000 files":                   many,
		"more than 134217728 bytes":               big,
	} {
		if _, err := r.Run(t.Context(), hooks.Call{Package: &vnfd.Package{Files: files}, Path: "run"}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}

func TestNoMoreHooksRunAtOnceThanMay(t *testing.T) {
	t.Parallel()
	r, n := newUnconfined(t), newNote(t)
	r.Parallel = 2
	var wg sync.WaitGroup
	for i := range 5 {
		wg.Go(func() {
			if _, err := r.Run(t.Context(), shell(fmt.Sprintf(`cd %s; touch run-%d; ls run-* | wc -l > seen-%[2]d; sleep 0.1; rm run-%[2]d`, n.dir, i))); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	most := 0
	for i := range 5 {
		most = max(most, n.wait(t, fmt.Sprintf("seen-%d", i)))
	}
	if most > 2 {
		t.Errorf("%d ran at once", most)
	}
	// Two do, and who waits for a turn gives up with its context.
	ctx, cancel := context.WithCancel(t.Context())
	for i := range 2 {
		wg.Go(func() { _, _ = r.Run(ctx, shell(fmt.Sprintf(`echo $$ > %s-%d; sleep 3600`, n.file("busy"), i))) })
	}
	n.wait(t, "busy-0")
	n.wait(t, "busy-1")
	brief, stop := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer stop()
	if _, err := r.Run(brief, shell(``)); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error %v", err)
	}
	cancel()
	wg.Wait()
}

func TestWhereJibeIsRootHooksAreSomebodyElse(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("Jibe isn't root here")
	}
	r := newRunner(t)
	private := filepath.Join(t.TempDir(), "identity.age")
	if err := os.WriteFile(private, []byte("key"), 0o600); err != nil {
		t.Fatal(err)
	}
	c := shell(fmt.Sprintf(`[ ! -r %s ] && [ -r "$KUBECONFIG" ] && [ ! -w "$KUBECONFIG" ] && [ ! -w . ] && [ ! -w Scripts/run ] && ! ls %s 2>/dev/null || exit 2
id -un >&2; id -G >&2; exit 1`, private, r.Dir))
	c.Files = map[string][]byte{"KUBECONFIG": []byte("x")}
	nobody, err := user.Lookup("nobody")
	if err != nil {
		t.Fatal(err)
	}
	first, _, _ := strings.Cut(hooks.DefaultUsers, "-")
	if got := fails(t, r, c); got.Stderr != "hook\n"+first || got.Reason != "exit status 1" {
		t.Error(got)
	}
	r.User = nobody.Uid
	if got := fails(t, r, c); !strings.HasPrefix(got.Stderr, "nobody") {
		t.Error(got)
	}
	r.User = "no-such-user"
	if _, err := r.Run(t.Context(), c); err == nil || !strings.Contains(err.Error(), `there is no user "no-such-user"`) {
		t.Errorf("error %v", err)
	}
	r.User = "0"
	if _, err := r.Run(t.Context(), c); err == nil || !strings.Contains(err.Error(), "don't run as root") {
		t.Errorf("error %v", err)
	}
	r.User = "nobody"
	r.Dir = filepath.Join(t.TempDir(), "hooks") // in a directory that is closed to others
	if err := os.Chmod(filepath.Dir(r.Dir), 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Run(t.Context(), c); err == nil || !strings.Contains(err.Error(), "user nobody can't reach") {
		t.Errorf("error %v", err)
	}
}

func TestADirectoryThatSomebodyElseMayWriteToIsNotUsed(t *testing.T) {
	t.Parallel()
	r := newRunner(t)
	if err := os.Mkdir(r.Dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(r.Dir, 0o777); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Run(t.Context(), shell(``)); err == nil || !strings.Contains(err.Error(), "Jibe alone") {
		t.Errorf("error %v", err)
	}
}

// They aren't confined: then a process is forked from this one and becomes the hook at once, and most of
// them may hold another's file open.
func TestHooksThatAreWrittenOutTogetherAllStart(t *testing.T) {
	t.Parallel()
	r := newUnconfined(t)
	tool, err := os.ReadFile("/bin/true")
	if err != nil {
		t.Fatal(err)
	}
	p := &vnfd.Package{Files: fstest.MapFS{"bin/tool": {Data: tool}}}
	var wg sync.WaitGroup
	for range 64 {
		wg.Go(func() {
			if _, err := r.Run(t.Context(), hooks.Call{Package: p, Path: "bin/tool"}); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
}

func TestAHookFindsTheTraceThatItsRunBelongsTo(t *testing.T) {
	t.Parallel()
	c := shell(`echo "{\"message\": \"$TRACEPARENT, ${TRACEPARENT+set}\"}"`)
	if got := run(t, newRunner(t), c); got != ", " {
		t.Errorf("without a trace the environment says %q", got)
	}
	const parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	c.Traceparent = parent
	if got := run(t, newRunner(t), c); got != parent+", set" {
		t.Errorf("the environment says %q", got)
	}
}
