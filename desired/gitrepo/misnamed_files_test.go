package gitrepo

import (
	"strings"
	"testing"

	"github.com/jibe-vnfm/jibe/desired/gitrepo/check"
	"github.com/jibe-vnfm/jibe/desired/gitrepo/read"
	"github.com/jibe-vnfm/jibe/internal/git"
	"github.com/jibe-vnfm/jibe/test/kit"
)

func TestAPushWhoseInstanceHasAMisnamedFileIsRefusedNamingTheRightOne(t *testing.T) {
	t.Parallel()

	dir := bareRemote(t)
	r := check.New(read.New(git.Runner{Dir: dir}, "main", 1<<20))
	defer r.Close()
	const template = "instances/site/template.yaml"
	base := map[string]string{
		"instances/site/a/vnf.yaml":   running(testID(1), "vim: x"),
		"instances/site/a/README.md":  "the amf",
		"instances/site/b/vnf.yaml":   running("", "vim: x"),
		template:                      running("", "vim: x"),
		"instances/site/old/vnf.yaml": running(testID(9), "state: notInstantiated"),
	}
	for _, tc := range []struct {
		name   string
		change map[string]string
		want   string // "": accepted
	}{
		{"vnf.yml", map[string]string{"instances/site/a/vnf.yaml": "", "instances/site/a/vnf.yml": running(testID(1), "vim: x")},
			"instances/site/a/vnf.yml: would be an instance's file, which is called vnf.yaml: under this name it is never read (git mv instances/site/a/vnf.yml instances/site/a/vnf.yaml; to terminate the instance, remove its directory)"},
		{"any other name", map[string]string{"instances/site/b/vnf.yaml": "", "instances/site/b/amf.txt": running("", "vim: x", "drift: report")}, "instances/site/b/amf.txt: would be"},
		{"another folder", map[string]string{"instances/site/a/vnf.yaml": "", "instances/site/a/conf/off.yaml": running(testID(1), "vim: x")}, "instances/site/a/conf/off.yaml: would be"},
		{"a new one", map[string]string{"instances/new/VNF.yaml": running("")}, "instances/new/VNF.yaml: would be"},
		{"a new one that isn't YAML", map[string]string{"instances/new/vnf.yaml.txt": "id: ["}, "instances/new/vnf.yaml.txt: would be"},
		{"a change of a template", map[string]string{template: running("", "vim: y")}, ""},
		{"a new template", map[string]string{"instances/site/other.yaml": running("", "vim: y")}, ""},
		{"beside the right one", map[string]string{"instances/site/a/vnf.yml": running(testID(1))}, ""},
		{"the directory goes", map[string]string{"instances/site/a": ""}, ""},
		{"what says nothing of it stays", map[string]string{"instances/site/a/vnf.yaml": ""}, ""},
		{"another instance's text stays", map[string]string{"instances/site/a/vnf.yaml": "", "instances/site/a/x.yaml": "id: " + testID(3) + "\nvnfdId: other\n"}, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			person := commitTo(t, dir)
			person.edit(base)
			old := person.commit("Begin")
			person.edit(tc.change)
			next := person.commit("Change")
			ps, err := r.CheckPush(t.Context(), []check.RefUpdate{{Ref: "refs/heads/main", Old: old, New: next}}, check.PushPolicy{})
			if err != nil {
				t.Fatal(err)
			}
			if got := problemText(ps); tc.want == "" && got != "" || !strings.HasPrefix(got, tc.want) || len(ps) > 1 {
				t.Errorf("got\n%s\nwant\n%s", got, tc.want)
			}
			if !strings.Contains(strings.ToLower(tc.want), "/vnf.y") {
				return // what a working copy alone can't tell
			}
			folder := t.TempDir()
			person.checkout(folder)
			w, err := read.WorkingCopy(folder)
			if err != nil {
				t.Fatal(err)
			}
			if got := problemText(w.Problems()); !strings.HasPrefix(got, tc.want) {
				t.Errorf("the working copy: %s", got)
			}
		})
	}
}

