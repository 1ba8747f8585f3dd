package plan_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jibe-vnfm/jibe/plan"
	"github.com/jibe-vnfm/jibe/test/kit"
)

// TestPlansReadAsTheScenariosSay runs every file under testdata. Its README
// describes the format.
func TestPlansReadAsTheScenariosSay(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scenarios under testdata (%v)", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got, err := play(string(want))
			if err != nil {
				t.Fatalf("%s:%v", file, err)
			}
			kit.Golden(t, file, got)
		})
	}
}

// scenario is what the lines read so far have set.
type scenario struct {
	desired  plan.Desired
	observed plan.Observed
	journal  plan.Journal
}

// play reads a scenario and answers with the same text, every plan in it being
// what Compute says. Errors begin with the number of the line.
func play(text string) ([]byte, error) {
	var s scenario
	var out bytes.Buffer
	section := ""
	skipping := false // inside the old answer to a plan
	for i, line := range strings.Split(strings.TrimSuffix(text, "\n"), "\n") {
		trimmed := strings.TrimSpace(line)
		if skipping && trimmed != "" {
			continue
		}
		skipping = false
		fmt.Fprintln(&out, line)
		if trimmed == "" || trimmed[0] == '#' {
			continue
		}
		if line[0] != ' ' {
			section = trimmed
			switch section {
			case "desired":
				s.desired = plan.Desired{}
			case "observed":
				s.observed = plan.Observed{}
			case "journal":
				s.journal = plan.Journal{}
			case "plan":
				out.WriteString(render(plan.Compute(s.desired, s.observed, s.journal)))
				skipping = true
			case "moves":
				out.WriteString(renderMoves(plan.MovesOf(s.desired, s.observed, s.journal)))
				skipping = true
			default:
				return nil, fmt.Errorf("%d: unknown section %q", i+1, section)
			}
			continue
		}
		words, err := split(trimmed)
		if err == nil {
			err = s.set(section, words)
		}
		if err != nil {
			return nil, fmt.Errorf("%d: %w", i+1, err)
		}
	}
	return out.Bytes(), nil
}

