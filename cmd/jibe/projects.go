package main

import (
	"cmp"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/internal/natural"
	"github.com/jibe-vnfm/jibe/reconciler"
)

// newProjects is the command that shows the projects of the desired repository, and what their
// instances use of their quotas.
func newProjects() *cobra.Command {
	var c client
	var output string
	var watch bool
	cmd := &cobra.Command{
		Use:   "projects",
		Short: "Projects: their folders, and what their instances use of their quotas",
		Long: "Projects of the desired repository (projects/<name>.yaml): the folders of instances that each claims, and how many\n" +
			"instances and VNFCs it has of those that its quotas allow. What no project claims is of the project default.",
		Example: "  jibe get projects\n  jibe get projects -o name",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return repeat(cmd, watch, func(w io.Writer, s *sheet) error {
				list := []reconciler.ProjectUse{}
				if _, err := c.do(cmd.Context(), http.MethodGet, "/jibe/v1/projects", nil, &list); err != nil {
					return err
				}
				slices.SortStableFunc(list, func(a, b reconciler.ProjectUse) int { return natural.Compare(a.Name, b.Name) })
				if output == "name" {
					for _, p := range list {
						fmt.Fprintln(w, p.Name)
					}
					return nil
				}
				return show(w, output, list, func() { projectTable(w, s, list) })
			})
		},
	}
	c.flags(cmd.Flags())
	outputFlags(cmd, &output, &watch)
	return cmd
}

// projectTable prints one line a project.
func projectTable(w io.Writer, s *sheet, list []reconciler.ProjectUse) {
	columns := []column{{title: "NAME"}, {title: "FOLDERS"}, {title: "INSTANCES"}, {title: "VNFCS"}, {title: "POD SECURITY"}, {title: "ACCOUNT"}}
	var rows [][]string
	for _, p := range list {
		folders := cmp.Or(strings.Join(p.Instances, ", "), "-")
		if p.Name == desired.DefaultProject {
			folders = "(all others)"
		}
		account := "-"
		if !p.Impersonate.IsZero() {
			account = p.Impersonate.Namespace + "/" + p.Impersonate.Name
		}
		rows = append(rows, []string{p.Name, folders, ofQuota(p.InstancesUsed, p.Quotas.Instances), ofQuota(p.VNFCsUsed, p.Quotas.VNFCs), p.PodSecurity, account})
	}
	s.write(w, columns, rows)
}

// ofQuota is what is used, with the quota where there is one.
func ofQuota(used, quota int) string {
	if quota == 0 {
		return strconv.Itoa(used)
	}
	return fmt.Sprintf("%d/%d", used, quota)
}
