package app_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jibe-vnfm/jibe/app"
	"github.com/jibe-vnfm/jibe/internal/datadir"
	"github.com/jibe-vnfm/jibe/test/kit"
	"github.com/jibe-vnfm/jibe/test/process"
)

// pushTokens are callers of every kind, by name.
const pushTokens = `tokens:
- {name: root, role: admin, token: token-of-root-0000}
- {name: ops, role: operator, token: token-of-ops-00000}
- {name: east, roles: [{role: operator, projects: [east]}], token: token-of-east-0000}
- {name: west, roles: [{role: operator, projects: [west]}], token: token-of-west-0000}
- {name: both, roles: [{role: operator, projects: [east, west]}], token: token-of-both-0000}
- {name: read, role: viewer, token: token-of-read-0000}
- {name: plan, role: planner, token: token-of-plan-0000}
- {name: pack, role: packager, token: token-of-pack-0000}
- {name: pkge, roles: [{role: packager, projects: [east]}], token: token-of-pkge-0000}
`

// notYet is an instance by its name.
const notYet = "name: %s\nvnfdId: " + process.SmallVnfd + "\nflavour: simple\nstate: notInstantiated\nparams: {namespace: a}\n"

func tokenOf(name string) string {
	return ("token-of-" + name + "-0000000000")[:len("token-of-root-0000")]
}

