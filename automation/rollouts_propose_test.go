package automation

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jibe-vnfm/jibe/automation/rollout"
	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/desired/gitrepo"
	"github.com/jibe-vnfm/jibe/forge/proposal"
	"github.com/jibe-vnfm/jibe/internal/git"
	"github.com/jibe-vnfm/jibe/lcm"
	"github.com/jibe-vnfm/jibe/lcm/oplog"
	"github.com/jibe-vnfm/jibe/store"
	"github.com/jibe-vnfm/jibe/test/kit"
)

// proposing is a fleet whose rollout proposes: a real repository, a forge, and operations that end when the test
// says so. A process of it may be killed after anything that it does outside of itself, which is
// before the next as well.
type proposing struct {
	*testing.T
	repo  *gitrepo.Repo
	clone string
	now   time.Time
	// pulls are all that were ever opened, by branch; away is why the forge doesn't answer.
	pulls map[string]*proposal.State
	away  error
	ops   map[string][]*lcm.Operation
	known map[string]desired.Revision // what was operated on
	most  int                         // operations at once, ever
	// deeds counts what was done outside; the process dies after the deed kill.
	deeds, kill int
	process     *Rollouts
	meanwhile   func() // what happens, once, after the instances were looked at and before the forge answers
}

const proposingFile = `id: 5f0c1f8e-53e4-4f6e-9f0e-0d3f6a7b8c9d
select: {folders: [instances/**]}
to: {levels: {vdu1_aspect: 5}}
order: [{instances: [instances/s0]}, {percent: 100}]
atOnce: 2
write: pull-request
`

func newProposing(t *testing.T) *proposing {
	t.Helper()
	return newRolling(t, proposingFile)
}

// newRolling is a fleet whose rollout has the file.
func newRolling(t *testing.T, file string) *proposing {
	t.Helper()
	dir := t.TempDir()
	w := &proposing{T: t, now: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC), pulls: map[string]*proposal.State{}, ops: map[string][]*lcm.Operation{}, known: map[string]desired.Revision{}}
	var err error
	if w.repo, err = gitrepo.Open(t.Context(), gitrepo.Options{Dir: filepath.Join(dir, "desired.git"), Now: w.clock}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.repo.Close() })
	w.clone = filepath.Join(dir, "clone")
	w.git("", "clone", "-q", filepath.Join(dir, "desired.git"), w.clone)
	for n := range 4 {
		w.put(fmt.Sprintf("instances/s%d/vnf.yaml", n), fmt.Sprintf("id: 00000000-0000-4000-8000-%012d\nname: s\nvnfdId: x\nflavour: simple\nlevels: {vdu1_aspect: 1}\n", n))
	}
	w.push("Begin")
	for _, rev := range w.repo.List() {
		w.known[rev.Instance] = rev
	}
	w.put("rollouts/edge.yaml", file)
	w.push("Roll out")
	return w
}

func (w *proposing) clock() time.Time { return w.now }

func (w *proposing) git(dir string, args ...string) string {
	w.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir = dir
	cmd.Env = append(git.Runner{}.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null", "GIT_AUTHOR_NAME=A Person", "GIT_AUTHOR_EMAIL=person@example.com",
		"GIT_COMMITTER_NAME=A Person", "GIT_COMMITTER_EMAIL=person@example.com")
	out, err := cmd.CombinedOutput()
	if err != nil {
		w.Fatalf("git %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(string(out))
}

func (w *proposing) put(file, text string) {
	w.Helper()
	name := filepath.Join(w.clone, file)
	if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o755), os.WriteFile(name, []byte(text), 0o600)); err != nil {
		w.Fatal(err)
	}
}

// pull brings the clone to where the branch is.
func (w *proposing) pull() {
	w.Helper()
	w.git(w.clone, "fetch", "-q", "origin")
	w.git(w.clone, "checkout", "-q", "-B", "main", "origin/main")
}

// push pushes the clone's files.
func (w *proposing) push(message string) {
	w.Helper()
	w.git(w.clone, "add", "-A")
	w.git(w.clone, "commit", "-q", "-m", message)
	w.git(w.clone, "push", "-q", "origin", "HEAD:main")
	if err := w.repo.Refresh(w.Context()); err != nil {
		w.Fatal(err)
	}
}

