package main

import (
	"cmp"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/jibe-vnfm/jibe/app/replicas"
	"github.com/jibe-vnfm/jibe/internal/natural"
)

// newMembers is the command that shows the replicas that serve.
func newMembers() *cobra.Command {
	var c client
	var output string
	var watch bool
	cmd := &cobra.Command{
		Use:   "members",
		Short: "Members: the replicas that serve, and how many instances each looks after",
		Long: "Replicas of Jibe that share a store and a desired repository, as the one that answers sees them. One that was\n" +
			"killed is a member until its session in the store has ended, for some seconds.",
		Example: "  jibe get members\n  jibe get members --watch\n  jibe get members -o json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return repeat(cmd, watch, func(w io.Writer, s *sheet) error {
				list := []replicas.Member{}
				if _, err := c.do(cmd.Context(), http.MethodGet, "/jibe/v1/members", nil, &list); err != nil {
					return err
				}
				slices.SortFunc(list, func(a, b replicas.Member) int {
					return cmp.Or(natural.Compare(a.Host, b.Host), cmp.Compare(a.Holder, b.Holder))
				})
				if output == "name" {
					for _, m := range list {
						fmt.Fprintln(w, m.Host)
					}
					return nil
				}
				return show(w, output, list, func() { memberTable(w, s, list) })
			})
		},
	}
	c.flags(cmd.Flags())
	outputFlags(cmd, &output, &watch)
	return cmd
}

// memberTable prints one line a member.
func memberTable(w io.Writer, s *sheet, list []replicas.Member) {
	columns := []column{{title: "HOST"}, {title: "VERSION"}, {title: "SINCE"}, {title: "INSTANCES"}, {title: "ID"}, {title: "ANSWERS"}}
	var rows [][]string
	for _, m := range list {
		answers := ""
		if m.Self {
			answers = "*"
		}
		rows = append(rows, []string{m.Host, m.Version, s.ago(m.Since.Format(time.RFC3339)), strconv.Itoa(m.Instances), m.Holder, answers})
	}
	s.write(w, columns, rows)
}
