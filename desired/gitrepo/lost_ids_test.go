package gitrepo

import (
	"bytes"
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/desired/gitrepo/check"
	"github.com/jibe-vnfm/jibe/test/kit"
	"github.com/jibe-vnfm/jibe/test/testenv"
)

// named is a vnf.yaml with or without an id.
func named(id, name string, level int) []byte {
	return bytes.ReplaceAll(vnfFile(id, level), []byte("name: vnf"), []byte("name: "+name))
}

// forged is a repository that follows a forge, where no hook refuses anything, with an
// instance amf that runs, and a person who pushes.
func forged(t *testing.T) (r *Repo, person *committer, amf desired.Revision) {
	t.Helper()
	forge := bareRemote(t)
	person = commitTo(t, forge)
	person.put("instances/m/amf/vnf.yaml", named(testID(1), "amf", 1))
	person.put("instances/m/smf/vnf.yaml", named(testID(2), "smf", 1))
	person.push("Begin")
	r = openRepo(t, Options{Remote: forge, PollInterval: time.Hour})
	amf, ok := r.Lookup(testID(1))
	if !ok {
		t.Fatal("the instance isn't there")
	}
	return r, person, amf
}

// follow pushes what the person has changed, and waits until it is followed.
func follow(t *testing.T, r *Repo, person *committer, message string) {
	t.Helper()
	head := person.push(message)
	r.Poke()
	kit.Until(t, "the push is followed", func() bool { return r.Head() == head })
}

// restarted is the repository as a new process sees it, told what was operated on.
func restarted(t *testing.T, r *Repo, operated ...desired.Revision) *Repo {
	t.Helper()
	return openRepo(t, Options{Dir: r.opt.Dir, Remote: r.opt.Remote, PollInterval: time.Hour,
		Operated: func(context.Context) ([]desired.Revision, error) { return operated, nil }})
}

func problemsAt(r *Repo) string {
	var out []string
	for _, p := range r.Problems() {
		out = append(out, p.Error())
	}
	return strings.Join(out, "\n")
}

func TestOnAForgeAnIDThatIsLostWhileTheVNFRunsIsHeldUntilAccepted(t *testing.T) {
	kit.Long(t)
	t.Parallel()

	id, other := testID(1), testID(9)
	const amf, moved = "instances/m/amf", "instances/z/amf"
	for name, c := range map[string]struct {
		slip  func(person *committer)
		at    string // the directory that has lost the id
		fresh string // the id there
		says  string
	}{
		"another id in the same directory": {
			slip: func(person *committer) { person.put(amf+"/vnf.yaml", named(other, "amf", 3)) },
			at:   amf, fresh: other, says: "the id of a VNF that runs was changed",
		},
		"no id any more": {
			slip: func(person *committer) { person.put(amf+"/vnf.yaml", named("", "amf", 3)) },
			at:   amf, fresh: desired.DeriveID(amf), says: "the id of a VNF that runs was changed",
		},
		"moved, and the id lost on the way": {
			slip: func(person *committer) {
				person.remove(amf)
				person.put(moved+"/vnf.yaml", named("", "amf", 3))
			},
			at: moved, fresh: desired.DeriveID(moved), says: "moving " + amf + " without its id would terminate",
		},
	} {
		t.Run(name, func(t *testing.T) {
			r, person, was := forged(t)
			c.slip(person)
			follow(t, r, person, "Slip")
			held := func(r *Repo) {
				t.Helper()
				if rev, ok := r.Lookup(id); !ok || rev != was {
					t.Errorf("the instance is at %+v, %v; want %+v", rev, ok, was)
				}
				if in, err := r.read.Read(t.Context(), was); err != nil || in.Levels["vdu1_aspect"] != 1 {
					t.Errorf("what stands can't be read: %+v, %v", in, err)
				}
				if rev, ok := r.Lookup(c.fresh); ok {
					t.Errorf("what took its place is obeyed: %+v", rev)
				}
				if n := len(r.List()); n != 2 {
					t.Errorf("%d instances, want 2", n)
				}
				said := problemsAt(r)
				if !strings.HasPrefix(said, c.at+"/vnf.yaml: "+c.says) || !strings.Contains(said, "id: "+id) || strings.Contains(said, "\n") {
					t.Errorf("problems: %s", said)
				}
				if ps := r.Problems(); len(ps) > 0 && ps[0].Instance != id {
					t.Errorf("the problem is that of instance %q", ps[0].Instance)
				}
			}
			held(r)
			held(restarted(t, r, was))

			person.put("instances/m/smf/vnf.yaml", named(testID(2), "smf", 2)) // others go on
			person.put(c.at+"/README", []byte("the same directory, still without the id\n"))
			follow(t, r, person, "Go on")
			held(r)
			if rev, _ := r.Lookup(testID(2)); rev.Commit != r.Head() {
				t.Errorf("another instance isn't followed: %+v", rev)
			}
			if _, err := r.Write(t.Context(), desired.Write{Instance: id, Dir: amf, Subject: "s", Change: setLevel(id, 7)}); err == nil {
				t.Error("what is held was written")
			}

			person.put(c.at+"/vnf.yaml", named(id, "amf", 4)) // mended
			follow(t, r, person, "Put the id back")
			if rev, ok := r.Lookup(id); !ok || rev.Dir != c.at || rev.Commit != r.Head() || len(r.Problems()) > 0 {
				t.Errorf("mended, the instance is at %+v, %v; problems: %s", rev, ok, problemsAt(r))
			}

			if c.at == amf {
				person.put(amf+"/vnf.yaml", named(c.fresh, "amf", 3))
			} else {
				person.remove(moved)
				person.put("instances/y/amf/vnf.yaml", named("", "amf", 3))
				c.at, c.fresh = "instances/y/amf", desired.DeriveID("instances/y/amf")
			}
			if c.fresh == desired.DeriveID(amf) {
				person.put(amf+"/vnf.yaml", named("", "amf", 3))
			}
			follow(t, r, person, "Once more, and it is meant")
			if _, ok := r.Lookup(id); !ok {
				t.Fatal("not held a second time")
			}
			taken, err := r.Accept(t.Context(), "")
			if err != nil || len(taken) != 1 || taken[0].Instance != id {
				t.Errorf("accepted %v, %v", taken, err)
			}
			for _, r := range []*Repo{r, restarted(t, r, was)} {
				if rev, ok := r.Lookup(id); ok {
					t.Errorf("accepted, it is still at %+v", rev)
				}
				if rev, ok := r.Lookup(c.fresh); !ok || rev.Dir != c.at || len(r.Problems()) > 0 {
					t.Errorf("accepted, the new one is at %+v, %v; problems: %s", rev, ok, problemsAt(r))
				}
			}
		})
	}
}

