package ui

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jibe-vnfm/jibe/audit"
	"github.com/jibe-vnfm/jibe/auth"
	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/desired/gitrepo"
	"github.com/jibe-vnfm/jibe/lcm"
	"github.com/jibe-vnfm/jibe/sol"
	"github.com/jibe-vnfm/jibe/sol/access"
)

// proposeTime bounds how long a preview may take.
const proposeTime = 30 * time.Second

// asked is what a button or form asks for.
type asked struct {
	Action string
	// Task is the request of the API, nil for an edit.
	Task *sol.Task
	Edit *Edit
	// OfOperation says that the task is one of an operation, and not of an instance.
	OfOperation bool
	// Fields are those of the form that say what is asked, to be sent once more.
	Fields map[string][]string
	// Words say it for people.
	Words string
}

// proposePage shows the commit that a button is about to make.
type proposePage struct {
	Asked *asked
	// Instance is the one that it concerns, Operation the operation whose task it is.
	Instance, Name, Dir string
	Operation           *lcm.Operation
	Draft               *sol.Draft
	Message             []string
	Author              string
	Diffs               []gitrepo.FileDiff
	Verdict             *Verdict
	// Digest and Head fix what was shown; ETag fixes an operation.
	Digest, Head, ETag string
	// Refusal is why nothing can be committed.
	Refusal *Failure
	// Moved says that what is shown isn't what was shown before.
	Moved bool
	// NoCommit and NoBranch are why the caller may not, "" where they may.
	NoCommit, NoBranch string
	// MayNot is why the caller may never commit it; then no button for that is shown.
	MayNot   string
	Followed string
	// Effect says what happens where no commit is made at once.
	Effect string
}

// askedOf reads a form.
func askedOf(form url.Values, who auth.Identity) (*asked, error) {
	get := func(key string) string { return strings.TrimSpace(form.Get(key)) }
	a := &asked{Action: get("action"), Fields: map[string][]string{}}
	keep := func(keys ...string) {
		for _, key := range append(keys, "action", "instance", "operation") {
			if v := form[key]; slices.ContainsFunc(v, func(text string) bool { return text != "" }) {
				a.Fields[key] = v
			}
		}
	}
	task := func(name string, body any) {
		a.Task = &sol.Task{Caller: who, Name: name, ID: get("instance"), Body: body}
	}
	edit := func(subject string, key string, value any) {
		a.Edit = &Edit{Subject: subject, Changes: []desired.KeyValue{{Path: []string{key}, Value: value}}}
	}
	body := map[string]any{}
	switch a.Action {
	case "scale":
		keep("aspect", "type", "steps")
		steps, err := strconv.Atoi(firstOf(get("steps"), "1"))
		if err != nil {
			return nil, badField("steps", get("steps"))
		}
		body["type"], body["aspectId"], body["numberOfSteps"] = get("type"), get("aspect"), steps
		task("scale", body)
		a.Words = "Scale aspect " + get("aspect") + map[string]string{lcm.ScaleOut: " out", lcm.ScaleIn: " in"}[get("type")] + " by " + count(steps, "step")
	case "scale_to_level":
		keep("level", "aspect", "to")
		var err error
		if body, a.Words, err = toLevel(get("level"), form["aspect"], form["to"]); err != nil {
			return nil, err
		}
		task("scale_to_level", body)
	case "heal":
		keep("vnfc", "cause")
		if ids := slices.DeleteFunc(slices.Clone(form["vnfc"]), func(id string) bool { return id == "" }); len(ids) > 0 {
			body["vnfcInstanceId"] = ids
			a.Words = "Heal VNFC " + strings.Join(ids, ", ")
		} else {
			a.Words = "Heal the whole VNF"
		}
		if cause := get("cause"); cause != "" {
			body["cause"] = cause
		}
		task("heal", body)
	case "change_vnfpkg":
		keep("vnfdId", "strategy")
		body["vnfdId"] = get("vnfdId")
		switch get("strategy") {
		case "":
		case "rolling":
			body["additionalParams"] = map[string]any{"upgrade_type": "RollingUpdate"}
		case "blue-green":
			body["additionalParams"] = map[string]any{"upgrade_type": "Blue-Green"}
		default:
			return nil, badField("strategy", get("strategy"))
		}
		task("change_vnfpkg", body)
		a.Words = "Upgrade to package " + get("vnfdId")
	case "instantiate":
		keep("flavour", "level")
		body["flavourId"] = firstOf(get("flavour"), "default")
		if level := get("level"); level != "" {
			body["instantiationLevelId"] = level
		}
		task("instantiate", body)
		a.Words = "Instantiate"
	case "terminate":
		keep("type")
		body["terminationType"] = firstOf(get("type"), lcm.Graceful)
		task("terminate", body)
		a.Words = "Terminate (" + strings.ToLower(firstOf(get("type"), lcm.Graceful)) + ")"
	case "stop":
		keep()
		body["changeStateTo"] = lcm.Stopped
		task("operate", body)
		a.Words = "Stop"
	case "start":
		keep()
		body["changeStateTo"] = lcm.Started
		task("operate", body)
		a.Words = "Start"
	case "suspend":
		keep()
		edit("Suspend", "suspend", true)
		a.Words = "Suspend: nothing is done to the VNF until it is resumed"
	case "resume":
		keep()
		edit("Resume", "suspend", nil)
		a.Words = "Resume"
	case "drift_report":
		keep()
		edit("Report the drift of", "drift", desired.DriftReport)
		a.Words = "Only report drift, and leave it"
	case "drift_correct":
		keep()
		edit("Repair the drift of", "drift", nil)
		a.Words = "Repair drift"
	case "retry", "rollback", "fail", "cancel":
		keep("mode")
		a.OfOperation = true
		a.Task = &sol.Task{Caller: who, Name: a.Action, ID: get("operation")}
		a.Words = map[string]string{"retry": "Retry", "rollback": "Roll back", "fail": "Fail", "cancel": "Cancel"}[a.Action] + " the operation"
		if a.Action == "cancel" {
			a.Task.Body = map[string]any{"cancelMode": firstOf(get("mode"), lcm.Graceful)}
		}
	default:
		return nil, badField("action", a.Action)
	}
	if id := a.instance(); id == "" && !a.OfOperation || a.OfOperation && a.Task.ID == "" {
		return nil, &Failure{Status: http.StatusBadRequest, Title: "The form says not for what", Detail: "Neither an instance nor an operation is named.", Remedy: "Go back to the instance, and press the button there."}
	}
	return a, nil
}

