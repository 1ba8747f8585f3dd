package main

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/jibe-vnfm/jibe/lcm"
	"github.com/jibe-vnfm/jibe/reconciler"
)

// topLines is how many operations and how many drifts one look shows at most.
const topLines = 12

// newTop is the command that shows what goes on, all at once.
func newTop() *cobra.Command {
	var c client
	var once bool
	var every time.Duration
	var output string
	cmd := &cobra.Command{
		Use:   "top",
		Short: "What goes on: operations under way, failed and drifting VNFs, the queue, throughput",
		Long: "What goes on at a server, drawn anew on a terminal: how many VNFs there are and how they are, operations that are under\n" +
			"way or wait for a person, what has drifted, how many instances wait in the queue, and how many operations ended a minute.\n" +
			"What is no terminal gets one look, as with --once. Queue and throughput are left out for a token that may not see\n" +
			"all projects, unless the server has --open-metrics: they come from its metrics.",
		Example: "  jibe top\n" +
			"  jibe top --once            one look, as text\n" +
			"  jibe top --once -o json    one look, for a script",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if every <= 0 {
				return fmt.Errorf("--every %s: want a duration above zero, as 2s", every)
			}
			ctx, out := cmd.Context(), cmd.OutOrStdout()
			if !screenOf(out).live || output != "table" {
				once = true
			}
			var before *situation
			for first := true; ; first = false {
				now, err := c.situation(ctx)
				if err != nil {
					if ctx.Err() != nil && !first {
						return nil
					}
					return err
				}
				now.since(before)
				if once {
					return show(out, output, now, func() { now.write(out, &sheet{screen: screenOf(out), now: now.At}) })
				}
				var b strings.Builder
				s := &sheet{screen: screenOf(out), now: now.At}
				now.write(&b, s)
				if _, err := io.WriteString(out, s.redraw(b.String(), first)); err != nil {
					return err
				}
				before = now
				select {
				case <-ctx.Done():
					return nil
				case <-time.After(every):
				}
			}
		},
	}
	c.flags(cmd.Flags())
	cmd.Flags().BoolVar(&once, "once", false, "look once and end")
	cmd.Flags().DurationVar(&every, "every", 2*time.Second, "time between two looks")
	cmd.Flags().StringVarP(&output, "output", "o", "table", "table, json or yaml; the last two look once")
	return cmd
}

// situation is what goes on at one moment.
type situation struct {
	At time.Time `json:"at"`
	// Instances counts VNF instances by how they are, in the words of --state; "all" is all.
	Instances map[string]int `json:"instances"`
	// Open are the operations that haven't ended, counted by state.
	Open map[string]int `json:"open"`
	// Operations are the newest of those.
	Operations []openOperation `json:"operations"`
	// Drifts are what has drifted, the oldest first; Drifting is in how many instances.
	Drifts   []driftLine `json:"drifts"`
	Drifting int         `json:"drifting"`
	// Queue is how many instances wait for their turn; nil where metrics aren't shown.
	Queue *int `json:"queue,omitempty"`
	// Ended counts, by state, the operations that ended since the server started.
	Ended map[string]float64 `json:"ended,omitempty"`
	// PerMinute is how many operations ended a minute since the former look, in a first look in
	// the last minute.
	PerMinute float64 `json:"perMinute"`
}

type openOperation struct {
	ID        string `json:"id"`
	Operation string `json:"operation"`
	State     string `json:"state"`
	Instance  string `json:"instance"`
	Started   string `json:"started"`
	Note      string `json:"note,omitempty"`
}

type driftLine struct {
	Instance string    `json:"instance"`
	Object   string    `json:"object"`
	By       string    `json:"by,omitempty"`
	State    string    `json:"state"`
	Since    time.Time `json:"since"`
}