// render prints a plan, one step a line behind its stage.
func render(steps []plan.Step) string {
	if len(steps) == 0 {
		return "  nothing to do\n"
	}
	var b strings.Builder
	for _, s := range steps {
		fmt.Fprintf(&b, "  %d %s", s.Stage, s)
		if s.Incarnation != "" {
			fmt.Fprintf(&b, " [%s]", s.Incarnation)
		}
		if s.Keep != "" {
			fmt.Fprintf(&b, " keep=%q", s.Keep)
		}
		if s.Directs {
			b.WriteString(" switches traffic")
		}
		if len(s.Victims) > 0 {
			fmt.Fprintf(&b, " victims=%s", strings.Join(s.Victims, ","))
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// renderMoves prints moves, one a line.
func renderMoves(m plan.Moves) string {
	var b strings.Builder
	for _, id := range m.Leaving {
		fmt.Fprintf(&b, "  leaving %s\n", id)
	}
	for _, side := range []struct {
		name string
		list []plan.Number
	}{{"going", m.Going}, {"coming", m.Coming}} {
		for _, n := range side.list {
			fmt.Fprintf(&b, "  %s %s of=%s %d", side.name, n.VDU, n.Owner, n.Count)
			if n.AtMost {
				b.WriteString(" at most")
			}
			b.WriteByte('\n')
		}
	}
	if b.Len() == 0 {
		return "  nobody\n"
	}
	return b.String()
}

// word is "key=value", or a key alone.
type word struct {
	key, value string
	bare       bool
}

// split cuts a line at blanks, except inside double quotes.
func split(line string) ([]word, error) {
	var words []word
	for line = strings.TrimSpace(line); line != ""; line = strings.TrimSpace(line) {
		end := strings.IndexAny(line, " =")
		if end < 0 {
			end = len(line)
		}
		w := word{key: line[:end], bare: true}
		line = line[end:]
		if strings.HasPrefix(line, "=") {
			w.bare = false
			line = line[1:]
			if quoted, err := strconv.QuotedPrefix(line); err == nil {
				if w.value, err = strconv.Unquote(quoted); err != nil {
					return nil, err
				}
				line = line[len(quoted):]
			} else {
				w.value, line, _ = strings.Cut(line, " ")
			}
		}
		words = append(words, w)
	}
	return words, nil
}

func (s *scenario) set(section string, words []word) error {
	kind := words[0].key
	if least := map[string]int{"object": 2, "group": 2, "condemned": 2, "unit": 2, "left": 2, "known": 3, "target": 2, "kept": 2, "hook": 2, "begun": 2, "issued": 2, "posted": 2}[kind]; len(words) < least {
		return fmt.Errorf("%s needs a name", kind)
	}
	switch section + " " + kind {
	case "desired object":
		x := plan.Object{Key: words[1].key, Digest: "a"}
		if err := attributes(words[2:], map[string]any{"wave": &x.Wave, "digest": &x.Digest, "once": &x.Once, "directs": &x.Directs, "posted": &x.Posted}); err != nil {
			return err
		}
		s.desired.Objects = append(s.desired.Objects, x)
		return nil
	case "desired group":
		var g plan.Group
		g.VDU = words[1].key
		if err := attributes(words[2:], map[string]any{"of": &g.Owner, "count": &g.Count, "free": &g.Free, "stopped": &g.Stopped}); err != nil {
			return err
		}
		s.desired.Groups = append(s.desired.Groups, g)
		return nil
	case "desired condemned":
		if s.desired.Condemned == nil {
			s.desired.Condemned = map[string]string{}
		}
		s.desired.Condemned[words[1].key] = words[1].value
		return nil
	case "observed object":
		x := plan.ObservedObject{Key: words[1].key, Incarnation: "1", Digest: "a", Count: -1}
		retain, counts := "", ""
		if err := attributes(words[2:], map[string]any{"is": &x.Incarnation, "leftBy": &x.LeftBy, "digest": &x.Digest, "count": &x.Count, "ready": &x.Ready,
			"deleting": &x.Deleting, "retain": &retain, "reason": &x.Reason, "failure": &x.Failure, "dead": &x.Dead, "keep": &x.Keep,
			"outgrown": &x.Outgrown, "generation": &x.Generation, "passive": &x.Passive, "ordered": &x.Ordered, "autoscaled": &x.Autoscaled, "stalled": &x.Stalled, "counts": &counts,
			"marked": &x.Marked, "blurred": &x.Blurred}); err != nil {
			return err
		}
		for entry := range strings.SplitSeq(counts, ",") { // "vdu1:2,vdu2:1"
			if vdu, n, ok := strings.Cut(entry, ":"); ok {
				if x.Counts == nil {
					x.Counts = map[string]int{}
				}
				var err error
				if x.Counts[vdu], err = strconv.Atoi(n); err != nil {
					return err
				}
			}
		}
		x.Retention = plan.Retention(retain)
		s.observed.Objects = append(s.observed.Objects, x)
		return nil
	case "observed unit", "journal known":
		if kind == "known" {
			words = words[1:] // "known unit KEY …"
		}
		u := plan.Unit{Key: words[1].key, ID: "1"}
		created := 0 // the hour
		if err := attributes(words[2:], map[string]any{"is": &u.ID, "vdu": &u.VDU, "of": &u.Owner, "ready": &u.Ready,
			"deleting": &u.Deleting, "reason": &u.Reason, "failure": &u.Failure, "outdated": &u.Outdated, "blocks": &u.Blocks, "generation": &u.Generation, "dead": &u.Dead, "orphan": &u.Orphan, "stopped": &u.Stopped, "grace": &u.Grace, "created": &created}); err != nil {
			return err
		}
		if created > 0 {
			u.Created = time.Date(2026, 1, 1, created, 0, 0, 0, time.UTC)
		}
		if kind == "known" {
			s.journal.Known = append(s.journal.Known, u)
			return nil
		}
		s.observed.Units = append(s.observed.Units, u)
		return nil
	case "observed left":
		if s.observed.Left == nil {
			s.observed.Left = map[string]string{}
		}
		s.observed.Left[words[1].key] = words[1].value
		return nil
	case "journal target":
		s.journal.Targets = append(s.journal.Targets, plan.TargetOf(words[1].key, words[1].value))
		return nil
	case "journal kept":
		if s.journal.Kept == nil {
			s.journal.Kept = map[string]string{}
		}
		s.journal.Kept[words[1].key] = words[1].value
		return nil
	case "journal hook":
		s.journal.Hooks = append(s.journal.Hooks, words[1].key)
		return nil
	case "journal begun":
		s.journal.Begun = append(s.journal.Begun, words[1].key)
		return nil
	case "journal posted":
		s.journal.Posted = append(s.journal.Posted, words[1].key)
		return nil
	case "journal issued":
		s.journal.Issued = append(s.journal.Issued, plan.StepKey(strings.TrimPrefix(rejoin(words[1:]), " ")))
		return nil
	}
	if section == "desired" && kind == "coordinated" {
		if s.desired.Coordinated == nil {
			s.desired.Coordinated = map[string][]string{}
		}
		s.desired.Coordinated[words[1].key] = append(s.desired.Coordinated[words[1].key], words[1].value)
		return nil
	}
	switch section {
	case "desired":
		within := -1
		err := attributes(words, map[string]any{"generation": &s.desired.Generation, "coordinate-new": &s.desired.CoordinateNew,
			"coordinate-old": &s.desired.CoordinateOld, "drain": &s.desired.Drain, "grace": &s.desired.Grace, "within": &within})
		if within >= 0 {
			s.desired.Within = &within
		}
		return err
	case "journal":
		return attributes(words, map[string]any{"operation": &s.journal.Operation, "granted": &s.journal.Granted,
			"rollback": &s.journal.Rollback, "redirected": &s.journal.Redirected, "rebuilt": &s.journal.Rebuilt})
	}
	return fmt.Errorf("%s has no lines that begin with %q", section, kind)
}

// rejoin undoes split for keys of steps, which may hold a "=".
func rejoin(words []word) string {
	var b strings.Builder
	for _, w := range words {
		b.WriteString(" " + w.key)
		if !w.bare {
			b.WriteString("=" + w.value)
		}
	}
	return b.String()
}

func attributes(words []word, known map[string]any) error {
	for _, w := range words {
		switch to := known[w.key].(type) {
		case *bool:
			if !w.bare {
				return fmt.Errorf("%s takes no value", w.key)
			}
			*to = true
		case *string:
			*to = w.value
		case *int:
			n, err := strconv.Atoi(w.value)
			if err != nil {
				return fmt.Errorf("%s: %w", w.key, err)
			}
			*to = n
		default:
			return fmt.Errorf("unknown word %q", w.key)
		}
	}
	return nil
}
