package gitrepo

import (
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jibe-vnfm/jibe/desired/gitrepo/check"
	"github.com/jibe-vnfm/jibe/desired/gitrepo/read"
	storebranch "github.com/jibe-vnfm/jibe/store/branch"
	"github.com/jibe-vnfm/jibe/test/kit"
)

// fleet commits instances: so many in each of the sites.
func fleet(person *committer, sites map[string]int) {
	for site, n := range sites {
		for i := range n {
			dir := path.Join("instances", site, fmt.Sprintf("vnf%d", i))
			person.put(dir+"/vnf.yaml", named("", fmt.Sprintf("vnf%d", i), 1))
		}
	}
}

func TestAChangeThatEndsManyMustBeMeant(t *testing.T) {
	t.Parallel()

	for name, c := range map[string]struct {
		sites map[string]int
		ends  []string
		says  string // "" if it may pass
	}{
		"one of one":                   {map[string]int{"a": 1}, []string{"a/vnf0"}, ""},
		"one of two":                   {map[string]int{"a": 2}, []string{"a/vnf0"}, ""},
		"two of nine":                  {map[string]int{"a": 9}, []string{"a/vnf0", "a/vnf1"}, "2 of 9 is more than a fifth"},
		"two of ten":                   {map[string]int{"a": 10}, []string{"a/vnf0", "a/vnf1"}, ""},
		"a site of two":                {map[string]int{"a": 2, "b": 20}, []string{"a"}, ""},
		"a site of three":              {map[string]int{"a": 3, "b": 20}, []string{"a"}, "all 3 of instances/a"},
		"three of four of a site":      {map[string]int{"a": 4, "b": 20}, []string{"a/vnf0", "a/vnf1", "a/vnf2"}, ""},
		"a folder of two sites":        {map[string]int{"r/a": 2, "r/b": 2, "c": 30}, []string{"r"}, "all 4 of instances/r"},
		"a site of six of sixty":       {map[string]int{"a": 6, "b": 54}, []string{"a"}, "all 6 of instances/a"},
		"eleven of a hundred":          {map[string]int{"a": 100}, strings.Fields("a/vnf0 a/vnf1 a/vnf2 a/vnf3 a/vnf4 a/vnf5 a/vnf6 a/vnf7 a/vnf8 a/vnf9 a/vnf10"), "11 instances; more than 10"},
		"ten of a hundred":             {map[string]int{"a": 100}, strings.Fields("a/vnf0 a/vnf1 a/vnf2 a/vnf3 a/vnf4 a/vnf5 a/vnf6 a/vnf7 a/vnf8 a/vnf9"), ""},
		"all of two, in no site":       {map[string]int{"": 2}, []string{"vnf0", "vnf1"}, "2 of 2 is more than a fifth"},
		"a site that is not wholly so": {map[string]int{"a": 3, "a/x": 1, "b": 20}, []string{"a/vnf0", "a/vnf1", "a/vnf2"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := openRepo(t, Options{})
			person := commitTo(t, r.opt.Dir)
			fleet(person, c.sites)
			from := person.commit("Begin")
			for _, end := range c.ends {
				person.remove("instances/" + end)
			}
			u := check.RefUpdate{Ref: r.read.Ref(), Old: from, New: person.commit("End")}

			problems, err := r.check.CheckPush(t.Context(), []check.RefUpdate{u}, check.PushPolicy{})
			if err != nil {
				t.Fatal(err)
			}
			said := fmt.Sprint(problems)
			if c.says == "" && len(problems) > 0 || c.says != "" && (len(problems) != 1 || !strings.Contains(said, c.says)) {
				t.Errorf("the push hook says %q, want %q", said, c.says)
			}
			held := r.judgeMove(t.Context(), from, u.New)
			if errors.Is(held, errHeld) != (c.says != "") || held != nil && !strings.Contains(held.Error(), c.says) {
				t.Errorf("a branch that moved is held: %v, want %q", held, c.says)
			}

			if c.says == "" {
				return
			}
			_, n, _ := strings.Cut(said, "terminate=")
			n, _, _ = strings.Cut(n, ";")
			problems, err = r.check.CheckPush(t.Context(), []check.RefUpdate{u}, check.PushPolicy{Options: []string{"terminate=" + n}})
			if err != nil || len(problems) > 0 {
				t.Errorf("pushed as the refusal says, it is refused: %v, %v", problems, err)
			}
		})
	}
}

func TestALocalBranchMovedOnTheHostIsJudged(t *testing.T) {
	t.Parallel()

	r := openRepo(t, Options{Key: []byte(strings.Repeat("k", 32))})
	person := commitTo(t, r.opt.Dir)
	fleet(person, map[string]int{"a": 4, "b": 3})
	first := person.push("Begin")
	kit.Until(t, "it is followed", func() bool { return r.Refresh(t.Context()) == nil && r.Head() == first })

	person.remove("instances/b")
	many := person.push("End a site, past the hook")
	kit.Until(t, "the branch is held", func() bool { return errors.Is(r.Health(), errHeld) })
	if said := r.Health().Error(); r.Head() != first || len(r.List()) != 7 || !strings.Contains(said, "3 of 7 is more than a fifth") || !strings.Contains(said, "3 end (b/vnf0, b/vnf1, b/vnf2)") {
		t.Errorf("%s is in effect with %d instances: %s", r.Head(), len(r.List()), said)
	}
	shown, err := r.Held(t.Context())
	if err != nil || len(shown.Ends) != 3 || shown.To != many {
		t.Errorf("to be accepted are %+v, %v", shown, err)
	}
	if _, err := r.Accept(t.Context(), many); err != nil || len(r.List()) != 4 || r.Health() != nil {
		t.Errorf("accepted: %v, %d instances, health %v", err, len(r.List()), r.Health())
	}

	// What Jibe's hook has let pass isn't judged again.
	person.remove("instances/a")
	pushed := person.commit("End the other")
	if err := r.Pushing(read.Push{Pusher: "ops", Old: many, New: pushed}); err != nil {
		t.Fatal(err)
	}
	runGit(t, r.opt.Dir, "update-ref", "refs/heads/main", pushed)
	kit.Until(t, "the push is followed", func() bool { return r.Refresh(t.Context()) == nil && r.Head() == pushed })
	if len(r.List()) != 0 {
		t.Errorf("%d instances are left", len(r.List()))
	}
}

func TestAMeantPushIsFollowedAfterAKill(t *testing.T) {
	t.Parallel()

	opt := Options{
		Dir: filepath.Join(t.TempDir(), "desired.git"), Key: []byte(strings.Repeat("k", 32)),
		Accepted: storebranch.NewAccepted(sharedStore(t), "main", "test"),
	}
	r := openRepo(t, opt)
	person := commitTo(t, r.opt.Dir)
	fleet(person, map[string]int{"a": 4, "b": 3})
	first := person.push("Begin")
	kit.Until(t, "it is followed", func() bool { return r.Refresh(t.Context()) == nil && r.Head() == first })

	person.remove("instances/b")
	pushed := person.commit("End a site, with -o terminate=3")
	if err := r.Pushing(read.Push{Pusher: "ops", Old: first, New: pushed}); err != nil {
		t.Fatal(err)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	runGit(t, opt.Dir, "update-ref", "refs/heads/main", pushed) // git took it, and Jibe was killed

	again := openRepo(t, opt)
	if again.Head() != pushed || again.Health() != nil || len(again.List()) != 4 {
		t.Errorf("%s is in effect with %d instances: %v", again.Head(), len(again.List()), again.Health())
	}
}
