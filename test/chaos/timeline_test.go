package chaos_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/jibe-vnfm/jibe/test/process"
)

// timeline is what happened, as far as the test did it.
type timeline struct {
	mu     sync.Mutex
	events []event
	counts map[string]int
}

// event is one thing that happened; instance is "" where it concerns all.
type event struct {
	at                  time.Time
	who, instance, text string
}

func newTimeline() *timeline { return &timeline{counts: map[string]int{}} }

func (l *timeline) note(who, instance, format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.events = append(l.events, event{time.Now(), who, instance, fmt.Sprintf(format, args...)})
}

func (l *timeline) count(what string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.counts[what]++
}

// counted lists what was counted.
func (l *timeline) counted() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var text []string
	for _, what := range slices.Sorted(maps.Keys(l.counts)) {
		text = append(text, fmt.Sprintf("%s: %d", what, l.counts[what]))
	}
	return strings.Join(text, "\n")
}

// blamedMost is how many timelines a failed test shows; the file has them all.
const blamedMost = 3

// tell writes the timelines of the instances with errors to a file, and shows the first.
func (w *world) tell() error {
	ctx, cancel := context.WithTimeout(context.Background(), requestWait)
	defer cancel()
	file, err := os.Create(filepath.Join(w.dir, "timeline.txt"))
	if err != nil {
		return err
	}
	defer file.Close()
	w.t.Logf("all timelines are in %s, beside the logs of Jibe and the control plane", file.Name())
	reasons, shown := strings.Join(w.reasons, "\n"), 0
	blamed := func(v *vnf) bool { return strings.Contains(reasons, v.id) }
	some := slices.ContainsFunc(w.vnfs, blamed)
	for _, v := range w.vnfs {
		if some && !blamed(v) {
			continue
		}
		events, err := w.story(ctx, v)
		if err != nil {
			fmt.Fprintf(file, "the timeline of instance %s is not whole: %v\n", v.id, err)
		}
		var text strings.Builder
		fmt.Fprintf(&text, "timeline of instance %s, %s, namespace %s:\n", v.id, v.dir, v.namespace)
		for _, e := range events {
			fmt.Fprintf(&text, "%s %-9s %s\n", e.at.Format("15:04:05.000"), e.who, e.text)
		}
		fmt.Fprintln(file, text.String())
		if shown++; shown <= blamedMost && some {
			w.t.Log(text.String())
		}
	}
	return nil
}

// story is all that is known of one instance, in order: what the test did, its operations,
// its commits, what Jibe logged of it and wrote to the API server.
func (w *world) story(ctx context.Context, v *vnf) ([]event, error) {
	w.log.mu.Lock()
	events := slices.DeleteFunc(slices.Clone(w.log.events), func(e event) bool { return e.instance != "" && e.instance != v.id })
	w.log.mu.Unlock()
	defer func() {
		slices.SortStableFunc(events, func(a, b event) int { return a.at.Compare(b.at) })
	}()
	commits, err := process.Git(ctx, w.repository, "log", "--format=%ct%x1f%h %s%x1e", "main", "--", v.dir)
	if err != nil {
		return events, err
	}
	for line := range strings.SplitSeq(commits, "\x1e") {
		at, text, ok := strings.Cut(strings.TrimSpace(line), "\x1f")
		var seconds int64
		if _, err := fmt.Sscan(at, &seconds); ok && err == nil {
			events = append(events, event{time.Unix(seconds, 0), "git", v.id, "commit " + text})
		}
	}
	if s := w.Present(); s != nil {
		operations, err := w.people.Occurrences(ctx, s, "(eq,vnfInstanceId,"+v.id+")")
		if err != nil {
			return events, err
		}
		for _, op := range operations {
			events = append(events,
				event{op.Started, "operation", v.id, fmt.Sprintf("%s %s begins (automatic: %t) %s", op.Type, op.ID, op.Automatic, op.Params)},
				event{op.Entered, "operation", v.id, fmt.Sprintf("%s %s is %s since now: %d %s", op.Type, op.ID, op.State, op.Error.Status, op.Error.Detail)})
		}
	}
	err = w.audit(func(line []byte) error {
		var a auditEvent
		if json.Unmarshal(line, &a) == nil && a.Ref.Namespace == v.namespace && a.Agent == "jibe" && !strings.Contains(a.URI, "dryRun") {
			events = append(events, event{a.At, "audit", v.id, fmt.Sprintf("Jibe: %s %s/%s %s -> %d", a.Verb, a.Ref.Resource, a.Ref.Name, a.Request.Preconditions.UID, a.Response.Code)})
		}
		return nil
	})
	if err != nil {
		return events, err
	}
	return events, eachLine(filepath.Join(w.dir, "jibe.log"), func(line []byte) error {
		text := strings.TrimSpace(string(line))
		stamp, rest, _ := strings.Cut(strings.TrimPrefix(text, "time="), " ")
		if at, err := time.Parse(time.RFC3339Nano, stamp); err == nil && strings.Contains(rest, v.id) {
			events = append(events, event{at, "jibe", v.id, rest})
		}
		return nil
	})
}

// auditEvent is what this test reads of a line of the audit log.
type auditEvent struct {
	Verb  string    `json:"verb"`
	Agent string    `json:"userAgent"`
	URI   string    `json:"requestURI"`
	At    time.Time `json:"requestReceivedTimestamp"`
	Ref   struct {
		Resource    string `json:"resource"`
		Subresource string `json:"subresource"`
		Namespace   string `json:"namespace"`
		Name        string `json:"name"`
	} `json:"objectRef"`
	Request struct {
		Preconditions struct {
			UID string `json:"uid"`
		} `json:"preconditions"`
	} `json:"requestObject"`
	Response struct {
		Code int `json:"code"`
	} `json:"responseStatus"`
}
