package process_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"code.gitea.io/sdk/gitea"

	"github.com/jibe-vnfm/jibe/doctor"
	"github.com/jibe-vnfm/jibe/test/kit"
	"github.com/jibe-vnfm/jibe/test/process"
	"github.com/jibe-vnfm/jibe/test/testenv"
)

// told is a repository on a real Gitea, and a process that tells it what becomes of commits.
type told struct {
	*giteaRepo
	*process.Server
	flags []string
}

func newTold(t *testing.T, flags ...string) *told {
	t.Helper()
	g := newGiteaRepo(t)
	w := &told{giteaRepo: g, flags: append([]string{
		"--poll", "24h", "--webhook-secret", "file:" + g.keep("webhook-secret", hookSecret),
		"--forge", "gitea", "--forge-token", "file:" + g.keep("token", g.forge.Token+"\n"), "--forge-rate", "100",
	}, flags...)}
	w.Server = g.start(w.flags...)
	g.hook(w.Server, hookSecret, "push", "pull_request", "pull_request_sync")
	w.PushPackages(t, []string{webapp}, process.Root()+"/examples/packages/webapp")
	return w
}

// restart kills the process as kill -9 does, and starts it again at another address.
func (w *told) restart() {
	w.Helper()
	w.KillGroup()
	w.Server = w.start(w.flags...)
	w.hook(w.Server, hookSecret, "push", "pull_request", "pull_request_sync")
}

// until waits for the newest status of a commit, and returns it.
func (w *told) until(commit string, state gitea.StatusState, words string) *gitea.Status {
	w.Helper()
	var newest *gitea.Status
	kit.Eventually(w.T, func() error {
		var states []string
		if states, newest = w.statuses(commit); newest == nil || newest.State != state || !strings.Contains(newest.Description, words) {
			return fmt.Errorf("commit %s has the statuses %v, the newest %+v, want %s: %s", commit, states, newest, state, words)
		}
		return nil
	})
	return newest
}

// comment waits until the only comment on a pull request has these words.
func (w *told) comment(number int64, words ...string) *gitea.Comment {
	w.Helper()
	var only *gitea.Comment
	kit.Eventually(w.T, func() error {
		all, _, err := w.admin.ListIssueComments(w.owner, w.name, number, gitea.ListIssueCommentOptions{})
		if err != nil {
			return err
		}
		if len(all) > 1 {
			return kit.Final(fmt.Errorf("%d comments: %q, %q", len(all), all[0].Body, all[1].Body))
		}
		if len(all) == 0 {
			return fmt.Errorf("no comment")
		}
		only = all[0]
		for _, want := range words {
			if !strings.Contains(only.Body, want) {
				return fmt.Errorf("the comment lacks %q: %s", want, only.Body)
			}
		}
		return nil
	})
	return only
}

const reportID = "11111111-1111-4111-8111-111111111111"

// vnf is the file of an instance, with more lines.
func vnf(more string) string {
	return "id: " + reportID + "\nname: web\nvnfdId: " + webapp + "\nflavour: simple\n" + more
}

