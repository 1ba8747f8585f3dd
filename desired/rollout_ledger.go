package desired

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"

	"go.yaml.in/yaml/v3"
)

// maxLedger is the most that a ledger may hold, in bytes: some 60,000 attempts.
const maxLedger = 15 << 20

const ledgerHead = "# Jibe writes this file: what the rollout has done so far. See docs/guide/rollouts.md before you change it.\n"

// Encode is the ledger's file: one line an attempt, in the order of ids.
func (l *Ledger) Encode() []byte {
	var b bytes.Buffer
	b.WriteString(ledgerHead)
	line := func(key string, value any) { fmt.Fprintf(&b, "%s: %s\n", key, inJSON(value)) }
	line("rollout", l.Rollout)
	line("started", stampOf(l.Started))
	line("target", l.Target)
	line("wave", l.Wave)
	if !l.Soak.IsZero() {
		line("soak", stampOf(l.Soak))
	}
	if a := l.Approved; a != nil {
		line("approved", map[string]string{"gate": a.Gate, "by": a.By, "at": stampOf(a.At)})
	}
	if h := l.Halted; h != nil {
		halted := map[string]any{"at": stampOf(h.At), "reason": h.Reason}
		if h.Unknown {
			halted["unknown"] = true
		}
		if h.Closed {
			halted["closed"] = true
		}
		line("halted", halted)
	}
	if l.Forgiven > 0 {
		line("forgiven", l.Forgiven)
	}
	if e := l.Ended; e != nil {
		line("ended", map[string]string{"at": stampOf(e.At), "as": e.As})
	}
	if l.Proposals > 0 {
		line("proposals", l.Proposals)
	}
	if !l.Unmerged.IsZero() {
		line("unmerged", stampOf(l.Unmerged))
	}
	if l.Proposal != nil {
		l.Proposal.encode(&b)
	}
	if len(l.Attempts) == 0 {
		return b.Bytes()
	}
	b.WriteString("instances:\n")
	for _, id := range l.instances() {
		fmt.Fprintf(&b, "  %s:\n", inJSON(id))
		for _, a := range l.Attempts[id] {
			b.WriteString("    - {")
			if a.Back {
				b.WriteString("back: true, ")
			}
			if a.Retried {
				b.WriteString("retried: true, ")
			}
			if a.Edited {
				b.WriteString("edited: true, ")
			}
			fmt.Fprintf(&b, "target: %s, wave: %d, prior: %s, tree: %s, began: %q", inJSON(a.Target), a.Wave, inJSON(a.Prior), inJSON(a.Tree), stampOf(a.Began))
			if a.Outcome != "" {
				fmt.Fprintf(&b, ", outcome: %s, ended: %q", a.Outcome, stampOf(a.Ended))
			}
			if a.Reason != "" {
				fmt.Fprintf(&b, ", reason: %s", inJSON(a.Reason))
			}
			b.WriteString("}\n")
		}
	}
	return b.Bytes()
}

// Unseen counts the instance's attempts at the target of which nothing had begun as its VIM was away.
func (l *Ledger) Unseen(instance, target string) (n int) {
	for _, a := range l.Attempts[instance] {
		if a.Target == target && a.Outcome == OutcomeUnseen {
			n++
		}
	}
	return n
}

// NewTarget is why the file r can't bring another target: its rollout has ended. It is nil where it has not, or where
// the target is the one that the rollout ended with.
func (l *Ledger) NewTarget(file string, r *Rollout) *Problem {
	if l.Ended == nil || l.Target == "" || l.Target == r.To.Digest() {
		return nil
	}

	return &Problem{File: file, Message: fmt.Sprintf("its rollout has ended (%s), and to: asks for another target, which it never brings", l.Ended.As),
		Remedy: "put to: back, and write the new target to a rollout file with another name, without id and to.package"}
}

// inJSON is a value as JSON has it, which YAML reads.
func inJSON(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err) // of texts and numbers alone
	}
	return string(text)
}

func stampOf(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }

