package gitrepo

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/desired/gitrepo/check"
	"github.com/jibe-vnfm/jibe/desired/gitrepo/read"
	"github.com/jibe-vnfm/jibe/internal/git"
	"github.com/jibe-vnfm/jibe/test/kit"
)

// forgeWith is a forge's repository that holds the files, and a person who pushes to it.
func forgeWith(t *testing.T, files map[string]string) (forge string, person *committer) {
	t.Helper()

	forge = bareRemote(t)
	person = commitTo(t, forge)
	person.put("README.md", []byte("what runs"))
	person.change(files)
	return forge, person
}

// change commits and pushes files; "" removes one.
func (c *committer) change(files map[string]string) {
	c.Helper()

	c.edit(files)
	c.push("Change " + strings.Join(slices.Sorted(maps.Keys(files)), ", "))
}

// edit writes files; "" removes one, or a folder.
func (c *committer) edit(files map[string]string) {
	c.Helper()

	for name, text := range files {
		if text != "" {
			c.put(name, []byte(text))
		} else {
			c.remove(name)
		}
	}
}

// followed waits until the repository stands where the person does.
func followed(t *testing.T, r *Repo, person *committer) {
	t.Helper()

	r.Poke()
	kit.Until(t, "the push is followed", func() bool { return r.Head() == person.head })
}

// running is a vnf.yaml with more lines.
func running(id string, lines ...string) string {
	return string(vnfFile(id, 1)) + strings.Join(append(lines, ""), "\n")
}

func problemText(ps []*desired.Problem) string {
	var all []string
	for _, p := range ps {
		all = append(all, p.Error())
	}
	return strings.Join(all, "\n")
}

// bothWays checks a repository, and another process on its directory after it has ended.
func bothWays(t *testing.T, r *Repo, check func(t *testing.T, r *Repo)) *Repo {
	t.Helper()
	t.Run("live", func(t *testing.T) { check(t, r) })
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	again := openRepo(t, r.opt)
	t.Run("after a restart", func(t *testing.T) { check(t, again) })
	return again
}

func TestAVIMThatInstancesNeedCountsUntilTheyDoNotAlsoAfterARestart(t *testing.T) {
	kit.Long(t)
	t.Parallel()

	for name, line := range map[string]string{
		"named": "vim: a", "by placement": "vim: b\nplacement: {vdu1: a}", "the default": "",
	} {
		t.Run(name, func(t *testing.T) {
			forge, person := forgeWith(t, map[string]string{
				"vims/a.yaml":             "type: sim\ndefault: true\nendpoint: https://a.example.org\n",
				"vims/b.yaml":             "type: sim\n",
				"instances/x/vnf.yaml":    running(testID(1), line),
				"instances/idle/vnf.yaml": running(testID(2), "state: notInstantiated", "vim: b"),
			})
			r := openRepo(t, Options{Remote: forge})
			person.change(map[string]string{"vims": "", "README.md": "no VIMs any more"})
			followed(t, r, person)
			r = bothWays(t, r, func(t *testing.T, r *Repo) {
				s, err := r.Settings()
				if err != nil || s.VIMs["a"] == nil || s.VIMs["a"].Endpoint != "https://a.example.org" || s.DefaultVIM() != "a" {
					t.Errorf("settings %+v, %v", s, err)
				}
				if name != "by placement" && s.VIMs["b"] != nil {
					t.Error("what only a VNF names that isn't instantiated stays")
				}
				if got := problemText(r.Problems()); !strings.Contains(got, "vims/a.yaml: can't go: 1 instance runs at VIM a: instances/x") || !strings.Contains(got, "terminate them first") {
					t.Errorf("problems: %s", got)
				}
			})
			// Something else changes, and then what needs it goes.
			person.change(map[string]string{"instances/idle/vnf.yaml": running(testID(2), "state: notInstantiated")})
			followed(t, r, person)
			if s, err := r.Settings(); err != nil || s.VIMs["a"] == nil {
				t.Errorf("after another commit: settings %+v, %v", s, err)
			}
			var told atomic.Bool // of the settings; what is told first may be of the commit before
			watched := watching(t, r, func(_ []string, settings bool) {
				if settings {
					told.Store(true)
				}
			})
			person.change(map[string]string{"instances/x/vnf.yaml": running(testID(1), line, "state: notInstantiated")})
			followed(t, r, person)
			if s, err := r.Settings(); err != nil || len(s.VIMs) > 0 || len(r.Problems()) > 0 {
				t.Errorf("nothing needs it: settings %+v, %v; problems: %s", s, err, problemText(r.Problems()))
			}
			kit.Until(t, "somebody is told that the settings are others", told.Load)
			watched()
		})
	}
}

