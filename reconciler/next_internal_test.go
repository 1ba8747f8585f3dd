package reconciler

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/lcm"
	"github.com/jibe-vnfm/jibe/plan"
	"github.com/jibe-vnfm/jibe/test/kit"
)

// TestNextAnswersAsTheScenariosSay runs every file of scenarios under testdata. Its README describes the format.
func TestNextAnswersAsTheScenariosSay(t *testing.T) {
	t.Parallel()

	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scenarios under testdata (%v)", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			t.Parallel()

			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got, err := play(string(text))
			if err != nil {
				t.Fatalf("%s:%v", file, err)
			}
			kit.Golden(t, file, got)
		})
	}
}

// noon is the time of every scenario.
var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// told is what a scenario says of an instance. Where a part isn't told, nothing was found there.
type told struct {
	Situation
	// blocked is the part at whose look it shows that head can't be brought about.
	blocked string
	// override lets head begin outside of its windows.
	override string
}

func newTold() *told {
	return &told{Situation: Situation{Now: noon, Record: &lcm.Instance{}, Rest: RestFacts{Stands: &desired.Instance{}}, Change: ChangeFacts{Next: &lcm.Operation{}}}}
}

// play reads a scenario and answers with the same text, in which every answer is what Next says. Errors begin with the
// number of the line.
func play(text string) ([]byte, error) {
	var out bytes.Buffer
	s, section, skipping := newTold(), "", false
	for i, line := range strings.Split(strings.TrimSuffix(text, "\n"), "\n") {
		words := strings.Fields(line)
		if skipping && len(words) > 0 {
			continue // inside the old answer
		}
		skipping = false
		fmt.Fprintln(&out, line)
		if len(words) == 0 || words[0][0] == '#' {
			continue
		}
		if line[0] == ' ' {
			if err := s.set(section, strings.TrimSpace(line)); err != nil {
				return nil, fmt.Errorf("%d: %w", i+1, err)
			}

			continue
		}

		switch section = words[0]; section {
		case "instance":
			s = newTold()
		case "operation":
			s.Operation = nil
		case "change":
			s.Change, s.blocked, s.override = ChangeFacts{Next: &lcm.Operation{}}, "", ""
		case "rest":
			s.Rest = RestFacts{Stands: &desired.Instance{}}
		case "attempt":
			s.Attempt = AttemptFacts{}
		case "next":
			for _, line := range s.next() {
				fmt.Fprintf(&out, "  %s\n", line)
			}
			skipping = true
		default:
			return nil, fmt.Errorf("%d: unknown section %q", i+1, section)
		}
	}

	return out.Bytes(), nil
}

// next is what is done until the facts have changed, or the pass ends: first what was read on the way.
func (s *told) next() (lines []string) {
	at, read := s.Situation, []string(nil)
	for range 100 {
		a := Next(at)
		if a.Do == Look {
			read = append(read, a.Part.String())
			s.read(&at, a)

			continue
		}

		lines = append(lines, a.string(at))
		if !carriedOn(&at, a) {
			if what := WaitingFor(at); what != "" && a.Do.ends() {
				lines = append(lines, "waits for "+what)
			}

			return append([]string{"reads " + strings.Join(read, ", ")}, lines...)
		}
	}

	return append(lines, "and so on for ever")
}

// read adds a part to what is known.
func (s *told) read(at *Situation, a Action) {
	at.Seen = at.Seen.With(a.Part)
	if a.Part.String() == s.blocked {
		at.Change.Blocked = true
	}
	if a.Part == PartRest {
		at.Rest.Record, at.Rest.HeldBack = at.Record, a.Head.heldBack()
		if at.Rest.At = at.Head; at.Rest.HeldBack {
			at.Rest.At = at.Record.Operated
		}
		if failed := at.failed(); failed != nil && failed.Automatic {
			at.Rest.Failed = failed
		}
		at.Change.WaitUntil = at.Change.Window.Until
	}
	if a.Part == PartCare && at.Attempt.Care {
		stands := *at.Record
		stands.Operated, stands.Open = at.Operation.Before, at.Record.Care
		at.Rest.Record, at.Rest.HeldBack, at.Rest.Waiting, at.Rest.At = &stands, true, at.Operation.ID, at.Operation.Before
	}
	if a.Part == PartSuspension {
		at.Attempt.Operation = at.Operation
	}
}

// carriedOn does to the situation what an action does that leaves the facts as they are; false is for any other.
func carriedOn(at *Situation, a Action) bool {
	switch a.Do {
	case ClosePullRequests:
		at.Done |= DoneWithdraw
	case PinAtRest:
		at.Done |= DonePinAtRest
	case CreateRecord:
		at.Done |= DoneRecord
	case ShowDrift:
		at.Done |= DoneShow
	case Reject:
		at.Change.Blocked = true
	case TellWait:
		at.Attempt.Told = true
	case Issue:
		at.Attempt.Issued = true
	default:
		return false
	}

	return true
}

