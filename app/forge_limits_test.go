package app_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jibe-vnfm/jibe/app"
	"github.com/jibe-vnfm/jibe/app/forgesync"
	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/drivers/sim"
	"github.com/jibe-vnfm/jibe/test/forges"
	"github.com/jibe-vnfm/jibe/test/kit"
	"github.com/jibe-vnfm/jibe/test/process"
	"github.com/jibe-vnfm/jibe/test/testenv"
)

// What the guide names, and what forges document, with a time that passes ten times as fast for git
// and a hundred times for the API: 6 pushes a minute and an interval of 10 s, and 1 request a second. Windows
// are shorter than the documented hour, so that the bound is closer.
const (
	fastInterval = 10 * time.Second / 10
	fastPoll     = 30 * time.Second / 10
	fastRate     = 100 * forgesync.DefaultRate
)

func documented(kind forges.Kind) forges.Limits {
	l := forges.Limits{
		Pushes:       forges.Rate{N: 6, Within: time.Minute / 10},
		Reads:        forges.Rate{N: 15, Within: time.Second},
		AtOnce:       100,
		PullRequests: 1000,
		Tree:         forges.Tree{Branches: 5000, Entries: 3000, Depth: 50, File: 1 << 20, Repository: 10 << 30},
	}
	switch kind {
	case forges.GitHub:
		l.Requests = forges.Rate{N: 5000 * 100 / 3600, Within: time.Second} // an hour
	case forges.GitLab:
		l.Requests = forges.Rate{N: 400 * 100 / 60, Within: time.Second} // a minute
		l.NewComments = forges.Rate{N: 300 * 100 / 60, Within: time.Second}
	}
	return l
}

// onForge is Jibe with its desired repository on a forge that enforces limits.
type onForge struct {
	*process.Server
	t     *testing.T
	forge *forges.Forge
	work  *process.WorkTree
	sites int
}

func newOnForge(t *testing.T, kind forges.Kind, limits forges.Limits, sites int, change func(*app.Options)) *onForge {
	t.Helper()
	x := &onForge{t: t, forge: forges.New(t, kind, limits), sites: sites}
	files := map[string]string{
		"repositories.yaml": "- name: packages\n  url: packages.git\n  branch: main\n",
		"vims/cloud.yaml":   "type: sim\ndefault: true\n",
	}
	for n := range sites {
		files[x.dir(n)+"/vnf.yaml"] = strings.Replace(instance(""), "namespace: a", fmt.Sprintf("namespace: s%d", n), 1)
	}
	x.forge.Serve(t, files)
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte(forges.Token), 0o600); err != nil {
		t.Fatal(err)
	}
	o := app.Options{Data: t.TempDir(), Remote: x.forge.Remote, Cloud: sim.NewCloud(), Poll: fastPoll, PushInterval: fastInterval,
		Forge: forgesync.Options{Kind: string(kind), URL: x.forge.URL, Repository: x.forge.Repository(), Token: "file:" + token, Rate: fastRate}}
	if change != nil {
		change(&o)
	}
	var stop func()
	x.Server, stop = startWith(t, o)
	t.Cleanup(stop)
	x.PushPackages(t, []string{process.SmallVnfd, nextSmall}, process.SmallPackage(),
		process.NextVersion(t, process.SmallPackage(), "small-1.1", process.SmallVnfd, nextSmall, "'1.0'", "'1.1'"))
	x.work = process.NewWorkTree(t, x.forge.Dir) // as people do who merge on the forge: that is no push
	x.await("INSTANTIATE", sites)
	return x
}

const nextSmall = "3a5c1f0e-6d0b-4f7e-9c55-0f6f2a9e1bc2"

func (x *onForge) dir(n int) string { return fmt.Sprintf("instances/edge/s%03d", n) }

// await waits until so many operations of a type are COMPLETED.
func (x *onForge) await(typ string, many int) {
	x.t.Helper()
	kit.EventuallyWithin(x.t, 3*kit.Patience, func() error {
		all, err := process.All[process.Operation](x.t.Context(), x.Server, process.Operations+"?filter=(eq,operation,"+typ+")")
		if err != nil {
			return err
		}
		done := slices.DeleteFunc(all, func(o process.Operation) bool { return o.Type != typ || o.State != "COMPLETED" })
		if len(done) != many {
			return fmt.Errorf("%d of %d %s are completed", len(done), many, typ)
		}
		return nil
	})
}