// watching calls changed until the function that it returns is called.
func watching(t *testing.T, r *Repo, changed func([]string, bool)) func() {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		_ = r.Watch(ctx, changed)
		close(done)
	}()
	kit.Until(t, "the watch has begun", func() bool {
		r.mu.RLock()
		defer r.mu.RUnlock()
		return len(r.watchers) > 0
	})
	return func() { stop(); <-done }
}

func TestWhatJibeCommitsItselfLetsGoOfAVIMThatIsNeededNoMore(t *testing.T) {
	kit.Long(t)
	t.Parallel()

	forge, person := forgeWith(t, map[string]string{
		"vims/a.yaml": "type: sim\n", "instances/x/vnf.yaml": running(testID(1), "vim: a"),
	})
	r := openRepo(t, Options{Remote: forge})
	person.change(map[string]string{"vims": ""})
	followed(t, r, person)
	if s, err := r.Settings(); err != nil || s.VIMs["a"] == nil {
		t.Fatalf("settings %+v, %v", s, err)
	}
	_, err := r.Write(t.Context(), desired.Write{Instance: testID(1), Subject: "Terminate", Change: func(desired.Revision, desired.Files) (desired.Files, error) {
		return desired.Files{"vnf.yaml": []byte(running(testID(1), "vim: a", "state: notInstantiated"))}, nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	if s, err := r.Settings(); err != nil || s.VIMs["a"] != nil || len(r.Problems()) > 0 {
		t.Errorf("settings %+v, %v; problems: %s", s, err, problemText(r.Problems()))
	}
}

func TestAVIMThatIsGoneForLongIsNotTakenUpByAnInstanceThatNamesItLater(t *testing.T) {
	kit.Long(t)
	t.Parallel()

	forge, person := forgeWith(t, map[string]string{"vims/a.yaml": "type: sim\n", "vims/b.yaml": "type: sim\n"})
	r := openRepo(t, Options{Remote: forge})
	person.change(map[string]string{"vims/a.yaml": ""})
	person.change(map[string]string{"instances/x/vnf.yaml": running(testID(1), "vim: a")})
	followed(t, r, person)
	bothWays(t, r, func(t *testing.T, r *Repo) {
		if s, err := r.Settings(); err != nil || s.VIMs["a"] != nil || s.VIMs["b"] == nil {
			t.Errorf("settings %+v, %v", s, err)
		}
		rev, _ := r.Lookup(testID(1))
		if s, err := r.FormerSettings(t.Context(), rev.Commit, func(s *desired.Settings) bool { return s.VIMs["a"] != nil }); !errors.Is(err, desired.ErrNotFound) {
			t.Errorf("it would run by %+v, %v", s, err)
		}
	})
}

func TestAFileOfTheSettingsThatCanNotBeParsedHoldsNoOther(t *testing.T) {
	kit.Long(t)
	t.Parallel()

	forge, person := forgeWith(t, map[string]string{
		"vims/a.yaml": "type: sim\n", "vims/b.yaml": "type: sim\n", "vims/c.yaml": "type: sim\ndefault: true\n",
		"repositories.yaml": "- {name: one, url: one.git}\n", "peers.yaml": "- {name: em-a, type: em, endpoint: https://em.example.com}\n",
	})
	r := openRepo(t, Options{Remote: forge})
	person.change(map[string]string{
		"peers.yaml":  "- {name: em-b, type: em}\n", // broken
		"vims/a.yaml": "typ: sim\n",                 // broken
		"vims/b.yaml": "type: sim\ndefault: true\n", // c is
		"vims/c.yaml": "type: sim\ndefault: true\nid: c2\n",
		"vims/d.yaml": "type: [\n", // never was good
		"vims/e.yaml": "type: sim\n",
	})
	person.change(map[string]string{"repositories.yaml": "- {name: one}\n"})
	followed(t, r, person)
	r = bothWays(t, r, func(t *testing.T, r *Repo) {
		s, err := r.Settings()
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(slices.Sorted(maps.Keys(s.VIMs)), " "); got != "a b c e" || s.DefaultVIM() != "c" || s.VIMs["b"].Default || s.VIMs["c"].ID != "c2" {
			t.Errorf("VIMs %s, default %s", got, s.DefaultVIM())
		}
		if len(s.Repositories) != 1 || s.Repositories[0].URL != "one.git" {
			t.Errorf("repositories %+v", s.Repositories)
		}
		if len(s.Peers) != 1 || s.Peers[0].Name != "em-a" {
			t.Errorf("peers %+v", s.Peers)
		}
		var files []string
		for _, p := range r.Problems() {
			files = append(files, p.File)
		}
		if got := strings.Join(slices.Compact(files), " "); got != "peers.yaml repositories.yaml vims/a.yaml vims/b.yaml vims/d.yaml" {
			t.Errorf("problems in %s", got)
		}
	})
	person.change(map[string]string{"vims/a.yaml": "type: sim\nid: a2\n", "vims/b.yaml": "type: sim\n", "vims/d.yaml": "", "repositories.yaml": "- {name: two, url: two.git}\n", "peers.yaml": ""})
	followed(t, r, person)
	if s, err := r.Settings(); err != nil || len(s.Peers) > 0 || s.VIMs["a"].ID != "a2" || s.Repositories[0].Name != "two" || len(r.Problems()) > 0 {
		t.Errorf("mended: %+v, %v; problems: %s", s, err, problemText(r.Problems()))
	}
}

func TestANFVOThatIsMissingIsAProblemAndNobodyGrantsInItsPlace(t *testing.T) {
	kit.Long(t)
	t.Parallel()

	const nfvo = "- {name: nfvo-a, type: nfvo, endpoint: https://nfvo.example.com}\n"
	forge, person := forgeWith(t, map[string]string{"vims/a.yaml": "type: sim\n", "peers.yaml": nfvo, "granting.yaml": "nfvo: {name: nfvo-a}\n"})
	r := openRepo(t, Options{Remote: forge})
	person.change(map[string]string{"peers.yaml": ""})
	followed(t, r, person)
	r = bothWays(t, r, func(t *testing.T, r *Repo) {
		s, err := r.Settings()
		if err != nil || s.Granting.NFVO == nil || len(s.VIMs) != 1 {
			t.Fatalf("settings %+v, %v", s, err)
		}
		if at, err := s.NFVO(); err == nil {
			t.Errorf("it would ask %+v", at)
		}
		if got := problemText(r.Problems()); !strings.Contains(got, `granting.yaml: nfvo.name names "nfvo-a", which isn't in peers.yaml`) {
			t.Errorf("problems: %s", got)
		}
	})
	person.change(map[string]string{"peers.yaml": nfvo})
	followed(t, r, person)
	if s, err := r.Settings(); err != nil || len(r.Problems()) > 0 {
		t.Errorf("mended: %+v, %v; problems: %s", s, err, problemText(r.Problems()))
	}
}

func TestAPackageRepositoryThatIsNeededCountsUntilItIsNotAlsoAfterARestart(t *testing.T) {
	kit.Long(t)
	t.Parallel()

	forge, person := forgeWith(t, map[string]string{
		"repositories.yaml":    "- {name: one, url: one.git, hooks: true}\n- {name: two, url: two.git}\n",
		"instances/x/vnf.yaml": running(testID(1), "params: {from: one}"),
	})
	needed := func(_ context.Context, gone, stay []desired.Repository) (func(*desired.Instance) []string, error) {
		if slices.ContainsFunc(stay, func(r desired.Repository) bool { return r.URL == "one.git" }) {
			return nil, nil
		}
		return func(in *desired.Instance) []string {
			var names []string
			for _, r := range gone {
				if r.Name == in.Params["from"] {
					names = append(names, r.Name)
				}
			}
			return names
		}, nil
	}
	r := openRepo(t, Options{Remote: forge, NeededRepositories: needed})
	for _, text := range []string{"- {name: two, url: two.git}\n", "# none\n", ""} {
		person.change(map[string]string{"repositories.yaml": text})
		followed(t, r, person)
		r = bothWays(t, r, func(t *testing.T, r *Repo) {
			s, err := r.Settings()
			if err != nil || !slices.ContainsFunc(s.Repositories, func(r desired.Repository) bool {
				return r == desired.Repository{Name: "one", URL: "one.git", Hooks: true}
			}) {
				t.Errorf("%q: settings %+v, %v", text, s, err)
			}
			if two := len(s.Repositories) == 2; two != strings.Contains(text, "two") {
				t.Errorf("%q: what nothing needs: %+v", text, s.Repositories)
			}
			if got := problemText(r.Problems()); !strings.Contains(got, "repositories.yaml: can't go: 1 instance runs packages that repository one alone has: instances/x") {
				t.Errorf("%q: problems: %s", text, got)
			}
		})
	}
	person.change(map[string]string{"repositories.yaml": "- {name: renamed, url: one.git}\n"})
	followed(t, r, person)
	if s, err := r.Settings(); err != nil || len(s.Repositories) != 1 || s.Repositories[0].Name != "renamed" || len(r.Problems()) > 0 {
		t.Errorf("renamed: %+v, %v; problems: %s", s, err, problemText(r.Problems()))
	}
}

func TestTheFormerDefinitionOfAVIMIsFoundForWhatGoesWithIt(t *testing.T) {
	kit.Long(t)
	t.Parallel()

	forge, person := forgeWith(t, map[string]string{
		"vims/a.yaml": "type: sim\n", "instances/x/vnf.yaml": running(testID(1), "vim: a"),
	})
	r := openRepo(t, Options{Remote: forge})
	rev, _ := r.Lookup(testID(1))
	person.change(map[string]string{"vims/a.yaml": "type: sim\nendpoint: https://new.example.org\n"})
	person.change(map[string]string{"vims/a.yaml": "typ: sim\n"})
	before := person.head
	person.edit(map[string]string{"README.md": "closed", "vims": ""}) // three commits, one push
	person.commit("Close the VIM")
	person.edit(map[string]string{"instances/x": ""})
	person.moveBranch("refs/heads/main", before, person.commit("End the instance"))
	followed(t, r, person)
	if s, err := r.Settings(); err != nil || len(s.VIMs) > 0 || len(r.Problems()) > 0 {
		t.Errorf("settings %+v, %v; problems: %s", s, err, problemText(r.Problems()))
	}
	bothWays(t, r, func(t *testing.T, r *Repo) {
		for _, since := range []string{"", rev.Commit} {
			s, err := r.FormerSettings(t.Context(), since, func(s *desired.Settings) bool { return s.VIMs["a"] != nil })
			if err != nil || s.VIMs["a"].Endpoint != "https://new.example.org" {
				t.Errorf("since %q: %+v, %v", since, s, err)
			}
		}
	})
}

func TestAPushThatTakesAwayAVIMOrTheRepositoriesThatAreNeededIsRefusedByName(t *testing.T) {
	t.Parallel()

	dir := bareRemote(t)
	base := map[string]string{
		"repositories.yaml": "- {name: one, url: one.git}\n",
		"vims/a.yaml":       "type: sim\ndefault: true\n", "vims/b.yaml": "type: sim\n", "vims/c.yaml": "type: sim\n", "vims/idle.yaml": "type: sim\n",
		"instances/default/vnf.yaml": running(testID(1)),
		"instances/named/vnf.yaml":   running(testID(2), "vim: b"),
		"instances/placed/vnf.yaml":  running(testID(3), "vim: b", "placement: {vdu1: c}"),
		"instances/off/vnf.yaml":     running(testID(4), "vim: idle", "state: notInstantiated"),
	}
	for _, tc := range []struct {
		name   string
		change map[string]string
		want   []string // of each problem a part; none: accepted
	}{
		{"the default", map[string]string{"vims/a.yaml": ""}, []string{"vims/a.yaml: can't go: 1 instance runs at VIM a: instances/default"}},
		{"another becomes the default", map[string]string{"vims/a.yaml": "", "vims/b.yaml": "type: sim\ndefault: true\n"}, []string{"vims/a.yaml: can't go"}},
		{"renamed", map[string]string{"vims/b.yaml": "", "vims/b2.yaml": "type: sim\n"}, []string{"vims/b.yaml: can't go: 2 instances run at VIM b: instances/named, instances/placed (terminate them first"}},
		{"all", map[string]string{"vims": ""}, []string{"vims/a.yaml", "vims/b.yaml", "vims/c.yaml: can't go: 1 instance runs at VIM c: instances/placed"}},
		{"and the instance goes elsewhere", map[string]string{"vims/b.yaml": "", "instances/named/vnf.yaml": running(testID(2), "vim: a"), "instances/placed": ""}, []string{"vims/b.yaml: can't go: 1 instance runs at VIM b: instances/named"}},
		{"one that nothing needs", map[string]string{"vims/idle.yaml": ""}, nil},
		{"with what runs there", map[string]string{"vims/b.yaml": "", "instances/named": "", "instances/placed/vnf.yaml": running(testID(3), "vim: b", "placement: {vdu1: c}", "state: notInstantiated")}, nil},
		{"no repositories.yaml", map[string]string{"repositories.yaml": ""}, []string{"repositories.yaml: can't go or be emptied while VNFs are instantiated, such as instances/"}},
		{"an empty one", map[string]string{"repositories.yaml": "# none\n"}, []string{"repositories.yaml: can't go or be emptied"}},
		{"no repositories and nothing that runs", map[string]string{"repositories.yaml": "", "vims": "", "instances": ""}, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			person := commitTo(t, dir)
			person.edit(base)
			old := person.commit("Begin")
			person.edit(tc.change)
			next := person.commit("Change")
			r := check.New(read.New(git.Runner{Dir: dir}, "main", 1<<20))
			defer r.Close()
			ps, err := r.CheckPush(t.Context(), []check.RefUpdate{{Ref: "refs/heads/main", Old: old, New: next}}, check.PushPolicy{Options: []string{"terminate=2", "terminate=4"}})
			if err != nil {
				t.Fatal(err)
			}
			got := problemText(ps)
			if len(ps) != len(tc.want) {
				t.Errorf("%d problems, want %d:\n%s", len(ps), len(tc.want), got)
			}
			for _, want := range tc.want {
				if !strings.Contains(got, want) {
					t.Errorf("no %q in\n%s", want, got)
				}
			}
		})
	}
}
