package gitrepo

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/test/kit"
)

// inEffect are the directories of the first ids, by id; "" for what isn't in effect.
func inEffect(r *Repo, ids int) string {
	var out []string
	for id := 1; id <= ids; id++ {
		rev, _ := r.Lookup(testID(id))
		out = append(out, strings.TrimPrefix(rev.Dir, "instances/"))
	}
	return fmt.Sprintf("%q", out)
}

func TestOfFoldersSpelledAlikeTheFirstGoesOn(t *testing.T) {
	kit.Long(t)
	t.Parallel()

	for name, c := range map[string]struct{ first, second string }{
		"case":              {"m/amf", "m/AMF"},
		"lower case second": {"m/AMF", "m/amf"},
		"Unicode form":      {"m/caf\u00e9", "m/cafe\u0301"},
		"the site's case":   {"m/amf", "M/upf"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			first, second := "instances/"+c.first, "instances/"+c.second
			r, person, _ := forged(t)
			if c.first != "m/amf" {
				person.move("instances/m/amf", first)
				follow(t, r, person, "Rename it")
			}
			look := func(want string, told bool) {
				t.Helper()
				was, _ := r.Lookup(testID(1))
				for _, r := range []*Repo{r, restarted(t, r), restarted(t, r, was)} {
					if is := inEffect(r, 3); is != want {
						t.Errorf("in effect are %s, want %s", is, want)
					}
					said := problemsAt(r)
					if !told && said != "" || told && (!strings.Contains(said, second+"/vnf.yaml") || !strings.Contains(said, "differ only in case or Unicode form")) {
						t.Errorf("problems: %s", said)
					}
				}
			}

			person.put(second+"/vnf.yaml", named(testID(3), "upf", 1))
			follow(t, r, person, "Begin another")
			held := fmt.Sprintf("%q", []string{c.first, "m/smf", ""})
			look(held, true)

			person.put(first+"/vnf.yaml", named(testID(1), "amf", 4))
			person.put(second+"/vnf.yaml", named(testID(3), "upf", 2))
			follow(t, r, person, "Change both")
			look(held, true)
			if rev, _ := r.Lookup(testID(1)); rev.Commit != r.Head() {
				t.Errorf("the change of the first isn't in effect, but %+v", rev)
			}

			person.move(second, "instances/n/upf")
			follow(t, r, person, "Rename the second")
			look(fmt.Sprintf("%q", []string{c.first, "m/smf", "n/upf"}), false)
		})
	}
}

func TestOfFoldersSpelledAlikeThatCameTogetherNoneBegins(t *testing.T) {
	t.Parallel()

	forge := bareRemote(t)
	person := commitTo(t, forge)
	person.put("instances/amf/vnf.yaml", named(testID(1), "amf", 1))
	person.put("instances/AMF/vnf.yaml", named(testID(2), "amf2", 1))
	person.put("instances/smf/vnf.yaml", named(testID(3), "smf", 1))
	person.push("Begin")
	r := openRepo(t, Options{Remote: forge, PollInterval: time.Hour})
	for _, r := range []*Repo{r, restarted(t, r)} {
		said := problemsAt(r)
		if is := inEffect(r, 3); is != `["" "" "smf"]` || len(r.Problems()) != 2 ||
			!strings.Contains(said, "instances/amf and instances/AMF differ") || !strings.Contains(said, "instances/AMF and instances/amf differ") {
			t.Errorf("in effect are %s; problems: %s", is, said)
		}
	}

	person.move("instances/AMF", "instances/amf2")
	follow(t, r, person, "Rename one")
	for _, r := range []*Repo{r, restarted(t, r)} {
		if is := inEffect(r, 3); is != `["amf" "amf2" "smf"]` || len(r.Problems()) > 0 {
			t.Errorf("renamed, in effect are %s; problems: %s", is, problemsAt(r))
		}
	}
}

func TestAFolderSpelledAlikeBeginsWhenTheFirstGoes(t *testing.T) {
	t.Parallel()

	r, person, _ := forged(t)
	person.put("instances/m/AMF/vnf.yaml", named(testID(3), "upf", 1))
	follow(t, r, person, "Begin another")
	person.remove("instances/m/amf")
	follow(t, r, person, "End the first")
	for _, r := range []*Repo{r, restarted(t, r)} {
		if is := inEffect(r, 3); is != `["" "m/smf" "m/AMF"]` || len(r.Problems()) > 0 {
			t.Errorf("in effect are %s; problems: %s", is, problemsAt(r))
		}
	}
}