// toLevel is the request of SOL003 clause 5.5.2.6 for an instantiation level, or else for the scale
// level of each aspect, which stands at the same place in to; an aspect without one stays as it is.
func toLevel(level string, aspects, to []string) (body map[string]any, words string, err error) {
	if level != "" {
		return map[string]any{"instantiationLevelId": level}, "Scale to instantiation level " + level, nil
	}
	var info []any
	var said []string
	for i, aspect := range aspects {
		if i >= len(to) || strings.TrimSpace(to[i]) == "" {
			continue
		}
		n, err := strconv.Atoi(strings.TrimSpace(to[i]))
		if err != nil {
			return nil, "", badField("to", to[i])
		}
		info = append(info, map[string]any{"aspectId": aspect, "scaleLevel": n})
		said = append(said, fmt.Sprintf("%s %d", aspect, n))
	}
	return map[string]any{"scaleInfo": info}, "Scale to level " + strings.Join(said, ", "), nil
}

func (a *asked) instance() string {
	if v := a.Fields["instance"]; len(v) > 0 {
		return v[0]
	}
	return ""
}

// Sent are the fields that ask for the same once more, in a fixed order.
func (a *asked) Sent() []struct{ Key, Value string } {
	var list []struct{ Key, Value string }
	for _, key := range slices.Sorted(maps.Keys(a.Fields)) {
		for _, v := range a.Fields[key] {
			list = append(list, struct{ Key, Value string }{key, v})
		}
	}
	return list
}

