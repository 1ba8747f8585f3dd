package desired

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"time"

	"go.yaml.in/yaml/v3"
)

// Proposes says whether the rollout's changes are pull requests.
func (r *Rollout) Proposes() bool { return r.Write == WritePullRequest }

// RolloutBranch is the branch of a proposal of the rollout with the id: the nth of it, from 1, in a wave,
// from 0. People count waves from 1. No branch is that of two proposals, so that a forge tells by it what
// became of each.
func RolloutBranch(id string, wave, n int) string {
	return fmt.Sprintf("%s%d-%d", RolloutBranches(id), wave+1, n)
}

// RolloutBranches is how the branches of all proposals of the rollout with the id begin.
func RolloutBranches(id string) string { return "jibe/rollout/" + id + "/" }

// RolloutProposal is a pull request of a rollout of which not everything is on the branch yet.
type RolloutProposal struct {
	// Branch is where it was pushed, and Commit what: one commit on top of the branch that runs.
	Branch, Commit string
	// Target and Wave are those of the attempts that it becomes once it is merged.
	Target string
	Wave   int
	At     time.Time
	// Number and Link are the pull request's, 0 and "" before it is known to be open.
	Number int64
	Link   string
	// Part is since when some of it is on the branch that runs; zero where nothing is.
	Part time.Time
	// Withdrawn is why the pull request is to be closed, "" where it isn't.
	Withdrawn string
	// Instances are those whose proposed directories haven't come to the branch yet, by id.
	Instances map[string]ProposedTrees
}

// ProposedTrees are the trees of an instance's directory as it was when it was proposed, and as it
// was proposed.
type ProposedTrees struct{ Prior, Tree string }

// Has says whether the instance is in it, and not on the branch yet. No proposal has any.
func (p *RolloutProposal) Has(instance string) bool {
	if p == nil {
		return false
	}
	_, in := p.Instances[instance]
	return in
}

// String names the pull request for people.
func (p *RolloutProposal) String() string {
	switch {
	case p.Number == 0:
		return "the pull request of branch " + p.Branch
	case p.Link == "":
		return fmt.Sprintf("pull request %d", p.Number)
	}
	return fmt.Sprintf("pull request %d (%s)", p.Number, p.Link)
}

// Clone is a proposal that may be changed, nil of nil.
func (p *RolloutProposal) Clone() *RolloutProposal {
	if p == nil {
		return nil
	}
	c := *p
	c.Instances = maps.Clone(p.Instances)
	return &c
}

// encode writes the proposal into a ledger, one line an instance.
func (p *RolloutProposal) encode(b *bytes.Buffer) {
	b.WriteString("proposal:\n")
	line := func(key string, value any) { fmt.Fprintf(b, "  %s: %s\n", key, inJSON(value)) }
	line("branch", p.Branch)
	line("commit", p.Commit)
	line("target", p.Target)
	line("wave", p.Wave)
	line("at", stampOf(p.At))
	if p.Number != 0 {
		line("number", p.Number)
		line("link", p.Link)
	}
	if !p.Part.IsZero() {
		line("part", stampOf(p.Part))
	}
	if p.Withdrawn != "" {
		line("withdrawn", p.Withdrawn)
	}
	if len(p.Instances) == 0 {
		return
	}
	b.WriteString("  instances:\n")
	for _, id := range slices.Sorted(maps.Keys(p.Instances)) {
		fmt.Fprintf(b, "    %s: {prior: %s, tree: %s}\n", inJSON(id), inJSON(p.Instances[id].Prior), inJSON(p.Instances[id].Tree))
	}
}

// proposal reads what encode writes.
func (d *document) proposal(n *yaml.Node) *RolloutProposal {
	p := &RolloutProposal{Instances: map[string]ProposedTrees{}}
	text := func(key string, to *string) field {
		return field{key, func(_, v *yaml.Node) { *to = d.text(v, dotted("proposal", key), 0) }}
	}
	moment := func(key string, to *time.Time) field {
		return field{key, func(_, v *yaml.Node) { *to = d.moment(v, dotted("proposal", key)) }}
	}
	d.mapping(n, "proposal", text("branch", &p.Branch), text("commit", &p.Commit), text("target", &p.Target), text("link", &p.Link), text("withdrawn", &p.Withdrawn),
		field{"wave", func(_, v *yaml.Node) { p.Wave = d.count(v, "proposal.wave") }},
		field{"number", func(_, v *yaml.Node) { p.Number = int64(d.count(v, "proposal.number")) }},
		moment("at", &p.At), moment("part", &p.Part),
		field{"instances", func(_, v *yaml.Node) {
			d.entries(v, "proposal.instances", func(k, v *yaml.Node) {
				where := dotted("proposal.instances", k.Value)
				var t ProposedTrees
				d.mapping(v, where,
					field{"prior", func(_, v *yaml.Node) { t.Prior = d.text(v, dotted(where, "prior"), 0) }},
					field{"tree", func(_, v *yaml.Node) { t.Tree = d.text(v, dotted(where, "tree"), 0) }})
				p.Instances[k.Value] = t
			})
		}},
	)
	return p
}
