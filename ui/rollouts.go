package ui

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/jibe-vnfm/jibe/auth"
	"github.com/jibe-vnfm/jibe/automation"
	"github.com/jibe-vnfm/jibe/automation/rollout"
	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/desired/gitrepo/read"
	"github.com/jibe-vnfm/jibe/sol"
)

// Rollouts shows where rollouts stand, and does with them what people ask for, as the API does. Its
// errors are those of package automation.
type Rollouts interface {
	List(ctx context.Context) ([]automation.RolloutStatus, error)
	// One is where the rollout stands, and the text of its file.
	One(ctx context.Context, name string) (automation.RolloutStatus, []byte, error)
	// Draft is the commit that Ask would make. Nothing changes.
	Draft(ctx context.Context, a automation.RolloutAsk) (*automation.RolloutDraft, error)
	// Ask makes that commit, and refuses with [automation.ErrRolloutMoved] if it isn't the one whose
	// digest is given. commit is "" where nothing had to be changed.
	Ask(ctx context.Context, a automation.RolloutAsk) (commit string, err error)
}

// rolloutTime bounds how long a page of rollouts may take.
const rolloutTime = 25 * time.Second

// rolloutRow is a rollout as pages show it.
type rolloutRow struct {
	automation.RolloutStatus
	// Kind is that of the phase's badge.
	Kind string
}

// Done is how many instances are at the target.
func (r rolloutRow) Done() int { return r.Counts.Completed + r.Counts.Already }

// Left is how long it will take at the present pace, "" where nobody knows.
func (r rolloutRow) Left() string {
	if r.SecondsLeft <= 0 {
		return ""
	}
	return (time.Duration(r.SecondsLeft) * time.Second).String()
}

// Title is the phase as the badge says it.
func (r rolloutRow) Title() string {
	if r.Problem != "" {
		return "not obeyed"
	}
	return string(r.Phase)
}

func rowOf(st automation.RolloutStatus) rolloutRow {
	row := rolloutRow{RolloutStatus: st, Kind: "busy"}
	switch {
	case st.Problem != "" || st.Phase == rollout.Halted:
		row.Kind = "bad"
	case st.Phase == rollout.Merging || st.Phase == rollout.Checking || st.Phase == rollout.Approving || st.Phase == rollout.Paused || st.Phase == rollout.Aborting:
		row.Kind = "warn"
	case st.Phase == rollout.RollingBack:
		row.Kind = "bad"
	case st.Phase == rollout.Aborted || st.Phase == rollout.RolledBack:
		row.Kind = "plain"
	case st.Phase == rollout.Done:
		row.Kind = "good"
	}
	return row
}

// rolloutsPage is the list: those that haven't ended first.
type rolloutsPage struct{ Open, Ended []rolloutRow }

// showRollouts is GET /ui/rollouts.
func (s *Service) showRollouts(w http.ResponseWriter, r *http.Request) error {
	ctx, cancel := context.WithTimeout(r.Context(), rolloutTime)
	defer cancel()
	list, err := s.Rollouts.List(ctx)
	if err != nil {
		return slow(ctx, err)
	}
	p := &rolloutsPage{}
	for _, st := range list {
		if row := rowOf(st); st.Ended.IsZero() {
			p.Open = append(p.Open, row)
		} else {
			p.Ended = append(p.Ended, row)
		}
	}
	return s.render(w, r, "rollouts", p)
}

// rolloutPage is one rollout.
type rolloutPage struct {
	rolloutRow
	// File is the rollout's file as git has it, without secrets.
	File []string
	// MayNot is why the caller may only look.
	MayNot  string
	Buttons []button
}

// showRollout is GET /ui/rollouts/{name}.
func (s *Service) showRollout(w http.ResponseWriter, r *http.Request) error {
	ctx, cancel := context.WithTimeout(r.Context(), rolloutTime)
	defer cancel()
	name := r.PathValue("name")
	st, text, err := s.Rollouts.One(ctx, name)
	if err != nil {
		return slow(ctx, rolloutFailure(err, name))
	}
	p := &rolloutPage{rolloutRow: rowOf(st), Buttons: rolloutButtons(st)}
	var lines []read.DiffLine
	for _, line := range linesOf(text) {
		lines = append(lines, read.DiffLine{Op: ' ', Text: line})
	}
	Hide(desired.SecretNames{})(lines)
	for _, line := range lines {
		p.File = append(p.File, line.Text)
	}
	if who := auth.From(ctx); !who.May(auth.Operator, "") {
		p.MayNot = fmt.Sprintf("%s may do: %s; this needs the role %s in all projects", who, who.Describe(), auth.Operator)
	}
	return s.render(w, r, "rollout", p)
}

// rolloutButtons are what can be asked of a rollout, and why not as it stands.
func rolloutButtons(st automation.RolloutStatus) []button {
	why := map[string]string{}
	no := func(reason string, actions ...string) {
		for _, a := range actions {
			if why[a] == "" {
				why[a] = reason
			}
		}
	}
	switch {
	case st.Problem != "":
		no("its file isn't obeyed", automation.RolloutActions()...)
	case !st.Ended.IsZero():
		no("it has ended", automation.RolloutActions()...)
	case st.Phase == rollout.Aborting || st.Phase == rollout.Aborted:
		no("it was aborted", automation.RolloutActions()...)
	case st.Phase == rollout.Paused:
		no("it is paused", automation.RolloutPause)
	case st.Phase != rollout.Halted && st.Phase != rollout.RollingBack:
		no("it goes on", automation.RolloutResume)
	}
	if st.Phase != rollout.Approving {
		no("it waits for no approval", automation.RolloutApprove)
	}
	if st.Counts.Failed+st.Counts.Back == 0 {
		no("nothing has failed", automation.RolloutRetry)
	}
	var list []button
	for _, action := range automation.RolloutActions() {
		list = append(list, button{Action: action, Text: rolloutVerb(action), Why: why[action]})
	}
	return list
}

