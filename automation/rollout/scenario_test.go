package rollout_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jibe-vnfm/jibe/automation/rollout"
	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/test/kit"
)

func TestRolloutsGoOnAsTheScenariosSay(t *testing.T) {
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

// play reads a scenario and answers with the same text, each answer in it being what Decide says.
func play(text string) ([]byte, error) {
	w := newWorld()
	var out bytes.Buffer
	var file strings.Builder
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	for i := 0; i < len(lines); i++ {
		line := lines[i]
		fmt.Fprintln(&out, line)
		words := strings.Fields(line)
		if len(words) == 0 || strings.HasPrefix(line, "#") {
			continue
		}
		indented := func() bool { return i+1 < len(lines) && strings.HasPrefix(lines[i+1], "  ") }
		switch words[0] {
		case "rollout":
			file.Reset()
			for indented() {
				i++
				fmt.Fprintln(&out, lines[i])
				file.WriteString(strings.TrimPrefix(lines[i], "  ") + "\n")
			}
			if err := w.set(file.String()); err != nil {
				return nil, fmt.Errorf("%d: %w", i+1, err)
			}
		case "next":
			for indented() {
				i++ // the old answer
			}
			d := w.decide()
			if err := w.carryOut(d); err != nil {
				return nil, fmt.Errorf("%d: %w", i+1, err)
			}
			answer(&out, d)
		default:
			if err := w.does(words); err != nil {
				return nil, fmt.Errorf("%d: %w", i+1, err)
			}
		}
	}
	return out.Bytes(), nil
}

func answer(out *bytes.Buffer, d rollout.Decision) {
	fmt.Fprintf(out, "  %s", d.Phase)
	if d.Waits != "" {
		fmt.Fprintf(out, ", waits for %s", d.Waits)
	}
	c := d.Counts
	fmt.Fprintf(out, "\n  of %d: %d completed, %d already there, %d failed, %d under way, %d pending, %d passed over\n",
		c.Selected, c.Completed, c.Already, c.Failed, c.UnderWay, c.Pending, c.Passed)
	if len(d.Start) > 0 {
		fmt.Fprintf(out, "  start in wave %d: %s\n", d.Ledger.Wave+1, strings.Join(d.Start, " "))
	}
	if c.Proposed > 0 {
		fmt.Fprintf(out, "  %d proposed\n", c.Proposed)
	}
	if len(d.Propose) > 0 {
		fmt.Fprintf(out, "  propose in wave %d: %s\n", d.Ledger.Wave+1, strings.Join(d.Propose, " "))
	}
	if len(d.Back) > 0 {
		fmt.Fprintf(out, "  take back: %s\n", strings.Join(d.Back, " "))
	}
	if c.Back > 0 {
		fmt.Fprintf(out, "  %d taken back\n", c.Back)
	}
	if d.Left > 0 {
		fmt.Fprintf(out, "  about %s left\n", d.Left)
	}
}

// does is one line of a scenario.
func (w *world) does(words []string) error {
	args := words[1:]
	each := func(do func(f *rollout.Fact)) error {
		if len(args) == 1 && args[0] == "all" {
			args = w.underWay(rollout.UnderWay)
		}
		for _, dir := range args {
			f := w.facts[dir]
			if f == nil {
				return fmt.Errorf("there is no instance %s", dir)
			}
			do(f)
		}
		return nil
	}
	found := func(as rollout.Found, reason string) error {
		return each(func(f *rollout.Fact) { f.Found, f.Ended, f.Reason = as, w.now, reason })
	}
	if strings.HasPrefix(words[0], "merge") && (w.l.Proposal == nil || !w.pull.open) {
		return fmt.Errorf("no pull request is open")
	}
	switch words[0] {
	case "sites":
		n, err := strconv.Atoi(args[0])
		if err != nil {
			return err
		}
		for i := range n {
			w.add(fmt.Sprintf("instances/s%02d", i+1), fmt.Sprintf("vim-%d", i%2))
		}
		return nil
	case "joins":
		w.add(args[0], "vim-0")
		return nil
	case "there":
		return each(func(f *rollout.Fact) { f.Reached = true })
	case "held":
		return each(func(f *rollout.Fact) { f.Passed = "held" })
	case "changed":
		return each(func(f *rollout.Fact) { f.Stays = "somebody changed it since" })
	case "busy":
		return each(func(f *rollout.Fact) { f.Busy = "an operation is under way" })
	case "free":
		return each(func(f *rollout.Fact) { f.Busy, f.Passed = "", "" })
	case "vim": // NAME is away, for the reason; without one it is back
		for _, f := range w.facts {
			if f.VIM == args[0] {
				f.Away = strings.Join(args[1:], " ")
			}
		}
		return nil
	case "unseen": // its operation was rolled back, as was its file
		return each(w.unseen)
	case "completed":
		return found(rollout.Completed, "")
	case "fails":
		return found(rollout.FailedTemp, "no pods")
	case "ended":
		return found(rollout.Failed, "no pods")
	case "waits": // for a window, a freeze, or what it needs
		return each(func(f *rollout.Fact) { f.Found, f.Unbegun = rollout.Waiting, true })
	case "reverted": // git revert of the commit that began with it
		return each(func(f *rollout.Fact) { f.Reached, f.Back = false, true })
	case "scaled": // to another level than the target's
		return each(func(f *rollout.Fact) { f.Reached = false })
	case "superseded":
		return found(rollout.Superseded, "")
	case "lost":
		return found(rollout.Unknown, "")
	case "after":
		t, err := time.ParseDuration(args[0])
		w.now = w.now.Add(t)
		return err
	case "unmet":
		w.unmet = strings.Join(args, " ")
		return nil
	case "met":
		w.unmet = ""
		return nil
	case "merge": // all, or these; the others were taken out
		w.merge(args...)
		return nil
	case "mergeEdited": // all, with other parameters in these
		proposed := w.l.Proposal.Clone()
		w.merge()
		return each(func(f *rollout.Fact) {
			if proposed.Has(f.Instance) {
				f.Tree = strings.Repeat("e", 40)
			}
		})
	case "pushes": // what is proposed, past the pull request
		return each(func(f *rollout.Fact) { f.Tree, f.Reached = w.l.Proposal.Instances[f.Instance].Tree, true })
	case "lags": // the branch has the merge, and the forge doesn't say so yet
		w.pull.open = true
		return nil
	case "says":
		w.pull.open = false
		return nil
	case "close":
		w.pull.open = false
		return nil
	case "moves":
		return each(func(f *rollout.Fact) { f.Tree = strings.Repeat("d", 40) })
	case "away":
		w.away = strings.Join(args, " ")
		return nil
	case "approve":
		w.l.Approved = &desired.Approval{Gate: w.l.Gate(), By: "bob", At: w.now}
		return nil
	case "resume":
		w.l.Halted = nil
		for _, list := range w.l.Attempts {
			for _, a := range list {
				if a.Failed() && !a.Back && a.Target == w.l.Target {
					w.l.Forgiven++
				}
			}
		}
		return nil
	}
	return fmt.Errorf("unknown word %q", words[0])
}
