package desired

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/jibe-vnfm/jibe/desired/window"
)

// MaintenanceFile says when operations may begin on the instances below its folder.
const MaintenanceFile = "maintenance.yaml"

// healType is the type of operation that a file binds only where it names it.
const healType = "HEAL"

// Maintenance is a parsed maintenance.yaml: when operations may begin on the instances below
// its folder. It never concerns an operation that has begun.
type Maintenance struct {
	// File is its path in the desired repository.
	File string
	// Calendar has its windows, of which one must be open, and its freezes.
	Calendar window.Calendar
	// Binds are the types of operation that must wait; nil is all but HEAL. Where HEAL is named,
	// automatic repairs wait, too.
	Binds []string
}

// Bound says whether operations of a type, as ETSI names it, wait for the file's windows.
func (m *Maintenance) Bound(operation string) bool {
	if m.Binds == nil {
		return operation != healType
	}
	return slices.Contains(m.Binds, operation)
}

// MaintenanceFiles are the paths at which files may stand that rule an instance's directory, the
// outermost first. The directory itself is none: what is in it is restored by a rollback.
func MaintenanceFiles(dir string) []string {
	var out []string
	for up := path.Dir(dir); up != "." && up != "/"; up = path.Dir(up) {
		out = append(out, path.Join(up, MaintenanceFile))
	}
	out = append(out, MaintenanceFile)
	slices.Reverse(out)
	return out
}

// The bounds of a maintenance.yaml: every start asks all of it.
const (
	maxWindows = 50
	maxFreezes = 200
)

// ParseMaintenance reads a maintenance.yaml strictly. The error is an [*InvalidError] with everything
// that is wrong.
func ParseMaintenance(file string, data []byte) (*Maintenance, error) {
	d := &document{file: file}
	m := &Maintenance{File: file}
	n := d.root(data)
	if n == nil {
		return m, d.err()
	}
	d.mapping(n, "",
		field{"windows", func(_, v *yaml.Node) { m.Calendar.Windows = d.windows(v) }},
		field{"freezes", func(_, v *yaml.Node) {
			d.list(v, "freezes", func(where string, v *yaml.Node) {
				m.Calendar.Freezes = append(m.Calendar.Freezes, d.freeze(v, where))
			})
			if len(m.Calendar.Freezes) > maxFreezes {
				d.fail(v, "remove those that are over", `"freezes" has more than %d`, maxFreezes)
			}
		}},
		field{"binds", func(_, v *yaml.Node) {
			m.Binds = []string{}
			d.items(v, "binds", func(v *yaml.Node) {
				m.Binds = append(m.Binds, d.oneOf(v, "binds", append(GrantedOperations(), "MODIFY_INFO")...))
			})
			if len(d.problems) == 0 && len(m.Binds) == 0 {
				d.fail(v, "name types of operation, or remove it: then all but "+healType+" wait", `"binds" names nothing, so that nothing would wait`)
			}
		}},
	)
	if err := d.err(); err != nil {
		return nil, err
	}
	return m, nil
}

// windows reads those of which one must be open for work to begin.
func (d *document) windows(n *yaml.Node) (out []window.Window) {
	d.list(n, "windows", func(where string, v *yaml.Node) { out = append(out, d.window(v, where)) })
	if len(d.problems) == 0 && len(out) == 0 {
		d.fail(n, "remove it: without windows, work may begin at any time", `"windows" has none`)
	}
	if len(out) > maxWindows {
		d.fail(n, "put several into one rule, such as BYDAY=TU,WE", `"windows" has more than %d`, maxWindows)
	}
	return out
}