func TestWhatWasMovedWithoutItsIDGoesWhenThatIsRemovedToo(t *testing.T) {
	kit.Long(t)
	t.Parallel()

	r, person, _ := forged(t)
	person.remove("instances/m/amf")
	person.put("instances/z/vnf.yaml", named("", "amf", 3))
	follow(t, r, person, "Move it, and lose its id")
	person.remove("instances/z")
	follow(t, r, person, "Remove it")
	if rev, ok := r.Lookup(testID(1)); ok || len(r.List()) != 1 || len(r.Problems()) > 0 {
		t.Errorf("it is still at %+v; problems: %s", rev, problemsAt(r))
	}
}

func TestAnIDOfWhatDoesNotRunMayBeChanged(t *testing.T) {
	kit.Long(t)
	t.Parallel()

	r, person, _ := forged(t)
	off := append(named(testID(1), "amf", 1), "state: notInstantiated\n"...)
	person.put("instances/m/amf/vnf.yaml", off)
	follow(t, r, person, "Terminate it")
	person.put("instances/m/amf/vnf.yaml", named(testID(9), "amf", 1))
	follow(t, r, person, "Another VNF")
	_, was := r.Lookup(testID(1))
	if rev, ok := r.Lookup(testID(9)); !ok || was || rev.Commit != r.Head() || len(r.Problems()) > 0 {
		t.Errorf("the new one is at %+v, %v; problems: %s", rev, ok, problemsAt(r))
	}
}

func TestOfTwoFilesWithOneIDTheOneThatHadItIsObeyed(t *testing.T) {
	kit.Long(t)
	t.Parallel()

	r, person, was := forged(t)
	person.put("instances/a/vnf.yaml", named(testID(1), "amf", 5)) // sorts first
	follow(t, r, person, "Copy it")
	check := func(r *Repo) {
		t.Helper()
		if rev, ok := r.Lookup(testID(1)); !ok || rev.Dir != was.Dir || rev.Tree != was.Tree {
			t.Errorf("the copy took over: %+v", rev)
		}
		if said := problemsAt(r); !strings.HasPrefix(said, "instances/a/vnf.yaml: id "+testID(1)+" is already that of "+was.Dir+"/vnf.yaml") || strings.Contains(said, "\n") {
			t.Errorf("problems: %s", said)
		}
	}
	check(r)
	check(restarted(t, r, was))
	check(restarted(t, r)) // a new data directory, which knows of no operation: history tells
	person.put("instances/m/amf/vnf.yaml", named(testID(1), "amf", 2))
	follow(t, r, person, "Scale the original")
	if rev, _ := r.Lookup(testID(1)); rev.Dir != was.Dir || rev.Commit != r.Head() {
		t.Errorf("the original isn't followed: %+v", rev)
	}
	person.remove("instances/m/amf")
	follow(t, r, person, "The move is done in two commits")
	if rev, ok := r.Lookup(testID(1)); !ok || rev.Dir != "instances/a" || len(r.Problems()) > 0 {
		t.Errorf("moved in two steps, it is at %+v, %v; problems: %s", rev, ok, problemsAt(r))
	}
}

