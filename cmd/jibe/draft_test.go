package main

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/jibe-vnfm/jibe/admission"
	"github.com/jibe-vnfm/jibe/test/kit"
	"github.com/jibe-vnfm/jibe/test/process"
	"github.com/jibe-vnfm/jibe/test/testenv"
)

// validate runs `jibe validate` in a folder of the clone.
func (p *planned) validate(args ...string) (out, hints string, err error) {
	p.Helper()
	p.answer = `{"problems": []}`
	return execute(p.T, p, append([]string{"validate", p.dir}, args...)...)
}

// pushed is what the push hook says of a push of everything in the clone's folder.
func (p *planned) pushed(options ...string) string {
	p.Helper()
	p.git("-C", p.dir, "add", "-A")
	p.git("-C", p.dir, "commit", "-q", "-m", "Push")
	p.git("-C", p.dir, "push", "-q", "origin", "HEAD:refs/heads/side")
	old, err := process.Git(p.Context(), p.upstream, "rev-parse", "main")
	if err != nil {
		p.Fatal(err)
	}
	next, err := process.Git(p.Context(), p.upstream, "rev-parse", "side")
	if err != nil {
		p.Fatal(err)
	}
	p.Chdir(p.upstream)
	p.Setenv("GIT_PUSH_OPTION_COUNT", fmt.Sprint(len(options)))
	for i, o := range options {
		p.Setenv(fmt.Sprintf("GIT_PUSH_OPTION_%d", i), o)
	}
	var stderr strings.Builder
	if err := (pushHook{repository: admission.DesiredRepository}).preReceive(p.Context(), strings.NewReader(old+" "+next+" refs/heads/main\n"), &stderr); err == nil {
		return ""
	}
	var problems []string
	for line := range strings.Lines(stderr.String()) {
		if problem, ok := strings.CutPrefix(line, "  "); ok {
			problems = append(problems, problem)
		}
	}
	return strings.Join(problems, "")
}

func (p *planned) rename(from, to string) {
	p.Helper()
	if err := os.Rename(filepath.Join(p.dir, from), filepath.Join(p.dir, to)); err != nil {
		p.Fatal(err)
	}
}

func TestValidateSaysOfFilesThatAreNotCommittedWhatTheHookSaysOfTheirPush(t *testing.T) {
	testenv.Chaos(t, "git")
	for name, c := range map[string]struct {
		change  func(p *planned)
		options []string
		says    string // "" where nothing is refused
	}{
		"a directory that was moved without its id": {func(p *planned) { p.rename("instances/a", "instances/z") }, nil,
			"instances/z/vnf.yaml: moving instances/a "},
		"more terminations than are meant": {many, nil, "this push would terminate or remove 12 instances; more than 10 must be meant (if they are: git push -o terminate=12)"},
		"terminations that are meant":      {many, []string{"terminate=12"}, ""},
		"an id that another has": {func(p *planned) {
			p.write("instances/copy/vnf.yaml", "id: "+idOf(p, "a")+"\nname: copy\nvnfdId: v1\n")
		}, nil, "instances/copy/vnf.yaml: id "},
		"a symbolic link": {func(p *planned) {
			if err := os.Symlink("vnf.yaml", filepath.Join(p.dir, "instances/a/other.yaml")); err != nil {
				p.Fatal(err)
			}
		}, nil, "instances/a/other.yaml"},
		"a file that can't be read":         {func(p *planned) { p.write("instances/new/vnf.yaml", "nam: x\n") }, nil, "instances/new/vnf.yaml:1"},
		"settings that can't be read":       {func(p *planned) { p.write("vims/x.yaml", "type: mainframe\n") }, nil, "vims/x.yaml:1"},
		"an instance in that of another":    {func(p *planned) { p.write("instances/a/b/vnf.yaml", "vnfdId: v1\n") }, nil, "instances/a/b/vnf.yaml"},
		"an instance without a directory":   {func(p *planned) { p.write("instances/vnf.yaml", "vnfdId: v1\n") }, nil, "an instance needs a directory of its own"},
		"a new instance":                    {func(p *planned) { p.write("instances/new/vnf.yaml", "vnfdId: v1\n") }, nil, ""},
		"nothing but what stood there ever": {func(p *planned) { p.write("README", "x\n") }, nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPlanned(t)
			c.change(p)
			var args []string
			for _, o := range c.options {
				args = append(args, "--push-option", o)
			}
			said, hints, err := p.validate(args...)
			offline, _, errOffline := p.validate(append(args, "--offline")...)
			planned, _, errPlan := execute(p.T, p, append([]string{"plan", p.dir}, args...)...)
			if pushed := p.pushed(c.options...); c.says == "" {
				if pushed != "" || err != nil || errOffline != nil || errPlan != nil {
					t.Errorf("the hook says %q, validate %q (%v), offline %v, plan %v", pushed, said, err, errOffline, errPlan)
				}
			} else if said != pushed || offline != pushed || !strings.HasPrefix(planned, pushed) || !strings.Contains(pushed, c.says) || err == nil || errOffline == nil || errPlan == nil {
				t.Errorf("the hook says\n%svalidate (%v)\n%soffline (%v)\n%splan (%v)\n%s", pushed, err, said, errOffline, offline, errPlan, planned)
			}
			if hints != "" {
				t.Errorf("hints: %s", hints)
			}
		})
	}
}

