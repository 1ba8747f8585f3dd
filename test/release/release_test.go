package release

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/jibe-vnfm/jibe/test/process"
	"github.com/jibe-vnfm/jibe/test/testenv"
)

// version is what the release is called here. It is said to be of a commit that is nowhere.
const (
	version = "test-release"
	commit  = "0123456789abcdef0123456789abcdef01234567"
	epoch   = "1767323045" // 2026-01-02T03:04:05Z
)

// folder is where releases are made.
var folder string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "jibe-release-test-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	folder = dir
	code := m.Run()
	if err := os.RemoveAll(dir); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// need skips the test unless tests of real parts run, as those of this package compile Jibe twice, and
// installs the programs that they use.
func need(t *testing.T) {
	t.Helper()
	testenv.Real(t, "minutes to make a release")

	for _, n := range [][2]string{{"apt-get", "apt"}, {"dpkg-deb", "dpkg"}, {"ssh-keygen", "openssh-client"}, {"unshare", "util-linux"}} {
		testenv.Program(t, n[0], n[1])
	}
}

// made is the release that all tests look at: what was made, of this clone, and the key that signed it.
var made = sync.OnceValues(func() (string, error) {
	key := filepath.Join(folder, "key")
	if out, err := exec.Command("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "release@jibe.example", "-f", key).CombinedOutput(); err != nil {
		return "", fmt.Errorf("ssh-keygen: %w: %s", err, out)
	}
	out := filepath.Join(folder, "dist")
	return out, release(context.Background(), process.Root(), out, "--key", key)
})

// release makes one of the sources in root, for this machine's architecture alone.
func release(ctx context.Context, root, out string, args ...string) error {
	cmd := exec.CommandContext(ctx, "go", append([]string{"run", "-C", filepath.Join(root, "packaging"), "-buildvcs=false", "./release",
		"--root", root, "--out", out, "--version", version, "--commit", commit, "--arch", runtime.GOARCH}, args...)...)
	cmd.Env = append(os.Environ(), "SOURCE_DATE_EPOCH="+epoch, "GOWORK=off")
	if said, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("make a release of %s: %w\n%s", root, err, said)
	}
	return nil
}

