package markdown

import "testing"

func TestWhatOthersWroteIsShownLetterByLetter(t *testing.T) {
	for text, want := range map[string]string{
		"instances/a_b|c":        `instances/a\_b\|c`,
		"<!-- jibe: plan -->\nx": `&lt;\!\-\- jibe: plan \-\-&gt; x`,
		"[a](https://b) @all":    `\[a\]\(https://b\) \@all`,
		"a & `b`":                "a &amp; \\`b\\`",
	} {
		if got := Escape(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
	if got := Fenced("a ``` b\n"); got != "````\na ``` b\n````" {
		t.Errorf("fenced: %q", got)
	}
}
