package main

import (
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/jibe-vnfm/jibe/admission"
	"github.com/jibe-vnfm/jibe/app/api"
	"github.com/jibe-vnfm/jibe/desired/gitrepo"
	"github.com/jibe-vnfm/jibe/test/kit"
)

// planned is a server with the head of a repository, which keeps the last proposal that it
// got.
type planned struct {
	*testing.T
	dir      string // a person's clone
	upstream string
	proposed admission.Proposal
	answer   string
}

func newPlanned(t *testing.T) *planned {
	t.Helper()
	p := &planned{T: t, dir: filepath.Join(t.TempDir(), "clone"), upstream: filepath.Join(t.TempDir(), "desired.git"),
		answer: `{"problems": [], "previews": [{"instance": "i", "dir": "instances/a", "operation": "CHANGE_VNFPKG", "steps": []}]}`}
	p.git("init", "-q", "--bare", "-b", "main", p.upstream)
	p.git("clone", "-q", p.upstream, p.dir)
	p.git("-C", p.dir, "checkout", "-q", "-B", "main")
	p.write("repositories.yaml", "- {name: a, url: a}\n")
	for _, name := range []string{"a", "b", "c"} {
		p.write("instances/"+name+"/vnf.yaml", "name: "+name+"\nvnfdId: v1\n\n\n\nflavour: simple\n")
	}
	p.commit("push", "-q", "origin", "HEAD:main")
	p.git("-C", p.dir, "remote", "set-head", "origin", "main")
	return p
}

func (p *planned) git(args ...string) {
	p.Helper()
	cmd := exec.CommandContext(p.Context(), "git", args...)
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@b", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@b")
	if out, err := cmd.CombinedOutput(); err != nil {
		p.Fatalf("git %s: %v: %s", args, err, out)
	}
}

func (p *planned) write(name, text string) {
	p.Helper()
	name = filepath.Join(p.dir, name)
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		p.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		p.Fatal(err)
	}
}

// commit commits everything, and then runs git once more in the clone.
func (p *planned) commit(then ...string) {
	p.Helper()
	p.git("-C", p.dir, "add", "-A")
	p.git("-C", p.dir, "commit", "-q", "-m", "Change")
	p.git(append([]string{"-C", p.dir}, then...)...)
}

func (p *planned) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case "/jibe/v1/instances":
		repo, err := gitrepo.Open(r.Context(), gitrepo.Options{Dir: p.upstream})
		if err != nil {
			p.Error(err)
			return
		}
		defer repo.Close()
		w.Header().Set(api.HeadHeader, repo.Head())
		_ = json.NewEncoder(w).Encode(repo.List())
	case "/jibe/v1/plan", "/jibe/v1/check":
		p.proposed = admission.Proposal{}
		if err := json.NewDecoder(r.Body).Decode(&p.proposed); err != nil {
			p.Error(err)
		}
		_, _ = w.Write([]byte(p.answer))
	default:
		http.NotFound(w, r)
	}
}

// plan returns what the command proposes to the server: "a, b", and "settings".
func (p *planned) plan(args ...string) (what, out string, err error) {
	p.Helper()
	p.proposed = admission.Proposal{}
	out, _, err = execute(p.T, p, append([]string{"plan", p.dir}, args...)...)
	var names []string
	for _, c := range p.proposed.Instances {
		names = append(names, filepath.Base(c.Dir))
	}
	slices.Sort(names)
	if p.proposed.Settings != nil {
		names = append(names, "settings")
	}
	return strings.Join(names, ", "), out, err
}