func TestAnIDThatNobodyCanTellTheOwnerOfIsHeld(t *testing.T) {
	kit.Long(t)
	t.Parallel()

	r, person, was := forged(t)
	person.remove("instances/m/amf")
	person.put("instances/b/vnf.yaml", named(testID(1), "amf", 5))
	person.put("instances/c/vnf.yaml", named(testID(1), "amf", 6))
	person.put("instances/d/vnf.yaml", named(testID(5), "upf", 1))
	person.put("instances/e/vnf.yaml", named(testID(5), "upf", 1))
	follow(t, r, person, "Move it to two places")
	check := func(r *Repo) {
		t.Helper()
		if rev, ok := r.Lookup(testID(1)); !ok || rev != was {
			t.Errorf("the instance is at %+v, %v; want %+v", rev, ok, was)
		}
		if rev, ok := r.Lookup(testID(5)); ok {
			t.Errorf("of two new ones with one id, one is obeyed: %+v", rev)
		}
		var files []string
		for _, p := range r.Problems() {
			files = append(files, p.File)
		}
		if want := []string{"instances/b/vnf.yaml", "instances/c/vnf.yaml", "instances/d/vnf.yaml", "instances/e/vnf.yaml"}; !slices.Equal(files, want) {
			t.Errorf("problems in %v", files)
		}
	}
	check(r)
	check(restarted(t, r, was))
	person.remove("instances/c", "instances/e")
	follow(t, r, person, "Decide")
	if rev, ok := r.Lookup(testID(1)); !ok || rev.Dir != "instances/b" || len(r.Problems()) > 0 {
		t.Errorf("decided, it is at %+v, %v; problems: %s", rev, ok, problemsAt(r))
	}
	if rev, ok := r.Lookup(testID(5)); !ok || rev.Dir != "instances/d" {
		t.Errorf("decided, the new one is at %+v, %v", rev, ok)
	}
}

func TestAMoveAsItStoodTakesTheIDAlongThoughThereIsACopy(t *testing.T) {
	kit.Long(t)
	t.Parallel()

	r, person, was := forged(t)
	person.move("instances/m/amf", "instances/z")
	person.put("instances/b/vnf.yaml", named(testID(1), "amf", 5))
	follow(t, r, person, "Move it, and copy it with changes")
	for _, r := range []*Repo{r, restarted(t, r, was)} {
		if rev, ok := r.Lookup(testID(1)); !ok || rev.Dir != "instances/z" || !strings.HasPrefix(problemsAt(r), "instances/b/vnf.yaml: id ") {
			t.Errorf("moved, it is at %+v, %v; problems: %s", rev, ok, problemsAt(r))
		}
	}
}

func TestALostIDStaysHeldThoughTheFileIsBrokenAfterwardsAndTheServerStartsAgain(t *testing.T) {
	kit.Long(t)
	t.Parallel()

	r, person, was := forged(t)
	person.put("instances/m/amf/vnf.yaml", named(testID(9), "amf", 3))
	follow(t, r, person, "Another id")
	person.put("instances/m/amf/vnf.yaml", []byte("nonsense: 1\n"))
	follow(t, r, person, "Break it")
	for _, r := range []*Repo{r, restarted(t, r, was)} {
		if rev, ok := r.Lookup(testID(1)); !ok || rev != was || len(r.Problems()) != 1 {
			t.Errorf("the instance is at %+v, %v; want %+v; problems: %s", rev, ok, was, problemsAt(r))
		}
		if rev, ok := r.Lookup(testID(9)); ok {
			t.Errorf("what took its place is obeyed: %+v", rev)
		}
	}
}

