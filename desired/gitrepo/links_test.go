package gitrepo

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/desired/gitrepo/check"
	"github.com/jibe-vnfm/jibe/internal/git"
)

// link puts a symbolic link or a submodule at a path.
func (c *committer) link(name, mode string) {
	c.set(name, mode, []byte("../theirs"))
	if mode == git.ModeSubmodule {
		c.have[name] = git.Entry{Mode: mode, Hash: c.head}
	}
}

func TestALinkIsRefusedWhereverJibeReads(t *testing.T) {
	t.Parallel()

	r := withHook(t)
	mustWrite(t, r, testID(1), "instances/a/amf", 1)
	for _, name := range []string{
		"instances/link", "instances/a/theirs", "instances/a/amf/notes", "instances/a/amf/deep/notes", "instances/a/vnf.yaml", "instances/new/vnf.yaml",
		"vims/theirs.yaml", "vims/notes", "vims", "projects/theirs.yaml", "projects/notes", "rollouts/all.yaml", "rollouts/.state/x.yaml", "rollouts",
		desired.RepositoriesFile, desired.PeersFile, desired.GrantingFile, desired.MaintenanceFile, "instances/a/" + desired.MaintenanceFile,
	} {
		for _, mode := range []string{git.ModeSymlink, git.ModeSubmodule} {
			person := commitTo(t, r.opt.Dir)
			old := person.head
			person.link(name, mode)
			problems, err := r.check.CheckPush(t.Context(), []check.RefUpdate{{Ref: r.read.Ref(), Old: old, New: person.commit("Link " + name)}}, check.PushPolicy{})
			if err != nil {
				t.Fatal(err)
			}
			i := slices.IndexFunc(problems, func(p *desired.Problem) bool { return p.File == name })
			if i < 0 || problems[i].Remedy == "" {
				t.Errorf("%s of mode %s: %v", name, mode, problems)
			}
			if slices.ContainsFunc(problems, func(p *desired.Problem) bool { return p != problems[max(i, 0)] && p.File == name }) {
				t.Errorf("%s of mode %s is named twice: %v", name, mode, problems)
			}
		}
	}

	person := commitTo(t, r.opt.Dir)
	old := person.head
	person.link("docs/latest", git.ModeSymlink)
	if problems, err := r.check.CheckPush(t.Context(), []check.RefUpdate{{Ref: r.read.Ref(), Old: old, New: person.commit("Link elsewhere")}}, check.PushPolicy{}); err != nil || len(problems) > 0 {
		t.Errorf("what Jibe doesn't read: %v, %v", problems, err)
	}
}

func TestALinkOnAForgeIsAProblemOfItselfAlone(t *testing.T) {
	t.Parallel()

	r, person, _ := forged(t)
	before := maps.Clone(person.have)
	for _, name := range []string{"instances/link", "instances/m/theirs", "instances/m/amf/notes", "instances/n/deep/link"} {
		for _, mode := range []string{git.ModeSymlink, git.ModeSubmodule} {
			person.link(name, mode)
			follow(t, r, person, "Link")
			want := name + ": is a s"
			if got := problemsAt(r); !strings.Contains(got, want) || len(r.Problems()) != 1 {
				t.Errorf("%s of mode %s: %s", name, mode, got)
			}
			if rev, ok := r.Lookup(testID(1)); !ok || rev.Dir != "instances/m/amf" {
				t.Errorf("%s: the VNF is at %+v, %t", name, rev, ok)
			}

			person.replace("instances/m/amf/vnf.yaml", "name: amf", "name: amf # changed")
			follow(t, r, person, "Change the VNF")
			if rev, _ := r.Lookup(testID(1)); rev.Commit != r.Head() {
				t.Errorf("%s: a change isn't followed: %+v", name, rev)
			}

			person.have = maps.Clone(before)
			follow(t, r, person, "Remove it")
			if len(r.Problems()) > 0 {
				t.Errorf("%s is gone, and still: %s", name, problemsAt(r))
			}
		}
	}
}

// A link in the place of a project's file would restrict nothing.
func TestSettingsStandWhereALinkTakesTheirPlace(t *testing.T) {
	t.Parallel()

	for _, c := range []struct{ name, below string }{
		{"projects/north.yaml", ""}, {desired.GrantingFile, ""}, {desired.PeersFile, ""}, {desired.RepositoriesFile, ""}, {"vims/edge.yaml", ""},
		{"projects", "projects/north.yaml"}, {"vims", "vims/edge.yaml"},
	} {
		for _, mode := range []string{git.ModeSymlink, git.ModeSubmodule} {
			t.Run(c.name+" of mode "+mode, func(t *testing.T) {
				t.Parallel()
				r, person, was := forged(t)
				person.put("projects/north.yaml", []byte("instances: [n]\nquotas: {instances: 3}\n"))
				person.put(desired.GrantingFile, []byte("nfvo: {name: nfvo-a}\n"))
				person.put(desired.RepositoriesFile, []byte("- name: packages\n  url: packages.git\n  branch: main\n"))
				person.put(desired.PeersFile, []byte("- {name: nfvo-a, type: nfvo, endpoint: https://nfvo.example.com}\n"))
				person.put("vims/edge.yaml", []byte("type: sim\n"))
				follow(t, r, person, "Settings")
				if len(r.Problems()) > 0 {
					t.Fatal(problemsAt(r))
				}
				good, err := r.Settings()
				if err != nil {
					t.Fatal(err)
				}

				if c.below != "" {
					person.remove(c.name)
				}
				person.link(c.name, mode)
				follow(t, r, person, "Link")

				for _, r := range []*Repo{r, restarted(t, r, was)} {
					now, err := r.Settings()
					if err != nil || now.Projects["north"] == nil || now.VIMs["edge"] == nil || len(now.Repositories) != 1 || len(now.Peers) != len(good.Peers) || now.Granting.NFVO == nil {
						t.Errorf("in effect is %+v, %v", now, err)
					}
					if got := problemsAt(r); !strings.Contains(got, c.name+": is ") {
						t.Errorf("problems: %s", got)
					}
				}
			})
		}
	}
}
