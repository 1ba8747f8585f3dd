package app_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jibe-vnfm/jibe/admission"
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

// withPushers starts a server that knows them, in a process of its own whose hooks judge pushes.
func withPushers(t *testing.T, args ...string) *process.Server {
	t.Helper()
	s := process.Start(t, projectsData(t), args...)
	s.AwaitPackages(t, process.SmallVnfd)
	return s
}

// servesPushers is withPushers in this process, where no hook runs.
func servesPushers(t *testing.T, o app.Options) *process.Server {
	t.Helper()
	o.Data = projectsData(t)
	s, stop := startWith(t, o)
	t.Cleanup(stop)
	s.AwaitPackages(t, process.SmallVnfd)
	return s
}

// projectsData is [pushData] with a project each for east and west.
func projectsData(t *testing.T) (data string) {
	t.Helper()
	data = pushData(t, pushTokens)
	change(process.BareAt(t, filepath.Join(data, "desired.git")), map[string]string{
		"projects/east.yaml":          "instances: [east]\nrepositories: [eastern]\nvims: ['*']\nnamespaces: ['east-*']\n",
		"projects/west.yaml":          "instances: [west]\nvims: ['*']\nnamespaces: ['west-*']\n",
		"repositories.yaml":           "- {name: packages, url: packages.git, branch: main}\n",
		"instances/east/README.md":    "East\n",
		"instances/east/amf/vnf.yaml": fmt.Sprintf(notYet, "amf-east"),
		"instances/west/amf/vnf.yaml": fmt.Sprintf(notYet, "amf-west"),
		"instances/else/amf/vnf.yaml": fmt.Sprintf(notYet, "amf-else"),
	})
	return data
}

// pushData is a data directory with the small package, for a server that is started on it and knows these tokens.
func pushData(t *testing.T, tokens string) (data string) {
	t.Helper()
	data = process.ShortTempDir(t)
	lay(t, data)
	if err := os.WriteFile(datadir.TokensFile(data), []byte(tokens), 0o600); err != nil {
		t.Fatal(err)
	}
	addSmall(process.BareAt(t, filepath.Join(data, "packages", "packages.git")))
	return data
}

// pushes are files that are pushed by real pushes to the desired repository of a server, or to another one.
type pushes struct {
	t          *testing.T
	s          *process.Server
	repository string // as its URL has it
	to         *process.Bare
	from       *process.Bare
}

func newPushes(t *testing.T, s *process.Server, repository string) *pushes {
	t.Helper()
	to := process.BareAt(t, filepath.Join(s.Data, filepath.FromSlash(repository)))
	return &pushes{t: t, s: s, repository: repository, to: to, from: to.Fork()}
}

// commit commits files on top of what the server has, and moves nothing.
func (p *pushes) commit(message string, files map[string]string) (commit string) {
	p.t.Helper()
	return p.from.Commit(message, files, p.to.Head())
}

// push has somebody push refs ("COMMIT:main"), and returns what git says on one line.
func (p *pushes) push(who string, refs ...string) (said string, err error) {
	p.t.Helper()
	return p.from.Push(as(p.s, who, p.repository), refs...)
}