func TestWhatOneCommitEndsAndAnotherBeginsIsNoLostIDHoweverFastTheyCome(t *testing.T) {
	testenv.Chaos(t, "git")
	t.Parallel()

	for name, slip := range map[string]func(person *committer){
		"removed, and one of its name added elsewhere": func(person *committer) {
			person.remove("instances/m/amf")
			person.push("Remove it")
			person.put("instances/z/amf/vnf.yaml", named(testID(9), "amf", 3))
		},
		"removed, and another one added in its place": func(person *committer) {
			person.remove("instances/m/amf")
			person.push("Remove it")
			person.put("instances/m/amf/vnf.yaml", named(testID(9), "amf", 3))
		},
		"terminated, and its directory given to another one": func(person *committer) {
			person.put("instances/m/amf/vnf.yaml", append(named(testID(1), "amf", 1), "state: notInstantiated\n"...))
			person.push("Terminate it")
			person.put("instances/m/amf/vnf.yaml", named(testID(9), "amf", 3))
		},
	} {
		t.Run(name, func(t *testing.T) {
			r, person, was := forged(t)
			slip(person)
			follow(t, r, person, "Begin another")
			for _, r := range []*Repo{r, restarted(t, r, was)} {
				_, old := r.Lookup(testID(1))
				if _, fresh := r.Lookup(testID(9)); old || !fresh || len(r.Problems()) > 0 {
					t.Errorf("the old one is there: %v, the new one: %v; problems: %s", old, fresh, problemsAt(r))
				}
			}
		})
	}
}

func TestExchangedIDsAreHeld(t *testing.T) {
	kit.Long(t)
	t.Parallel()

	const amf, smf = "instances/m/amf", "instances/m/smf"
	r, person, was := forged(t)
	other, _ := r.Lookup(testID(2))
	person.put(amf+"/vnf.yaml", named(testID(2), "amf", 1))
	person.put(smf+"/vnf.yaml", named(testID(1), "smf", 5))
	old := person.head
	head := person.commit("Exchange the ids")
	person.moveBranch("refs/heads/main", old, head)
	r.Poke()
	kit.Until(t, "the branch is followed", func() bool { return r.Head() == head })

	problems, err := r.check.CheckPush(t.Context(), []check.RefUpdate{{Ref: r.read.Ref(), Old: old, New: head}}, check.PushPolicy{})
	if err != nil || len(problems) != 2 || !strings.Contains(problems[0].Error(), "has exchanged its id with that of") {
		t.Errorf("the push hook says %v, %v", problems, err)
	}
	for _, r := range []*Repo{r, restarted(t, r, was, other)} {
		for _, want := range []desired.Revision{was, other} {
			if rev, ok := r.Lookup(want.Instance); !ok || rev != want {
				t.Errorf("the instance is at %+v, %v; want %+v", rev, ok, want)
			}
		}
		if said := problemsAt(r); strings.Count(said, "has exchanged its id") != 2 {
			t.Errorf("problems: %s", said)
		}
	}

	person.put(amf+"/vnf.yaml", named(testID(1), "amf", 1))
	person.put(smf+"/vnf.yaml", named(testID(2), "smf", 5))
	follow(t, r, person, "Put them back")
	if rev, _ := r.Lookup(testID(2)); rev.Commit != r.Head() || len(r.Problems()) > 0 {
		t.Errorf("put back, it is at %+v; problems: %s", rev, problemsAt(r))
	}

	person.move(amf, "instances/m/x")
	person.move(smf, amf)
	person.move("instances/m/x", smf)
	follow(t, r, person, "Rename both folders")
	if rev, _ := r.Lookup(testID(1)); rev.Dir != smf || len(r.Problems()) > 0 {
		t.Errorf("renamed, it is at %+v; problems: %s", rev, problemsAt(r))
	}
}

// A rename or a new id in the same commit must not end the one whose id the other file has now.
func TestAHalfExchangedIDEndsNoVNF(t *testing.T) {
	kit.Long(t)
	t.Parallel()

	const amf, smf = "instances/m/amf", "instances/m/smf"
	for name, slip := range map[string]func(p *committer){
		"exchanged, and one renamed": func(p *committer) {
			p.put(amf+"/vnf.yaml", named(testID(2), "amf", 1))
			p.put(smf+"/vnf.yaml", named(testID(1), "upf", 1))
		},
		"one removed, and the other moved into its place": func(p *committer) {
			p.remove(amf)
			p.move(smf, amf)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, person, was := forged(t)
			other, _ := r.Lookup(testID(2))
			slip(person)
			follow(t, r, person, "Slip")
			for _, want := range []desired.Revision{was, other} {
				if rev, ok := r.Lookup(want.Instance); !ok || rev != want {
					t.Errorf("the instance is at %+v, %v; want %+v; problems: %s", rev, ok, want, problemsAt(r))
				}
			}
			person.remove("instances/m")
			person.put(amf+"/vnf.yaml", named(testID(1), "amf", 2))
			person.put(smf+"/vnf.yaml", named(testID(2), "smf", 2))
			follow(t, r, person, "Repair both")
			for _, id := range []string{testID(1), testID(2)} {
				if rev, ok := r.Lookup(id); !ok || rev.Commit != r.Head() || len(r.Problems()) > 0 {
					t.Errorf("repaired, it is at %+v, %v; problems: %s", rev, ok, problemsAt(r))
				}
			}
		})
	}
}