// merge merges the pull request that is open as one commit, but for the directories that are left out.
func (w *proposing) merge(without ...string) {
	w.Helper()
	branch := w.open()
	w.pull()
	w.git(w.clone, "merge", "-q", "--squash", "origin/"+branch)
	for _, dir := range without {
		w.git(w.clone, "checkout", "-q", "HEAD", "--", dir)
	}
	w.push("Merge what was reviewed")
	w.pulls[branch].Open, w.pulls[branch].Merged = false, w.git(w.clone, "rev-parse", "HEAD")
}

// open is the branch of the only pull request that is open.
func (w *proposing) open() string {
	w.Helper()
	var open []string
	for branch, p := range w.pulls {
		if p.Open {
			open = append(open, branch)
		}
	}
	if len(open) != 1 {
		w.Fatalf("%d pull requests are open: %v", len(open), open)
	}
	return open[0]
}

var errKilled = errors.New("killed")

// deed does something outside of the process, unless it is killed.
func (w *proposing) deed(do func()) {
	w.deeds++
	do()
	if w.deeds == w.kill {
		panic(errKilled)
	}
}

// goOn has the process go on until nothing changes any more. One that is killed is started again.
func (w *proposing) goOn() {
	w.Helper()
	for n := 0; ; n++ {
		if n > 60 {
			w.Fatalf("it doesn't come to rest: %+v", w.status())
		}
		before := w.deeds
		if w.pass() && w.deeds == before {
			return
		}
	}
}

// pass is one pass; it says whether the process has outlived it.
func (w *proposing) pass() (alive bool) {
	w.Helper()
	w.now = w.now.Add(time.Second)
	if w.process == nil {
		w.process = w.newProcess()
	}
	defer func() {
		if p := recover(); p != nil {
			if err, ok := p.(error); !ok || !errors.Is(err, errKilled) {
				panic(p)
			}
			w.process = nil
		}
	}()
	if _, err := w.process.pass(w.Context()); err != nil {
		w.Fatal(err)
	}
	return true
}

func (w *proposing) newProcess() *Rollouts {
	return NewRollouts(RolloutConfig{
		Repo: killableRepo{w.repo, w}, Oplog: w, Pulls: w, Now: w.clock, Log: slog.New(slog.DiscardHandler),
		Prepare: func(context.Context, *desired.Instance, *desired.Instance) ([]desired.KeyValue, error) {
			return nil, nil
		},
		Refused: func(error) bool { return false },
	})
}

func (w *proposing) status() RolloutStatus {
	w.Helper()
	p := w.process
	if p == nil {
		p = w.newProcess()
	}
	list, err := p.List(w.Context())
	if err != nil || len(list) != 1 || list[0].Problem != "" {
		w.Fatalf("%+v, %v", list, err)
	}
	return list[0]
}

func (w *proposing) want(phase rollout.Phase, waits string) RolloutStatus {
	w.Helper()
	st := w.status()
	if st.Phase != phase || !strings.Contains(st.WaitsFor, waits) {
		w.Fatalf("it is %s and waits for %s; want %s, %s", st.Phase, st.WaitsFor, phase, waits)
	}
	return st
}

// begin begins the operations of what differs at head, and end ends them.
func (w *proposing) begin() {
	for _, rev := range w.repo.List() {
		if was := w.known[rev.Instance]; was.Tree != rev.Tree {
			w.ops[rev.Instance] = append(w.ops[rev.Instance], &lcm.Operation{ID: fmt.Sprint(rev.Instance, len(w.ops[rev.Instance])), Instance: rev.Instance, Before: was, After: rev, State: lcm.Processing, Started: w.now})
			w.known[rev.Instance] = rev
		}
	}
	n := 0
	for _, list := range w.ops {
		if list[len(list)-1].State == lcm.Processing {
			n++
		}
	}
	w.most = max(w.most, n)
}

func (w *proposing) end() {
	for _, list := range w.ops {
		if op := list[len(list)-1]; op.State == lcm.Processing {
			op.State, op.StateEntered = lcm.Completed, w.now
		}
	}
}