func TestThePlanOfABranchIsWhatItWouldChangeOnceMerged(t *testing.T) {
	kit.Long(t)
	p := newPlanned(t)
	p.git("-C", p.dir, "switch", "-q", "-c", "upgrade")
	p.write("instances/a/vnf.yaml", "name: a\nvnfdId: v2\n\n\n\nflavour: simple\n")
	p.git("-C", p.dir, "rm", "-q", "instances/c/vnf.yaml")
	p.commit("switch", "-q", "main")
	p.write("instances/a/vnf.yaml", "name: a\nvnfdId: v1\n\n\n\nflavour: large\n")
	p.write("instances/b/vnf.yaml", "name: b\nvnfdId: v3\n")
	p.write("vims/new.yaml", "type: sim\n")
	p.commit("push", "-q", "origin", "main")

	what, out, err := p.plan("--commit", "upgrade")
	if !errors.Is(err, wouldChange) || what != "a, c" {
		t.Fatalf("%s, %v: %s", what, err, out)
	}
	for _, c := range p.proposed.Instances {
		if want := map[string]string{"instances/a": "name: a\nvnfdId: v2\n\n\n\nflavour: large\n"}[c.Dir]; c.File != want {
			t.Errorf("%s is proposed as %q, want %q", c.Dir, c.File, want)
		}
	}

	// Somebody else's branch, which isn't checked out here, and one with settings.
	p.git("-C", p.dir, "switch", "-q", "-c", "vims", "main")
	p.write("vims/new.yaml", "type: sim\ndefault: true\n")
	p.commit("push", "-q", "origin", "vims")
	p.git("-C", p.dir, "switch", "-q", "main")
	p.git("-C", p.dir, "branch", "-q", "-D", "vims")
	if what, out, err := p.plan("--commit", "vims"); what != "settings" {
		t.Errorf("%s, %v: %s", what, err, out)
	}

	// A commit that main has already would take later ones back, and all of it counts.
	if what, out, err := p.plan("--commit", "main~1"); what != "a, b, settings" {
		t.Errorf("%s, %v: %s", what, err, out)
	}
	// The files of the folder.
	p.write("instances/b/vnf.yaml", "name: b\nvnfdId: v4\n")
	if what, out, err := p.plan(); what != "b" {
		t.Errorf("%s, %v: %s", what, err, out)
	}
}

func TestABranchThatConflictsOrIsUnknownIsNotPlanned(t *testing.T) {
	kit.Long(t)
	p := newPlanned(t)
	p.git("-C", p.dir, "switch", "-q", "-c", "upgrade")
	p.write("instances/a/vnf.yaml", "name: a\nvnfdId: v2\n")
	p.commit("switch", "-q", "main")
	p.write("instances/a/vnf.yaml", "name: a\nvnfdId: v3\n")
	p.commit("push", "-q", "origin", "main")
	for commit, says := range map[string]string{
		"upgrade": "upgrade conflicts with the branch that it would be merged into: rebase it first",
		"nobody":  `has no branch or commit "nobody"`,
		"--help":  `has no branch or commit "--help"`,
	} {
		if what, out, err := p.plan("--commit=" + commit); err == nil || !strings.Contains(err.Error(), says) || what != "" {
			t.Errorf("%s: %s, %v: %s", commit, what, err, out)
		}
	}
}

func TestTheExitCodeOfAPlanSaysWhetherSomethingWouldChange(t *testing.T) {
	p := newPlanned(t)
	for answer, want := range map[string]string{
		`{"problems": [], "previews": []}`:                                                                                            "",
		`{"problems": [], "previews": [{"dir": "instances/a", "steps": []}]}`:                                                         "",
		`{"problems": [], "previews": [{"dir": "instances/a", "operation": "SCALE", "steps": []}]}`:                                   "exit status 2",
		`{"problems": [], "previews": [{"dir": "instances/a", "operation": "SCALE", "steps": []}, {"dir": "b", "error": "refused"}]}`: "not everything could be planned",
		`{"problems": [{"file": "instances/a/vnf.yaml", "message": "wrong"}]}`:                                                        "1 problem; nothing of this would be accepted",
	} {
		p.answer = answer
		said := ""
		if _, _, err := p.plan(); err != nil {
			said = err.Error()
		}
		if said != want {
			t.Errorf("%s: %q, want %q", answer, said, want)
		}
	}
}

func TestThePlanAsJSONHasEverything(t *testing.T) {
	kit.Long(t)
	p := newPlanned(t)
	p.answer = `{"problems": [], "previews": [{"instance": "i", "dir": "instances/a", "operation": "CHANGE_VNFPKG", "filled": ["generation: 1"],
		"steps": [{"stage": 0, "action": "apply", "object": "X", "from": -1}], "diff": [{"object": "X", "field": "f", "want": "1"}]}]}`
	_, out, err := p.plan("-o", "json")
	var v admission.Verdict
	if jerr := json.Unmarshal([]byte(out), &v); !errors.Is(err, wouldChange) || jerr != nil {
		t.Fatalf("%v, %v: %s", err, jerr, out)
	}
	if x := v.Previews[0]; x.Filled[0] != "generation: 1" || x.Diff[0].Want != "1" || x.Steps[0].From != -1 || x.Type != "CHANGE_VNFPKG" {
		t.Errorf("%+v", x)
	}
	if len(v.Problems) != 0 || v.Previews[0].Dir != "instances/a" {
		t.Errorf("%+v", v)
	}
}
