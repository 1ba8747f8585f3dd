package forgesync

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/jibe-vnfm/jibe/automation"
	"github.com/jibe-vnfm/jibe/automation/rollout"
	"github.com/jibe-vnfm/jibe/forge"
	"github.com/jibe-vnfm/jibe/report"
)

func TestWhereAForgeIsIsToldByTheRemote(t *testing.T) {
	t.Parallel()

	for _, test := range []struct {
		remote   string
		options  Options
		at, repo string
	}{
		{"https://git.example.org/noc/vnfs.git", Options{}, "https://git.example.org", "noc/vnfs"},
		{"http://127.0.0.1:3000/noc/vnfs.git", Options{}, "http://127.0.0.1:3000", "noc/vnfs"},
		{"https://noc@git.example.org:8443/a/b/c/vnfs", Options{}, "https://git.example.org:8443", "a/b/c/vnfs"},
		{"ssh://git@git.example.org:2222/noc/vnfs.git", Options{}, "https://git.example.org", "noc/vnfs"},
		{"git@git.example.org:noc/vnfs.git", Options{}, "https://git.example.org", "noc/vnfs"},
		{"https://example.org/gitea/noc/vnfs.git", Options{URL: "https://example.org/gitea/"}, "https://example.org/gitea", "noc/vnfs"},
		{"git@ssh.example.org:noc/vnfs.git", Options{URL: "https://git.example.org"}, "https://git.example.org", "noc/vnfs"},
		{"file:///srv/vnfs.git", Options{URL: "https://git.example.org", Repository: "noc/vnfs"}, "https://git.example.org", "noc/vnfs"},
	} {
		at, repo, err := onForge(test.remote, test.options)
		if err != nil || at != test.at || repo != test.repo {
			t.Errorf("%s with %+v: %q, %q, %v; want %q, %q", test.remote, test.options, at, repo, err, test.at, test.repo)
		}
	}
	for remote, o := range map[string]Options{
		"file:///srv/vnfs.git": {}, "/srv/vnfs.git": {}, "https://git.example.org/vnfs.git": {},
	} {
		if at, repo, err := onForge(remote, o); err == nil {
			t.Errorf("%s: %q, %q", remote, at, repo)
		}
	}
}

func TestWhatTheForgeIsToldOfARolloutIsWhereItStandsAndNotWhatAVIMHasSaid(t *testing.T) {
	t.Parallel()

	failed := []automation.RolloutInstance{{Dir: "instances/a", Reason: "hunter2"}}
	counts := rollout.Counts{Selected: 9, Completed: 4, Already: 1, Failed: 1}
	for _, c := range []struct {
		st    automation.RolloutStatus
		state forge.State
		ended bool
		phase string
	}{
		{automation.RolloutStatus{Phase: rollout.Running}, forge.Pending, false, "not begun yet"},
		{automation.RolloutStatus{Phase: rollout.Running, Wave: 1}, forge.Pending, false, "running"},
		{automation.RolloutStatus{Phase: rollout.Approving, Wave: 1}, forge.Pending, false, "waiting for approval"},
		{automation.RolloutStatus{Phase: rollout.Merging, Wave: 1}, forge.Pending, false, "waiting for merge"},
		{automation.RolloutStatus{Phase: rollout.Paused, Wave: 1}, forge.Pending, false, "paused"},
		{automation.RolloutStatus{Phase: rollout.Halted, Wave: 1}, forge.Failure, false, "halted"},
		{automation.RolloutStatus{Phase: rollout.RollingBack, Wave: 1}, forge.Failure, false, "rolling back"},
		{automation.RolloutStatus{Phase: rollout.RolledBack, Wave: 1}, forge.Failure, true, "rolled back"},
		{automation.RolloutStatus{Phase: rollout.Aborted, Wave: 1}, forge.Failure, true, "aborted"},
		{automation.RolloutStatus{Phase: rollout.Done, Wave: 1}, forge.Success, true, "completed"},
	} {
		c.st.Failed, c.st.Counts, c.st.Waves = failed, counts, 2
		want := report.Rollout{Phase: c.phase, State: c.state, Ended: c.ended, Wave: c.st.Wave, Waves: 2, Selected: 9, Done: 5, Failures: 1, Failed: []string{"instances/a"}}
		if got := reportedRollout(c.st); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v, want %+v", c.st.Phase, got, want)
		}
	}
	if got := reportedRollout(automation.RolloutStatus{Problem: "hunter2"}); !got.NotObeyed || strings.Contains(fmt.Sprintf("%+v", got), "hunter2") {
		t.Errorf("one whose file isn't obeyed is %+v", got)
	}
}
