package gitrepo

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/desired/gitrepo/check"
	"github.com/jibe-vnfm/jibe/desired/gitrepo/read"
	"github.com/jibe-vnfm/jibe/internal/git"
	"github.com/jibe-vnfm/jibe/test/kit"
	"github.com/jibe-vnfm/jibe/test/testenv"
)

// fileOf is the file of a test instance.
func fileOf(n int) string { return shardDir(testID(n)) + "/vnf.yaml" }

// jibeSets has Jibe change keys of an instance, as it does with trailers.
func jibeSets(tb testing.TB, r *Repo, n int, trailers []desired.Trailer, edits ...desired.KeyValue) {
	tb.Helper()
	_, err := r.Write(context.Background(), desired.Write{Instance: testID(n), Subject: "Pin the package", By: "A Person <person@example.com>", Trailers: trailers,
		Change: func(at desired.Revision, old desired.Files) (desired.Files, error) {
			text, err := desired.Edit(at.Dir+"/vnf.yaml", old["vnf.yaml"], edits...)
			return desired.Files{"vnf.yaml": text}, err
		}})
	if err != nil {
		tb.Fatal(err)
	}
}

var pin = desired.KeyValue{Path: []string{"package"}, Value: "a" + strings.Repeat("1", 39)}

// at is a file as the branch has it.
func at(tb testing.TB, r *Repo, file string) string {
	tb.Helper()
	return runGit(tb, r.opt.Dir, "show", "main:"+file)
}

func TestAChangeLandsOnTopOfWhatCameMeanwhile(t *testing.T) {
	t.Parallel()

	r := openRepo(t, Options{Key: testKey})
	for n := range 3 {
		mustWrite(t, r, testID(n), shardDir(testID(n)), 1)
	}
	p := commitTo(t, r.opt.Dir)
	p.replace(fileOf(0), "vdu1_aspect: 1", "vdu1_aspect: 2 # until Friday")
	first := p.commit("Scale")
	if u, err := p.land(r, first); err != nil || u.New != first || r.Head() != first {
		t.Fatalf("%+v %v: not as a push to the branch would be", u, err)
	}
	// Jibe pins what has landed, and somebody else is changed; the person goes on with what they have.
	jibeSets(t, r, 0, nil, pin)
	mustWrite(t, r, testID(1), shardDir(testID(1)), 7)
	p.replace(fileOf(0), "name: vnf", "name: front")
	second := p.commit("Rename\n\nBecause.")
	head := r.Head()
	u, err := p.land(r, second)
	if err != nil || u.Old != head || r.Head() != u.New {
		t.Fatalf("%+v %v", u, err)
	}
	if got := runGit(t, r.opt.Dir, "log", "-1", "--format=%P|%cn <%ce>|%an|%s", "main"); got != head+" "+second+`|Jibe <jibe@localhost>|Jibe|Merge "Rename" into main` {
		t.Errorf("the merge is %s", got)
	}
	text := at(t, r, fileOf(0))
	for _, part := range []string{"name: front\n", "vdu1_aspect: 2 # until Friday\n", "package: a1"} {
		if !strings.Contains(text, part) {
			t.Errorf("%q isn't in\n%s", part, text)
		}
	}
	if level := levelOf(t, r, testID(1)); level != 7 {
		t.Errorf("the change that came meanwhile is lost: level %d", level)
	}
	// What has landed lands again without effect, also where the answer was lost.
	if again, err := p.land(r, second); err != nil || again.Old != u.New || again.New != u.New || r.Head() != u.New {
		t.Errorf("again: %+v %v", again, err)
	}
	// A merge by the person, crosswise with Jibe's, has nothing that is new.
	before, _, err := r.read.Objects.Lookup(t.Context(), git.KindCommit, head+"~1")
	if err != nil {
		t.Fatal(err)
	}
	merged := runGit(t, r.opt.Dir, "commit-tree", "-p", p.head, "-p", before, "-m", "Merge", runGit(t, r.opt.Dir, "merge-tree", "--write-tree", p.head, before))
	p.reset(merged)
	p.replace(fileOf(2), "vdu1_aspect: 1", "vdu1_aspect: 5")
	if _, err := p.land(r, p.commit("Scale another")); err != nil || levelOf(t, r, testID(2)) != 5 {
		t.Errorf("after a merge: %v", err)
	}
	sameAsFresh(t, r)
	fsck(t, r)
}

