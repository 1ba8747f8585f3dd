package ui

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/jibe-vnfm/jibe/auth"
	"github.com/jibe-vnfm/jibe/automation"
	"github.com/jibe-vnfm/jibe/automation/rollout"
	"github.com/jibe-vnfm/jibe/desired"
)

// oneRollout is a rollout in memory that can be paused. Its digest is the number of its commits.
type oneRollout struct {
	automation.RolloutStatus
	text    string
	commits int
}

func (o *oneRollout) List(context.Context) ([]automation.RolloutStatus, error) {
	return []automation.RolloutStatus{o.RolloutStatus}, nil
}

func (o *oneRollout) One(_ context.Context, name string) (automation.RolloutStatus, []byte, error) {
	if name != o.Name {
		return automation.RolloutStatus{}, nil, fmt.Errorf("%w: %s", automation.ErrNoRollout, name)
	}
	return o.RolloutStatus, []byte(o.text), nil
}

func (o *oneRollout) Draft(_ context.Context, a automation.RolloutAsk) (*automation.RolloutDraft, error) {
	if a.Action == automation.RolloutApprove && a.Gate != o.Gate {
		return nil, fmt.Errorf("%w: approve %s", automation.ErrRolloutState, o.Gate)
	}
	file := desired.RolloutFile(o.Name)
	return &automation.RolloutDraft{Subject: "Pause rollout " + o.Name, Author: a.Author, Digest: fmt.Sprint(o.commits), Trailers: []desired.Trailer{{Key: "Requested-By", Value: a.By}},
		Old: map[string][]byte{file: []byte(o.text)}, New: map[string][]byte{file: []byte(strings.Replace(o.text, "running", "paused", 1))}}, nil
}

func (o *oneRollout) Ask(ctx context.Context, a automation.RolloutAsk) (string, error) {
	d, err := o.Draft(ctx, a)
	if err != nil {
		return "", err
	}
	if a.Digest != d.Digest {
		return "", automation.ErrRolloutMoved
	}
	o.text, o.Phase = string(d.New[desired.RolloutFile(o.Name)]), rollout.Paused
	o.commits++
	return "c0ffee", nil
}

// followedMain is a history of which no more is known.
type followedMain struct{ History }

func (followedMain) Followed() string { return "main" }

// withRollout is a service with one rollout, and ask sends it a request of somebody who has a role.
func withRollout(t *testing.T) (o *oneRollout, ask func(h func(*Service) handler, role auth.Role, name string, form url.Values) *httptest.ResponseRecorder) {
	t.Helper()
	o = &oneRollout{text: "to: {vnfdId: amf-2, password: s3cr3t-value}\nstate: running\n"}
	o.RolloutStatus = automation.RolloutStatus{Name: "amf-1.5", Phase: rollout.Soaking, WaitsFor: "wave 2 to be watched until 12:30", VnfdID: "amf-2", Wave: 2, Waves: 3, Budget: 3, Spent: 1,
		SecondsLeft: 4800, Gate: "0011223344556677", Started: time.Now().Add(-time.Hour), Counts: rollout.Counts{Selected: 60, Completed: 20, Failed: 1, UnderWay: 3, Pending: 34, Passed: 2},
		PerWave: []automation.RolloutWave{{Of: "instances/lab", Counts: rollout.Counts{Selected: 1, Completed: 1}}, {Of: "40 %", Counts: rollout.Counts{Selected: 25, Completed: 19, Failed: 1, UnderWay: 3, Passed: 2}},
			{Of: "100 %", Counts: rollout.Counts{Selected: 34, Pending: 34}}},
		Failed: []automation.RolloutInstance{{Instance: "i-1", Dir: "instances/tokyo/<b>", Reason: "no pods"}}, Passed: []automation.RolloutInstance{{Instance: "i-2", Dir: "instances/osaka/a", Reason: "it is held"}}}
	s := drawn(t)
	s.Rollouts, s.History = o, followedMain{}
	return o, func(h func(*Service) handler, role auth.Role, name string, form url.Values) *httptest.ResponseRecorder {
		t.Helper()
		method := http.MethodGet
		if form != nil {
			method = http.MethodPost
		}
		r := httptest.NewRequestWithContext(t.Context(), method, "/ui/rollouts/"+name, nil)
		r.SetPathValue("name", name)
		r.PostForm = form
		r = r.WithContext(auth.With(r.Context(), auth.Identity{Name: "bob", Permissions: []auth.Permission{{Role: role}}}))
		w := httptest.NewRecorder()
		if err := h(s)(w, r); err != nil {
			s.fail(w, r, err)
		}
		return w
	}
}