// ParseLedger reads a ledger strictly. The error is an [*InvalidError].
func ParseLedger(file string, data []byte) (*Ledger, error) {
	d := &document{file: file, most: maxLedger}
	n := d.root(data)
	if err := d.err(); err != nil {
		return nil, err
	}
	if n == nil {
		n = &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map", Line: 1}
	}
	l := &Ledger{Attempts: map[string][]Attempt{}}
	d.mapping(n, "",
		field{"rollout", func(_, v *yaml.Node) { l.Rollout = d.text(v, "rollout", 0) }},
		field{"started", func(_, v *yaml.Node) { l.Started = d.moment(v, "started") }},
		field{"target", func(_, v *yaml.Node) { l.Target = d.text(v, "target", 0) }},
		field{"wave", func(_, v *yaml.Node) { l.Wave = d.count(v, "wave") }},
		field{"soak", func(_, v *yaml.Node) { l.Soak = d.moment(v, "soak") }},
		field{"approved", func(_, v *yaml.Node) {
			l.Approved = &Approval{}
			d.mapping(v, "approved",
				field{"gate", func(_, v *yaml.Node) { l.Approved.Gate = d.text(v, "approved.gate", 0) }},
				field{"by", func(_, v *yaml.Node) { l.Approved.By = d.text(v, "approved.by", 0) }},
				field{"at", func(_, v *yaml.Node) { l.Approved.At = d.moment(v, "approved.at") }},
			)
		}},
		field{"halted", func(_, v *yaml.Node) {
			l.Halted = &Halt{}
			d.mapping(v, "halted",
				field{"at", func(_, v *yaml.Node) { l.Halted.At = d.moment(v, "halted.at") }},
				field{"reason", func(_, v *yaml.Node) { l.Halted.Reason = d.text(v, "halted.reason", 0) }},
				field{"unknown", func(_, v *yaml.Node) { l.Halted.Unknown = d.boolean(v, "halted.unknown") }},
				field{"closed", func(_, v *yaml.Node) { l.Halted.Closed = d.boolean(v, "halted.closed") }},
			)
		}},
		field{"forgiven", func(_, v *yaml.Node) { l.Forgiven = d.count(v, "forgiven") }},
		field{"ended", func(_, v *yaml.Node) {
			l.Ended = &RolloutEnd{}
			d.mapping(v, "ended",
				field{"at", func(_, v *yaml.Node) { l.Ended.At = d.moment(v, "ended.at") }},
				field{"as", func(_, v *yaml.Node) { l.Ended.As = d.text(v, "ended.as", 0) }},
			)
		}},
		field{"proposals", func(_, v *yaml.Node) { l.Proposals = d.count(v, "proposals") }},
		field{"unmerged", func(_, v *yaml.Node) { l.Unmerged = d.moment(v, "unmerged") }},
		field{"proposal", func(_, v *yaml.Node) { l.Proposal = d.proposal(v) }},
		field{"instances", func(_, v *yaml.Node) {
			d.entries(v, "instances", func(k, v *yaml.Node) {
				d.list(v, dotted("instances", k.Value), func(where string, v *yaml.Node) {
					l.Attempts[k.Value] = append(l.Attempts[k.Value], d.attempt(v, where))
				})
			})
		}},
	)
	if err := d.err(); err != nil {
		return nil, err
	}
	return l, nil
}

func (d *document) attempt(n *yaml.Node, where string) (a Attempt) {
	text := func(key string, to *string) field {
		return field{key, func(_, v *yaml.Node) { *to = d.text(v, dotted(where, key), 0) }}
	}
	moment := func(key string, to *time.Time) field {
		return field{key, func(_, v *yaml.Node) { *to = d.moment(v, dotted(where, key)) }}
	}
	d.mapping(n, where, text("target", &a.Target), text("prior", &a.Prior), text("tree", &a.Tree), text("reason", &a.Reason),
		field{"retried", func(_, v *yaml.Node) { a.Retried = d.boolean(v, dotted(where, "retried")) }},
		field{"edited", func(_, v *yaml.Node) { a.Edited = d.boolean(v, dotted(where, "edited")) }},
		field{"back", func(_, v *yaml.Node) { a.Back = d.boolean(v, dotted(where, "back")) }},
		field{"wave", func(_, v *yaml.Node) { a.Wave = d.count(v, dotted(where, "wave")) }},
		field{"outcome", func(_, v *yaml.Node) {
			a.Outcome = d.oneOf(v, dotted(where, "outcome"), OutcomeCompleted, OutcomeFailed, OutcomeSuperseded, OutcomeUnknown, OutcomeUnseen)
		}},
		moment("began", &a.Began), moment("ended", &a.Ended))
	return a
}

// moment reads a time as RFC 3339 has it.
func (d *document) moment(n *yaml.Node, where string) time.Time {
	before := len(d.problems)
	s := d.text(n, where, 0)
	t, err := time.Parse(time.RFC3339Nano, s)
	if err != nil && len(d.problems) == before {
		d.fail(n, "write it as 2006-01-02T15:04:05Z", "%q isn't a time: %q", where, clip(s))
	}
	return t
}

// count reads a whole number from 0.
func (d *document) count(n *yaml.Node, where string) int {
	var c int32
	if n.Kind != yaml.ScalarNode || n.ShortTag() != "!!int" || n.Decode(&c) != nil || c < 0 {
		d.fail(n, "write a whole number from 0", "%q can't be %s", where, described(n))
	}
	return int(c)
}