func TestWhatBothHaveChangedIsAConflictThatIsTold(t *testing.T) {
	kit.Long(t)
	t.Parallel()

	for name, c := range map[string]struct {
		meanwhile func(p *committer, r *Repo)
		change    func(p *committer)
		want      string // "" lands
	}{
		"a person's edit of another key": {
			meanwhile: func(p *committer, r *Repo) {
				other := commitTo(p, r.opt.Dir)
				other.replace(fileOf(0), "name: vnf", "name: theirs")
				other.push("Rename it")
			},
			change: func(p *committer) { p.replace(fileOf(0), "vdu1_aspect: 1", "vdu1_aspect: 2") },
			want:   `name: changed on main too, by A Person <person@example.com> (`,
		},
		"a request of the API": {
			meanwhile: func(p *committer, r *Repo) {
				jibeSets(p, r, 0, []desired.Trailer{{Key: desired.TrailerOperation, Value: "o"}, {Key: desired.TrailerType, Value: "SCALE"}, {Key: desired.TrailerRequestedBy, Value: "nfvo (token)"}},
					desired.KeyValue{Path: []string{"levels", "vdu1_aspect"}, Value: 3})
			},
			change: func(p *committer) { p.replace(fileOf(0), "name: vnf", "name: mine") },
			want:   `levels.vdu1_aspect: changed on main too, by nfvo (token) (`,
		},
		"a rollback": {
			meanwhile: func(p *committer, r *Repo) {
				jibeSets(p, r, 0, []desired.Trailer{{Key: desired.TrailerOperation, Value: "o"}, {Key: desired.TrailerType, Value: "SCALE"}, {Key: desired.TrailerOutcome, Value: "ROLLED_BACK"}},
					desired.KeyValue{Path: []string{"levels", "vdu1_aspect"}, Value: 3})
			},
			change: func(p *committer) { p.replace(fileOf(0), "name: vnf", "name: mine") },
			want:   `levels.vdu1_aspect: changed on main too, by Jibe (`,
		},
		"another value of what Jibe filled in": {
			meanwhile: func(p *committer, r *Repo) {
				jibeSets(p, r, 0, nil, desired.KeyValue{Path: []string{"vim"}, Value: "kube-a"}, pin)
			},
			change: func(p *committer) { p.replace(fileOf(0), "name: vnf", "vim: kube-b\nname: vnf") },
			want:   `vim: set to other values on main, by Jibe (`,
		},
		"a commit that says it is Jibe's": {
			meanwhile: func(p *committer, r *Repo) {
				other := commitTo(p, r.opt.Dir)
				other.replace(fileOf(0), "name: vnf", "name: theirs")
				other.push("Pin\n\nJibe-Seal: " + strings.Repeat("0", 64))
			},
			change: func(p *committer) { p.replace(fileOf(0), "vdu1_aspect: 1", "vdu1_aspect: 2") },
			want:   `name: changed on main too, by A Person`,
		},
		"a file beside it": {
			meanwhile: func(p *committer, r *Repo) {
				other := commitTo(p, r.opt.Dir)
				other.put("README.md", []byte("theirs\n"))
				other.push("Explain")
			},
			change: func(p *committer) { p.put("README.md", []byte("mine\n")) },
			want:   `README.md: was changed on main too, by A Person`,
		},
		"a removal of what Jibe pinned": {
			meanwhile: func(p *committer, r *Repo) { jibeSets(p, r, 0, nil, pin) },
			change:    func(p *committer) { p.remove(shardDir(testID(0))) },
		},
		"a removal of what a person changed": {
			meanwhile: func(p *committer, r *Repo) {
				other := commitTo(p, r.opt.Dir)
				other.replace(fileOf(0), "name: vnf", "name: theirs")
				other.push("Rename it")
			},
			change: func(p *committer) { p.remove(shardDir(testID(0))) },
			want:   `name: changed on main too, by A Person`,
		},
		"a move of what Jibe pinned": {
			meanwhile: func(p *committer, r *Repo) { jibeSets(p, r, 0, nil, pin) },
			change:    func(p *committer) { p.move(shardDir(testID(0)), "instances/b/moved") },
			want:      `and is moved to instances/b/moved here`,
		},
		"no history in common": {
			meanwhile: func(*committer, *Repo) {},
			change:    func(p *committer) { p.head = "" },
			want:      `has no commit in common with main`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := openRepo(t, Options{Key: testKey})
			mustWrite(t, r, testID(0), shardDir(testID(0)), 1)
			mustWrite(t, r, testID(1), shardDir(testID(1)), 1)
			p := commitTo(t, r.opt.Dir)
			c.meanwhile(p, r)
			c.change(p)
			if err := r.Refresh(t.Context()); err != nil {
				t.Fatal(err)
			}
			head := r.Head()
			_, err := p.land(r, p.commit("Mine"))
			if c.want == "" {
				if _, there := r.Lookup(testID(0)); err != nil || there {
					t.Errorf("not landed: %v", err)
				}
				return
			}
			var invalid *desired.InvalidError
			if !errors.As(err, &invalid) || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "git pull --rebase origin refs/heads/main") {
				t.Errorf("%v, want %q", err, c.want)
			}
			if now := tipOf(t, r.opt.Dir); now != head {
				t.Errorf("main is at %s, not at %s", now, head)
			}
		})
	}
}

