package lcm

import (
	"strings"
	"time"
)

// StoryLine is a line about what an operation has done, for people.
type StoryLine struct {
	At   time.Time `json:"at"`
	Text string    `json:"text"`
}

// The story of an operation keeps its beginning and its end; between them, [cutMark] stands
// for the lines that were left out.
const (
	storyHead = 40
	storyMost = 240
	lineMost  = 400 // of a line, in characters
	cutMark   = "…"
)

// AddToStory adds lines to the operation's story. It must be free of secrets.
func (o *Operation) AddToStory(now time.Time, texts ...string) {
	for _, text := range texts {
		if r := []rune(text); len(r) > lineMost {
			text = string(r[:lineMost-1]) + cutMark
		}
		if len(o.Story) >= storyMost {
			o.Story[storyHead].Text = cutMark
			o.Story = append(o.Story[:storyHead+1], o.Story[storyHead+2:]...)
		}
		o.Story = append(o.Story, StoryLine{now.UTC().Truncate(time.Millisecond), text})
	}
}

// waitFor begins a line that tells what an operation waits for.
const waitFor = "wait for "

// AddWait adds a line that tells what the operation waits for, such as "the grant of nfvo-a". A
// line that says so already isn't repeated.
func (o *Operation) AddWait(now time.Time, what string) {
	line := waitFor + what
	if n := len(o.Story); n == 0 || o.Story[n-1].Text != line {
		o.AddToStory(now, line)
	}
}

// EndWait adds a line that tells how the wait for what ended, where that is what the operation waits for.
// What it waited for when that began is told again.
func (o *Operation) EndWait(now time.Time, what, ended string) {
	i := len(o.Story) - 1
	for i >= 0 && o.Story[i].Text == waitFor+what {
		i--
	}
	if i == len(o.Story)-1 {
		return
	}
	if i >= 0 && strings.HasPrefix(o.Story[i].Text, waitFor) {
		ended = o.Story[i].Text
	}
	o.AddToStory(now, ended)
}

// Wait is what an operation waits for.
type Wait struct {
	// For is that, and what came of it last: "the grant of nfvo-a: …". It is for people.
	For string `json:"for"`
	// Since is when the wait began.
	Since time.Time `json:"since"`
}

// Waiting returns what the operation waits for beside its VIM's work: another instance, whoever
// grants it, or a VIM that can't be seen. ok is false where it doesn't. It is what the end of the story tells.
func (o *Operation) Waiting() (w Wait, ok bool) {
	if o.State != Starting && o.State != Processing && o.State != RollingBack {
		return w, false
	}
	for i := len(o.Story) - 1; i >= 0; i-- {
		line := o.Story[i]
		what, waits := strings.CutPrefix(line.Text, waitFor)
		switch {
		case waits && !ok:
			w, ok = Wait{For: what, Since: line.At}, true
		case waits:
			w.Since = line.At
		case line.Text != cutMark:
			return w, ok
		}
	}
	return w, ok
}