// pushed has somebody push files on top of what the server has.
func (p *pushes) pushed(who, message string, files map[string]string) error {
	p.t.Helper()
	said, err := p.push(who, p.commit(message, files)+":refs/heads/main")
	if err != nil {
		return fmt.Errorf("%w: %s", err, said)
	}
	return nil
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
	kit.Long(t)
	t.Parallel()
	s := withPushers(t)
	p := newPushes(t, s, "desired.git")
	base := p.to.Head()
	write := func(name, text string) func() string {
		return func() string { return p.commit(name, map[string]string{name: text}) }
	}
	for i, c := range []struct {
		name   string
		commit func() string // on top of what the server has
		may    string        // the names of those who may
		refuse string        // what the others are told
	}{
		{"a VIM", write("vims/x.yaml", "type: sim\n"), "root", "vims/x.yaml: %[1]s may not push this: it needs the role admin, and %[1]s is "},
		{"the package repositories", write("repositories.yaml", "[]\n"), "root", "repositories.yaml: %s may not"},
		{"a project", write("projects/east.yaml", "instances: [east, east2]\nvims: ['*']\n"), "root", "projects/east.yaml: %s may not"},
		{"the grants", write("granting.yaml", "# none\n"), "root", "granting.yaml: %s may not"},
		{"the peers", write("peers.yaml", "# none\n"), "root", "peers.yaml: %s may not"},
		{"another file", write("README.md", "x\n"), "root", "README.md: %s may not"},
		{"a file right below instances", write("instances/README.md", "x\n"), "root", "instances: %s may not"},
		{"a folder of another case", write("Instances/east/amf/vnf.yaml", "x\n"), "root", "Instances/east: %s may not"},
		{"an instance of east", write("instances/east/amf/vnf.yaml", fmt.Sprintf(notYet, "amf-2")), "root ops east both",
			"instances/east/amf: %[1]s may not push this: it needs the role operator in project east, and %[1]s is "},
		{"a script of an instance of east", write("instances/east/amf/a/b/run.sh", "x\n"), "root ops east both", "instances/east/amf: %s may not"},
		{"another file of east", write("instances/east/more/notes/README.md", "x\n"), "root ops east both", "instances/east/more/notes: %s may not"},
		{"a new instance of east, and one of west", func() string {
			return p.commit("Two", map[string]string{"instances/east/new/vnf.yaml": fmt.Sprintf(notYet, "new-1"), "instances/west/new/vnf.yaml": fmt.Sprintf(notYet, "new-2")})
		}, "root ops both", "/new: %s may not"},
		{"the end of an instance of nobody's", write("instances/else/amf/vnf.yaml", ""), "root ops", "instances/else/amf: %s may not"},
		{"an instance above those of others", write("instances/vnf.yaml", fmt.Sprintf(notYet, "top")), "", "instances"},
		{"a link", func() string { return p.from.Link("A link", "vims/link.yaml", "/etc/passwd", p.to.Head()) }, "root", "vims/link.yaml: %s may not"},
		{"a merge that brings what others committed", func() string {
			head := p.to.Head()
			theirs := p.from.CommitBy("root <root@example.com>", "By root\n\nRequested-By: root", map[string]string{"vims/y.yaml": "type: sim\n"},
				p.from.CommitBy("root <root@example.com>", "By root", nil, head))
			return p.from.CommitBy("", "Merge", map[string]string{"vims/y.yaml": "type: sim\n"}, head, theirs)
		}, "root", "vims/y.yaml: %s may not"},
		{"nothing", func() string { return p.commit("Nothing", nil) }, "root ops east west both", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			// One of those who may push most but not this: what else they may, others show.
			pushers := []string{"ops"}
			switch {
			case i == 0:
				pushers = []string{"read", "plan", "pack", "east", "west", "both", "ops", "root"}
			case c.may == "root ops both":
				pushers = []string{"west", "east", "both"}
			case strings.Contains(c.may, "both"):
				pushers = []string{"west", "east"}
			case strings.Contains(c.may, "ops"):
				pushers = []string{"east", "ops"}
			}
			for _, who := range pushers {
				said, err := p.push(who, c.commit()+":refs/heads/main")
				may := strings.Contains(" "+c.may+" ", " "+who+" ")
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
					p.to.Restore("Back", base)
				}
			}
		})
	}
}