// window reads one window; what its rule is wrong in is said where its field stands.
func (d *document) window(n *yaml.Node, where string) window.Window {
	var rule window.Rule
	at := map[string]*yaml.Node{}
	before := len(d.problems)
	text := func(key string, to *string) field {
		return field{key, func(_, v *yaml.Node) {
			at[key] = v
			*to = d.text(v, dotted(where, key), maxName)
		}}
	}
	d.mapping(n, where,
		text("cron", &rule.Cron), text("rrule", &rule.RRule), text("start", &rule.Start), text("timezone", &rule.Timezone),
		field{"lasts", func(_, v *yaml.Node) {
			at["lasts"] = v
			rule.Lasts = d.period(v, dotted(where, "lasts"), window.Longest)
		}},
	)
	if len(d.problems) > before {
		return window.Window{}
	}
	if at["lasts"] == nil {
		d.fail(n, "add lasts: 4h", "%q is missing", dotted(where, "lasts"))
		return window.Window{}
	}
	w, err := window.New(rule)
	var wrong *window.RuleError
	if errors.As(err, &wrong) {
		v := at[wrong.Field]
		if v == nil {
			v = n
		}
		d.fail(v, wrong.Remedy, "%q: %s", dotted(where, wrong.Field), wrong.Reason)
	}
	return w
}

func (d *document) freeze(n *yaml.Node, where string) window.Freeze {
	var f window.Freeze
	before := len(d.problems)
	instant := func(key string, to *time.Time) field {
		return field{key, func(_, v *yaml.Node) {
			t, err := time.Parse(time.RFC3339, v.Value)
			if v.Kind != yaml.ScalarNode || err != nil {
				d.fail(v, "write a time with its offset, such as 2026-12-24T18:00:00+09:00", "%q can't be %s", dotted(where, key), described(v))
			}
			*to = t
		}}
	}
	d.mapping(n, where,
		instant("from", &f.From), instant("until", &f.Until),
		field{"reason", func(_, v *yaml.Node) { f.Reason = d.text(v, dotted(where, "reason"), maxDescription) }},
	)
	if len(d.problems) > before {
		return f
	}
	switch {
	case f.Until.IsZero():
		d.fail(n, "add until: 2027-01-04T06:00:00+09:00", "%q is missing", dotted(where, "until"))
	case !f.From.Before(f.Until):
		d.fail(n, "swap them", "%s ends before it begins", where)
	}
	return f
}

// Waits are what work that is to begin meets.
type Waits struct {
	window.Wait
	// File is one that has it wait, "" where none does.
	File string
}

// Ask says whether an operation of a type that takes some time may begin at t by all the files
// that bind it, and else when.
func Ask(files []*Maintenance, operation string, t time.Time, takes time.Duration) Waits {
	var calendars []window.Calendar
	out := Waits{}
	for _, m := range files {
		if !m.Bound(operation) {
			continue
		}
		calendars = append(calendars, m.Calendar)
		if alone := window.Ask([]window.Calendar{m.Calendar}, t, takes); !alone.Open {
			out.File = m.File // the innermost of those that are closed
		}
	}
	out.Wait = window.Ask(calendars, t, takes)
	return out
}

// Again is after how long to ask again: when it may begin, and at most after a while, since the files may
// change meanwhile.
func (w Waits) Again(now time.Time, most time.Duration) time.Duration {
	if w.Until.IsZero() {
		return most
	}
	return min(max(w.Until.Sub(now), time.Millisecond), most)
}

// Why tells, for people, what is waited for and until when. takes is how long the work is
// expected to take.
func (w Waits) Why(takes time.Duration) string {
	until := "no time that is in sight"
	if !w.Until.IsZero() {
		until = w.Until.UTC().Format(time.RFC3339)
	}
	why := "outside of its maintenance windows"
	switch {
	case w.Freeze != nil && w.Freeze.Reason != "":
		why = fmt.Sprintf("frozen (%s)", w.Freeze.Reason)
	case w.Freeze != nil:
		why = "frozen"
	case w.Short:
		why = fmt.Sprintf("its window closes before the work would be done, which took %s lately", takes.Round(time.Second))
	}
	if w.File != "" {
		why += ", by " + w.File
	}
	return fmt.Sprintf("%s; it may begin at %s", why, until)
}
