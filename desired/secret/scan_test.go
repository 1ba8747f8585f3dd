package secret_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jibe-vnfm/jibe/desired/secret"
	"github.com/jibe-vnfm/jibe/internal/git"
	"github.com/jibe-vnfm/jibe/test/kit"
)

const leaked = "pa55word-nobody-may-print"

// history is a repository made of files that one commit after another has.
func history(t *testing.T, commits ...map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	run := func(args ...string) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "git", append([]string{"-C", dir, "-c", "user.name=a", "-c", "user.email=a@b"}, args...)...)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v: %s", args, err, out)
		}
	}
	run("init", "-q", "-b", "main")
	for i, files := range commits {
		for name, text := range files {
			path := filepath.Join(dir, name)
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		run("add", "-A")
		run("commit", "-q", "-m", fmt.Sprint("commit ", i))
	}
	return dir
}

func scanned(t *testing.T, dir string, all bool) string {
	t.Helper()
	found, skipped, err := secret.Scan(t.Context(), git.Runner{Clone: dir}, all)
	if err != nil || len(skipped) > 0 {
		t.Fatal(err, skipped)
	}
	var out []string
	for _, e := range found {
		name, err := exec.CommandContext(t.Context(), "git", "-C", dir, "log", "-1", "--format=%s", e.Commit).Output()
		if err != nil {
			t.Fatal(err)
		}
		state := ""
		if e.Now {
			state = " now"
		}
		out = append(out, fmt.Sprintf("%s: %s %s%s", strings.TrimSpace(string(name)), e.File, e.Field, state))
	}
	text := strings.Join(out, "\n")
	if strings.Contains(text, leaked) {
		t.Errorf("a secret is told: %s", text)
	}
	return text
}

func TestAScanFindsSecretsInClearOfEachCommitAndBranch(t *testing.T) {
	kit.Long(t)
	t.Parallel()
	pem := "-----BEGIN PRIVATE KEY-----\n" + leaked + "\n-----END PRIVATE KEY-----\n"
	dir := history(t,
		map[string]string{"instances/a/vnf.yaml": "vnfdId: x\nparams:\n  password: " + leaked + "\n  tokenUrl: https://x\n"},
		map[string]string{"instances/a/vnf.yaml": "vnfdId: x\nparams:\n  password: env:JIBE_SECRET_A\n",
			"vims/k.yaml":        "type: k\ncredentials:\n  username: ann\n  token: " + leaked + "\n",
			"keys/ä \"key\".txt": pem,
			"p/secret.yaml":      "apiVersion: v1\nkind: Secret\nmetadata: {name: s}\ndata:\n  a: " + leaked + "\n  b: '{{ .Values.b }}'\n---\napiVersion: v1\nkind: Pod\nspec:\n  volumes: [{secret: {secretName: s}}]\n  containers: [{env: [{name: DB_PASSWORD, value: " + leaked + "}]}]\n",
			"p/vnfd.yaml":        "inputs:\n  admin_password: {type: string, description: none}\nnode: {password: {get_input: admin_password}}\n",
			"vims/comment.yaml":  "type: k\n# " + strings.ReplaceAll(pem, "\n", "\n# ") + "\n",
		},
		map[string]string{"vims/k.yaml": "type: k\ncredentials:\n  username: ann\n  token: " + leaked + "\n", "README": "nothing"},
	)
	if out, err := exec.CommandContext(t.Context(), "sh", "-c", "cd "+dir+` && git checkout -q -b side HEAD~1 && printf 'clientPassword: `+leaked+`\n' > side.yaml && git add -A && git -c user.name=a -c user.email=a@b commit -qm "on a side" && git checkout -q main`).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	head := strings.Join([]string{
		"commit 2: p/secret.yaml data.a now", "commit 2: p/secret.yaml spec.containers[0].env[0].value now",
		"commit 2: keys/ä \"key\".txt a private key or a token in the text now",
		"commit 2: vims/comment.yaml a private key or a token in the text now", "commit 2: vims/k.yaml credentials.token now",
	}, "\n")
	want := func(name, got, want string) {
		t.Helper()
		g, w := strings.Split(got, "\n"), strings.Split(want, "\n")
		for _, line := range w {
			if !strings.Contains("\n"+got+"\n", "\n"+line+"\n") {
				t.Errorf("%s: %q wasn't found", name, line)
			}
		}
		if len(g) != len(w) {
			t.Errorf("%s: found\n%s\nand not\n%s", name, got, want)
		}
	}
	want("head", scanned(t, dir, false), head)
	want("history", scanned(t, dir, true), "commit 0: instances/a/vnf.yaml params.password\n"+strings.ReplaceAll(head, "commit 2:", "commit 1:")+"\non a side: side.yaml clientPassword")
}

func TestAScanOfTenThousandCommitsReadsEachFileOnce(t *testing.T) {
	kit.Long(t)
	t.Parallel()
	dir := t.TempDir()
	if out, err := exec.CommandContext(t.Context(), "git", "init", "-q", "--bare", "-b", "main", dir).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	var stream strings.Builder
	const commits = 10_000
	for i := range commits {
		text := fmt.Sprintf("vnfdId: x\nscale: {a: %d}\nparams: {n: %d}\n", i, i)
		if i == 7777 {
			text += "x: {apiKey: " + leaked + "}\n"
		}
		fmt.Fprintf(&stream, "commit refs/heads/main\ncommitter a <a@b> %d +0000\ndata 1\nx\nM 100644 inline instances/%d/vnf.yaml\ndata %d\n%s\n", 1700000000+i, i%100, len(text), text)
	}
	cmd := exec.CommandContext(t.Context(), "git", "-C", dir, "fast-import", "--quiet")
	// Without this, the allocator gives memory back to the kernel after each tree: 50 times the work.
	cmd.Env = append(cmd.Environ(), "MALLOC_TOP_PAD_=16777216", "MALLOC_TRIM_THRESHOLD_=268435456")
	cmd.Stdin = strings.NewReader(stream.String())
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	found, _, err := secret.Scan(t.Context(), git.Runner{Clone: dir}, true)
	if err != nil || len(found) != 1 || found[0].File != "instances/77/vnf.yaml" || found[0].Field != "x.apiKey" || found[0].Now {
		t.Errorf("%v: %+v", err, found)
	}
}