// string is the action as scenarios have it.
func (a Action) string(s Situation) string {
	switch a.Do {
	case Begin:
		line := fmt.Sprintf("begin %s", s.Change.Next.Type)
		if a.Override {
			line += " outside of its windows"
		}

		return line
	case ShowDrift:
		if len(s.Rest.Due) == 0 {
			return "show no drift"
		}

		return fmt.Sprintf("show drift %s", a.State)
	case Reject:
		return fmt.Sprintf("reject: %v", a.Err)
	case RefuseRepair:
		return "refuse repair: " + a.Why + again(a.Wait)
	case TellWait:
		return "tell wait for " + a.For
	case Start, Issue:
		var steps []string
		for _, step := range plan.Next(s.Attempt.Steps) {
			steps = append(steps, step.String())
		}

		return a.Do.String() + " " + strings.Join(steps, "; ")
	case End:
		line := fmt.Sprintf("end (%s): %s", a.Cause, a.Problem.Detail)
		if a.GaveWay {
			line += "; a newer commit takes its place"
		}

		return line
	}

	return a.Do.String() + again(a.Wait)
}

func again(wait time.Duration) string {
	if wait == 0 {
		return ""
	}

	return ", look again in " + wait.String()
}

// set reads a line of a section.
func (s *told) set(section, line string) error {
	kind, rest, _ := strings.Cut(line, " ")
	attributes, bare, err := parse(rest)
	if err != nil {
		return err
	}
	switch section + " " + kind {
	case "instance record":
		return s.setRecord(attributes)
	case "instance head":
		s.Head = desired.Revision{Tree: attributes["tree"], Dir: "instances/amf"}
		s.Exists, s.Suspended = attributes["tree"] != "", attributes.is("suspended")

		return attributes.only("tree", "suspended")
	case "instance proposal":
		s.Proposal = ProposalFacts{Merged: attributes.is("merged"), Again: attributes.duration("again"), For: attributes["for"]}

		return attributes.only("merged", "again", "for")
	case "instance elsewhere": // what others are at
		s.RequestWaits, s.Behind, s.Forge = attributes.is("request"), attributes.is("decided"), attributes.is("forge")
		if attributes.is("unproved") {
			s.Foreign = errors.New("git doesn't prove it")
		}

		return attributes.only("request", "decided", "forge", "unproved")
	case "operation is":
		return s.setOperation(bare, attributes)
	case "change before":
		s.Change.Before, err = attributes.intent()
	case "change after":
		s.Change.After, err = attributes.intent()
	case "change failed-from":
		s.Change.FailedFrom, err = attributes.intent()
	case "change failed-to":
		s.Change.FailedTo, err = attributes.intent()
	case "change next":
		s.Change.Next.Type, s.Change.Due = lcm.Type(bare[0]), !attributes.is("not-due")
		s.Change.Requested, s.Change.Begun = attributes.is("requested"), attributes.is("begun")
	case "change window":
		s.Change.Window = WindowFacts{Type: lcm.Type(bare[0]), Why: attributes["why"]}
		if until := attributes.duration("until"); until > 0 {
			s.Change.Window.Until = noon.Add(until)
		}
		if attributes.is("seen") {
			s.Change.SeenWaiting = lcm.Type(bare[0])
		}
	case "change override":
		s.Change.Override = override{reason: attributes["reason"]}
	case "change open":
		s.Change.Edits = []desired.KeyValue{{Path: bare}}
	case "change blocked":
		s.blocked = attributes["at"]
	case "rest stands":
		s.Rest.Stands, err = attributes.intent()
	case "rest unseen":
		s.Rest.Unseen, s.Rest.Pause = true, attributes.duration("pause")
	case "rest due":
		s.Rest.Due = append(s.Rest.Due, step(bare, attributes))
	case "rest failed":
		s.Rest.Resting, s.Rest.Pausing = noon.Add(-attributes.duration("since")), attributes.duration("pause")
		s.Rest.Freed, s.Rest.Ask, s.Rest.Lacks = attributes.is("freed"), attributes.duration("ask"), attributes.is("lacks")
	case "rest refused":
		s.Rest.Refused, s.Rest.Hooks = attributes.duration("for"), attributes["hooks"]
		s.Rest.Window.Why, s.Rest.Again = attributes["window"], attributes.duration("again")
	case "attempt needs":
		s.Attempt.Awaits, s.Attempt.Care = attributes["for"], attributes.is("care")
	case "attempt time":
		s.Attempt.Limit, s.Attempt.Left = attributes.duration("limit"), attributes.duration("left")
		s.Attempt.Stood, s.Attempt.Grace = attributes.duration("stood"), attributes.duration("grace")
	case "attempt newer":
		s.Attempt.Newer, s.Attempt.Overtaken, s.Attempt.MovedOn = desired.Revision{Commit: attributes["commit"]}, true, true
	case "attempt proposed":
		s.Attempt.Pending, s.Attempt.Again = attributes.is("pending"), attributes.duration("again")
	case "attempt started":
		s.Attempt.Times, s.Attempt.Quiet = attributes.number("times"), attributes.duration("quiet")
		s.Attempt.Contended, s.Attempt.Batches = attributes.is("contended"), attributes.number("batches")
	case "attempt step":
		s.Attempt.Steps = append(s.Attempt.Steps, step(bare, attributes))
	default:
		return fmt.Errorf("%q isn't known in section %q", kind, section)
	}

	return err
}