// propose makes so many branches that each change a site, with a pull request each, and has the forge tell
// of them.
func (x *onForge) propose(many int) (numbers []int64) {
	x.t.Helper()
	git := func(args ...string) {
		x.t.Helper()
		if out, err := process.Git(x.t.Context(), x.work.Dir(), args...); err != nil {
			x.t.Fatalf("%v: %s", err, out)
		}
	}
	x.work.Reset()
	for n := range many {
		git("checkout", "-q", "-B", fmt.Sprintf("change-%03d", n), "origin/main")
		x.work.WriteFiles(map[string]string{x.dir(n%x.sites) + "/vnf.yaml": x.work.Read(x.dir(n%x.sites)+"/vnf.yaml") + "levels: {front: 1}\n"})
		git("commit", "-q", "-am", "Scale")
	}
	git("push", "-q", "origin", "refs/heads/change-*:refs/heads/change-*")
	git("checkout", "-q", "main")
	for n := range many {
		numbers = append(numbers, x.forge.Open(x.t, fmt.Sprintf("change-%03d", n), "main"))
	}
	x.told()
	return numbers
}

// told is the forge's webhook.
func (x *onForge) told() {
	x.t.Helper()
	x.Want(x.t, http.StatusAccepted, http.MethodPost, "/webhook", map[string]string{}, nil)
}

// commented waits until each of the pull requests has one comment, and tells the forge's counts then.
func (x *onForge) commented(numbers []int64) {
	x.t.Helper()
	kit.EventuallyWithin(x.t, 3*kit.Patience, func() error {
		lacking := 0
		for _, n := range numbers {
			switch all := x.forge.Comments(n); {
			case len(all) > 1:
				return kit.Final(fmt.Errorf("pull request %d has %d comments", n, len(all)))
			case len(all) == 0 || !strings.Contains(all[0], "SCALE"):
				lacking++
			}
		}
		if lacking > 0 {
			return fmt.Errorf("%d of %d pull requests have no plan; %+v", lacking, len(numbers), x.forge.Counts())
		}
		return nil
	})
}

// create has the API make instances from many clients at once, and returns the operations that were acknowledged:
// each instance is renamed once.
func (x *onForge) create(clients, each int) (operations []string) {
	x.t.Helper()
	var mu sync.Mutex
	var all sync.WaitGroup
	for c := range clients {
		all.Go(func() {
			for i := range each {
				name := fmt.Sprintf("by-%d-%d", c, i)
				a, err := x.Do(x.t.Context(), http.MethodPost, process.Instances, map[string]any{"vnfdId": process.SmallVnfd, "vnfInstanceName": name})
				if err != nil || a.Status != http.StatusCreated {
					x.t.Errorf("create: %v %+v", err, a)
					return
				}
				b, err := x.Do(x.t.Context(), http.MethodPatch, process.Instances+"/"+a.ID(), map[string]any{"vnfInstanceDescription": name})
				if err != nil || b.Status != http.StatusAccepted {
					x.t.Errorf("modify: %v %+v", err, b)
					return
				}
				mu.Lock()
				operations = append(operations, b.ID())
				mu.Unlock()
			}
		})
	}
	all.Wait()
	return operations
}

// once checks that each operation's commit stands once in the forge's branch.
func (x *onForge) once(operations []string) {
	x.t.Helper()
	out, err := process.Git(x.t.Context(), x.forge.Dir, "log", "--format=%(trailers:key="+desired.TrailerOperation+",valueonly,separator=%x2C)", "main")
	if err != nil {
		x.t.Fatal(err)
	}
	count := map[string]int{}
	for line := range strings.FieldsSeq(out) {
		count[line]++
	}
	for _, op := range operations {
		if count[op] != 1 {
			x.t.Errorf("operation %s stands %d times in the forge's branch", op, count[op])
		}
	}
}

