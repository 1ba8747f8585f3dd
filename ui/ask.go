package ui

import (
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/jibe-vnfm/jibe/auth"
	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/lcm"
	"github.com/jibe-vnfm/jibe/sol"
)

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

// ask reads the fields of a form for one action.
type ask func(a *asked, f form) error

// asks are the actions that a form can ask for.
var asks = map[string]ask{
	"scale":          askScale,
	"scale_to_level": askScaleToLevel,
	"heal":           askHeal,
	"change_vnfpkg":  askChangePackage,
	"instantiate":    askInstantiate,
	"terminate":      askTerminate,
	"stop":           askOperate(lcm.Stopped, "Stop"),
	"start":          askOperate(lcm.Started, "Start"),
	"suspend":        askEdit("Suspend", "suspend", true, "Suspend: nothing is done to the VNF until it is resumed"),
	"resume":         askEdit("Resume", "suspend", nil, "Resume"),
	"drift_report":   askEdit("Report the drift of", "drift", desired.DriftReport, "Only report drift, and leave it"),
	"drift_correct":  askEdit("Repair the drift of", "drift", nil, "Repair drift"),
	"retry":          askOfOperation("Retry"),
	"rollback":       askOfOperation("Roll back"),
	"fail":           askOfOperation("Fail"),
	"cancel":         askOfOperation("Cancel"),
}

// askedOf reads a form.
func askedOf(values url.Values, who auth.Identity) (*asked, error) {
	f := form{values, who}
	a := &asked{Action: f.get("action"), Fields: map[string][]string{}}
	read := asks[a.Action]
	if read == nil {
		return nil, badField("action", a.Action)
	}
	if err := read(a, f); err != nil {
		return nil, err
	}
	if id := a.instance(); id == "" && !a.OfOperation || a.OfOperation && a.Task.ID == "" {
		return nil, &Failure{Status: http.StatusBadRequest, Title: "The form says not for what", Detail: "Neither an instance nor an operation is named.", Remedy: "Go back to the instance, and press the button there."}
	}
	return a, nil
}

// form is what a caller sent.
type form struct {
	url.Values
	who auth.Identity
}

// get is the value of a field, "" where there is none.
func (f form) get(key string) string { return strings.TrimSpace(f.Get(key)) }

// keep takes over the fields that say what is asked, besides those of all actions.
func (a *asked) keep(f form, keys ...string) {
	for _, key := range append(keys, "action", "instance", "operation") {
		if v := f.Values[key]; slices.ContainsFunc(v, func(text string) bool { return text != "" }) {
			a.Fields[key] = v
		}
	}
}

// task makes it the request of an instance's task.
func (a *asked) task(f form, name string, body map[string]any) {
	a.Task = &sol.Task{Caller: f.who, Name: name, ID: f.get("instance"), Body: body}
}

func askScale(a *asked, f form) error {
	a.keep(f, "aspect", "type", "steps")
	steps, err := strconv.Atoi(firstOf(f.get("steps"), "1"))
	if err != nil {
		return badField("steps", f.get("steps"))
	}
	a.task(f, "scale", map[string]any{"type": f.get("type"), "aspectId": f.get("aspect"), "numberOfSteps": steps})
	a.Words = "Scale aspect " + f.get("aspect") + map[string]string{lcm.ScaleOut: " out", lcm.ScaleIn: " in"}[f.get("type")] + " by " + count(steps, "step")
	return nil
}

func askScaleToLevel(a *asked, f form) error {
	a.keep(f, "level", "aspect", "to")
	body, words, err := toLevel(f.get("level"), f.Values["aspect"], f.Values["to"])
	if err != nil {
		return err
	}
	a.task(f, "scale_to_level", body)
	a.Words = words
	return nil
}

func askHeal(a *asked, f form) error {
	a.keep(f, "vnfc", "cause")
	body := map[string]any{}
	a.Words = "Heal the whole VNF"
	if ids := slices.DeleteFunc(slices.Clone(f.Values["vnfc"]), func(id string) bool { return id == "" }); len(ids) > 0 {
		body["vnfcInstanceId"] = ids
		a.Words = "Heal VNFC " + strings.Join(ids, ", ")
	}
	if cause := f.get("cause"); cause != "" {
		body["cause"] = cause
	}
	a.task(f, "heal", body)
	return nil
}

func askChangePackage(a *asked, f form) error {
	a.keep(f, "vnfdId", "strategy")
	body := map[string]any{"vnfdId": f.get("vnfdId")}
	switch f.get("strategy") {
	case "":
	case "rolling":
		body["additionalParams"] = map[string]any{"upgrade_type": "RollingUpdate"}
	case "blue-green":
		body["additionalParams"] = map[string]any{"upgrade_type": "Blue-Green"}
	default:
		return badField("strategy", f.get("strategy"))
	}
	a.task(f, "change_vnfpkg", body)
	a.Words = "Upgrade to package " + f.get("vnfdId")
	return nil
}

func askInstantiate(a *asked, f form) error {
	a.keep(f, "flavour", "level")
	body := map[string]any{"flavourId": firstOf(f.get("flavour"), "default")}
	if level := f.get("level"); level != "" {
		body["instantiationLevelId"] = level
	}
	a.task(f, "instantiate", body)
	a.Words = "Instantiate"
	return nil
}

func askTerminate(a *asked, f form) error {
	a.keep(f, "type")
	how := firstOf(f.get("type"), lcm.Graceful)
	a.task(f, "terminate", map[string]any{"terminationType": how})
	a.Words = "Terminate (" + strings.ToLower(how) + ")"
	return nil
}

func askOperate(to, words string) ask {
	return func(a *asked, f form) error {
		a.keep(f)
		a.task(f, "operate", map[string]any{"changeStateTo": to})
		a.Words = words
		return nil
	}
}

func askEdit(subject, key string, value any, words string) ask {
	return func(a *asked, f form) error {
		a.keep(f)
		a.Edit = &Edit{Subject: subject, Changes: []desired.KeyValue{{Path: []string{key}, Value: value}}}
		a.Words = words
		return nil
	}
}

func askOfOperation(words string) ask {
	return func(a *asked, f form) error {
		a.keep(f, "mode")
		a.OfOperation = true
		a.Task = &sol.Task{Caller: f.who, Name: a.Action, ID: f.get("operation")}
		if a.Action == "cancel" {
			a.Task.Body = map[string]any{"cancelMode": firstOf(f.get("mode"), lcm.Graceful)}
		}
		a.Words = words + " the operation"
		return nil
	}
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
