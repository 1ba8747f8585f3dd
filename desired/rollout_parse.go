package desired

import (
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

const (
	maxSoak        = 30 * 24 * time.Hour
	rolloutAtOnce  = 10 // without atOnce
	maxRolloutWave = 100
)

// ParseRollout reads a rollouts/<name>.yaml strictly; its name is the file's. The error is an
// [*InvalidError] with everything that is wrong.
func ParseRollout(file string, data []byte) (*Rollout, error) {
	d := &document{file: file}
	if !IsRolloutFile(file) {
		d.fail(nil, "rename it to "+RolloutDir+"/<name>.yaml (letters, digits, '-', '_' and single dots), or keep it elsewhere",
			"%s/ holds a file for each rollout, and this can't be one", RolloutDir)
		return nil, d.err()
	}
	n := d.root(data)
	if err := d.err(); err != nil {
		return nil, err
	}
	if n == nil {
		n = &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map", Line: 1}
	}
	r := d.rollout(n)
	r.Name = strings.TrimSuffix(path.Base(file), ".yaml")
	if err := d.err(); err != nil {
		return nil, err
	}
	return r, nil
}

// EditRollout makes the changes in the text of a rollout's file, as [Edit] does in a vnf.yaml.
func EditRollout(file string, data []byte, changes ...KeyValue) ([]byte, *Rollout, error) {
	t, err := readText(file, data)
	if err != nil {
		return nil, nil, err
	}
	for _, c := range changes {
		if t, err = t.edit(file, c); err != nil {
			return nil, nil, err
		}
	}
	r, err := ParseRollout(file, t.data)
	return t.data, r, err
}

// notYet is the field of a key that is reserved, and refused.
func (d *document) notYet(key, why string) field {
	return field{path.Base(strings.ReplaceAll(key, ".", "/")), func(k, _ *yaml.Node) { d.fail(k, why, "%q isn't supported", key) }}
}

func (d *document) rollout(n *yaml.Node) *Rollout {
	r := &Rollout{State: RolloutRunning, AtOnce: Share{Number: rolloutAtOnce}, Failures: RolloutFailures{Budget: 1, Then: ThenHalt}}
	selects, to := false, false
	d.mapping(n, "",
		field{"id", func(_, v *yaml.Node) { r.ID = d.uuid(v, "id") }},
		field{"select", func(_, v *yaml.Node) { selects, r.Select = true, d.rolloutSelect(v) }},
		field{"to", func(_, v *yaml.Node) { to, r.To = true, d.rolloutTarget(v) }},
		field{"order", func(_, v *yaml.Node) { r.Order = d.waves(v) }},
		field{"atOnce", func(_, v *yaml.Node) { r.AtOnce = d.share(v, "atOnce") }},
		field{"perVIM", func(_, v *yaml.Node) { r.PerVIM = d.share(v, "perVIM") }},
		field{"after", func(_, v *yaml.Node) { r.After = d.gate(v) }},
		field{"failures", func(_, v *yaml.Node) {
			d.mapping(v, "failures",
				field{"budget", func(_, v *yaml.Node) { r.Failures.Budget = d.bound(v, "failures.budget") }},
				field{"then", func(_, v *yaml.Node) { r.Failures.Then = d.oneOf(v, "failures.then", ThenHalt) }},
			)
		}},
		field{"windows", func(_, v *yaml.Node) { r.Windows = d.windows(v) }},
		field{"state", func(_, v *yaml.Node) {
			r.State = d.oneOf(v, "state", RolloutRunning, RolloutPaused, RolloutAborted)
		}},
	)
	if len(d.problems) > 0 {
		return r
	}
	if !selects || len(r.Select.Folders) == 0 && r.Select.Product == "" {
		d.fail(n, "add select: {folders: [tokyo/**], product: amf}", "the rollout selects no instances")
	}
	if !to || r.To.VnfdID == "" {
		d.fail(n, "add to: {vnfdId: …}, the descriptor_id of a package in repositories.yaml", "\"to.vnfdId\" is missing")
	}
	return r
}

func (d *document) rolloutSelect(n *yaml.Node) (s RolloutSelect) {
	d.mapping(n, "select",
		field{"folders", func(_, v *yaml.Node) {
			s.Folders = d.patterns(v, "select.folders", func(v *yaml.Node, where string) string {
				if v.ShortTag() == "!!str" { // a person may write the path as it is in the repository
					below := *v
					below.Value = strings.TrimPrefix(v.Value, "instances/")
					if below.Value == "**" {
						below.Value = "*"
					}
					v = &below
				}
				return d.folder(v, where)
			})
		}},
		field{"product", func(_, v *yaml.Node) { s.Product = d.text(v, "select.product", maxName) }},
		d.notYet("select.labels", "remove it: instances have no labels; name folders"),
	)
	return s
}

func (d *document) rolloutTarget(n *yaml.Node) (t RolloutTarget) {
	const one = "remove it: a rollout brings a vnfdId, with strategy and drain; what else is to change is changed by a commit of its own"
	d.mapping(n, "to",
		field{"vnfdId", func(_, v *yaml.Node) { t.VnfdID = d.text(v, "to.vnfdId", maxName) }},
		field{"package", func(_, v *yaml.Node) { t.Package = d.tree(v, "to.package") }},
		field{"strategy", func(_, v *yaml.Node) { t.Strategy = d.oneOf(v, "to.strategy", Rolling, BlueGreen) }},
		field{"drain", func(_, v *yaml.Node) {
			t.Drain = d.text(v, "to.drain", 0)
			if _, ok := d.duration(v, "to.drain", maxDrain); !ok {
				t.Drain = ""
			}
		}},
		d.notYet("to.version", "name the vnfdId of one version"),
		d.notYet("to.levels", one), d.notYet("to.params", one), d.notYet("to.update", one),
	)
	return t
}

func (d *document) gate(n *yaml.Node) (g RolloutGate) {
	d.mapping(n, "after",
		field{"soak", func(_, v *yaml.Node) { g.Soak, _ = d.duration(v, "after.soak", maxSoak) }},
		field{"approve", func(_, v *yaml.Node) { g.Approve = d.boolean(v, "after.approve") }},
		d.notYet("after.prometheus", "remove it, and add approve: true: a person looks at the query's answer"),
	)
	return g
}

// duration reads a time as "30m", of at most most.
func (d *document) duration(n *yaml.Node, where string, most time.Duration) (time.Duration, bool) {
	before := len(d.problems)
	s := d.text(n, where, 0)
	if len(d.problems) > before {
		return 0, false
	}
	t, err := time.ParseDuration(s)
	if err != nil || t < 0 || t > most {
		d.fail(n, "write a time as \"90s\" or \"30m\", at most "+most.String(), "%q isn't a time: %q", where, clip(s))
		return 0, false
	}
	return t, true
}

// share reads a number from 1, or a percentage.
func (d *document) share(n *yaml.Node, where string) Share {
	if n.Kind == yaml.ScalarNode && n.ShortTag() == "!!str" {
		if p, ok := strings.CutSuffix(n.Value, "%"); ok {
			if v, err := strconv.Atoi(p); err == nil && v >= 1 && v <= 100 {
				return Share{Percent: v}
			}
		}
		d.fail(n, "write a whole number from 1, or a percentage as 5%", "%q isn't a share of the instances: %q", where, clip(n.Value))
		return Share{}
	}
	return Share{Number: d.bound(n, where)}
}

func (d *document) waves(n *yaml.Node) []RolloutWave {
	var out []RolloutWave
	named, percent := map[string]bool{}, 0
	d.list(n, "order", func(where string, v *yaml.Node) {
		var w RolloutWave
		before := len(d.problems)
		d.mapping(v, where,
			field{"instances", func(_, v *yaml.Node) {
				d.list(v, where+".instances", func(where string, v *yaml.Node) {
					dir := strings.Trim(d.text(v, where, 1024), "/")
					if !strings.HasPrefix(dir, "instances/") || path.Clean(dir) != dir || IsPattern(dir) {
						d.fail(v, "write the instance's directory: instances/tokyo/lab/amf", "%q can't be an instance: %q", where, clip(dir))
					}
					if named[dir] {
						d.fail(v, "name it once", "%q: %s stands in the order already", where, clip(dir))
					}
					named[dir] = true
					w.Instances = append(w.Instances, dir)
				})
			}},
			field{"percent", func(_, v *yaml.Node) {
				if w.Percent = d.bound(v, where+".percent"); w.Percent > 100 || w.Percent <= percent && len(d.problems) == before {
					d.fail(v, "write how much of all instances shall be done after the wave: each wave more than the one before, at most 100", "%q can't be %d", where+".percent", w.Percent)
				}
				percent = max(percent, w.Percent)
			}},
		)
		if len(d.problems) == before && (len(w.Instances) > 0) == (w.Percent > 0) {
			d.fail(v, "write either instances: or percent:", "%q must have one of instances and percent", where)
		}
		out = append(out, w)
	})
	switch {
	case len(d.problems) > 0:
	case len(out) == 0:
		d.fail(n, "remove it, or name the waves", "\"order\" has no waves")
	case len(out) > maxRolloutWave:
		d.fail(n, "make larger waves; atOnce bounds what is under way", "\"order\" has %d waves; at most %d are allowed", len(out), maxRolloutWave)
	case slices.ContainsFunc(out, func(w RolloutWave) bool { return w.Percent > 0 }) && percent < 100:
		d.fail(n, fmt.Sprintf("add {percent: 100}: after the last wave %d %% are left out", 100-percent), "\"order\" ends at %d percent", percent)
	}
	return out
}