func TestAForgeThatEnforcesItsLimitsRefusesNothingHoweverMuchIsAskedOfJibe(t *testing.T) {
	testenv.Chaos(t, "git")
	t.Parallel() // it mostly waits
	for _, kind := range []forges.Kind{forges.GitHub, forges.GitLab} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			const sites = 12
			pulls := map[forges.Kind]int{forges.GitHub: 110, forges.GitLab: 30}[kind]
			x := newOnForge(t, kind, documented(kind), sites, nil)
			numbers := x.propose(pulls)
			var operations []string
			var all sync.WaitGroup
			all.Go(func() { operations = x.create(24, 4) })
			x.work.Reset()
			x.work.WriteFiles(map[string]string{"rollouts/edge.yaml": "select: {folders: [edge]}\nto: {vnfdId: " + nextSmall + "}\natOnce: 4\n"})
			x.work.Push("Upgrade the edge")
			x.told()
			x.await("CHANGE_VNFPKG", sites)
			all.Wait()
			x.commented(numbers)
			x.await("MODIFY_INFO", len(operations))
			x.once(operations)

			is := x.forge.Counts()
			t.Logf("%+v", is)
			if len(is.Refused) > 0 || is.Early > 0 {
				t.Errorf("refused were %v, and %d requests came although it had asked to be left alone", is.Refused, is.Early)
			}
			if is.Pushes < 6 || is.Requests < 3*pulls {
				t.Errorf("%d pushes and %d requests put nothing to the test", is.Pushes, is.Requests)
			}
			if opened := is.Of["POST pulls"] + is.Of["POST merge_requests"]; opened > 0 || is.AtOnce > 2 {
				t.Errorf("Jibe opened %d pull requests, and had %d requests under way at once", opened, is.AtOnce)
			}
			most, refused := x.forge.Seen(t)
			t.Logf("%+v", most)
			if len(refused) > 0 || most.Branches > 1+pulls || most.Depth > 5 || most.File > 100<<10 {
				t.Errorf("hooks refused %v; the most was %+v", refused, most)
			}
			if made := len(operations); most.Entries > max(sites, 256, made) || made != 24*4 {
				t.Errorf("%d entries in a folder, of %d instances", most.Entries, made)
			}
			out, err := process.Git(t.Context(), x.forge.Dir, "log", "--format=%H", "main")
			if err != nil {
				t.Fatal(err)
			}
			for commit := range strings.FieldsSeq(out) {
				if n := len(x.forge.Statuses(commit, "jibe")); n > 10 {
					t.Errorf("commit %s has %d statuses", commit, n)
				}
			}
		})
	}
}

func TestAForgeThatRefusesIsLeftAloneAsItAsksAndNothingIsLostOrRepeated(t *testing.T) {
	kit.Long(t)
	t.Parallel() // it mostly waits
	for _, kind := range []forges.Kind{forges.GitHub, forges.GitLab} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			const pulls = 12
			x := newOnForge(t, kind, forges.Limits{}, 3, func(o *app.Options) { o.PushInterval = 0 })
			// Far below what the settings are for.
			x.forge.Limit(forges.Rate{N: 12, Within: 2 * time.Second, Exhausts: true}, forges.Rate{N: 2, Within: 2 * time.Second, Exhausts: true})
			numbers := x.propose(pulls)
			operations := x.create(4, 4)
			x.commented(numbers)
			x.await("MODIFY_INFO", len(operations))
			x.once(operations)
			is := x.forge.Counts()
			t.Logf("%+v", is)
			if is.Refused["requests"] == 0 || is.Refused["pushes"] == 0 {
				t.Fatalf("nothing was refused: %+v", is)
			}
			// Two loops report: while one is refused, a request of the other may be on its way.
			if is.Early > is.Refused["requests"] {
				t.Errorf("%d requests came although the forge had asked to be left alone, after %d refusals", is.Early, is.Refused["requests"])
			}
			if is.Refused["pushes"] > is.Pushes/2+1 {
				t.Errorf("%d of %d pushes were refused: it wasn't waited", is.Refused["pushes"], is.Pushes)
			}
		})
	}
}