func TestALandingThatIsRefusedLeavesTheBranchAndAnotherHeadIsJudgedAnew(t *testing.T) {
	t.Parallel()

	r := openRepo(t, Options{Key: testKey})
	mustWrite(t, r, testID(0), shardDir(testID(0)), 1)
	mustWrite(t, r, testID(1), shardDir(testID(1)), 1)
	p := commitTo(t, r.opt.Dir)
	p.replace(fileOf(0), "vdu1_aspect: 1", "vdu1_aspect: 2")
	commit := p.commit("Scale")
	p.moveBranch("refs/heads/mine", "", commit)
	no := errors.New("no")
	pass := func(context.Context, check.RefUpdate) error { return nil }
	refuse := func(context.Context, check.RefUpdate) error { return no }
	head := r.Head()
	for _, l := range []Landing{{Judge: refuse, Accept: pass}, {Judge: pass, Accept: refuse}} {
		l.Commit = commit
		if _, err := r.Land(t.Context(), l); !errors.Is(err, no) || r.Head() != head {
			t.Errorf("%v, main at %s", err, r.Head())
		}
	}
	// The branch moves each time between the judgement and the move, until nobody else may write.
	level, judged := 1, []string{}
	var late sync.WaitGroup
	u, err := r.Land(t.Context(), Landing{Commit: commit, Accept: pass, Judge: func(ctx context.Context, u check.RefUpdate) error {
		judged = append(judged, u.Old)
		level++
		write := func() { mustWrite(t, r, testID(1), shardDir(testID(1)), level) }
		if len(judged) > landFreely {
			late.Go(write)
		} else {
			write()
		}
		return nil
	}})
	late.Wait()
	if err != nil || len(judged) != landFreely+1 || u.Old != judged[landFreely] || levelOf(t, r, testID(0)) != 2 || levelOf(t, r, testID(1)) != level {
		t.Errorf("%+v %v, judged at %q", u, err, judged)
	}
	for _, hash := range []string{runGit(t, r.opt.Dir, "rev-parse", "main^{tree}"), git.ZeroHash} {
		if _, err := r.Land(t.Context(), Landing{Commit: hash, Judge: pass, Accept: pass}); err == nil {
			t.Errorf("%s has landed, and is no commit", hash)
		}
	}
	fsck(t, r)
}

func TestEveryLandingSucceedsOrConflictsWhileTheAPIWritesAllTheTime(t *testing.T) {
	testenv.Chaos(t, "git")
	t.Parallel()

	const people, landings = 4, 6
	r := openRepo(t, Options{Key: testKey, RepackAbove: 10})
	for n := range people + 3 {
		mustWrite(t, r, testID(n), shardDir(testID(n)), 1)
	}
	var clones []*committer
	for range people {
		clones = append(clones, commitTo(t, r.opt.Dir))
	}
	var stop atomic.Bool
	var writers, landers sync.WaitGroup
	var written atomic.Int64
	for n := range 2 { // one instance each, all the time
		writers.Go(func() {
			for level := 2; !stop.Load(); level++ {
				mustWrite(t, r, testID(people+n), shardDir(testID(people+n)), level)
				written.Add(1)
			}
		})
	}
	shared := people + 2
	var landed, refused atomic.Int64
	for n, p := range clones {
		landers.Go(func() {
			for i := range landings {
				p.replace(fileOf(n), fmt.Sprintf("vdu1_aspect: %d", i+1), fmt.Sprintf("vdu1_aspect: %d", i+2))
				commit := p.commit(fmt.Sprintf("Scale %d for the %d. time", n, i+1))
				if _, err := p.land(r, commit); err != nil {
					t.Errorf("person %d: %v", n, err)
					return
				}
				jibeSets(t, r, n, nil, desired.KeyValue{Path: []string{"package"}, Value: fmt.Sprintf("a%039d", i)}) // as Jibe does, of its own
			}
			// All of them at one file: the first one lands, the others are told.
			p.replace(fileOf(shared), "name: vnf", fmt.Sprintf("name: of-%d", n))
			if _, err := p.land(r, p.commit("Take it")); err == nil {
				landed.Add(1)
			} else if strings.Contains(err.Error(), "name: changed on main too, by A Person") {
				refused.Add(1)
			} else {
				t.Errorf("person %d: %v", n, err)
			}
		})
	}
	landers.Wait()
	stop.Store(true)
	writers.Wait()
	if landed.Load() != 1 || refused.Load() != people-1 || written.Load() == 0 {
		t.Errorf("%d landed and %d were refused of %d at one file, beside %d writes", landed.Load(), refused.Load(), people, written.Load())
	}
	for n := range people {
		if got := levelOf(t, r, testID(n)); got != landings+1 {
			t.Errorf("instance %d is at level %d", n, got)
		}
		if text := at(t, r, shardDir(testID(n))+"/vnf.yaml"); !strings.Contains(text, fmt.Sprintf("a%039d", landings-1)) {
			t.Errorf("the last pin is lost:\n%s", text)
		}
	}
	if got := strings.Count(runGit(t, r.opt.Dir, "log", "--no-merges", "--format=%s", "main"), ". time"); got != people*landings {
		t.Errorf("%d commits of %d are in the history", got, people*landings)
	}
	sameAsFresh(t, r)
	fsck(t, r)
}