func (s *told) setRecord(x words) error {
	r := s.Record
	r.Operated.Tree, r.Settled.Tree = x["operated"], x["operated"]
	r.Prepared, r.Proposed, r.OutstandingCommit, r.Care = x["prepared"], x["proposed"], x["outstanding"], x["repair"]
	r.Seq, r.Last = uint64(x.number("seq")), x["last"]
	if x.is("withdraw") {
		r.Withdraw = []string{"op"}
	}

	return x.only("operated", "prepared", "proposed", "outstanding", "repair", "seq", "last", "withdraw")
}

func (s *told) setOperation(bare []string, x words) error {
	op := &lcm.Operation{ID: "op", Type: lcm.Type(bare[0]), State: lcm.State(bare[1]), Attempt: max(1, x.number("attempt")),
		Automatic: x.is("automatic"), CancelMode: x["cancel"], GaveWay: x.is("gave-way"), Unproven: x.is("unproven"), Contended: x.is("contended")}
	op.Before.Tree, op.After.Tree = x["from"], s.Record.Operated.Tree
	op.Journal.Rollback = x.is("rollback")
	if what := x["waits"]; what != "" {
		op.AddWait(noon, what)
	}
	if x.is("proposed") {
		op.Proposal = &lcm.Proposal{}
	}
	if x["issued"] != "" {
		op.Journal.Issued = []plan.StepKey{plan.StepKey(x["issued"])}
	}
	s.Operation, s.Record.Open = op, op.ID
	delete(x, bare[0])
	delete(x, bare[1])

	return x.only("attempt", "automatic", "cancel", "gave-way", "unproven", "contended", "from", "rollback", "waits", "proposed", "issued")
}

// step is a step of a plan: its stage, action and object.
func step(bare []string, x words) plan.Step {
	stage, _ := strconv.Atoi(bare[0])

	return plan.Step{Stage: stage, Action: plan.Action(bare[1]), Object: bare[2], Reason: x["reason"], Failure: x["failure"]}
}

// words are the attributes of a line.
type words map[string]string

// parse cuts attributes at blanks, except inside double quotes. bare are those without a value.
func parse(line string) (attributes words, bare []string, err error) {
	attributes = words{}
	for line = strings.TrimSpace(line); line != ""; line = strings.TrimSpace(line) {
		end := strings.IndexAny(line, " =")
		if end < 0 || line[end] == ' ' {
			word, rest, _ := strings.Cut(line, " ")
			bare, line = append(bare, word), rest
			attributes[word] = word

			continue
		}
		key := line[:end]
		line = line[end+1:]
		if quoted, err := strconv.QuotedPrefix(line); err == nil {
			if attributes[key], err = strconv.Unquote(quoted); err != nil {
				return nil, nil, err
			}
			line = line[len(quoted):]

			continue
		}
		attributes[key], line, _ = strings.Cut(line, " ")
	}

	return attributes, bare, nil
}

func (x words) is(key string) bool { return x[key] == key }

func (x words) number(key string) int {
	n, _ := strconv.Atoi(x[key])

	return n
}

func (x words) duration(key string) time.Duration {
	d, _ := time.ParseDuration(x[key])

	return d
}

// only fails where there are other attributes.
func (x words) only(keys ...string) error {
	for key := range x {
		found := false
		for _, k := range keys {
			found = found || k == key
		}
		if !found {
			return fmt.Errorf("attribute %q isn't known", key)
		}
	}

	return nil
}

// intent is what an instance's file says.
func (x words) intent() (*desired.Instance, error) {
	in := &desired.Instance{ID: "amf", Name: "amf", VnfdID: "vnfd", State: x["state"], Suspend: x.is("suspend"), Held: x["held"], Drift: x["drift"], Supersede: x["supersede"]}
	if n := x.number("level"); n > 0 {
		in.Levels = map[string]int{"web": n}
	}

	return in, x.only("state", "suspend", "held", "drift", "supersede", "level")
}