// many pushes a dozen instances, and removes them from the folder.
func many(p *planned) {
	for i := range 12 {
		p.write(fmt.Sprintf("instances/many/%d/vnf.yaml", i), "vnfdId: v1\n")
	}
	p.commit("push", "-q", "origin", "HEAD:main")
	if err := os.RemoveAll(filepath.Join(p.dir, "instances/many")); err != nil {
		p.Fatal(err)
	}
}

// idOf gives an instance an id of its own, and returns it.
func idOf(p *planned, name string) string {
	const id = "11111111-1111-4111-8111-111111111111"
	p.write("instances/"+name+"/vnf.yaml", "id: "+id+"\nname: "+name+"\nvnfdId: v1\n")
	p.commit("push", "-q", "origin", "HEAD:main")
	return id
}

func TestValidateAndPlanFindTheRepositoryFromAnyFolderAndFailWhereThereIsNone(t *testing.T) {
	p := newPlanned(t)
	p.write("instances/new/vnf.yaml", "nam: x\n")
	for _, dir := range []string{".", "instances", "instances/a"} {
		out, _, err := execute(p.T, p, "validate", filepath.Join(p.dir, dir))
		if err == nil || !strings.Contains(out, "instances/new/vnf.yaml:1") {
			t.Errorf("from %s: %v: %s", dir, err, out)
		}
	}
	p.Chdir(filepath.Join(p.dir, "instances/b"))
	if out, _, err := execute(p.T, p, "plan"); err == nil || !strings.Contains(out, "instances/new/vnf.yaml:1") {
		t.Errorf("plan from a folder within: %v: %s", err, out)
	}
	other := t.TempDir()
	p.git("init", "-q", filepath.Join(other, "project"))
	for _, dir := range []string{other, filepath.Join(other, "project"), filepath.Join(other, "nowhere")} {
		for _, verb := range []string{"validate", "plan"} {
			out, _, err := execute(p.T, p, verb, dir)
			if err == nil || !strings.Contains(err.Error(), dir) || out != "" {
				t.Errorf("%s %s: %v: %s", verb, dir, err, out)
			}
			if _, missing := os.Stat(dir); missing == nil && !strings.Contains(err.Error(), "that has instances/, with a folder for each instance, vims/ and repositories.yaml") {
				t.Errorf("%s %s doesn't say what such a repository looks like: %v", verb, dir, err)
			}
		}
	}
}

func TestAnExportWithoutGitIsCheckedAsFarAsItsFilesGo(t *testing.T) {
	kit.Long(t)
	p := newPlanned(t)
	if err := os.RemoveAll(filepath.Join(p.dir, ".git")); err != nil {
		t.Fatal(err)
	}
	p.rename("instances/a", "instances/z")
	if out, hints, err := p.validate(); err != nil || !strings.Contains(hints, "no git clone: which directories a push would move") {
		t.Errorf("%v: %s%s", err, out, hints)
	}
	if what, _, _ := p.plan(); what != "a, z, settings" {
		t.Errorf("planned is %s", what)
	}
	p.write("instances/z/vnf.yaml", "nam: x\n")
	if out, _, err := p.validate(); err == nil || !strings.Contains(out, "instances/z/vnf.yaml:1") {
		t.Errorf("%v: %s", err, out)
	}
	if _, _, err := execute(p.T, p, "plan", p.dir, "--commit", "main"); err == nil || !strings.Contains(err.Error(), "is no clone of the desired repository") {
		t.Errorf("a commit of it: %v", err)
	}
}

