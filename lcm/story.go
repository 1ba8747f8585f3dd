package lcm

import "time"

// Told is a line about what an operation has done, for people.
type Told struct {
	At   time.Time `json:"at"`
	Text string    `json:"text"`
}

// The story of an operation keeps its beginning and its end; between them, [cutMark] stands
// for the lines that were left out.
const (
	storyHead = 40
	storyMost = 240
	toldMost  = 400 // of a line, in characters
	cutMark   = "…"
)

// Tell adds lines to the operation's story. It must be free of secrets.
func (o *Operation) Tell(now time.Time, texts ...string) {
	for _, text := range texts {
		if r := []rune(text); len(r) > toldMost {
			text = string(r[:toldMost-1]) + cutMark
		}
		if len(o.Story) >= storyMost {
			o.Story[storyHead].Text = cutMark
			o.Story = append(o.Story[:storyHead+1], o.Story[storyHead+2:]...)
		}
		o.Story = append(o.Story, Told{now.UTC().Truncate(time.Millisecond), text})
	}
}