// withPushers starts a server that knows them, with a project each for east and west.
func withPushers(t *testing.T, args ...string) *process.Server {
	t.Helper()
	data := process.ShortTempDir(t)
	if err := os.MkdirAll(data, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(datadir.TokensFile(data), []byte(pushTokens), 0o600); err != nil {
		t.Fatal(err)
	}
	s := process.Start(t, data, args...)
	s.PushPackages(t, []string{process.SmallVnfd}, process.SmallPackage())
	s.PushFiles(t, map[string]string{
		"projects/east.yaml":          "instances: [east]\nrepositories: [eastern]\nvims: ['*']\nnamespaces: ['east-*']\n",
		"projects/west.yaml":          "instances: [west]\nvims: ['*']\nnamespaces: ['west-*']\n",
		"repositories.yaml":           "- {name: packages, url: packages.git, branch: main}\n",
		"instances/east/README.md":    "East\n",
		"instances/east/amf/vnf.yaml": fmt.Sprintf(notYet, "amf-east"),
		"instances/west/amf/vnf.yaml": fmt.Sprintf(notYet, "amf-west"),
		"instances/else/amf/vnf.yaml": fmt.Sprintf(notYet, "amf-else"),
	})
	return s
}

// as is the address of a repository for a caller.
func as(s *process.Server, name, repository string) string {
	u, err := url.Parse(s.URL)
	if err != nil {
		panic(err)
	}
	u.User = url.UserPassword("git", tokenOf(name))
	return u.String() + "/git/" + repository
}

func TestWhatAPushMayChangeFollowsFromItsPusher(t *testing.T) {
	s := withPushers(t)
	w := process.NewWorkTree(t, s.Desired())
	git := func(args ...string) { w.Git(args...) }
	for i, c := range []struct {
		name   string
		change func()
		may    string // the names of those who may
		refuse string // what the others are told
	}{
		{"a VIM", func() { w.Write("vims/x.yaml", "type: sim\n") }, "root", "vims/x.yaml: %[1]s may not push this: it needs the role admin, and %[1]s is "},
		{"the package repositories", func() { w.Write("repositories.yaml", "[]\n") }, "root", "repositories.yaml: %s may not"},
		{"a project", func() { w.Write("projects/east.yaml", "instances: [east, east2]\nvims: ['*']\n") }, "root", "projects/east.yaml: %s may not"},
		{"the grants", func() { w.Write("granting.yaml", "") }, "root", "granting.yaml: %s may not"},
		{"the peers", func() { w.Write("peers.yaml", "") }, "root", "peers.yaml: %s may not"},
		{"another file", func() { w.Write("README.md", "x\n") }, "root", "README.md: %s may not"},
		{"a file right below instances", func() { w.Write("instances/README.md", "x\n") }, "root", "instances: %s may not"},
		{"a folder of another case", func() { w.Write("Instances/east/amf/vnf.yaml", "x\n") }, "root", "Instances/east: %s may not"},
		{"an instance of east", func() { w.Write("instances/east/amf/vnf.yaml", fmt.Sprintf(notYet, "amf-2")) }, "root ops east both",
			"instances/east/amf: %[1]s may not push this: it needs the role operator in project east, and %[1]s is "},
		{"a script of an instance of east", func() { w.Write("instances/east/amf/a/b/run.sh", "x\n") }, "root ops east both", "instances/east/amf: %s may not"},
		{"another file of east", func() { w.Write("instances/east/more/notes/README.md", "x\n") }, "root ops east both", "instances/east/more/notes: %s may not"},
		{"a new instance of east, and one of west", func() {
			w.Write("instances/east/new/vnf.yaml", fmt.Sprintf(notYet, "new-1"))
			w.Write("instances/west/new/vnf.yaml", fmt.Sprintf(notYet, "new-2"))
		}, "root ops both", "/new: %s may not"},
		{"the end of an instance of nobody's", func() { w.Remove("instances/else/amf/vnf.yaml") }, "root ops", "instances/else/amf: %s may not"},
		{"an instance above those of others", func() { w.Write("instances/vnf.yaml", fmt.Sprintf(notYet, "top")) }, "", "instances"},
		{"a link", func() {
			if err := os.MkdirAll(filepath.Join(w.Dir(), "vims"), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.Symlink("/etc/passwd", filepath.Join(w.Dir(), "vims/link.yaml")); err != nil {
				t.Fatal(err)
			}
		}, "root", "vims/link.yaml: %s may not"},
		{"a merge that brings what others committed", func() {
			git("checkout", "-q", "-b", "theirs")
			git("-c", "user.name=root", "-c", "user.email=root@example.com", "commit", "-q", "--allow-empty", "-m", "By root")
			w.Write("vims/y.yaml", "type: sim\n")
			git("add", "-A")
			git("-c", "user.name=root", "-c", "user.email=root@example.com", "commit", "-q", "-m", "By root\n\nRequested-By: root")
			git("checkout", "-q", "-")
			git("merge", "-q", "--no-ff", "-m", "Merge", "theirs")
			git("branch", "-q", "-D", "theirs")
		}, "root", "vims/y.yaml: %s may not"},
		{"nothing", func() {}, "root ops east west both", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := w.For(t)
			w.Git("fetch", "-q", "origin")
			w.Git("reset", "-q", "--hard", "origin/main")
			w.Git("clean", "-fdxq")
			base := w.Git("rev-parse", "HEAD")
			c.change()
			w.Git("add", "-A")
			w.Git("commit", "-q", "--allow-empty", "-m", c.name)
			pushers := []string{"east", "ops"}
			switch {
			case i == 0:
				pushers = []string{"read", "plan", "pack", "east", "west", "both", "ops", "root"}
			case strings.Contains(c.may, "both"):
				pushers = []string{"west", "east", "both"}
			}
			for _, who := range pushers {
				out, err := process.Git(t.Context(), w.Dir(), "push", as(s, who, "desired.git"), "HEAD:main")
				may := strings.Contains(" "+c.may+" ", " "+who+" ")
				said := strings.ReplaceAll(strings.ReplaceAll(fmt.Sprint(out, err), "\nremote: ", " "), "remote: ", "")
				switch {
				case may && err != nil:
					t.Errorf("%s may not: %s", who, said)
				case !may && err == nil:
					t.Errorf("%s may: %s", who, said)
				case !may && c.refuse != "" && strings.Contains("east west both ops", who):
					want := c.refuse
					if strings.Contains(want, "%") {
						want = fmt.Sprintf(want, who)
					}
					if !strings.Contains(said, want) {
						t.Errorf("%s is told %q, and not %q", who, said, want)
					}
				}
				if err == nil { // back, for the next
					back := w.Git("commit-tree", base+"^{tree}", "-p", "HEAD", "-m", "Back")
					w.Git("push", "-q", s.Desired(), back+":main")
					w.Git("reset", "-q", "--hard", back)
					c.change()
					w.Git("add", "-A")
					w.Git("commit", "-q", "--allow-empty", "-m", c.name)
				}
			}
		})
	}
}

func TestEachPushIsInTheAuditLogAndInGitWithItsPusher(t *testing.T) {
	s := withPushers(t)
	w := process.NewWorkTree(t, s.Desired())
	push := func(who, name string) string {
		t.Helper()
		w.Write("instances/"+name+"/vnf.yaml", fmt.Sprintf(notYet, who))
		w.Git("add", "-A")
		w.Git("-c", "user.name=root", "commit", "-q", "-m", "By root\n\nRequested-By: root")
		commit := w.Git("rev-parse", "HEAD")
		if out, err := process.Git(t.Context(), w.Dir(), "push", as(s, who, "desired.git"), "HEAD:main"); (err == nil) != strings.HasPrefix(name, who) {
			t.Errorf("%s pushes %s: %v %s", who, name, err, out)
		}
		return commit
	}
	taken := push("east", "east/one")
	refused := push("east", "west/one")
	kit.Until(t, "the pusher is noted", func() bool {
		out, err := process.Git(t.Context(), s.Desired(), "notes", "--ref=jibe", "show", taken)
		return err == nil && strings.Contains(out, `pushed by "east" from "127.0.0.1" at `) && !strings.Contains(out, `"root"`)
	})
	// Who only considers a change is warned of what they may not push.
	asks := *s
	asks.Token = tokenOf("plan")
	a, err := asks.Do(t.Context(), http.MethodPost, "/jibe/v1/check", map[string]any{"instances": []any{}, "touched": map[string]any{"dirs": []string{"instances/west/amf"}, "outside": []string{"vims/x.yaml"}}})
	if err != nil || a.Status != http.StatusOK || strings.Count(string(a.Body), "plan may not push this") != 2 {
		t.Errorf("a planner is answered %d %s %v", a.Status, a.Body, err)
	}
	text, err := os.ReadFile(app.AuditFile(s.Data))
	if err != nil {
		t.Fatal(err)
	}
	for commit, outcome := range map[string]string{taken: "done", refused: "refused"} {
		found := false
		for line := range strings.Lines(string(text)) {
			found = found || strings.Contains(line, commit) && strings.Contains(line, `"outcome":"`+outcome+`"`) && strings.Contains(line, `"identity":"east"`) &&
				strings.Contains(line, `"action":"push"`) && strings.Contains(line, `"source":"127.0.0.1"`)
		}
		if !found {
			t.Errorf("the audit log doesn't say that %s was %s:\n%s", commit, outcome, text)
		}
	}
	if strings.Contains(string(text), "token-of") {
		t.Error("a token is in the audit log")
	}
}

func TestWhoMayReadSomeProjectsDoesNotFetchThemAll(t *testing.T) {
	s := withPushers(t)
	for who, may := range map[string]bool{"root": true, "read": true, "ops": true, "east": false, "pkge": false} {
		out, err := process.Git(t.Context(), t.TempDir(), "ls-remote", as(s, who, "desired.git"))
		if (err == nil) != may {
			t.Errorf("%s fetches: %v, want %v: %s", who, err == nil, may, out)
		}
		if err != nil && !strings.Contains(fmt.Sprint(out, err), "shows every project") {
			t.Errorf("%s isn't told why: %v %s", who, err, out)
		}
	}
	shared := withPushers(t, "--share-desired")
	if out, err := process.Git(t.Context(), t.TempDir(), "ls-remote", as(shared, "east", "desired.git")); err != nil {
		t.Errorf("--share-desired lets nobody fetch: %s", out)
	}
}

func TestPackageRepositoriesAreTheirPackagersAndLoseNothing(t *testing.T) {
	s := withPushers(t)
	repository := filepath.Join(s.Data, "packages", "packages.git")
	w := process.NewWorkTree(t, repository)
	commit := func(name string) {
		w.Write(name, name)
		w.Git("add", "-A")
		w.Git("commit", "-q", "-m", name)
	}
	commit("a")
	for _, who := range []string{"read", "plan", "ops", "east", "pkge"} {
		if out, err := process.Git(t.Context(), w.Dir(), "push", as(s, who, "packages/packages.git"), "HEAD:main"); err == nil {
			t.Errorf("%s may: %s", who, out)
		}
	}
	must := func(args ...string) {
		t.Helper()
		if out, err := process.Git(t.Context(), w.Dir(), args...); err != nil {
			t.Fatal(out, err)
		}
	}
	to := as(s, "pack", "packages/packages.git")
	must("push", to, "HEAD:main", "HEAD:refs/tags/v1")
	commit("b")
	must("push", to, "HEAD:main")
	w.Git("reset", "-q", "--hard", "HEAD^")
	commit("c")
	for _, push := range []string{"+HEAD:main", "+HEAD:refs/tags/v1", ":refs/tags/v1", ":main", "HEAD:refs/replace/" + w.Git("rev-parse", "HEAD"), "HEAD:refs/notes/x"} {
		for _, at := range []string{as(s, "root", "packages/packages.git"), repository} {
			if out, err := process.Git(t.Context(), w.Dir(), "push", at, push); err == nil {
				t.Errorf("%s is taken at %s: %s", push, at, out)
			}
		}
	}
}

func TestAPushIsKnownByAnIDThatItsHookAloneCanUseOnce(t *testing.T) {
	s := withPushers(t)
	w := process.NewWorkTree(t, s.Desired())
	w.Write("vims/x.yaml", "type: sim\n")
	w.Git("add", "-A")
	w.Git("commit", "-q", "-m", "VIM")
	t.Setenv("JIBE_PUSH", "made-up") // a push by path that pretends to be one over HTTP
	if out, err := process.Git(t.Context(), w.Dir(), "push", s.Desired(), "HEAD:main"); err == nil || !strings.Contains(fmt.Sprint(out, err), "no push that the server knows") {
		t.Errorf("an id that was made up is believed: %v %s", err, out)
	}
	socket := http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", filepath.Join(s.Data, "hook.sock"))
	}}}
	for path, want := range map[string]int{"/jibe/v1/accept": http.StatusNotFound, "/jibe/v1/check": http.StatusNotFound, app.PushPath: http.StatusForbidden} {
		res, err := socket.Post("http://jibe"+path, "application/json", strings.NewReader(`{"id":"made-up","repository":"desired.git","updates":[]}`))
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
		if res.StatusCode != want {
			t.Errorf("%s at the hook's socket is answered with %d", path, res.StatusCode)
		}
	}
	res, err := http.Post(s.URL+app.PushPath, "application/json", strings.NewReader(`{"repository":"desired.git","updates":[]}`))
	if err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close()
	if res.StatusCode < 400 {
		t.Errorf("whoever reaches the API can pose as a hook: %d", res.StatusCode)
	}
}