func rolloutVerb(action string) string {
	return map[string]string{automation.RolloutPause: "Pause", automation.RolloutResume: "Resume", automation.RolloutApprove: "Approve the next wave",
		automation.RolloutRetry: "Retry what has failed", automation.RolloutAbort: "Abort"}[action]
}

// rolloutAskPage shows the commit that a button of a rollout is about to make.
type rolloutAskPage struct {
	Name, Action, Words string
	// Gate and Digest fix what was shown.
	Gate, Digest string
	Status       rolloutRow
	Author       string
	Message      []string
	Diffs        []read.FileDiff
	Followed     string
	// Refusal is why nothing can be committed, Moved that what is shown isn't what was shown before.
	Refusal *Failure
	Moved   bool
	// NoCommit is why there is nothing to commit.
	NoCommit string
	// Effect says what comes of it.
	Effect string
}

// rolloutAskOf reads a form.
func rolloutAskOf(r *http.Request) (automation.RolloutAsk, error) {
	who := auth.From(r.Context())
	a := automation.RolloutAsk{Name: r.PathValue("name"), Action: r.PostForm.Get("action"), Gate: r.PostForm.Get("gate"), By: who.String(), Author: sol.Author(who)}
	if !slices.Contains(automation.RolloutActions(), a.Action) {
		return a, badField("action", a.Action)
	}
	return a, nil
}

// proposeRollout is POST /ui/rollouts/{name}/propose: it changes nothing.
func (s *Service) proposeRollout(w http.ResponseWriter, r *http.Request) error {
	a, err := rolloutAskOf(r)
	if err != nil {
		return err
	}
	return s.previewRollout(w, r, a, http.StatusOK, false)
}

// previewRollout answers with the commit that would be made now. moved says that another one was agreed to.
func (s *Service) previewRollout(w http.ResponseWriter, r *http.Request, a automation.RolloutAsk, status int, moved bool) error {
	ctx, cancel := context.WithTimeout(r.Context(), proposeTime)
	defer cancel()
	st, _, err := s.Rollouts.One(ctx, a.Name)
	if err != nil {
		return slow(ctx, rolloutFailure(err, a.Name))
	}
	a.Gate = st.Gate // it is shown, and what is approved is what was seen here
	p := &rolloutAskPage{Name: a.Name, Action: a.Action, Words: rolloutVerb(a.Action), Gate: a.Gate, Status: rowOf(st), Followed: s.History.Followed(), Moved: moved,
		Effect: map[string]string{
			automation.RolloutPause:   "Nothing more is begun until it is resumed. What is under way goes on to its end.",
			automation.RolloutResume:  "It goes on. Failures so far count no more against the budget.",
			automation.RolloutApprove: "The next wave begins. Should an outcome change before that, the approval counts no more.",
			automation.RolloutRetry:   "What has failed is begun with once more, but for what still waits in FAILED_TEMP: retry that operation.",
			automation.RolloutAbort:   "Nothing more is begun. What is under way goes on to its end, and what was done stays. It can't be resumed.",
		}[a.Action]}
	d, err := s.Rollouts.Draft(ctx, a)
	if err != nil {
		if p.Refusal = failureOf(rolloutFailure(err, a.Name)); p.Refusal == nil {
			return err
		}
		refuse(r, p.Refusal.Error())
		return s.renderStatus(w, r, p.Refusal.Status, "rollout-ask", p)
	}
	p.Digest, p.Author, p.Message = d.Digest, d.Author, []string{d.Subject, ""}
	for _, t := range d.Trailers {
		p.Message = append(p.Message, t.Key+": "+t.Value)
	}
	if !d.Changes() {
		p.NoCommit = "nothing would change"
	}
	p.Diffs = diffFiles("", filesOf(d.Old), filesOf(d.New), Hide(desired.SecretNames{}))
	return s.renderStatus(w, r, status, "rollout-ask", p)
}

func filesOf(m map[string][]byte) desired.Files { return maps.Clone(m) }

// commitRollout is POST /ui/rollouts/{name}/commit: what a client of the API would ask for.
func (s *Service) commitRollout(w http.ResponseWriter, r *http.Request) error {
	a, err := rolloutAskOf(r)
	if err != nil {
		return err
	}
	if a.Digest = r.PostForm.Get("digest"); a.Digest == "" {
		return badField("digest", "")
	}
	_, err = s.Rollouts.Ask(r.Context(), a)
	if errors.Is(err, automation.ErrRolloutMoved) || errors.Is(err, automation.ErrRolloutState) {
		refuse(r, err.Error())
		return s.previewRollout(w, r, a, http.StatusConflict, true)
	}
	if err != nil {
		return rolloutFailure(err, a.Name)
	}
	http.Redirect(w, r, Root+"/rollouts/"+url.PathEscape(a.Name), http.StatusSeeOther)
	return nil
}

// rolloutFailure is an error of [Rollouts] as a person reads it.
func rolloutFailure(err error, name string) error {
	switch {
	case errors.Is(err, automation.ErrNoRollout):
		return &Failure{Status: http.StatusNotFound, Title: "No such rollout", Detail: "No file rollouts/" + clipped(name) + ".yaml stands in the desired repository.", Remedy: "Look for it among the rollouts."}
	case errors.Is(err, automation.ErrRolloutState):
		return &Failure{Status: http.StatusConflict, Title: "Not now", Detail: err.Error(), Remedy: "Look at the rollout: it may have gone on, or ended, since."}
	}
	return err
}
