package main

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/jibe-vnfm/jibe/lcm"
)

// operationsShown is how many operations a table shows by default.
const operationsShown = 100

func operationsView() view {
	return view{
		use: "operations", short: "VNF LCM operations, the newest first",
		long: "VNF LCM operations, the newest first. NOTE is why one failed, or what it waits for. With --watch a terminal shows them\n" +
			"as they go on; what is no terminal gets a line whenever one has begun or changed its state.",
		example: "  jibe get operations                                         the newest\n" +
			"  jibe get operations --state failed_temp                     what waits for a person\n" +
			"  jibe get operations --since 2h --type SCALE --folder site-a\n" +
			"  jibe get operations --watch                                 as they happen",
		showExample: "  jibe get operation 3f2a9c1e           its steps so far\n  jibe get operation 3f2a9c1e --watch   each step as it happens, to its end",
		one:         operationsPath + "/%s", story: "/jibe/v1/operations/%s/story",
		flags:  []string{"folder", "state", "type", "instance", "since", "limit"},
		states: "starting, processing, completed, failed_temp, failed, rolling_back, rolled_back",
		find: func(c *client, ctx context.Context, said string) (object, error) {
			id, err := c.operation(ctx, said)
			return object{"id": id}, err
		},
		list: (*client).operations,
		name: func(o object) string { return text(o, "id") },
		columns: []column{
			{title: "ID", cell: func(o object, s *sheet) string {
				if s.wide {
					return text(o, "id")
				}
				return clipID(text(o, "id"))
			}},
			{title: "OPERATION", cell: func(o object, _ *sheet) string { return text(o, "operation") }},
			{title: "STATE", state: true, cell: func(o object, _ *sheet) string { return text(o, "operationState") }},
			{title: "INSTANCE", cell: func(o object, s *sheet) string {
				return cmp.Or(s.names[text(o, "vnfInstanceId")], text(o, "vnfInstanceId"))
			}},
			{title: "INSTANCE ID", wide: true, cell: func(o object, _ *sheet) string { return text(o, "vnfInstanceId") }},
			{title: "STARTED", cell: func(o object, s *sheet) string { return s.ago(text(o, "startTime")) }},
			{title: "TOOK", cell: func(o object, s *sheet) string { return took(o, s.now) }},
			{title: "AUTO", cell: func(o object, _ *sheet) string { return text(o, "isAutomaticInvocation") }},
			{title: "BY", wide: true, cell: func(o object, _ *sheet) string { return text(dig(o, "jibe"), "requestedBy") }},
			{title: "NOTE", cell: func(o object, _ *sheet) string {
				return cmp.Or(reason(text(dig(o, "error"), "detail")), waiting(o))
			}},
		},
	}
}

// newestFirst orders operations by their start: what is looked for stands at the top.
func newestFirst(a, b object) int {
	began := func(o object) time.Time {
		t, _ := time.Parse(time.RFC3339Nano, text(o, "startTime")) // none is the oldest
		return t
	}
	return began(b).Compare(began(a))
}

// spans are how far a search for the newest operations looks back, one after the other, until
// it has found enough. The API lists the oldest first.
func spans() []time.Duration {
	return []time.Duration{time.Hour, 24 * time.Hour, 30 * 24 * time.Hour, 0}
}

// operations implements [view.list].
func (c *client) operations(ctx context.Context, q *selection, output string) (*page, error) {
	most := q.most(output, operationsShown)
	list, err := c.newest(ctx, q, most)
	if err != nil {
		return nil, err
	}
	p := pageOf(list, most)
	selector := "all_fields"
	switch output {
	case "name":
		return p, nil
	case "table", "wide":
		selector = "fields=error,jibe"
	}
	if err := p.fill(ctx, c, operationsPath, selector); err != nil || selector == "all_fields" {
		return p, err
	}
	of := map[string]bool{}
	for _, o := range p.list {
		of[text(o, "vnfInstanceId")] = true
	}
	p.names, err = c.instanceNames(ctx, of)
	return p, err
}

// newest are the operations that are wanted, briefly, the newest first: at least as many as
// most says, where there are so many.
func (c *client) newest(ctx context.Context, q *selection, most int) ([]object, error) {
	types, states := words(q.kind), q.states()
	if err := errors.Join(known("type", types, operationTypes()), known("state", states, operationStates())); err != nil {
		return nil, err
	}
	var expressions []string
	if types != nil {
		expressions = append(expressions, expression("in", "operation", types...))
	}
	if states != nil {
		expressions = append(expressions, expression("in", "operationState", states...))
	}
	if q.instance != "" {
		id, err := c.instance(ctx, q.instance)
		if err != nil {
			return nil, err
		}
		expressions = append(expressions, expression("eq", "vnfInstanceId", id))
	}
	var inFolder map[string]bool
	if q.folder != "" {
		list, err := c.listed(ctx, &selection{folder: q.folder})
		if err != nil {
			return nil, err
		}
		inFolder = map[string]bool{}
		for _, o := range list {
			inFolder[text(o, "id")] = true
		}
	}
	now := time.Now()
	looks := spans()
	if since := q.since.from(now); !since.IsZero() {
		looks = []time.Duration{max(now.Sub(since), time.Millisecond)}
	} else if most == 0 {
		looks = []time.Duration{0}
	}
	var list []object
	for _, back := range looks {
		in := expressions
		if back > 0 {
			in = append(slices.Clip(expressions), expression("gte", "startTime", now.Add(-back).UTC().Format(time.RFC3339Nano)))
		}
		var err error
		if list, err = c.listWhere(ctx, operationsPath, "exclude_default", in...); err != nil {
			return nil, err
		}
		if inFolder != nil {
			list = slices.DeleteFunc(list, func(o object) bool { return !inFolder[text(o, "vnfInstanceId")] })
		}
		if most > 0 && len(list) >= most {
			break
		}
	}
	slices.SortStableFunc(list, newestFirst)
	return list, nil
}

func operationTypes() []string {
	var all []string
	for _, t := range timed {
		all = append(all, string(t))
	}
	return all
}

func operationStates() []string {
	var all []string
	for _, s := range []lcm.State{lcm.Starting, lcm.Processing, lcm.Completed, lcm.FailedTemp, lcm.Failed, lcm.RollingBack, lcm.RolledBack} {
		all = append(all, string(s))
	}
	return all
}

// took is how long an operation has been in its states so far. Where now is zero, it is that
// of the time that the server told.
func took(o object, now time.Time) string {
	start, err1 := time.Parse(time.RFC3339, text(o, "startTime"))
	entered, err2 := time.Parse(time.RFC3339, text(o, "stateEnteredTime"))
	if err1 != nil || err2 != nil {
		return ""
	}
	if underWay(text(o, "operationState")) {
		if now.IsZero() {
			return ""
		}
		entered = now
	}
	return max(entered.Sub(start), 0).Round(time.Millisecond).String()
}

// underWay says whether an operation in that state goes on by itself.
func underWay(state string) bool {
	return state == string(lcm.Starting) || state == string(lcm.Processing) || state == string(lcm.RollingBack)
}