// situation looks once.
func (c *client) situation(ctx context.Context) (*situation, error) {
	now := time.Now()
	s := &situation{At: now, Instances: map[string]int{}, Open: map[string]int{}, Operations: []openOperation{}, Drifts: []driftLine{}}
	instances, err := c.listWhere(ctx, instancesPath, briefly)
	if err != nil {
		return nil, err
	}
	names := make(map[string]string, len(instances))
	for _, o := range instances {
		names[text(o, "id")] = where(o)
		s.Instances["all"]++
		for _, state := range instanceStates() {
			if stands(o, state) {
				s.Instances[strings.ToLower(state)]++
			}
		}
	}
	if err := s.operations(ctx, c, names); err != nil {
		return nil, err
	}
	list := []reconciler.Drift{}
	if _, err := c.do(ctx, http.MethodGet, "/jibe/v1/drift", nil, &list); err != nil {
		return nil, err
	}
	slices.SortStableFunc(list, func(a, b reconciler.Drift) int { return a.Since.Compare(b.Since) })
	s.Drifting = len(list)
	for _, d := range list[:min(topLines, len(list))] {
		line := driftLine{Instance: cmp.Or(names[d.Instance], d.Dir), State: string(d.State), Since: d.Since}
		if len(d.Deviations) > 0 {
			line.Object, line.By = d.Deviations[0].Object, d.Deviations[0].By
		}
		s.Drifts = append(s.Drifts, line)
	}
	recent, err := c.listWhere(ctx, operationsPath, "exclude_default", expression("gte", "stateEnteredTime", now.Add(-time.Minute).UTC().Format(time.RFC3339Nano)),
		expression("in", "operationState", "COMPLETED", "FAILED", "ROLLED_BACK"))
	if err != nil {
		return nil, err
	}
	s.PerMinute = float64(len(recent))
	s.metrics(ctx, c)
	return s, nil
}

// operations looks at those that haven't ended.
func (s *situation) operations(ctx context.Context, c *client, names map[string]string) error {
	open, err := c.listWhere(ctx, operationsPath, "fields=error,jibe", expression("in", "operationState", "STARTING", "PROCESSING", "ROLLING_BACK", "FAILED_TEMP"))
	if err != nil {
		return err
	}
	slices.SortStableFunc(open, newestFirst)
	for _, o := range open {
		s.Open[text(o, "operationState")]++
		if len(s.Operations) < topLines {
			id := text(o, "vnfInstanceId")
			s.Operations = append(s.Operations, openOperation{ID: text(o, "id"), Operation: text(o, "operation"), State: text(o, "operationState"),
				Instance: cmp.Or(names[id], clipID(id)), Started: text(o, "startTime"), Note: cmp.Or(reason(text(dig(o, "error"), "detail")), waiting(o))})
		}
	}
	return nil
}

// metrics takes from the server's metrics what its API doesn't tell. Without them, which
// not everybody may see, it is left out.
func (s *situation) metrics(ctx context.Context, c *client) {
	var data rawText
	if _, err := c.do(ctx, http.MethodGet, "/metrics", nil, &data); err != nil {
		return
	}
	s.Ended = map[string]float64{}
	for line := range bytes.Lines(data) {
		name, labels, value, ok := sample(string(line))
		switch {
		case !ok:
		case name == "jibe_queue_length":
			n := int(value)
			s.Queue = &n
		case name == "jibe_lcm_operation_transitions_total" && lcm.State(labels["state"]).Ended():
			s.Ended[labels["state"]] += value
		}
	}
}

// since turns what ended since the former look into a rate.
func (s *situation) since(before *situation) {
	if before == nil || before.Ended == nil || s.Ended == nil {
		return
	}
	var was, is float64
	for _, n := range before.Ended {
		was += n
	}
	for _, n := range s.Ended {
		is += n
	}
	// A single look of two seconds would jump; half of what was known stays.
	now := max(is-was, 0) / s.At.Sub(before.At).Minutes()
	s.PerMinute = (before.PerMinute + now) / 2
}