func show(s *Service) handler    { return s.showRollout }
func list(s *Service) handler    { return s.showRollouts }
func propose(s *Service) handler { return s.proposeRollout }
func commit(s *Service) handler  { return s.commitRollout }

func TestARolloutIsShownWaveByWaveWithWhatItWaitsForAndWithoutSecrets(t *testing.T) {
	_, ask := withRollout(t)
	page := ask(show, auth.Operator, "amf-1.5", nil).Body.String()
	for _, want := range []string{"wave 2 to be watched until 12:30", "1h20m0s", "1 of the 3", "20</meter>", "no pods", "it is held", "instances/tokyo/&lt;b&gt;", `data-live="git operations"`,
		`<tr id="wave-2" aria-current="step"><td>2 <span class="badge k-busy">now</span></td><td>40 %</td><td>0</td><td>3</td><td>19</td><td>0</td><td>1</td><td>2</td>`} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q:\n%s", want, page)
		}
	}
	if strings.Contains(page, "s3cr3t") {
		t.Errorf("the page shows a secret:\n%s", page)
	}
	if all := ask(list, auth.Viewer, "", nil).Body.String(); !strings.Contains(all, `<a href="/ui/rollouts/amf-1.5">amf-1.5</a>`) || !strings.Contains(all, "2 of 3") || !strings.Contains(all, "about 1h20m0s") {
		t.Errorf("the list is:\n%s", all)
	}
	if w := ask(show, auth.Viewer, "other", nil); w.Code != http.StatusNotFound {
		t.Errorf("a rollout that isn't there is answered with %d", w.Code)
	}
}

func TestARolloutShowsThePullRequestThatItWaitsFor(t *testing.T) {
	o, ask := withRollout(t)
	o.Proposes, o.Phase, o.WaitsFor = true, rollout.Merging, "pull request 7 to be merged"
	o.Proposal = &automation.RolloutPull{Branch: "jibe/rollout/x/2-1", Number: 7, Link: "https://git.example/net/desired/pulls/7", At: time.Now().Add(-time.Hour), Instances: 4, Withdrawn: "the rollout is <paused>"}
	o.PerWave[1].Counts.Proposed = 4
	page := ask(show, auth.Viewer, "amf-1.5", nil).Body.String()
	for _, want := range []string{`k-warn" id="phase">waiting for merge`, `<a href="https://git.example/net/desired/pulls/7" rel="noopener noreferrer">pull request 7</a>`, "to be closed: the rollout is &lt;paused&gt;", `<td>40 %</td><td>0</td><td>4</td><td>3</td>`} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q:\n%s", want, page)
		}
	}
	o.Proposal.Number, o.Proposal.Link = 0, "javascript:alert(1)"
	if page := ask(show, auth.Viewer, "amf-1.5", nil).Body.String(); !strings.Contains(page, "branch <code>jibe/rollout/x/2-1</code>") || strings.Contains(page, "javascript:") {
		t.Errorf("before its number is known the page is:\n%s", page)
	}
}