func firstOf(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

func badField(name, value string) error {
	return &Failure{Status: http.StatusBadRequest, Title: "The form can't be used", Detail: "Field " + name + " can't be " + strconv.Quote(clipped(value)) + ".",
		Remedy: "Go back to the instance, and send the form there. Nothing was changed."}
}

func clipped(text string) string {
	if len(text) > 100 {
		return strings.ToValidUTF8(text[:100], "") + "…"
	}
	return text
}

// propose is POST /ui/propose: it changes nothing.
func (s *Service) propose(w http.ResponseWriter, r *http.Request) error {
	a, err := askedOf(r.PostForm, auth.From(r.Context()))
	if err != nil {
		return err
	}
	return s.preview(w, r, a, http.StatusOK, false)
}

// preview answers with what would be committed now. moved says that it was asked for to be committed, and
// isn't what was shown.
func (s *Service) preview(w http.ResponseWriter, r *http.Request, a *asked, status int, moved bool) error {
	ctx, cancel := context.WithTimeout(r.Context(), proposeTime)
	defer cancel()
	p, err := s.proposal(ctx, auth.From(ctx), a)
	if err != nil {
		return err
	}
	p.Moved = moved
	if p.Refusal != nil {
		status = p.Refusal.Status
		refuse(r, p.Refusal.Error())
	}
	return s.renderStatus(w, r, status, "propose", p)
}

// proposal is what would be committed now.
func (s *Service) proposal(ctx context.Context, who auth.Identity, a *asked) (*proposePage, error) {
	p := &proposePage{Asked: a, Instance: a.instance(), Followed: s.History.Followed(), Head: s.Repo.Head()}
	if a.OfOperation {
		return p, s.decide(ctx, who, p)
	}
	head, ok := s.Repo.LookupHead(p.Instance)
	if !ok {
		return nil, Missing("VNF instance", p.Instance)
	}
	scope, err := access.NewScope(who, s.Repo.Settings)
	if err != nil {
		return nil, err
	}
	at := access.Instance{Dir: head.Dir, EM: head.EM}
	if !scope.Sees(at) {
		return nil, Missing("VNF instance", p.Instance)
	}
	p.Dir, p.Name = head.Dir, firstOf(head.Name, strings.TrimPrefix(head.Dir, "instances/"))
	rights := s.rightsOf(who, head.Dir, head.EM)
	p.NoBranch, p.NoCommit, p.MayNot = rights.plan, rights.operate, rights.operate
	if p.Draft, err = s.draft(ctx, who, a); err != nil {
		if p.Refusal, err = s.refusal(err, p.Instance); err != nil {
			return nil, err
		}
		return p, nil
	}
	p.describe(s.secretNames(ctx, head.Revision))
	if p.Verdict, err = s.Writer.Judge(ctx, who, p.Draft); err != nil {
		return nil, err
	}
	if len(p.Diffs) == 0 {
		p.NoCommit = "nothing would change"
		p.NoBranch = p.NoCommit
	} else if len(p.Verdict.Problems) > 0 && p.NoCommit == "" {
		p.NoCommit = "the commit would be refused"
	}
	return p, nil
}

// draft is the commit that would be made.
func (s *Service) draft(ctx context.Context, who auth.Identity, a *asked) (*sol.Draft, error) {
	if a.Edit != nil {
		return s.Writer.DraftEdit(ctx, who, a.instance(), *a.Edit)
	}
	return s.Lifecycle.Draft(ctx, *a.Task)
}

// refusal is an error as the page of a proposal shows it; an error that is the server's stays one.
func (s *Service) refusal(err error, id string) (*Failure, error) {
	f := failureOf(s.explained(err, "VNF instance", id))
	if f == nil {
		return nil, err
	}
	return f, nil
}

// describe fills in what of the draft is shown.
func (p *proposePage) describe(names desired.SecretNames) {
	d := p.Draft
	p.Digest, p.Author = d.Digest(), d.By
	p.Message = []string{d.Subject}
	if body := strings.TrimSpace(d.Body); body != "" {
		p.Message = append(p.Message, "")
		p.Message = append(p.Message, strings.Split(body, "\n")...)
	}
	if len(d.Trailers) > 0 {
		p.Message = append(p.Message, "")
	}
	for _, t := range d.Trailers {
		p.Message = append(p.Message, t.Key+": "+t.Value)
	}
	p.Diffs = diffFiles(d.At.Dir, d.Old, d.Files, Hide(names))
}

// secretNames are the names of secrets in the files of an instance.
func (s *Service) secretNames(ctx context.Context, rev desired.Revision) desired.SecretNames {
	var names desired.SecretNames
	in, err := s.Repo.Read(ctx, rev)
	if err != nil {
		return names
	}
	if pkg, err := s.Facts.Package(ctx, in); err == nil {
		names = names.With(pkg.VNFD.SecretParams...)
	}
	return names
}

// decide fills in the page of a task of an operation.
func (s *Service) decide(ctx context.Context, who auth.Identity, p *proposePage) error {
	op, etag, err := s.Lifecycle.Operation(ctx, who, p.Asked.Task.ID)
	if err != nil {
		return s.explained(err, "operation", p.Asked.Task.ID)
	}
	shown := s.operation(who, op)
	p.Operation, p.ETag, p.Instance, p.Name, p.Dir, p.MayNot = op, etag, op.Instance, shown.Name, shown.Dir, shown.MayNot
	for _, b := range shown.Buttons {
		if b.Action == p.Asked.Action {
			p.NoCommit = b.Why
		}
	}
	fails := "Jibe commits the directory as it was before the operation, with held: "
	if op.Type == lcm.Instantiate {
		fails = "Jibe commits that the VNF isn't to run, with held: "
	}
	p.NoBranch = "what is asked of an operation is no change of a file alone"
	p.Effect = map[string]string{
		"retry":    "No commit is made: the operation goes on with the same revision, from what is there now.",
		"cancel":   "No commit is made now. An operation that hasn't begun is rolled back, which commits the directory as it was before; any other goes to FAILED_TEMP.",
		"rollback": "The operation takes back what it did. Then Jibe commits the directory as it was before the operation:",
		"fail":     "The operation ends as FAILED. " + fails + op.ID + ", so that nothing is done until the next request or commit:",
	}[p.Asked.Action]
	if p.Asked.Action != "rollback" && p.Asked.Action != "fail" {
		return nil
	}
	head, ok := s.Repo.LookupHead(op.Instance)
	if !ok {
		return nil
	}
	now, err := s.Repo.Files(ctx, head.Revision)
	if err != nil {
		return err
	}
	then := desired.Files{}
	if op.Before.Tree != "" {
		if then, err = s.Repo.Files(ctx, op.Before); err != nil {
			return err
		}
	}
	if p.Asked.Action == "fail" && op.Type == lcm.Instantiate { // it keeps what it was asked for, until its objects have ended
		then = maps.Clone(now)
		text, err := desired.Edit(head.Dir+"/"+desired.InstanceFile, now[desired.InstanceFile], desired.KeyValue{Path: []string{"state"}, Value: desired.NotInstantiated})
		if err != nil {
			return err
		}
		then[desired.InstanceFile] = text
	}
	p.Diffs = diffFiles(head.Dir, now, then, Hide(s.secretNames(ctx, head.Revision)))
	return nil
}

// commit is POST /ui/commit: what a client of the API would ask for, or a branch of its commit. What isn't
// as it was shown is shown anew, and nothing is written.
func (s *Service) commit(w http.ResponseWriter, r *http.Request) error {
	who := auth.From(r.Context())
	a, err := askedOf(r.PostForm, who)
	if err != nil {
		return err
	}
	digest, etag := r.PostForm.Get("digest"), r.PostForm.Get("etag")
	audit.Note(r.Context(), func(rec *audit.Record) {
		rec.Action, rec.Object = a.Action, firstOf(a.instance(), r.PostForm.Get("operation"))
	})
	if a.OfOperation {
		if etag == "" {
			return badField("etag", "")
		}
		a.Task.IfMatch = etag
		id, err := s.Lifecycle.Do(r.Context(), *a.Task, "")
		return s.committed(w, r, a, Root+"/operations/"+url.PathEscape(id), err)
	}
	if digest == "" {
		return badField("digest", "")
	}
	moved, err := s.History.Moved(r.Context(), r.PostForm.Get("head"), s.dirOf(a.instance()))
	if err != nil {
		return err
	}
	if moved {
		return s.committed(w, r, a, "", sol.ErrMoved)
	}
	switch {
	case r.PostForm.Get("as") == "branch":
		d, err := s.draft(r.Context(), who, a)
		if err == nil && d.Digest() != digest {
			err = sol.ErrMoved
		}
		var branch string
		if err == nil {
			branch, _, err = s.Writer.Propose(r.Context(), who, d)
		}
		return s.committed(w, r, a, branchLink(branch), err)
	case a.Edit != nil:
		sha, err := s.Writer.CommitEdit(r.Context(), who, a.instance(), *a.Edit, digest)
		return s.committed(w, r, a, Root+"/git/commits/"+sha, err)
	}
	id, err := s.Lifecycle.Do(r.Context(), *a.Task, digest)
	return s.committed(w, r, a, Root+"/operations/"+url.PathEscape(id), err)
}

func (s *Service) dirOf(instance string) string {
	head, _ := s.Repo.LookupHead(instance)
	return head.Dir
}

// committed leads to what was made. What couldn't be is explained beside what could be now.
func (s *Service) committed(w http.ResponseWriter, r *http.Request, a *asked, to string, err error) error {
	if err == nil {
		http.Redirect(w, r, to, http.StatusSeeOther)
		return nil
	}
	if errors.Is(err, sol.ErrMoved) || a.OfOperation && s.Lifecycle.Status(err) == http.StatusPreconditionFailed {
		refuse(r, "what the commit would be has changed since it was shown")
		return s.preview(w, r, a, http.StatusConflict, true)
	}
	return s.explained(err, "VNF instance", a.instance())
}