func dist(t *testing.T) string {
	t.Helper()
	need(t)
	dir, err := made()
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// run runs a program in a folder and returns what it prints.
func run(t *testing.T, dir, name string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	return string(out)
}

// TestAReleaseIsTheSameFromAnotherFolder makes it again in another place, by sources that git
// knows nothing of. Go's cache gives what was compiled before only where the folder has no influence on it, so that the
// compiler need not run twice.
func TestAReleaseIsTheSameFromAnotherFolder(t *testing.T) {
	first := dist(t)
	again := filepath.Join(t.TempDir(), "elsewhere", "sources")
	files := run(t, process.Root(), "git", "ls-files", "--cached", "--others", "--exclude-standard", "-z")
	for name := range strings.SplitSeq(strings.TrimRight(files, "\x00"), "\x00") {
		from, to := filepath.Join(process.Root(), name), filepath.Join(again, name)
		st, err := os.Lstat(from)
		if errors.Is(err, fs.ErrNotExist) || err == nil && !st.Mode().IsRegular() {
			continue // removed, and not committed yet; or a symbolic link of an example
		}
		if err != nil {
			t.Fatal(err)
		}
		data, err := os.ReadFile(from)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(to, data, st.Mode().Perm()); err != nil {
			t.Fatal(err)
		}
	}
	second := filepath.Join(t.TempDir(), "dist")
	if err := release(t.Context(), again, second); err != nil {
		t.Fatal(err)
	}
	sums := func(dir string) string {
		data, err := os.ReadFile(filepath.Join(dir, "SHA256SUMS"))
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	if diff := cmp.Diff(sums(first), sums(second)); diff != "" {
		t.Errorf("the second one differs:\n%s", diff)
	}
	for _, what := range []string{".tar.gz", ".deb", "image_" + runtime.GOARCH + ".tar", "image_" + runtime.GOARCH + ".cdx.json", ".packages.txt", chartName, "release-notes.md"} {
		if !strings.Contains(sums(first), what+"\n") {
			t.Errorf("a release has no %s:\n%s", what, sums(first))
		}
	}
}

func TestTheChecksumsOfAReleaseAreSigned(t *testing.T) {
	dir := dist(t)
	key, err := os.ReadFile(filepath.Join(folder, "key.pub"))
	if err != nil {
		t.Fatal(err)
	}
	signers := filepath.Join(t.TempDir(), "signers")
	if err := os.WriteFile(signers, append([]byte("release@jibe.example namespaces=\"jibe-release\" "), key...), 0o644); err != nil {
		t.Fatal(err)
	}
	sums, err := os.ReadFile(filepath.Join(dir, "SHA256SUMS"))
	if err != nil {
		t.Fatal(err)
	}
	verify := func(text []byte) error {
		cmd := exec.CommandContext(t.Context(), "ssh-keygen", "-Y", "verify", "-f", signers, "-I", "release@jibe.example", "-n", "jibe-release", "-s", filepath.Join(dir, "SHA256SUMS.sig"))
		cmd.Stdin = bytes.NewReader(text)
		out, err := cmd.CombinedOutput()
		if err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		return nil
	}
	if err := verify(sums); err != nil {
		t.Errorf("the signature isn't good: %v", err)
	}
	if verify(append(sums, '\n')) == nil {
		t.Error("the signature is good for something else, too")
	}
	if out := run(t, dir, "sha256sum", "--check", "--strict", "SHA256SUMS"); strings.Contains(out, "FAILED") {
		t.Error(out)
	}
}

// TestThePackageOfDebianInstallsAServiceThatKeepsHooksConfined installs the package in a systemd
// of its own, and asks it what an operator would: see install.sh.
func TestThePackageOfDebianInstallsAServiceThatKeepsHooksConfined(t *testing.T) {
	dir := dist(t)
	if os.Geteuid() != 0 {
		t.Skip("a systemd can only be booted as root")
	}
	if out, err := exec.CommandContext(t.Context(), filepath.Join(process.Root(), "test", "need"), "systemd-analyze", "systemd").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	pkg, err := filepath.Glob(filepath.Join(dir, "*.deb"))
	if err != nil || len(pkg) != 1 {
		t.Fatalf("want one package: %v, %v", pkg, err)
	}
	out := t.TempDir()
	data, err := os.ReadFile(pkg[0])
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(out, "jibe.deb"), data, 0o644); err != nil {
		t.Fatal(err)
	}
	console, err := exec.CommandContext(t.Context(), "./boot.sh", out, "install.sh").CombinedOutput() // which ends by itself
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() == 77 {
		t.Fatalf("no systemd can be booted here: %s", console)
	}
	log, err := os.ReadFile(filepath.Join(out, "log"))
	if err != nil {
		t.Fatalf("nothing was logged: %v\n%s", err, console)
	}
	said := map[string]string{}
	for line := range strings.Lines(string(log)) {
		if rest, ok := strings.CutPrefix(strings.TrimSpace(line), "says "); ok {
			key, value, _ := strings.Cut(rest, ": ")
			said[key] = value
		}
	}
	by, _, _ := strings.Cut(said["hooks"], ",")
	if !strings.HasPrefix(by, "Landlock version ") || !strings.Contains(said["hooks"], ", namespaces of processes and mounts, a cgroup for each run") {
		t.Errorf("hooks are confined by %q, want Landlock, namespaces and cgroups", said["hooks"])
	}
	delete(said, "hooks")
	want := map[string]string{
		"installed": "active, enabled, ready",
		"user":      "jibe",
		"data":      "jibe 750, settings root:jibe 750",
		"unit":      "0 complaints",
		"exposure":  "below 3.0",
		"manual":    "/usr/share/man/man1/jibe-serve.1.gz",
		"again":     "ready",
		"upgraded":  `restarted, ready, JIBE_OPTIONS="--allow-hooks"`,
		"purged":    "inactive, key kept, settings gone",
	}
	if diff := cmp.Diff(want, said); diff != "" {
		t.Errorf("%s\nlog:\n%s\nconsole:\n%s", diff, log, console)
	}
}
