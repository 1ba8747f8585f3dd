package main

import (
	"cmp"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"path"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/jibe-vnfm/jibe/internal/natural"
	"github.com/jibe-vnfm/jibe/reconciler"
)

// haveProblems is the exit code of `jibe get problems --exit-code` when there is one.
const haveProblems = exitError(2)

// newProblems is the command that shows which files at the head of the desired repository
// aren't obeyed.
func newProblems() *cobra.Command {
	var c client
	var q selection
	var output string
	var watch, exitCode bool
	cmd := &cobra.Command{
		Use:   "problems",
		Short: "Files at git's head that can't be obeyed: line, reason, and what to do",
		Long: "Files at the head of the desired repository that can't be obeyed: what is wrong, in which line, and what to do.\n" +
			"What a file asked for when it was last obeyed stands until then: a VNF that runs is left as it is.",
		Example: "  jibe get problems\n" +
			"  jibe get problems --folder site-a --since 1h\n" +
			"  jibe get problems --exit-code   # for scripts: exit code 2 where there is one",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			target := "/jibe/v1/problems"
			if q.instance != "" {
				id, err := c.instance(cmd.Context(), q.instance)
				if err != nil {
					return err
				}
				target += "?instance=" + url.QueryEscape(id)
			}
			some := false
			err := repeat(cmd, watch, func(w io.Writer, s *sheet) error {
				list := []reconciler.Problem{}
				if _, err := c.do(cmd.Context(), http.MethodGet, target, nil, &list); err != nil {
					return err
				}
				from := q.since.from(time.Now())
				list = slices.DeleteFunc(list, func(p reconciler.Problem) bool { return !q.within(path.Dir(p.File)) || p.Since.Before(from) })
				slices.SortStableFunc(list, func(a, b reconciler.Problem) int { return natural.Compare(a.File, b.File) })
				some = len(list) > 0
				if output == "name" {
					for _, p := range list {
						fmt.Fprintln(w, p.File)
					}
					return nil
				}
				s.wide = output == "wide"
				return show(w, output, list, func() { problemTable(w, s, list) })
			})
			if err == nil && some && exitCode {
				return haveProblems
			}
			return err
		},
	}
	c.flags(cmd.Flags())
	outputFlags(cmd, &output, &watch)
	q.flags(cmd, "", "folder", "instance", "since")
	cmd.Flags().BoolVar(&exitCode, "exit-code", false, "end with exit code 2 where there is a problem")
	return cmd
}

// problemTable prints one line a problem. Without now there are no ages in it.
func problemTable(w io.Writer, s *sheet, list []reconciler.Problem) {
	if len(list) == 0 {
		fmt.Fprintln(w, "every file is obeyed")
		return
	}
	columns := []column{{title: "FILE"}, {title: "SINCE"}, {title: "PROBLEM"}}
	if s.wide {
		columns = append(columns, column{title: "INSTANCE ID"})
	}
	var rows [][]string
	for _, p := range list {
		at := p.File
		if p.Line > 0 {
			at = fmt.Sprintf("%s:%d", p.File, p.Line)
		}
		said := p.Message
		if p.Remedy != "" {
			said += " (" + p.Remedy + ")"
		}
		row := []string{at, since(p.Since, s), said}
		if s.wide {
			row = append(row, cmp.Or(p.Instance, "-"))
		}
		rows = append(rows, row)
	}
	s.write(w, columns, rows)
}