func TestOnAForgeAnInstanceWhoseFileWasMisnamedStaysAsItWasAlsoAfterARestart(t *testing.T) {
	kit.Long(t)
	t.Parallel()

	for name, to := range map[string]string{"vnf.yml": "vnf.yml", "any other name": "amf.yaml"} {
		t.Run(name, func(t *testing.T) {
			forge, person := forgeWith(t, map[string]string{
				"instances/a/vnf.yaml":    running(testID(1)),
				"instances/b/vnf.yaml":    running(testID(2)),
				"instances/c/vnf.yaml":    running(testID(3)),
				"instances/example.yaml":  running(""),
				"instances/x/sample.yaml": running(""),
			})
			r := openRepo(t, Options{Remote: forge})
			was, _ := r.Lookup(testID(1))
			person.change(map[string]string{
				"instances/a/vnf.yaml": "", "instances/a/" + to: running(testID(1), "vim: x"),
				"instances/b": "",
			})
			followed(t, r, person)
			person.change(map[string]string{
				"instances/c/vnf.yaml": "", "instances/c/kept.yaml": "id: " + testID(4) + "\nvnfdId: other\n", // it goes, and leaves a note on another
				"instances/a/README.md": "more",
			})
			followed(t, r, person)
			r = bothWays(t, r, func(t *testing.T, r *Repo) {
				if rev, ok := r.Lookup(testID(1)); !ok || rev.Tree != was.Tree {
					t.Errorf("it is at %+v, want %+v", rev, was)
				} else if _, err := r.read.Read(t.Context(), rev); err != nil {
					t.Error(err)
				}
				if n := len(r.List()); n != 1 {
					t.Errorf("%d instances, want the one", n)
				}
				if got := problemText(r.Problems()); !strings.HasPrefix(got, "instances/a/"+to+": would be an instance's file, which is called vnf.yaml") || strings.Contains(got, "\n") {
					t.Errorf("problems: %s", got)
				}
			})
			person.change(map[string]string{"instances/a/" + to: "", "instances/a/vnf.yaml": running(testID(1), "vim: x")})
			followed(t, r, person)
			if rev, ok := r.Lookup(testID(1)); !ok || rev.Tree == was.Tree || len(r.Problems()) > 0 {
				t.Errorf("mended: %+v; problems: %s", rev, problemText(r.Problems()))
			}
			person.change(map[string]string{"instances/a/vnf.yaml": "", "instances/a/" + to: running(testID(1), "vim: x")})
			followed(t, r, person)
			person.change(map[string]string{"instances/a": ""})
			followed(t, r, person)
			if n := len(r.List()); n != 0 || len(r.Problems()) > 0 {
				t.Errorf("removed: %d instances; problems: %s", n, problemText(r.Problems()))
			}
		})
	}
}

func TestADirectoryThatWasAnInstanceOnceIsNotThatOfAMisnamedFile(t *testing.T) {
	kit.Long(t)
	t.Parallel()

	forge, person := forgeWith(t, map[string]string{"instances/a/vnf.yaml": running(testID(1)), "instances/b/vnf.yaml": running(testID(2))})
	r := openRepo(t, Options{Remote: forge})
	person.change(map[string]string{"instances/a": ""})
	followed(t, r, person)
	person.change(map[string]string{"instances/a/vnf.yml": running(testID(1))})
	followed(t, r, person)
	bothWays(t, r, func(t *testing.T, r *Repo) {
		if rev, ok := r.Lookup(testID(1)); ok {
			t.Errorf("it came back: %+v", rev)
		}
		if got := problemText(r.Problems()); !strings.HasPrefix(got, "instances/a/vnf.yml: would be") {
			t.Errorf("problems: %s", got)
		}
	})
}