func TestWhoMayOnlyLookAtARolloutIsOfferedNoButton(t *testing.T) {
	_, ask := withRollout(t)
	if page := ask(show, auth.Viewer, "amf-1.5", nil).Body.String(); strings.Contains(page, "<button") || !strings.Contains(page, "needs the role operator in all projects") {
		t.Errorf("a viewer sees:\n%s", page)
	}
}

func TestTheButtonsOfARolloutFollowItsPhase(t *testing.T) {
	failed := map[rollout.Phase]int{rollout.Halted: 1, rollout.Aborted: 1}
	for phase, can := range map[rollout.Phase]string{
		rollout.Running: "pause abort", rollout.Soaking: "pause abort", rollout.Approving: "pause approve abort", rollout.Paused: "resume abort",
		rollout.Halted: "pause resume retry abort", rollout.RollingBack: "pause resume abort", rollout.Aborting: "", rollout.Aborted: "",
	} {
		var offered []string
		for _, b := range rolloutButtons(automation.RolloutStatus{Phase: phase, Counts: rollout.Counts{Failed: failed[phase]}}) {
			if b.Why == "" {
				offered = append(offered, b.Action)
			}
		}
		if got := strings.Join(offered, " "); got != can {
			t.Errorf("%s: %q is offered, want %q", phase, got, can)
		}
	}
	for _, st := range []automation.RolloutStatus{{Phase: rollout.Done, Ended: time.Now()}, {Problem: "line 3"}} {
		for _, b := range rolloutButtons(st) {
			if b.Why == "" {
				t.Errorf("%+v: %s is offered", st, b.Action)
			}
		}
	}
}

func TestAButtonOfARolloutShowsItsCommitAndMakesThatAlone(t *testing.T) {
	o, ask := withRollout(t)
	pause := url.Values{"action": {"pause"}}
	w := ask(propose, auth.Operator, "amf-1.5", pause)
	page := w.Body.String()
	for _, want := range []string{"Pause rollout amf-1.5", "Requested-By: bob", "state: paused", `name="digest" value="0"`, `name="gate" value="0011223344556677"`} {
		if !strings.Contains(page, want) {
			t.Errorf("the preview lacks %q:\n%s", want, page)
		}
	}
	if w.Code != http.StatusOK || o.commits != 0 || strings.Contains(page, "s3cr3t") {
		t.Fatalf("the preview is answered with %d, %d commits were made:\n%s", w.Code, o.commits, page)
	}
	o.commits = 7 // somebody was faster
	pause.Set("digest", "0")
	if w := ask(commit, auth.Operator, "amf-1.5", pause); w.Code != http.StatusConflict || o.commits != 7 || !strings.Contains(w.Body.String(), "Nothing was committed") || !strings.Contains(w.Body.String(), `value="7"`) {
		t.Errorf("another commit than was shown is answered with %d, and %d were made:\n%s", w.Code, o.commits-7, w.Body)
	}
	pause.Set("digest", "7")
	if w := ask(commit, auth.Operator, "amf-1.5", pause); w.Code != http.StatusSeeOther || w.Header().Get("Location") != "/ui/rollouts/amf-1.5" || o.Phase != rollout.Paused || o.commits != 8 {
		t.Errorf("it is answered with %d to %s, and stands at %s", w.Code, w.Header().Get("Location"), o.Phase)
	}
	approve := url.Values{"action": {"approve"}, "digest": {"8"}, "gate": {"what was seen before"}}
	if w := ask(commit, auth.Operator, "amf-1.5", approve); w.Code != http.StatusConflict || o.commits != 8 {
		t.Errorf("an approval of what isn't so any more is answered with %d", w.Code)
	}
	for _, bad := range []url.Values{{"action": {"hurry"}}, {"action": {"pause"}}} {
		if w := ask(commit, auth.Operator, "amf-1.5", bad); w.Code != http.StatusBadRequest || o.commits != 8 {
			t.Errorf("%v is answered with %d", bad, w.Code)
		}
	}
}