func TestALandingsMergeIsSignedAndItsPusherIsKnown(t *testing.T) {
	t.Parallel()

	s := newSeal(t, "alice")
	r := openRepo(t, Options{Key: testKey, Verify: s.verification()})
	mustWrite(t, r, testID(0), shardDir(testID(0)), 1)
	mustWrite(t, r, testID(1), shardDir(testID(1)), 1)
	p := commitTo(t, r.opt.Dir)
	mustWrite(t, r, testID(1), shardDir(testID(1)), 2)
	p.replace(fileOf(0), "vdu1_aspect: 1", "vdu1_aspect: 2")
	commit, head := p.commit("Scale"), r.Head()
	p.moveBranch("refs/heads/mine", "", commit)
	u, err := r.Land(t.Context(), Landing{Commit: commit, Judge: func(context.Context, check.RefUpdate) error { return nil }, Accept: func(_ context.Context, u check.RefUpdate) error {
		return r.Pushing(read.Push{Pusher: "ann", From: "192.0.2.7", Old: u.Old, New: u.New})
	}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.check.Verify(t.Context(), r.opt.Verify, head, u.New); err != nil {
		t.Errorf("the merge isn't signed: %v", err)
	}
	noted(t, r, read.Push{Pusher: "ann", From: "192.0.2.7", Old: head, New: u.New})
	rev, _ := r.Lookup(testID(0))
	if who, err := r.read.Author(t.Context(), rev); err != nil || who != "ann" {
		t.Errorf("it is by %q %v", who, err)
	}
	for _, hash := range []string{commit, u.New} {
		if p, err := WhoMade(t.Context(), r.opt.Dir, "main", hash, testKey); err != nil || p.Push == nil || p.Push.Pusher != "ann" || p.Own != (hash == u.New) {
			t.Errorf("%s: %+v %v", hash, p, err)
		}
	}
}

func TestABranchFromBeforeAPinIsPreviewedAsItWouldLand(t *testing.T) {
	kit.Long(t)
	t.Parallel()

	r := openRepo(t, Options{Key: testKey})
	mustWrite(t, r, testID(0), shardDir(testID(0)), 1)
	p := commitTo(t, r.opt.Dir)
	p.replace(fileOf(0), "vdu1_aspect: 1\n", "vdu1_aspect: 1\nvim: kube-a\n") // where Jibe writes its pin too
	mine := p.commit("Say where")
	p.moveBranch("refs/heads/mine", "", mine)
	jibeSets(t, r, 0, nil, pin)
	dir := clone(t, r)
	if out, err := tryGit(dir, "merge-tree", "--write-tree", "origin/main", mine); err == nil {
		t.Fatalf("git merges it by itself: %s", out)
	}
	for name, draft := range map[string]func() (*Draft, error){
		"by the server":  func() (*Draft, error) { return r.DraftOf(t.Context(), mine) },
		"from the clone": func() (*Draft, error) { return NewDraft(t.Context(), dir, r.Head(), "", mine) },
	} {
		d, err := draft()
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		changes, _, err := d.Diff(t.Context(), d.Update.Old, d.Update.New)
		if err != nil || len(changes) != 1 || d.Update.Old != r.Head() {
			t.Fatalf("%s: %+v %v", name, changes, err)
		}
		if in, err := d.Read(t.Context(), changes[0].After); err != nil || in.VIM != "kube-a" || in.Package != pin.Value {
			t.Errorf("%s: %+v %v", name, in, err)
		}
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	}
	// A person's change of the same lines is a conflict in both.
	other := commitTo(t, r.opt.Dir)
	other.replace(fileOf(0), "name: vnf", "name: theirs")
	other.push("Rename it")
	if err := r.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	p.replace(fileOf(0), "name: vnf", "name: mine")
	mine = p.commit("Rename it too")
	if d, err := r.DraftOf(t.Context(), mine); !errors.Is(err, ErrConflict) || !strings.Contains(err.Error(), "changed on the branch") {
		t.Errorf("%+v %v", d, err)
	}
}
