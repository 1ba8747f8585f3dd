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

	maxRolloutQueries = 20
	maxRolloutQuery   = 4096 // bytes
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

func (d *document) rollout(n *yaml.Node) *Rollout {
	r := &Rollout{State: RolloutRunning, Write: WriteDirect, AtOnce: Share{Number: rolloutAtOnce}, Failures: RolloutFailures{Budget: 1, Then: ThenHalt}}
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
				field{"then", func(_, v *yaml.Node) {
					r.Failures.Then = d.oneOf(v, "failures.then", ThenHalt, ThenRollback, ThenRollbackAll)
				}},
				field{"rollbackAnytime", func(_, v *yaml.Node) { r.Failures.RollbackAnytime = d.boolean(v, "failures.rollbackAnytime") }},
			)
		}},
		field{"write", func(_, v *yaml.Node) { r.Write = d.oneOf(v, "write", WriteDirect, WritePullRequest) }},
		field{"windows", func(_, v *yaml.Node) { r.Windows = d.windows(v) }},
		field{"state", func(_, v *yaml.Node) {
			r.State = d.oneOf(v, "state", RolloutRunning, RolloutPaused, RolloutAborted)
		}},
	)
	if len(d.problems) > 0 {
		return r
	}
	if !selects || len(r.Select.Folders) == 0 && !r.Select.ByLabels() && r.Select.Product == "" {
		d.fail(n, "add select: {folders: [tokyo/**], product: amf}", "the rollout selects no instances")
	}
	switch {
	case r.To.Version != "" && r.Select.Product == "":
		d.fail(n, "add select: {product: amf}, or name to.vnfdId", "\"to.version\" doesn't say of which product")
	case !to || r.To.VnfdID+r.To.Version == "" && !r.To.Beside():
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
		field{"labels", func(_, v *yaml.Node) { d.labels(v, &s) }},
	)
	return s
}

func (d *document) rolloutTarget(n *yaml.Node) (t RolloutTarget) {
	d.mapping(n, "to",
		field{"vnfdId", func(_, v *yaml.Node) { t.VnfdID = d.text(v, "to.vnfdId", maxName) }},
		field{"version", func(_, v *yaml.Node) {
			t.Version = d.text(v, "to.version", maxName)
			d.constraint(v, "to.version", t.Version)
		}},
		field{"package", func(_, v *yaml.Node) { t.Package = d.tree(v, "to.package") }},
		field{"strategy", func(_, v *yaml.Node) { t.Strategy = d.oneOf(v, "to.strategy", Rolling, BlueGreen) }},
		field{"drain", func(_, v *yaml.Node) {
			t.Drain = d.text(v, "to.drain", 0)
			if _, ok := d.duration(v, "to.drain", maxDrain); !ok {
				t.Drain = ""
			}
		}},
		field{"levels", func(_, v *yaml.Node) { t.Levels = d.levels(v) }},
		field{"params", func(_, v *yaml.Node) {
			t.Params = d.object(v, "to.params")
			d.secretsAsReferences(v, "to.params")
		}},
		field{"update", func(_, v *yaml.Node) {
			var policy UpdatePolicy
			d.update(v, &policy)
			if policy.Strategy == Container {
				d.fail(v, "write rolling or blueGreen", "\"to.update.strategy\" can't be %q: a rollout changes packages", Container)
			}
			t.Update = d.object(v, "to.update")
		}},
	)
	switch _, strategy := t.Update["strategy"]; {
	case t.Version != "" && t.VnfdID+t.Package != "":
		d.fail(n, "keep version, and Jibe puts vnfdId and package in its place when the rollout starts; or keep these", "\"to\" has a version, and a vnfdId or package")
	case t.Package != "" && t.VnfdID == "":
		d.fail(n, "add to.vnfdId, or remove to.package", "\"to.package\" stands there without \"to.vnfdId\"")
	case strategy && t.Strategy != "", t.Update["drain"] != nil && t.Drain != "":
		d.fail(n, "say it once: in to.update, or right in to", "\"to\" says twice how instances are updated")
	}
	return t
}

func (d *document) gate(n *yaml.Node) (g RolloutGate) {
	d.mapping(n, "after",
		field{"soak", func(_, v *yaml.Node) { g.Soak, _ = d.duration(v, "after.soak", maxSoak) }},
		field{"approve", func(_, v *yaml.Node) { g.Approve = d.boolean(v, "after.approve") }},
		field{"prometheus", func(_, v *yaml.Node) {
			if v.Kind == yaml.MappingNode {
				g.Prometheus = []RolloutQuery{d.rolloutQuery(v, "after.prometheus")}
				return
			}
			d.list(v, "after.prometheus", func(where string, v *yaml.Node) { g.Prometheus = append(g.Prometheus, d.rolloutQuery(v, where)) })
			if len(g.Prometheus) > maxRolloutQueries {
				d.fail(v, "put them together with \"and\"", "\"after.prometheus\" has %d queries; at most %d are allowed", len(g.Prometheus), maxRolloutQueries)
			}
		}},
	)
	return g
}

func (d *document) rolloutQuery(n *yaml.Node, where string) (q RolloutQuery) {
	d.mapping(n, where,
		field{"query", func(_, v *yaml.Node) { q.Query = strings.TrimSpace(d.text(v, where+".query", maxRolloutQuery)) }},
		field{"for", func(_, v *yaml.Node) { q.For, _ = d.duration(v, where+".for", maxSoak) }},
		field{"vim", func(_, v *yaml.Node) {
			if q.VIM = d.text(v, where+".vim", 0); v.ShortTag() == "!!str" && !settingName.MatchString(q.VIM) {
				d.fail(v, "write the name of a file vims/<name>.yaml that has prometheus:", "%q can't name a VIM", clip(q.VIM))
			}
		}},
	)
	if n.Kind == yaml.MappingNode && q.Query == "" {
		d.fail(n, "write {query: 'sum(rate(errors_total[5m])) < 1', for: 10m}", "%q has no query", where)
	}
	return q
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