func (w *proposing) InstanceEntry(id string) (*oplog.InstanceEntry, bool) {
	e := &oplog.InstanceEntry{ID: id, Operated: w.known[id]}
	if list := w.ops[id]; len(list) > 0 && list[len(list)-1].State == lcm.Processing {
		e.Open = list[len(list)-1].ID
	} else {
		e.Settled = e.Operated
	}
	return e, true
}

func (w *proposing) Operation(_ context.Context, id string) (*lcm.Operation, error) {
	for _, list := range w.ops {
		if at := slices.IndexFunc(list, func(o *lcm.Operation) bool { return o.ID == id }); at >= 0 {
			return list[at], nil
		}
	}
	return nil, store.ErrNotFound
}

func (w *proposing) OperationEntries(q oplog.OperationQuery) iter.Seq[oplog.OperationEntry] {
	return records(w.ops[q.Instance]).OperationEntries(q)
}

// Keep and Withdraw do at once what is asked for.
func (w *proposing) Keep(x proposal.Wanted) proposal.State {
	if w.away != nil {
		return proposal.State{Number: x.Number, Err: w.away}
	}
	if w.pulls[x.Branch] == nil {
		w.deed(func() {
			w.git(w.clone, "fetch", "-q", "origin", x.Branch) // it was pushed
			w.pulls[x.Branch] = &proposal.State{Number: int64(len(w.pulls) + 1), Link: "https://forge/" + x.Branch, Open: true}
			w.open()
		})
	}
	if do := w.meanwhile; do != nil {
		w.meanwhile = nil
		do()
	}
	return *w.pulls[x.Branch]
}

func (w *proposing) Withdraw(branch, _ string, _ func()) (bool, error) {
	if w.away != nil {
		return false, w.away
	}
	if p := w.pulls[branch]; p.Open {
		w.deed(func() { p.Open = false })
	}
	return true, nil
}

func (w *proposing) Forget(string) {}

// killableRepo is the repository of a process that may be killed.
type killableRepo struct {
	*gitrepo.Repo
	w *proposing
}

func (r killableRepo) WriteMany(ctx context.Context, x desired.WriteMany) (out desired.Written, err error) {
	r.w.deed(func() { out, err = r.Repo.WriteMany(ctx, x) })
	return out, err
}

func (r killableRepo) ProposeMany(ctx context.Context, branch string, x desired.WriteMany) (out desired.Written, err error) {
	r.w.deed(func() { out, err = r.Repo.ProposeMany(ctx, branch, x) })
	return out, err
}

// ask asks for something as a person does.
func (w *proposing) ask(action string) {
	w.Helper()
	p := NewRollouts(RolloutConfig{Repo: w.repo, Oplog: w, Pulls: w, Now: w.clock, Log: slog.New(slog.DiscardHandler)})
	if _, err := p.Ask(w.Context(), RolloutAsk{Name: "edge", Action: action, By: "bob", Author: "Bob <bob@example.org>"}); err != nil {
		w.Fatal(err)
	}
}

// goThrough is what becomes of four sites: the first wave is merged as it is, the second is paused, closed, merged without one
// of its sites, and the last site is merged then.
func (w *proposing) goThrough() {
	w.goOn()
	w.want(rollout.Merging, "to be merged")
	w.merge()
	w.begin()
	w.goOn()
	w.want(rollout.Running, "the end of 1 operation")
	w.end()
	w.goOn()
	if st := w.want(rollout.Merging, "to be merged"); st.Counts.Completed != 1 || st.Counts.Proposed != 2 || st.Proposal == nil || st.Proposal.Link == "" {
		w.Fatalf("%+v", st)
	}

	w.ask(RolloutPause)
	w.goOn()
	w.want(rollout.Paused, "")
	w.ask(RolloutResume)
	w.goOn()
	w.pulls[w.open()].Open = false // a person closes it
	w.goOn()
	w.want(rollout.Halted, "was closed, and not merged")
	w.ask(RolloutResume)
	w.goOn()
	proposed := slices.Sorted(maps.Keys(w.ledger().Proposal.Instances))
	left, _ := w.repo.Lookup(proposed[0])
	w.merge(left.Dir)
	w.begin()
	w.goOn()
	if st := w.want(rollout.Running, "the end of 1 operation"); len(st.Passed) != 1 || st.Passed[0].Dir != left.Dir || !strings.Contains(st.Passed[0].Reason, "was merged without it") {
		w.Fatalf("%+v", st.Passed)
	}
	w.end()
	w.goOn()
	w.merge()
	w.begin()
	w.end()
	w.goOn()
	if st := w.want(rollout.Done, ""); st.Counts.Completed != 3 || st.Counts.Passed != 1 || st.Counts.Failed != 0 {
		w.Fatalf("%+v", st.Counts)
	}
}