func TestEachPushIsInTheAuditLogAndInGitWithItsPusher(t *testing.T) {
	kit.Long(t)
	t.Parallel()
	s := withPushers(t)
	p := newPushes(t, s, "desired.git")
	push := func(who, name string) string {
		t.Helper()
		commit := p.from.CommitBy("root <root@example.com>", "By root\n\nRequested-By: root", map[string]string{"instances/" + name + "/vnf.yaml": fmt.Sprintf(notYet, who)}, p.to.Head())
		if said, err := p.push(who, commit+":refs/heads/main"); (err == nil) != strings.HasPrefix(name, who) {
			t.Errorf("%s pushes %s: %v %s", who, name, err, said)
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
	kit.Long(t)
	t.Parallel()
	s := servesPushers(t, app.Options{})
	for who, may := range map[string]bool{"root": true, "read": true, "ops": true, "east": false, "pkge": false} {
		out, err := process.Git(t.Context(), t.TempDir(), "ls-remote", as(s, who, "desired.git"))
		if (err == nil) != may {
			t.Errorf("%s fetches: %v, want %v: %s", who, err == nil, may, out)
		}
		if err != nil && !strings.Contains(fmt.Sprint(out, err), "shows every project") {
			t.Errorf("%s isn't told why: %v %s", who, err, out)
		}
	}
	shared := servesPushers(t, app.Options{ShareDesired: true})
	if out, err := process.Git(t.Context(), t.TempDir(), "ls-remote", as(shared, "east", "desired.git")); err != nil {
		t.Errorf("ShareDesired lets nobody fetch: %s", out)
	}
}

func TestPackageRepositoriesAreTheirPackagersAndLoseNothing(t *testing.T) {
	kit.Long(t)
	t.Parallel()
	s := withPushers(t)
	p := newPushes(t, s, "packages/packages.git")
	commit := func(name, parent string) string { return p.from.Commit(name, map[string]string{name: name}, parent) }
	a := commit("a", p.to.Head())
	for _, who := range []string{"read", "plan", "ops", "east", "pkge"} {
		if said, err := p.push(who, a+":refs/heads/main"); err == nil {
			t.Errorf("%s may: %s", who, said)
		}
	}
	if said, err := p.push("pack", a+":refs/heads/main", a+":refs/tags/v1"); err != nil {
		t.Fatal(said)
	}
	if said, err := p.push("pack", commit("b", a)+":refs/heads/main"); err != nil {
		t.Fatal(said)
	}
	c := commit("c", a)
	for _, push := range []string{"+" + c + ":refs/heads/main", "+" + c + ":refs/tags/v1", ":refs/tags/v1", ":refs/heads/main", c + ":refs/replace/" + c, c + ":refs/notes/x"} {
		for _, at := range []string{as(s, "root", "packages/packages.git"), p.to.Dir} {
			if said, err := p.from.Push(at, push); err == nil {
				t.Errorf("%s is taken at %s: %s", push, at, said)
			}
		}
	}
}

func TestAPushIsKnownByAnIDThatItsHookAloneCanUseOnce(t *testing.T) {
	kit.Long(t)
	t.Parallel()
	s := withPushers(t)
	p := newPushes(t, s, "desired.git")
	cmd := exec.CommandContext(t.Context(), "git", "-C", p.from.Dir, "push", s.Desired(), p.commit("VIM", map[string]string{"vims/x.yaml": "type: sim\n"})+":refs/heads/main")
	cmd.Env = append(process.Environment(), "JIBE_PUSH=made-up") // a push by path that pretends to be one over HTTP
	if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(out), "no push that the server knows") {
		t.Errorf("an id that was made up is believed: %v %s", err, out)
	}
	socket := http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", filepath.Join(s.Data, "hook.sock"))
	}}}
	for path, want := range map[string]int{"/jibe/v1/accept": http.StatusNotFound, "/jibe/v1/check": http.StatusNotFound, admission.PushPath: http.StatusForbidden} {
		res, err := socket.Post("http://jibe"+path, "application/json", strings.NewReader(`{"id":"made-up","repository":"desired.git","updates":[]}`))
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
		if res.StatusCode != want {
			t.Errorf("%s at the hook's socket is answered with %d", path, res.StatusCode)
		}
	}
	res, err := http.Post(s.URL+admission.PushPath, "application/json", strings.NewReader(`{"repository":"desired.git","updates":[]}`))
	if err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close()
	if res.StatusCode < 400 {
		t.Errorf("whoever reaches the API can pose as a hook: %d", res.StatusCode)
	}
}