func TestARealGiteaShowsOnEachCommitWhatBecomesOfItsOperations(t *testing.T) {
	testenv.Chaos(t, "a Gitea")
	t.Parallel()
	w := newTold(t, "--start-timeout", "2s")
	waits := w.write("main", "instances/a/vnf.yaml", vnf("suspend: true\n"))
	w.until(waits, gitea.StatusPending, "1 operation waits or runs")
	goes := w.write("main", "instances/a/vnf.yaml", vnf(""))
	s := w.until(goes, gitea.StatusSuccess, "1 operation completed")
	if !strings.HasPrefix(s.TargetURL, w.URL+"/ui/operations/") {
		t.Errorf("the status leads to %q", s.TargetURL)
	}
	w.until(waits, gitea.StatusSuccess, "1 operation completed") // the same operation brought it about
	if states, _ := w.statuses(waits); !slices.Equal(states, []string{"pending", "success"}) {
		t.Errorf("the commit that waited had the statuses %v", states)
	}

	// Its VIM is a cluster that nobody reaches.
	w.write("main", "vims/away.yaml", "type: kubernetes\nendpoint: https://127.0.0.1:1\ncredentials: {token: \"env:JIBE_SECRET_AWAY\"}\n")
	fails := w.write("main", "instances/b/vnf.yaml", strings.NewReplacer(reportID, "22222222-2222-4222-8222-222222222222", "name: web", "name: other").Replace(vnf("vim: away\n")))
	w.until(fails, gitea.StatusFailure, "")

	answer, err := w.Do(t.Context(), http.MethodGet, "/metrics", nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{`jibe_forge_reports_total{kind="status",outcome="sent"}`, "jibe_forge_reports_outstanding"} {
		if !strings.Contains(string(answer.Body), line) {
			t.Errorf("no metric %s", line)
		}
	}
	var found []doctor.Result
	w.Want(t, http.StatusOK, http.MethodGet, "/jibe/v1/doctor", nil, &found)
	if i := slices.IndexFunc(found, func(r doctor.Result) bool { return r.Name == "forge token" }); i < 0 || found[i].State != doctor.OK {
		t.Errorf("the doctor says %+v", found)
	}
	if strings.Contains(w.Log(), w.forge.Token) {
		t.Error("the token is in the log")
	}
}

func TestARealGiteaHasOneCommentOnAPullRequestWhateverHappensToJibe(t *testing.T) {
	kit.Long(t)
	t.Parallel()
	w := newTold(t)
	w.until(w.write("main", "instances/a/vnf.yaml", vnf("")), gitea.StatusSuccess, "completed")
	one := w.write("scale", "instances/a/vnf.yaml", vnf("levels: {vdu1_aspect: 1}\n"))
	made, _, err := w.admin.CreatePullRequest(w.owner, w.name, gitea.CreatePullRequestOption{Head: "scale", Base: "main", Title: "Scale"})
	if err != nil {
		t.Fatal(err)
	}
	first := w.comment(made.Index, "1 instance would change", "SCALE", one[:12])
	two := w.write("scale", "instances/a/vnf.yaml", vnf("levels: {vdu1_aspect: 2}\n"))
	w.comment(made.Index, "1 instance would change", two[:12])
	w.restart()
	three := w.write("scale", "instances/a/vnf.yaml", vnf("levels: {vdu1_aspect: 1}\n"))
	w.comment(made.Index, three[:12])
	kit.Eventually(t, func() error { // Gitea finds out by itself whether it can be merged
		ok, _, err := w.admin.MergePullRequest(w.owner, w.name, made.Index, gitea.MergePullRequestOption{Style: gitea.MergeStyleSquash, Title: "Scale, as one commit"})
		if err == nil && !ok {
			err = fmt.Errorf("not merged")
		}
		return err
	})
	w.KillGroup() // maybe before it knows
	w.restart()
	last := w.comment(made.Index, "merged, 1 operation completed", "COMPLETED", "/ui/operations/")
	if last.ID != first.ID {
		t.Errorf("the comment was %d, and is %d", first.ID, last.ID)
	}
	p, _, err := w.admin.GetPullRequest(w.owner, w.name, made.Index)
	if err != nil {
		t.Fatal(err)
	}
	w.until(*p.MergedCommitID, gitea.StatusSuccess, "completed")
}

// TestABranchThatNamesWhatItWouldHaveCalledIsNotPlannedByItself has branches that nobody has reviewed send
// the credentials of a VIM to a server of their own.
func TestABranchThatNamesWhatItWouldHaveCalledIsNotPlannedByItself(t *testing.T) {
	kit.Long(t)
	t.Parallel()
	w := newTold(t)
	var called atomic.Int64
	thief := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { called.Add(1) }))
	defer thief.Close()
	for branch, files := range map[string][2]string{
		"a VIM":       {"vims/theirs.yaml", "type: kubernetes\nendpoint: " + thief.URL + "\ncredentials: {token: \"env:JIBE_SECRET_AWAY\"}\n"},
		"an instance": {"instances/a/vnf.yaml", vnf("vimConnectionInfo: {own: {vimType: kubernetes, interfaceInfo: {endpoint: \"" + thief.URL + "\"}, accessInfo: {bearer_token: \"env:JIBE_SECRET_AWAY\"}}}\n")},
	} {
		name := strings.ReplaceAll(branch, " ", "-")
		w.write(name, files[0], files[1])
		made, _, err := w.admin.CreatePullRequest(w.owner, w.name, gitea.CreatePullRequestOption{Head: name, Base: "main", Title: branch})
		if err != nil {
			t.Fatal(err)
		}
		w.comment(made.Index, "this isn't planned by itself")
	}
	if n := called.Load(); n > 0 {
		t.Errorf("the server that branches name was called %d times", n)
	}
}

func TestAForgeThatCanNotBeToldIsRefusedAtTheStart(t *testing.T) {
	kit.Long(t)
	t.Parallel()
	dir := t.TempDir()
	for name, test := range map[string]struct {
		want string
		args []string
	}{
		"no remote":       {"--remote", []string{"--forge-token", "env:HOME"}},
		"no token":        {"--forge-token", []string{"--forge", "gitea", "--remote", "https://git.example.org/noc/vnfs.git"}},
		"an unknown host": {"--forge: ", []string{"--forge-token", "env:HOME", "--remote", "https://git.example.org/noc/vnfs.git"}},
		"another forge":   {"bitbucket", []string{"--forge", "bitbucket", "--forge-token", "env:HOME", "--remote", "https://git.example.org/noc/vnfs.git"}},
		"no place":        {"--forge-url", []string{"--forge", "gitea", "--forge-token", "env:HOME", "--remote", "file://" + dir}},
		"no reference":    {"file:PATH or env:NAME", []string{"--forge", "gitea", "--forge-token", "hunter2", "--remote", "https://git.example.org/noc/vnfs.git"}},
		"too slow":        {"--forge-rate", []string{"--forge", "gitea", "--forge-token", "env:HOME", "--forge-rate", "0.001", "--remote", "https://git.example.org/noc/vnfs.git"}},
	} {
		if out := refusedStart(t, t.TempDir(), test.args...); !strings.Contains(out, test.want) || strings.Contains(out, "hunter2") {
			t.Errorf("%s: %s", name, out)
		}
	}
}