// ledger is the rollout's as it stands.
func (w *proposing) ledger() *desired.Ledger {
	w.Helper()
	list, err := w.newProcess().load(w.Context())
	if err != nil || len(list) != 1 || list[0].l == nil {
		w.Fatal(err)
	}
	return list[0].l
}

func TestAKillAtAnyMomentOpensNoPullRequestTwiceAndStrandsNone(t *testing.T) {
	kit.Long(t)
	t.Parallel()

	w := newProposing(t)
	w.goThrough()
	each := 3 // takes some dozen processes
	if kit.Quick(t) {
		each = 7
	}
	for kill := range w.deeds {
		if kill%each != each/2 {
			continue
		}

		t.Run(fmt.Sprintf("after %d", kill+1), func(t *testing.T) {
			t.Parallel()
			w := newProposing(t)
			w.kill = kill + 1
			w.goThrough()
			for branch, p := range w.pulls {
				if p.Open {
					t.Errorf("%s is open at the end", branch)
				}
			}
			if n := len(w.pulls); n != 5 {
				t.Errorf("%d pull requests were opened: %v", n, slices.Sorted(maps.Keys(w.pulls)))
			}
			for id, list := range w.ops {
				if len(list) != 1 {
					t.Errorf("instance %s had %d operations", id, len(list))
				}
			}
			if w.most > 2 {
				t.Errorf("%d operations were under way, and atOnce is 2", w.most)
			}
		})
	}
}

func TestWhileTheForgeIsAwayARolloutWaitsAndSaysSo(t *testing.T) {
	t.Parallel()

	w := newProposing(t)
	w.away = errors.New("connection refused")
	w.goOn()
	w.want(rollout.Merging, "the forge, for the pull request of branch jibe/rollout/")
	w.away = nil
	w.goOn()
	w.want(rollout.Merging, "to be merged")
	w.away = errors.New("connection refused")
	w.ask(RolloutAbort)
	w.goOn()
	w.want(rollout.Aborting, "connection refused")
	w.away = nil
	w.goOn()
	w.want(rollout.Aborted, "")
	if len(w.pulls) != 1 || w.pulls[slices.Collect(maps.Keys(w.pulls))[0]].Open {
		t.Errorf("%+v", w.pulls)
	}
}

func TestAProposalOfWhichTheBranchHasChangedAFileIsMadeAnew(t *testing.T) {
	kit.Long(t)
	t.Parallel()
	w := newProposing(t)
	w.goOn()
	first := w.open()
	w.pull()
	w.put("README.md", "beside it\n")
	w.push("Change something else")
	w.goOn()
	if w.open() != first {
		t.Fatal("it was made anew for a file that it doesn't change")
	}
	w.pull()
	w.put("instances/s0/vnf.yaml", "id: 00000000-0000-4000-8000-000000000000\nname: s\nvnfdId: x\nflavour: simple\nlevels: {vdu1_aspect: 2}\n")
	w.push("Scale it")
	w.goOn()
	if len(w.pulls) != 1 || w.pulls[first].Open {
		t.Fatalf("%+v", w.pulls)
	}
	w.begin()
	w.end()
	w.goOn()
	if second := w.open(); second == first || len(w.pulls) != 2 {
		t.Fatalf("%+v", w.pulls)
	}
	w.merge()
	w.begin()
	w.end()
	w.goOn()
	if st := w.status(); st.Counts.Completed != 1 || st.Wave != 2 {
		t.Errorf("%+v", st)
	}
}

func TestARolloutThatProposesIsRefusedWithoutAForge(t *testing.T) {
	t.Parallel()

	w := newProposing(t)
	r := w.newProcess()
	r.Pulls = nil
	list, err := r.List(t.Context())
	if err != nil || len(list) != 1 || !strings.Contains(list[0].Problem, "write: pull-request needs a forge") {
		t.Errorf("%+v, %v", list, err)
	}
}
