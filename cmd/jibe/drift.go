package main

import (
	"cmp"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/jibe-vnfm/jibe/drivers"
	"github.com/jibe-vnfm/jibe/reconciler"
)

// newDrift is the command that shows what differs from git, field by field.
func newDrift() *cobra.Command {
	var c client
	var output, instance string
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
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			path := "/jibe/v1/drift"
			if instance != "" {
				id, err := c.instance(cmd.Context(), instance)
				if err != nil {
					return err
				}
				path += "?instance=" + url.QueryEscape(id)
			}
			return repeat(cmd.Context(), watch, cmd.OutOrStdout(), func(w io.Writer) error {
				list := []reconciler.Drift{}
				if _, err := c.do(cmd.Context(), http.MethodGet, path, nil, &list); err != nil {
					return err
				}
				now := time.Now()
				if watch {
					now = time.Time{} // ages would differ every second, and nothing else
				}
				return show(w, output, list, func() { driftTable(w, list, now) })
			})
		},
	}
	c.flags(cmd.Flags())
	outputFlags(cmd, &output, &watch)
	cmd.Flags().StringVar(&instance, "instance", "", "only this VNF instance, by its id or a name that only it has")
	return cmd
}

// driftTable prints one line a deviation. Without now there are no ages in it.
func driftTable(w io.Writer, list []reconciler.Drift, now time.Time) {
	if len(list) == 0 {
		fmt.Fprintln(w, "nothing has drifted")
		return
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "INSTANCE\tOBJECT\tFIELD\tWANT\tHAVE\tBY\tSINCE\tSTATE")
	for _, d := range list {
		for _, v := range d.Deviations {
			fmt.Fprintln(t, strings.Join([]string{d.Instance, v.Object, field(v), absent(v.Want), absent(v.Have), cmp.Or(v.By, "-"),
				since(cmp.Or(v.At, d.Since), now), state(d, now)}, "\t"))
		}
	}
	t.Flush()
}

func field(v drivers.Deviation) string { return cmp.Or(v.Field, "(all of it)") }

// absent is a value in one short line, "-" for none.
func absent(value string) string {
	value = strings.Join(strings.Fields(value), " ")
	return clip(cmp.Or(value, "-"))
}

// since is a moment, behind its age where now is given.
func since(at, now time.Time) string {
	stamp := at.UTC().Format(time.RFC3339)
	if now.IsZero() {
		return stamp
	}
	return fmt.Sprintf("%s (%s)", age(now.Sub(at)), stamp)
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