// everything is each file below a folder with its content.
func everything(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(name)
		files[name] = string(data)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func TestNeitherTheCloneNorItsIndexChangesAndWhatGitIgnoresDoesNotCount(t *testing.T) {
	kit.Long(t)
	p := newPlanned(t)
	p.git("-C", p.dir, "switch", "-q", "-c", "upgrade")
	p.write("instances/a/vnf.yaml", "name: a\nvnfdId: v2\n\n\n\nflavour: simple\n")
	p.commit("switch", "-q", "main")
	p.write("instances/c/vnf.yaml", "name: c\nvnfdId: v9\n\n\n\nflavour: simple\n")
	p.commit("push", "-q", "origin", "main")
	p.write(".gitignore", "drafts/\n")
	p.write("instances/drafts/vnf.yaml", "nam: ignored\n")
	p.write("instances/b/vnf.yaml", "name: staged\nvnfdId: v1\n")
	p.git("-C", p.dir, "add", "instances/b")
	p.write("instances/b/vnf.yaml", "name: changed again\nvnfdId: v1\n")
	p.write("instances/new/vnf.yaml", "name: untracked\nvnfdId: v1\n")
	before := everything(t, p.dir)
	if out, _, err := p.validate(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
	p.plan("--commit", "upgrade")
	if what, _, _ := p.plan(); what != "b, new" {
		t.Errorf("planned is %q", what)
	}
	for _, c := range p.proposed.Instances {
		if want := map[string]string{"instances/b": "name: changed again", "instances/new": "name: untracked"}[c.Dir]; !strings.Contains(c.File, want) {
			t.Errorf("%s is proposed as %q", c.Dir, c.File)
		}
	}
	after := everything(t, p.dir)
	for name := range after {
		if before[name] != after[name] {
			t.Errorf("%s was changed or made", name)
		}
	}
	if len(before) != len(after) {
		t.Errorf("%d files became %d", len(before), len(after))
	}
	if left, err := filepath.Glob(filepath.Join(os.TempDir(), "jibe-draft-*")); err != nil || slices.ContainsFunc(left, func(name string) bool {
		text, _ := os.ReadFile(filepath.Join(name, "draft.git/objects/info/alternates"))
		return strings.HasPrefix(string(text), p.dir)
	}) {
		t.Errorf("left behind are %q (%v)", left, err)
	}
}

func TestValidateNamesWhatCanNotBeObeyedOfTheBranchAsItStands(t *testing.T) {
	kit.Long(t)
	p := newPlanned(t)
	p.write("instances/bad/vnf.yaml", "nam: x\n")
	p.commit("push", "-q", "origin", "HEAD:main") // as on a forge, which asks no hook
	out, _, err := p.validate()
	if err == nil || !strings.Contains(out, "instances/bad/vnf.yaml:1") || !strings.Contains(err.Error(), "the branch has them already") {
		t.Errorf("%v: %s", err, out)
	}
}

func TestACloneThatIsBehindIsAdvisedToFetchFirstAndTakesNothingOfOthersBack(t *testing.T) {
	kit.Long(t)
	p := newPlanned(t)
	other := *p
	other.dir = filepath.Join(t.TempDir(), "other")
	p.git("clone", "-q", p.upstream, other.dir)
	other.write("instances/theirs/vnf.yaml", "name: theirs\nvnfdId: v1\n")
	other.commit("push", "-q", "origin", "HEAD:main")
	p.write("instances/b/vnf.yaml", "name: mine\nvnfdId: v1\n")
	for _, fetched := range []bool{false, true} {
		if fetched {
			p.git("-C", p.dir, "fetch", "-q")
		}
		out, hints, err := p.validate()
		if err != nil || !strings.Contains(hints, "fetch first") || !strings.Contains(hints, "git push origin refs/heads/main:refs/for/main\n") {
			t.Errorf("fetched: %t: %v: %s%s", fetched, err, out, hints)
		}
		if what, _, _ := p.plan(); what != "b" {
			t.Errorf("fetched: %t: planned is %s", fetched, what)
		}
	}
}

func TestAShallowCheckoutOfAPullRequestIsHeldAgainstWhatTheServerHas(t *testing.T) {
	kit.Long(t)
	p := newPlanned(t)
	p.git("-C", p.dir, "switch", "-q", "-c", "change")
	p.write("instances/b/vnf.yaml", "name: changed\nvnfdId: v1\n")
	p.commit("push", "-q", "origin", "change")
	shallow := filepath.Join(t.TempDir(), "shallow")
	p.git("clone", "-q", "--depth", "1", "--branch", "change", "file://"+p.upstream, shallow)
	p.dir = shallow
	if what, _, _ := p.plan(); what != "b, settings" {
		t.Errorf("planned is %s", what)
	}
	p.write("instances/bad/vnf.yaml", "nam: x\n")
	out, hints, err := p.validate()
	if err == nil || !strings.Contains(out, "instances/bad/vnf.yaml:1") || !strings.Contains(hints, "how many instances it would end, can't be known") {
		t.Errorf("%v: %s%s", err, out, hints)
	}
}
