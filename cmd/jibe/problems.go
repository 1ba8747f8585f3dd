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

	"github.com/jibe-vnfm/jibe/reconciler"
)

// haveProblems is the exit code of `jibe get problems --exit-code` when there is one.
const haveProblems = exitError(2)

// newProblems is the command that shows which files at the head of the desired repository
// aren't obeyed.
func newProblems() *cobra.Command {
	var c client
	var output, instance string
	var watch, exitCode bool
	cmd := &cobra.Command{
		Use:   "problems",
		Short: "Files at git's head that can't be obeyed: line, reason, and what to do",
		Long: "Files at the head of the desired repository that can't be obeyed: what is wrong, in which line, and what to do.\n" +
			"What a file asked for when it was last obeyed stands until then: a VNF that runs is left as it is.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			path := "/jibe/v1/problems"
			if instance != "" {
				id, err := c.instance(cmd.Context(), instance)
				if err != nil {
					return err
				}
				path += "?instance=" + url.QueryEscape(id)
			}
			some := false
			err := repeat(cmd.Context(), watch, cmd.OutOrStdout(), func(w io.Writer) error {
				list := []reconciler.Problem{}
				if _, err := c.do(cmd.Context(), http.MethodGet, path, nil, &list); err != nil {
					return err
				}
				some = len(list) > 0
				now := time.Now()
				if watch {
					now = time.Time{} // ages would differ every second, and nothing else
				}
				return show(w, output, list, func() { problemTable(w, list, now) })
			})
			if err == nil && some && exitCode {
				return haveProblems
			}
			return err
		},
	}
	c.flags(cmd.Flags())
	outputFlags(cmd, &output, &watch)
	cmd.Flags().StringVar(&instance, "instance", "", "only this VNF instance, by its id or a name that only it has")
	cmd.Flags().BoolVar(&exitCode, "exit-code", false, "end with exit code 2 where there is a problem")
	return cmd
}

// problemTable prints one line a problem. Without now there are no ages in it.
func problemTable(w io.Writer, list []reconciler.Problem, now time.Time) {
	if len(list) == 0 {
		fmt.Fprintln(w, "every file is obeyed")
		return
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "FILE\tINSTANCE\tSINCE\tPROBLEM")
	for _, p := range list {
		at := p.File
		if p.Line > 0 {
			at = fmt.Sprintf("%s:%d", p.File, p.Line)
		}
		said := p.Message
		if p.Remedy != "" {
			said += " (" + p.Remedy + ")"
		}
		fmt.Fprintln(t, strings.Join([]string{at, cmp.Or(p.Instance, "-"), since(p.Since, now), strings.Join(strings.Fields(said), " ")}, "\t"))
	}
	t.Flush()
}
