package main

import (
	"strings"
	"testing"
	"time"

	"github.com/jibe-vnfm/jibe/lcm"
)

func TestATableIsCutAtItsWidestColumnsAndNeverBeyondTheTerminal(t *testing.T) {
	columns := []column{{title: "NAME"}, {title: "STATE", state: true}, {title: "NOTE"}}
	rows := func() [][]string {
		return [][]string{{"site-a/upf-1", "FAILED_TEMP", strings.Repeat("why ", 30)}, {"b", "COMPLETED", "x\x1b[2Jy\nz"}}
	}
	for _, width := range []int{0, 200, 60, 30, 5} {
		var b strings.Builder
		(&sheet{screen: screen{width: width}}).write(&b, columns, rows())
		for line := range strings.Lines(b.String()) {
			if n := len([]rune(strings.TrimSuffix(line, "\n"))); width > 0 && n > width {
				t.Errorf("%d characters in %d: %q", n, width, line)
			}
			if strings.ContainsRune(line, '\x1b') {
				t.Errorf("what others wrote reaches the terminal: %q", line)
			}
		}
		if whole := strings.Contains(b.String(), "site-a/upf-1  FAILED_TEMP  why why"); whole != (width == 0 || width >= 60) {
			t.Errorf("at %d: %s", width, b.String())
		}
		if strings.Count(b.String(), "\n") != 3 {
			t.Errorf("at %d: not three lines: %q", width, b.String())
		}
	}
	var b strings.Builder
	(&sheet{screen: screen{color: true}}).write(&b, columns, rows())
	if !strings.Contains(b.String(), "\x1b[31mFAILED_TEMP\x1b[0m") || !strings.Contains(b.String(), "\x1b[32mCOMPLETED\x1b[0m") {
		t.Errorf("no colours: %q", b.String())
	}
}

func TestAStoryIsToldOnceAlsoWhenItsMiddleIsLeftOut(t *testing.T) {
	line := func(second int, text string) lcm.StoryLine {
		return lcm.StoryLine{At: moment.Add(time.Duration(second) * time.Second), Text: text}
	}
	var so told
	var got []string
	for _, story := range [][]lcm.StoryLine{
		{line(0, "a")},
		{line(0, "a"), line(0, "b"), line(1, "c")},
		{line(0, "a"), line(0, "b"), line(1, "c")},
		{line(0, "a"), line(0, "…"), line(1, "c"), line(1, "d")},
		{line(0, "a"), line(2, "…"), line(3, "e")}, // what was told last is left out by now
	} {
		for _, l := range so.rest(story) {
			got = append(got, l.Text)
		}
	}
	if all := strings.Join(got, " "); all != "a b c d … e" {
		t.Errorf("told: %s", all)
	}
}

func TestSinceIsADurationOrATime(t *testing.T) {
	for said, want := range map[string]string{
		"90m": "2026-05-04T01:32:01Z", "7d": "2026-04-27T03:02:01Z", "0.5d": "2026-05-03T15:02:01Z", "2026-05-01": "2026-05-01T00:00:00Z",
		"2026-05-01T10:00": "2026-05-01T10:00:00Z", "2026-05-01T10:00:00+02:00": "2026-05-01T08:00:00Z", "": "", "soon": "", "-1h": "", "0s": "", "-2d": "", "Infd": "", "NaNd": "",
	} {
		var f sinceFlag
		err := f.Set(said)
		if (err == nil) != (want != "") {
			t.Errorf("%q: %v", said, err)
			continue
		}
		if err == nil && f.from(moment).UTC().Format(time.RFC3339) != want {
			t.Errorf("%q is %s, want %s", said, f.from(moment).UTC().Format(time.RFC3339), want)
		}
	}
}

func TestAFolderKeepsWhatIsInItAndBelowIt(t *testing.T) {
	for _, c := range []struct {
		folder, dir string
		want        bool
	}{
		{"", "instances/a", true}, {"a", "instances/a/b", true}, {"instances/a/", "instances/a/b/c", true}, {"a", "instances/ab/c", false},
		{"/a/b", "instances/a/b", true}, {"a/b", "instances/a", false}, {".", "instances/a", true}, {"../a", "instances/a/x", true},
	} {
		if got := (&selection{folder: c.folder}).within(c.dir); got != c.want {
			t.Errorf("%s in %q: %v", c.dir, c.folder, got)
		}
	}
}

func FuzzSample(f *testing.F) {
	f.Add("jibe_queue_length 3\n")
	f.Add(`x{a="b",c="d \"e\" }"} 1.5e+06 1700000000`)
	f.Add("# HELP x y")
	f.Add(`x{a=`)
	f.Fuzz(func(t *testing.T, line string) {
		name, _, _, ok := sample(line)
		if ok && (name == "" || strings.HasPrefix(strings.TrimSpace(line), "#")) {
			t.Errorf("%q is no sample", line)
		}
	})
}

func TestASampleIsReadWithItsLabels(t *testing.T) {
	name, labels, value, ok := sample(`jibe_x_total{type="SCALE",cause="a \"b\", {c}"} 12` + "\n")
	if !ok || name != "jibe_x_total" || labels["type"] != "SCALE" || labels["cause"] != `a "b", {c}` || value != 12 {
		t.Errorf("%q %v %v %v", name, labels, value, ok)
	}
	if _, _, value, ok := sample("jibe_queue_length 3"); !ok || value != 3 {
		t.Errorf("without labels: %v %v", value, ok)
	}
	for _, bad := range []string{"", "# TYPE x gauge", "x{", `x{a="b"`, "x", `x{a="b"} y`} {
		if _, _, _, ok := sample(bad); ok {
			t.Errorf("%q is no sample", bad)
		}
	}
}
