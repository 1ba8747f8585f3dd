package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/jibe-vnfm/jibe/lcm"
)

// told is what was printed of a story so far.
type told struct {
	last lcm.StoryLine
	any  bool
}

// rest are the lines of the story that weren't printed yet. The middle of a long story is left
// out in time, so that places in it are no measure.
func (t *told) rest(story []lcm.StoryLine) []lcm.StoryLine {
	begin := 0
	if t.any {
		for i, line := range story {
			if line.At.Equal(t.last.At) && line.Text == t.last.Text || line.At.Before(t.last.At) {
				begin = i + 1
			}
		}
	}
	if len(story) > begin {
		t.last, t.any = story[len(story)-1], true
	}
	return story[begin:]
}

// watchStory shows the steps of an operation as they happen, until it has ended, or has failed
// and waits for a person. On a terminal they are drawn, elsewhere they are lines. Any end but
// COMPLETED is an error.
func (c *client) watchStory(cmd *cobra.Command, v view, id string) error {
	ctx, out := cmd.Context(), cmd.OutOrStdout()
	var so told
	turn, drawn := 0, ""
	for first := true; ; first = false {
		s := &sheet{screen: screenOf(out), now: time.Now()}
		o, err := c.one(ctx, v.one, id)
		var story []lcm.StoryLine
		if err == nil && (first || s.live) {
			story, err = c.detail(ctx, v, s, "table", o, nil)
		} else if err == nil {
			_, err = c.do(ctx, http.MethodGet, fmt.Sprintf(v.story, url.PathEscape(id)), nil, &story)
		}
		if err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return err
		}
		switch {
		case s.live:
			turn++
			if text := s.story(o, story, turn); text != drawn {
				_, err = io.WriteString(out, s.redraw(text, drawn == ""))
				drawn = text
			}
		default:
			if first {
				_, err = fmt.Fprintf(out, "%s %s of %s\n", text(o, "id"), text(o, "operation"), printable(s.names[text(o, "vnfInstanceId")]))
			}
			for _, line := range so.rest(story) {
				_, again := fmt.Fprintf(out, "%s  %s\n", line.At.UTC().Format(time.RFC3339), printable(line.Text))
				err = errors.Join(err, again)
			}
		}
		if err != nil {
			return err
		}
		automatic, _ := o["isAutomaticInvocation"].(bool)
		if state := text(o, "operationState"); !underWay(state) && (state != string(lcm.FailedTemp) || !automatic) {
			return ended(o)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(followPause):
		}
	}
}

// ended is the error that an operation's last state is, nil for COMPLETED.
func ended(o object) error {
	id, state := text(o, "id"), text(o, "operationState")
	switch state {
	case "FAILED_TEMP":
		return fmt.Errorf("operation %s is in %s: %s (then: jibe retry|rollback|fail %s)", id, state, text(dig(o, "error"), "detail"), id)
	case "FAILED", "ROLLED_BACK":
		return fmt.Errorf("operation %s ended in %s: %s", id, state, text(dig(o, "error"), "detail"))
	}
	return nil
}

// story draws an operation: what it is, its steps with the time since its start, and what it
// is at now.
func (s *sheet) story(o object, story []lcm.StoryLine, turn int) string {
	state := text(o, "operationState")
	var b strings.Builder
	fmt.Fprintf(&b, "%s  %s  %s  %s  %s\n\n", s.paint(bold, text(o, "operation")), s.paint(bold, printable(s.names[text(o, "vnfInstanceId")])),
		s.paint(toneOf(state), state), took(o, s.now), s.paint(faint, text(o, "id")))
	start, err := time.Parse(time.RFC3339, text(o, "startTime"))
	if err != nil && len(story) > 0 {
		start = story[0].At
	}
	for i, line := range story {
		mark := s.paint(green, "✓")
		if i == len(story)-1 {
			switch {
			case underWay(state):
				mark = s.paint(yellow, string([]rune("◐◓◑◒")[turn/2%4]))
			case state != string(lcm.Completed):
				mark = s.paint(red, "✗")
			}
		}
		text := printable(line.Text)
		if s.width > 0 {
			text = clipTo(text, max(s.width-14, tooNarrow))
		}
		fmt.Fprintf(&b, "%s %9s  %s\n", mark, fmt.Sprintf("+%.1fs", max(line.At.Sub(start), 0).Seconds()), text)
	}
	if w := waiting(o); w != "" && underWay(state) {
		fmt.Fprintf(&b, "\n%s\n", s.paint(yellow, printable(w)))
	}
	return b.String()
}

// seenState is the state of an operation that was printed last.
type seenState map[string]string

// followAll prints a line whenever an operation of the selection has begun or changed its
// state, until the user ends it. It begins with those that are under way.
func (c *client) followAll(ctx context.Context, out io.Writer, q *selection) error {
	seen, from := seenState{}, *q
	from.limit = operationsShown
	for first := true; ; first = false {
		p, err := c.operations(ctx, &from, "table")
		if err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return err
		}
		for i := len(p.list) - 1; i >= 0; i-- {
			o := p.list[i]
			id, state := text(o, "id"), text(o, "operationState")
			was, met := seen[id]
			seen[id] = state
			if met && was == state || first && !underWay(state) {
				continue
			}
			line := fmt.Sprintf("%s  %s  %s  %s  %s", second(text(o, "stateEnteredTime")), clipID(id), text(o, "operation"),
				printable(cmp.Or(p.names[text(o, "vnfInstanceId")], clipID(text(o, "vnfInstanceId")))), state)
			if why := reason(text(dig(o, "error"), "detail")); why != "" {
				line += "  " + printable(why)
			}
			if _, err := fmt.Fprintln(out, line); err != nil {
				return err
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(time.Second):
		}
	}
}