func TestWhatRunsGoesOnInFoldersSpelledAlike(t *testing.T) {
	t.Parallel()

	// An earlier version let both begin.
	r, person, was := forged(t)
	person.put("instances/m/AMF/vnf.yaml", named(testID(3), "upf", 1))
	follow(t, r, person, "Begin another")
	ran := desired.Revision{Instance: testID(3), Dir: "instances/m/AMF", Commit: r.Head(), Tree: runGit(t, r.opt.Dir, "rev-parse", r.Head()+":instances/m/AMF")}
	both := restarted(t, r, was, ran)
	look := func(told bool) {
		t.Helper()
		is, said := inEffect(both, 3), problemsAt(both)
		if is != `["m/amf" "m/smf" "m/AMF"]` || told != strings.Contains(said, "instances/m/AMF/vnf.yaml: instances/m/AMF and instances/m/amf differ") || !told && said != "" {
			t.Errorf("in effect are %s; problems: %s", is, said)
		}
	}
	look(true)
	person.put("instances/m/AMF/vnf.yaml", named(testID(3), "upf", 2))
	follow(t, both, person, "Change it")
	look(true)
	person.move("instances/m/amf", "instances/m/other")
	follow(t, both, person, "Rename the other")
	if is := inEffect(both, 3); is != `["m/other" "m/smf" "m/AMF"]` || len(both.Problems()) > 0 {
		t.Errorf("renamed, in effect are %s; problems: %s", is, problemsAt(both))
	}

	// A site of which one VNF is moved alone.
	person.remove("instances/m/AMF")
	person.move("instances/m/other", "instances/M/amf")
	follow(t, r, person, "Move one to the folder in another case")
	now, _ := r.Lookup(testID(1))
	for _, r := range []*Repo{r, restarted(t, r, now), restarted(t, r, was)} {
		if is := inEffect(r, 2); is != `["M/amf" "m/smf"]` {
			t.Errorf("moved, in effect are %s; problems: %s", is, problemsAt(r))
		}
	}
}

func TestAFolderSpelledAlikeIsHeldWhateverItsFileSays(t *testing.T) {
	t.Parallel()

	r, person, was := forged(t)
	person.put("instances/m/AMF/vnf.yaml", named(testID(3), "upf", 1))
	follow(t, r, person, "Begin another")
	person.put("instances/m/AMF/vnf.yaml", []byte("flavour: ["))
	follow(t, r, person, "Break it")
	for _, r := range []*Repo{r, restarted(t, r, was)} {
		if is := inEffect(r, 3); is != `["m/amf" "m/smf" ""]` || !strings.Contains(problemsAt(r), "instances/m/AMF/vnf.yaml") {
			t.Errorf("broken, in effect are %s; problems: %s", is, problemsAt(r))
		}
	}

	ran := desired.Revision{Instance: testID(3), Dir: "instances/m/AMF", Commit: r.Head() + "~1"}
	ran.Commit = runGit(t, r.opt.Dir, "rev-parse", ran.Commit)
	ran.Tree = runGit(t, r.opt.Dir, "rev-parse", ran.Commit+":"+ran.Dir)
	if is := inEffect(restarted(t, r, was, ran), 3); is != `["m/amf" "m/smf" "m/AMF"]` {
		t.Errorf("what ran and is broken ends: in effect are %s", is)
	}
}

func TestAMoveWithoutItsIDToAFolderSpelledAlikeIsHeld(t *testing.T) {
	t.Parallel()

	r, person, was := forged(t)
	person.remove("instances/m/amf")
	person.put("instances/M/amf/vnf.yaml", named("", "amf", 1))
	follow(t, r, person, "Move it and lose its id")
	for _, r := range []*Repo{r, restarted(t, r, was)} {
		if now, ok := r.Lookup(testID(1)); !ok || now != was {
			t.Errorf("the VNF is at %+v, %v; problems: %s", now, ok, problemsAt(r))
		}
	}
}
