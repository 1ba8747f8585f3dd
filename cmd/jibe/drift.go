package main

import (
	"cmp"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/jibe-vnfm/jibe/drivers"
	"github.com/jibe-vnfm/jibe/internal/natural"
	"github.com/jibe-vnfm/jibe/reconciler"
)

// newDrift is the command that shows what differs from git, field by field.
func newDrift() *cobra.Command {
	var c client
	var q selection
	var output string
	var watch bool
	cmd := &cobra.Command{
		Use:   "drift",
		Short: "What differs from git: field by field, since when, and who did it",
		Long: "What runs and differs from what git says, one line a deviation, and what is done about it:\n" +
			"  mending    it is being repaired\n" +
			"  failing    the repair failed, and is tried again\n" +
			"  fight      contended: somebody undoes every repair, so that it is repaired more and more seldom\n" +
			"  refused    the repair needs hooks of the package that may not run\n" +
			"  reported   drift: report in vnf.yaml\n" +
			"  suspended  suspend: true in vnf.yaml\n" +
			"  held       an operation was failed; the next request or commit lifts it",
		Example: "  jibe get drift\n" +
			"  jibe get drift --folder site-a --state fight,reported\n" +
			"  jibe get drift --instance site-a/upf-1 -o yaml",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := known("state", q.states(), words(driftStates)); err != nil {
				return err
			}
			path := "/jibe/v1/drift"
			if q.instance != "" {
				id, err := c.instance(cmd.Context(), q.instance)
				if err != nil {
					return err
				}
				path += "?instance=" + url.QueryEscape(id)
			}
			return repeat(cmd, watch, func(w io.Writer, s *sheet) error {
				list := []reconciler.Drift{}
				if _, err := c.do(cmd.Context(), http.MethodGet, path, nil, &list); err != nil {
					return err
				}
				from := q.since.from(time.Now())
				list = slices.DeleteFunc(list, func(d reconciler.Drift) bool {
					return !q.within(d.Dir) || !q.in(string(d.State)) || d.Since.Before(from)
				})
				slices.SortStableFunc(list, func(a, b reconciler.Drift) int { return natural.Compare(a.Dir, b.Dir) })
				if output == "name" {
					return printNames(w, driftedNames(list), func(o object) string { return text(o, "name") })
				}
				s.wide = output == "wide"
				return show(w, output, list, func() { driftTable(w, s, list) })
			})
		},
	}
	c.flags(cmd.Flags())
	outputFlags(cmd, &output, &watch)
	q.flags(cmd, driftStates, "folder", "state", "instance", "since")
	return cmd
}

const driftStates = "mending,failing,fight,refused,reported,suspended,held"

// driftedNames are the directories of the instances that have drifted, below instances/.
func driftedNames(list []reconciler.Drift) []object {
	var names []object
	for _, d := range list {
		names = append(names, object{"name": strings.TrimPrefix(d.Dir, "instances/")})
	}
	return names
}

// driftTable prints one line a deviation. Without now there are no ages in it.
func driftTable(w io.Writer, s *sheet, list []reconciler.Drift) {
	if len(list) == 0 {
		fmt.Fprintln(w, "nothing has drifted")
		return
	}
	columns := []column{{title: "INSTANCE"}, {title: "OBJECT"}, {title: "FIELD"}, {title: "WANT"}, {title: "HAVE"}, {title: "BY"}, {title: "SINCE"}, {title: "STATE", state: true}}
	if s.wide {
		columns = append(columns, column{title: "INSTANCE ID"}, column{title: "OPERATION"})
	}
	var rows [][]string
	for _, d := range list {
		for _, v := range d.Deviations {
			row := []string{cmp.Or(strings.TrimPrefix(d.Dir, "instances/"), d.Instance), v.Object, field(v), absent(v.Want), absent(v.Have), cmp.Or(v.By, "-"),
				since(cmp.Or(v.At, d.Since), s), state(d, s.now)}
			if s.wide {
				row = append(row, d.Instance, d.Operation)
			}
			rows = append(rows, row)
		}
	}
	s.write(w, columns, rows)
}

func field(v drivers.Deviation) string { return cmp.Or(v.Field, "(all of it)") }

// absent is a value in one short line, "-" for none.
func absent(value string) string {
	value = strings.Join(strings.Fields(value), " ")
	return clip(cmp.Or(value, "-"))
}

// since is how long ago a moment was, behind it the moment where there is room. Without now it
// is the moment.
func since(at time.Time, s *sheet) string {
	stamp := at.UTC().Format(time.RFC3339)
	switch {
	case s.now.IsZero():
		return stamp
	case s.wide:
		return fmt.Sprintf("%s (%s)", shortAge(s.now.Sub(at)), stamp)
	}
	return shortAge(s.now.Sub(at))
}

// state says what is done about a drift, and when next.
func state(d reconciler.Drift, now time.Time) string {
	said := string(d.State)
	if d.Refused != "" {
		said += ": " + d.Refused
	}
	switch wait := d.Next.Sub(now); {
	case d.Next.IsZero():
	case now.IsZero():
		said += ", next repair at " + d.Next.UTC().Format(time.RFC3339)
	case wait < time.Second:
		said += ", next repair now"
	default:
		said += ", next repair in " + age(wait)
	}
	return said
}

// age is a duration as people say it: "40 s", "3 min 5 s", "2 h 10 min", "9 d 3 h".
// It is never negative: the VIM's clock may be ahead of this one.
func age(d time.Duration) string {
	s := max(int(d.Round(time.Second)/time.Second), 0)
	two := func(a int, unit string, b int, smaller string) string {
		if b == 0 {
			return fmt.Sprintf("%d %s", a, unit)
		}
		return fmt.Sprintf("%d %s %d %s", a, unit, b, smaller)
	}
	switch {
	case s < 60:
		return fmt.Sprintf("%d s", s)
	case s < 3600:
		return two(s/60, "min", s%60, "s")
	case s < 24*3600:
		return two(s/3600, "h", s%3600/60, "min")
	}
	return two(s/86400, "d", s%86400/3600, "h")
}
