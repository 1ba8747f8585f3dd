package lcm

import "time"

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
