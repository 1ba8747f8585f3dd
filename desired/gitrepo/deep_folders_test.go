package gitrepo

import (
	"fmt"
	"path"
	"strings"
	"testing"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/desired/gitrepo/objects"
	"github.com/jibe-vnfm/jibe/desired/gitrepo/read"
)

// deepFolder is the first folder of its path that is nested too deep.
var deepFolder = "instances/deep" + strings.Repeat("/d", objects.MaxDepth)

func TestAFolderNestedTooDeepHoldsOnlyItself(t *testing.T) {
	t.Parallel()

	r, person, was := forged(t)
	look := func(r *Repo, problems ...string) {
		t.Helper()
		if err := r.Health(); err != nil {
			t.Errorf("the branch is held: %v", err)
		}
		if now, ok := r.Lookup(testID(1)); !ok || now.Tree == was.Tree {
			t.Errorf("the VNF next to it is at %+v, %v: its change isn't in effect", now, ok)
		}
		if rev, ok := r.Lookup(testID(3)); ok {
			t.Errorf("the VNF that is nested too deep is at %+v", rev)
		}
		var files []string
		for _, p := range r.Problems() {
			if !strings.Contains(p.Message, "is nested more than 24 deep") {
				t.Errorf("another problem: %v", p)
			}
			files = append(files, p.File)
		}
		if fmt.Sprint(files) != fmt.Sprint(problems) {
			t.Errorf("problems of %q, want %q", files, problems)
		}
	}

	person.put(deepFolder+"/upf/vnf.yaml", named(testID(3), "upf", 1))
	person.put("instances/m/amf/vnf.yaml", named(testID(1), "amf", 2))
	follow(t, r, person, "Nest a folder too deep")
	look(r, deepFolder)
	look(restarted(t, r, was), deepFolder)

	second := path.Dir(deepFolder) + "/e"
	person.put(deepFolder+"/upf/vnf.yaml", named(testID(3), "upf", 2))
	person.put(second+"/README", []byte("another\n"))
	follow(t, r, person, "Change it, and add another")
	look(r, deepFolder, second)

	person.remove(deepFolder)
	follow(t, r, person, "Remove the first")
	look(r, second)

	was, _ = r.Lookup(testID(1))
	person.put("instances/m/amf/vnf.yaml", named(testID(1), "amf", 3))
	person.remove("instances/deep")
	follow(t, r, person, "Remove the second")
	look(r)
	look(restarted(t, r, was))
}

func TestAPushOfAFolderNestedTooDeepIsRefused(t *testing.T) {
	t.Parallel()

	r := withHook(t)
	mustWrite(t, r, testID(1), shardDir(testID(1)), 1)
	dir := clone(t, r)
	put(t, dir, path.Join(deepFolder, desired.InstanceFile), vnfFile(testID(3), 1))
	runGit(t, dir, "add", "-A")
	runGit(t, dir, "commit", "-qm", "Nest it too deep")
	out, err := tryGit(dir, "push", "origin", "main")
	if err == nil || !strings.Contains(out, deepFolder+": is nested more than 24 deep") || !strings.Contains(out, "move what is in it up") {
		t.Errorf("it is pushed with %v:\n%s", err, out)
	}
}

func TestManyFoldersNestedTooDeepHoldTheBranch(t *testing.T) {
	t.Parallel()

	r, person, _ := forged(t)
	for i := range read.MaxDeep + 1 {
		person.put(fmt.Sprintf("%s/%d/README", path.Dir(deepFolder), i), []byte("x\n"))
	}
	before := r.Head()
	person.push("Nest very many")
	if err := r.Fetch(t.Context()); err == nil || !strings.Contains(err.Error(), "nested more than 24 deep") || r.Head() != before {
		t.Errorf("followed to %s with %v", r.Head(), err)
	}
}
