package gitrepo

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/internal/git"
	"github.com/jibe-vnfm/jibe/test/kit"
)

// replaceWith puts an entry that is no folder in the place of a folder.
func (c *committer) replaceWith(folder, mode string) {
	c.Helper()
	c.remove(folder)
	c.set(folder, mode, []byte("elsewhere"))
	if mode == git.ModeSubmodule {
		c.have[folder] = git.Entry{Mode: mode, Hash: c.head}
	}
}

func TestAMissingFolderEndsNoVNF(t *testing.T) {
	kit.Long(t)
	t.Parallel()

	const amf = "instances/m/amf"
	for name, c := range map[string]struct {
		slip func(person *committer)
		says string // by the problem
		mend func(person *committer)
	}{
		"a submodule in its place": {
			slip: func(p *committer) { p.replaceWith(amf, git.ModeSubmodule) },
			says: amf + ": is a submodule, not a folder",
		},
		"a symbolic link in its place": {
			slip: func(p *committer) { p.replaceWith(amf, git.ModeSymlink) },
			says: amf + ": is a symbolic link, not a folder",
		},
		"a file in its place": {
			slip: func(p *committer) { p.replaceWith(amf, git.ModeFile) },
			says: amf + ": is a file, not a folder",
		},
		"a submodule in the place of its site": {
			slip: func(p *committer) { p.replaceWith("instances/m", git.ModeSubmodule) },
			says: "instances/m: is a submodule, not a folder",
			mend: func(p *committer) {
				p.remove("instances/m")
				p.put("instances/m/smf/vnf.yaml", named(testID(2), "smf", 1))
			},
		},
		"moved out of instances": {
			slip: func(p *committer) { p.move(amf, "instance/amf") },
			says: "instance/amf/vnf.yaml: is the file of VNF instance " + testID(1) + ", moved from " + amf,
			mend: func(p *committer) { p.remove("instance/amf") },
		},
		"moved out of instances, and edited": {
			slip: func(p *committer) { p.remove(amf); p.put("old/vnf.yaml", named(testID(1), "amf", 4)) },
			says: "old/vnf.yaml: is the file of VNF instance " + testID(1),
			mend: func(p *committer) { p.remove("old") },
		},
		"moved into the folder of another VNF": {
			slip: func(p *committer) { p.move(amf, "instances/m/smf/amf") },
			says: "instances/m/smf/amf/vnf.yaml: is the file of VNF instance " + testID(1),
			mend: func(p *committer) { p.remove("instances/m/smf/amf") },
		},
		"moved to where folders are nested too deep": {
			slip: func(p *committer) { p.move(amf, deepFolder+"/amf") },
			says: deepFolder + "/amf/vnf.yaml: is the file of VNF instance " + testID(1),
			mend: func(p *committer) { p.remove("instances/deep") },
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, person, was := forged(t)
			before := maps.Clone(person.have)
			c.slip(person)
			follow(t, r, person, "Slip")

			held := func(r *Repo) {
				t.Helper()
				if rev, ok := r.Lookup(testID(1)); !ok || rev != was {
					t.Errorf("the instance is at %+v, %v; want %+v", rev, ok, was)
				}
				if said := problemsAt(r); !strings.Contains(said, c.says) {
					t.Errorf("problems: %s", said)
				}
			}
			held(r)
			held(restarted(t, r, was))
			person.put("README", []byte("others go on\n"))
			follow(t, r, person, "Go on")
			held(r)

			person.have = maps.Clone(before)
			follow(t, r, person, "Put it back")
			back, ok := r.Lookup(testID(1))
			if !ok || back.Commit != r.Head() || len(r.Problems()) > 0 {
				t.Errorf("put back, the instance is at %+v, %v; problems: %s", back, ok, problemsAt(r))
			}
			was = back

			c.slip(person)
			follow(t, r, person, "Slip again")
			held(r)
			if c.mend == nil {
				c.mend = func(p *committer) { p.remove(strings.SplitN(c.says, ":", 2)[0]) }
			}
			c.mend(person)
			follow(t, r, person, "Remove it: it is meant")
			if rev, ok := r.Lookup(testID(1)); ok {
				t.Errorf("removed, it is still at %+v; problems: %s", rev, problemsAt(r))
			}
		})
	}
}

func TestAnAbsentVNFEndsWhenAccepted(t *testing.T) {
	kit.Long(t)
	t.Parallel()

	for name, slip := range map[string]func(person *committer){
		"moved away":    func(p *committer) { p.move("instances/m/amf", "archive/amf") },
		"a link":        func(p *committer) { p.replaceWith("instances/m/amf", git.ModeSymlink) },
		"a submodule":   func(p *committer) { p.replaceWith("instances/m/amf", git.ModeSubmodule) },
		"a file for it": func(p *committer) { p.replaceWith("instances/m/amf", git.ModeFile) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, person, was := forged(t)
			slip(person)
			follow(t, r, person, "Slip")
			shown, err := r.Held(t.Context())
			if err != nil || len(shown.Missing) != 1 || shown.Missing[0].Instance != testID(1) {
				t.Errorf("to be accepted is %+v, %v", shown, err)
			}
			taken, err := r.Accept(t.Context(), "")
			if err != nil || len(taken) != 1 || taken[0].Instance != testID(1) {
				t.Errorf("accepted %v, %v", taken, err)
			}
			for _, r := range []*Repo{r, restarted(t, r, was)} {
				ofTheVNF := slices.ContainsFunc(r.Problems(), func(p *desired.Problem) bool { return p.Instance != "" }) // the link is one still
				if rev, ok := r.Lookup(testID(1)); ok || ofTheVNF {
					t.Errorf("accepted, it is still at %+v; problems: %s", rev, problemsAt(r))
				}
			}
		})
	}
}

func TestWhatWasStoppedFirstMayMoveAway(t *testing.T) {
	kit.Long(t)
	t.Parallel()

	r, person, was := forged(t)
	before := person.head
	person.replace("instances/m/amf/vnf.yaml", "flavour:", "state: notInstantiated\nflavour:")
	person.commit("End it")
	person.move("instances/m/amf", "archive/amf")
	head := person.commit("Keep its file")
	person.moveBranch("refs/heads/main", before, head)
	r.Poke()
	kit.Until(t, "both commits are followed", func() bool { return r.Head() == head })
	for _, r := range []*Repo{r, restarted(t, r, was)} {
		if rev, ok := r.Lookup(testID(1)); ok || len(r.Problems()) > 0 {
			t.Errorf("it is still at %+v; problems: %s", rev, problemsAt(r))
		}
	}
}