// write draws it.
func (s *situation) write(w io.Writer, on *sheet) {
	fmt.Fprintf(w, "%s  %s\n", on.paint(bold, "jibe top"), on.paint(faint, s.At.UTC().Format(time.RFC3339)))
	fmt.Fprintf(w, "VNFs        %d", s.Instances["all"])
	for _, state := range []string{"instantiated", "not_instantiated", "failing", "drifting", "not_obeyed", "held", "suspended"} {
		if n := s.Instances[state]; n > 0 {
			fmt.Fprintf(w, "  %s %s", strings.ReplaceAll(state, "_", " "), on.paint(toneOf(state), strconv.Itoa(n)))
		}
	}
	fmt.Fprint(w, "\nOperations ")
	some := false
	for _, state := range []string{"STARTING", "PROCESSING", "ROLLING_BACK", "FAILED_TEMP"} {
		if n := s.Open[state]; n > 0 {
			some = true
			fmt.Fprintf(w, "  %s %s", state, on.paint(toneOf(state), strconv.Itoa(n)))
		}
	}
	if !some {
		fmt.Fprint(w, " none under way")
	}
	fmt.Fprintf(w, "\nEnded       %.0f a minute", s.PerMinute)
	for _, state := range []string{"COMPLETED", "FAILED", "ROLLED_BACK"} {
		if n, there := s.Ended[state]; there {
			fmt.Fprintf(w, "  %s %s", state, on.paint(toneOf(state), strconv.FormatFloat(n, 'f', -1, 64)))
		}
	}
	if s.Queue != nil {
		fmt.Fprintf(w, "\nQueue       %d", *s.Queue)
	}
	fmt.Fprintln(w)
	if len(s.Operations) > 0 {
		fmt.Fprintln(w)
		var rows [][]string
		for _, o := range s.Operations {
			rows = append(rows, []string{clipID(o.ID), o.Operation, o.State, o.Instance, on.ago(o.Started), o.Note})
		}
		on.write(w, []column{{title: "ID"}, {title: "OPERATION"}, {title: "STATE", state: true}, {title: "INSTANCE"}, {title: "STARTED"}, {title: "NOTE"}}, rows)
	}
	if len(s.Drifts) > 0 {
		fmt.Fprintln(w)
		var rows [][]string
		for _, d := range s.Drifts {
			rows = append(rows, []string{d.Instance, d.Object, cmp.Or(d.By, "-"), d.State, shortAge(s.At.Sub(d.Since))})
		}
		on.write(w, []column{{title: "DRIFTED"}, {title: "OBJECT"}, {title: "BY"}, {title: "STATE", state: true}, {title: "SINCE"}}, rows)
		if s.Drifting > len(s.Drifts) {
			fmt.Fprintf(w, "%d more instances: jibe get drift\n", s.Drifting-len(s.Drifts))
		}
	}
}

// sample reads one line of the text format of Prometheus. ok is false for a comment and for
// what isn't one.
func sample(line string) (name string, labels map[string]string, value float64, ok bool) {
	line = strings.TrimSpace(line)
	if line == "" || line[0] == '#' {
		return "", nil, 0, false
	}
	head, rest, labelled := strings.Cut(line, "{")
	if !labelled {
		name, rest, _ = strings.Cut(line, " ")
	} else {
		name, labels = head, map[string]string{}
		for {
			key, after, found := strings.Cut(rest, "=")
			if !found {
				return "", nil, 0, false
			}
			quoted, err := strconv.QuotedPrefix(after)
			if err != nil {
				return "", nil, 0, false
			}
			labels[strings.TrimLeft(key, ", ")], _ = strconv.Unquote(quoted)
			rest = after[len(quoted):]
			if end, closed := strings.CutPrefix(rest, "}"); closed {
				rest = end
				break
			}
		}
	}
	fields := strings.Fields(rest)
	if len(fields) == 0 || name == "" {
		return "", nil, 0, false
	}
	value, err := strconv.ParseFloat(fields[0], 64)
	return name, labels, value, err == nil
}
