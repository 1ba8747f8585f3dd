package gitrepo

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/desired/gitrepo/read"
)

// twoCases is a closed repository in which instances/m was first, and then instances/M came; the person commits to it.
func twoCases(t *testing.T) (Options, *committer) {
	t.Helper()

	opt := Options{Dir: filepath.Join(t.TempDir(), "desired.git"), Now: tick()}
	if err := openRepo(t, opt).Close(); err != nil {
		t.Fatal(err)
	}
	person := commitTo(t, opt.Dir)
	person.put("instances/m/amf/vnf.yaml", named(testID(1), "amf", 1))
	person.put("instances/m/smf/vnf.yaml", named(testID(2), "smf", 1))
	person.push("Begin")
	person.put("instances/M/upf/vnf.yaml", named(testID(3), "upf", 1))
	person.push("Begin another")
	for level := range 3 {
		person.put("instances/m/amf/vnf.yaml", named(testID(1), "amf", level+2))
		person.push("Change it")
	}
	return opt, person
}

func TestOfFoldersSpelledAlikeWhatWasOperatedIsFirstAtACut(t *testing.T) {
	t.Parallel()

	opt, person := twoCases(t)
	// An earlier version cut the history: this one wants the problem repaired first.
	if err := os.WriteFile(filepath.Join(opt.Dir, "shallow"), []byte(person.head+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	ran := desired.Revision{Instance: testID(1), Dir: "instances/m/amf", Commit: person.head, Tree: runGit(t, opt.Dir, "rev-parse", person.head+":instances/m/amf")}
	none := openRepo(t, opt)
	r := restarted(t, none, ran)
	if is := inEffect(none, 3); is != `["" "" ""]` {
		t.Errorf("where nothing was operated on, in effect are %s", is)
	}
	if is := inEffect(r, 3); is != `["m/amf" "m/smf" ""]` {
		t.Errorf("in effect are %s; problems: %s", is, problemsAt(r))
	}

	person.put("instances/m/nrf/vnf.yaml", named(testID(4), "nrf", 1))
	person.put("instances/M/pcf/vnf.yaml", named(testID(5), "pcf", 1))
	person.push("Begin one in both")
	if err := r.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, r := range []*Repo{r, restarted(t, r, ran)} {
		if is := inEffect(r, 5); is != `["m/amf" "m/smf" "" "m/nrf" ""]` {
			t.Errorf("later, in effect are %s; problems: %s", is, problemsAt(r))
		}
	}
}

func TestWhichFolderSpelledAlikeWasFirstIsLookedForOnce(t *testing.T) {
	t.Parallel()

	opt, person := twoCases(t)
	r := openRepo(t, opt)
	all, looked := []string{"instances/m", "instances/M"}, 0
	count := func(since string) (string, read.Standing) {
		t.Helper()
		looked = 0
		first, ended, err := r.read.FirstOf(t.Context(), person.head, since, all, func(root, p string) (bool, error) {
			looked++
			_, ok, err := r.read.LookupPath(t.Context(), root, p)
			return ok, err
		})
		if err != nil {
			t.Fatal(err)
		}
		return first, ended
	}
	ask := func(want string) {
		t.Helper()
		if first, err := r.read.FirstSpelledOf(t.Context(), person.head, all, nil); err != nil || first != want {
			t.Errorf("first was %q, %v; want %q", first, err, want)
		}
	}

	begun := person.head
	if first, ended := count(""); first != "instances/m" || ended != read.Decided || looked != 8 {
		t.Errorf("first was %q, ended %d, after %d looks", first, ended, looked)
	}
	ask("instances/m")

	person.put("instances/m/amf/vnf.yaml", named(testID(1), "amf", 9))
	person.push("Change it")
	if first, ended := count(begun); first != "" || ended != read.Undecided || looked != 2 {
		t.Errorf("first was %q, ended %d, after %d looks since it was known", first, ended, looked)
	}
	ask("instances/m")

	// What was first goes, and comes again, between two looks.
	person.remove("instances/m")
	person.push("End the first")
	person.put("instances/m/smf/vnf.yaml", named(testID(2), "smf", 1))
	person.push("Begin it again")
	ask("instances/M")

	// A person sets the branch to before that.
	person.reset(begun)
	ask("instances/m")
}
